"""Workers that follow a script instead of exporting and judging, for the tests of what happens around them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from onnxparity.artifact import Artifact, FileInput
from onnxparity.errors import OnnxParityError, WorkerCrashedError
from onnxparity.feeding.references import References
from onnxparity.judging.examining import ExamineRequest, Placements, Started
from onnxparity.locating.requests import LocateRequest, Traced, TraceRequest
from onnxparity.location import Location
from onnxparity.outcome import Status, Verdict
from onnxparity.plan import ArtifactKey, Cell
from onnxparity.planning.planner import Options, Target, plan, question_of
from onnxparity.protocols import Placement
from onnxparity.running import schedule
from onnxparity.running.authoring import Authored, AuthorRequest, Refused
from onnxparity.running.schedule import Found, Slot, SubjectWork
from tests.unit.hub.subjects import subject, verdict

RUNTIMES = ("torch-float64", "torch-eager", "onnx-float64", "ort-cpu")
OPTIONS = Options(opsets=(18, 23), dtypes=("float32",), runtimes=RUNTIMES, quick=True)
SUBJECT = subject(properties=("causality",))
KEYS = tuple(ArtifactKey("subject", "dynamo", opset, "float32") for opset in OPTIONS.opsets)
FILE = ArtifactKey("subject", "file", 18, "float32")
PLACED = (Placement("n", "MatMul", "CPUExecutionProvider"),)


def artifact(key: ArtifactKey, sha256: str = "0") -> Artifact:
    """An artifact that is never opened."""
    x, y = ((FileInput(name, "float32", ("batch", "sequence", 3)),) for name in ("x", "y"))
    return Artifact(key, "", sha256, 1, False, 18, 18, 8, {}, x, y, {}, 0, None, False)


def dead() -> OnnxParityError:
    """How a worker usually dies."""
    return WorkerCrashedError("the worker died", got="signal 11")


@dataclass
class Script:
    """What the stubbed workers do, and what they were asked."""

    deaths: dict[object, list[OnnxParityError]] = field(default_factory=dict)
    """Errors raised at a step, one for each time that it is come by."""
    refused: dict[ArtifactKey, OnnxParityError] = field(default_factory=dict)
    outcome: Callable[[Cell], Status] = lambda cell: Status.PASS
    """What becomes of each cell of an artifact."""
    reproduces: bool = True
    sha256: str = "0"
    contents: str = "c"
    authored: list[AuthorRequest] = field(default_factory=list)
    examined: list[ExamineRequest] = field(default_factory=list)
    traced: list[TraceRequest] = field(default_factory=list)
    located: list[LocateRequest] = field(default_factory=list)
    aborted: int = 0

    def at(self, step: object) -> None:
        """Raises where the script says so."""
        if self.deaths.get(step):
            raise self.deaths[step].pop(0)

    def author(self, request: AuthorRequest) -> Iterator[object]:
        """As `authoring.author`, without torch."""
        self.authored.append(request)
        self.at("build")
        for key in request.keys:
            yield Started(key)
            self.at(key)
            yield (
                Refused(key, self.refused[key])
                if key in self.refused
                else Authored(artifact(key, f"{key.id} {self.sha256}"))
            )
        if request.points:
            self.at("references")
            yield References(request.folder, {"float32": frozenset()}, {"float32": {}}, {"float32": self.contents})
        for cell in request.torch_cells:
            yield Started(cell)
            self.at(cell)
            yield verdict(Status.PASS, cell, "oracle")

    def examine(self, request: ExamineRequest) -> Iterator[object]:
        """As `examining.examine`, without any runtime."""
        self.examined.append(request)
        for cell in request.cells:
            self.at(("before", cell))
            yield Started(cell)
            self.at(cell)
            yield verdict(self.outcome(cell), cell, question_of(cell, request.subject))
        self.at("placements")
        yield Placements("ort-cpu", PLACED)

    def trace(self, request: TraceRequest) -> Iterator[object]:
        """As the job `trace`: a module that computes nothing."""
        self.traced.append(request)
        self.at("trace")
        yield Traced((), ())

    def locate(self, request: LocateRequest) -> Iterator[object]:
        """As the job `locate`, which knows neither the group nor what is smallest."""
        self.located.append(request)
        self.at("locate")
        cell, status = request.verdict.cell, request.verdict.status
        folder = request.folder if self.reproduces else ""
        yield Location(
            cell, status, f"{cell.id} is wrong", "unknown", None, 0, 1, cell.shape, ("seen",), reproduction=folder
        )


def stubbed(monkeypatch: pytest.MonkeyPatch) -> Script:
    """Stubs every worker of `schedule`."""
    written = Script()

    class Stub:
        def call(self, job: str, request: object, *, limit: float) -> Iterator[object]:
            assert limit > 0
            jobs: dict[str, Callable[[Any], Iterator[object]]] = {  # Any: each job has its own request
                "author": written.author,
                "examine": written.examine,
                "trace": written.trace,
                "locate": written.locate,
            }
            return jobs[job](request)

        def abort(self) -> None:
            written.aborted += 1

        def __exit__(self, *_: object) -> None:
            pass

    monkeypatch.setattr(schedule, "Worker", Stub)
    return written


def planned(folder: Path) -> SubjectWork:
    """The quick plan of a subject with an oracle."""
    return SubjectWork(SUBJECT, plan(Target(SUBJECT, has_oracle=True), OPTIONS), str(folder), ".")


def run(work: SubjectWork) -> list[Found]:
    """Everything found for the subject."""
    return list(Slot(limit=1.0).run(work))


def verdicts(found: Sequence[Found]) -> dict[Cell, Verdict]:
    """By cell. Fails where a cell has two."""
    given = [f.verdict for f in found if f.verdict is not None]
    assert len({v.cell for v in given}) == len(given)
    return {v.cell: v for v in given}


def not_passed(found: Sequence[Found]) -> dict[Cell, Status]:
    """The status of each cell that did not pass."""
    return {c: v.status for c, v in verdicts(found).items() if v.status is not Status.PASS}


def where(work: SubjectWork, **wanted: object) -> list[Cell]:
    """The planned cells whose fields are these."""
    return [c for c in work.cells if all(getattr(c, k) == v for k, v in wanted.items())]
