"""`verify`: subject → artifact → session → observation → verdict → report, in one call."""

from __future__ import annotations

import dataclasses
import datetime
import json
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Literal, TextIO

from onnxparity import __version__, environment, expectations, gate
from onnxparity.artifact import Artifact
from onnxparity.errors import UsageError
from onnxparity.feeding.given_inputs import PREFIX
from onnxparity.gate import NO_EVIDENCE
from onnxparity.judging.second_opinion import with_eager
from onnxparity.locating import diagnosing
from onnxparity.location import Location
from onnxparity.outcome import Expectation, Status, Verdict
from onnxparity.plan import Cell
from onnxparity.planning.planner import Options, plan, reconcile
from onnxparity.planning.selection import Selected
from onnxparity.protocols import Availability, Placement
from onnxparity.record import Report, summarise, verdict_from_json, verdict_to_json
from onnxparity.running.schedule import Found, SubjectWork, run_all
from onnxparity.running.worker import Worker
from onnxparity.speed.latency import measure

__all__ = ["Explain", "Listener", "Settings", "run"]

Explain = Literal["none", "red", "all"]
"""Which failures are led back to their cause: none, those that nobody expects, or the expected ones too."""

RESULTS = "results.jsonl"
OF_THE_MACHINE = NO_EVIDENCE | {Status.CRASH, Status.TIMEOUT}
"""Statuses that another limit, another driver or more memory would change, whatever the model is."""


class Listener:
    """Hears of progress; the command line draws it."""

    def planned(self, cells: int) -> None:
        """Called once, with the number of cells that will have a verdict."""

    def found(self, verdict: Verdict) -> None:
        """Called for each verdict as it comes."""

    def timing(self, what: str) -> None:
        """Called before each group that is timed together."""


@dataclass(frozen=True)
class Settings:
    """How a run is carried out, apart from what is verified."""

    out: Path
    command: str
    slots: int
    limit: float = 300.0
    """Seconds a cell may take."""
    resume: bool = False
    explain: Explain = "red"
    use_cache: bool = True
    expectations: tuple[Expectation, ...] = ()
    """Known failures that the user names; they apply to every subject."""
    catalogue_expectations: tuple[Expectation, ...] = ()
    """Known failures of the catalogue; they never apply to a user's own subject, whatever its name."""
    case_expectations: tuple[Expectation, ...] = ()
    """Known failures of the operator cases; they apply to those alone."""
    every_case: bool = False
    """Whether all that the operator cases have is planned, so that each of their known failures must fit a cell."""
    timed: tuple[str, ...] = ()
    """Globs over subject names whose latency is measured."""
    runtimes: tuple[Availability, ...] = ()
    """What was probed."""
    limits: tuple[str, ...] = ()
    """What is known beforehand not to be covered."""
    directory: Path = field(default_factory=Path.cwd)
    inputs: str = ""
    """The flags with which real inputs were given, to be typed again to repeat their cells."""
    native: Worker | None = None
    """A worker without torch that is running already, such as the one that probed; closed with the cells' end."""


@dataclass
class Gathered:
    """What has come so far."""

    verdicts: list[Verdict] = field(default_factory=list)
    artifacts: list[Artifact] = field(default_factory=list)
    placements: dict[str, tuple[Placement, ...]] = field(default_factory=dict)
    locations: list[Location] = field(default_factory=list)
    limits: list[str] = field(default_factory=list)


def run(selected: Sequence[Selected], options: Options, settings: Settings, listener: Listener) -> Report:
    """Verifies every selected subject. Raises UsageError where nothing is planned or the folder cannot be written."""
    started, created = time.perf_counter(), datetime.datetime.now(datetime.UTC)
    planned = {s.target.subject.name: plan(s.target, options) for s in selected}
    cells = [cell for each in planned.values() for cell in each]
    if not cells:
        remedy = "see `onnxparity list`, and loosen --cell, --dtype, --opset or --runtime"
        raise UsageError("no cell was selected", expected="at least one", remedy=remedy)
    _refuse_unmatched(cells, options, settings)
    listener.planned(len(cells))
    gathered = Gathered()
    diagnosing.clear(settings.out)
    results = settings.out / RESULTS
    done = _read_results(results) if settings.resume else {}
    with tempfile.TemporaryDirectory(prefix="onnxparity-") as folder, _open_results(results, done) as lines:
        longest_first = sorted(selected, key=lambda s: -(s.target.subject.parameters or 0))
        known = _expected(selected, settings)
        works = [_work(s, planned[s.target.subject.name], Path(folder), settings, done, known) for s in longest_first]
        on_found = _gatherer(gathered, lines, known, listener, settings.inputs)
        run_all(works, slots=settings.slots, limit=settings.limit, on_found=on_found, native=settings.native)
        verdicts = reconcile(cells, gathered.verdicts, {s.target.subject.name: s.target.subject for s in selected})
        verdicts = with_eager(verdicts)
        diagnosing.clear(settings.out, empty=True)
        latency = measure(  # here, since the artifacts are gone with the folder
            selected, gathered.artifacts, verdicts, options, settings.timed, settings.directory, listener.timing
        )
    conclusion = gate.conclude(verdicts)
    return Report(
        tool_version=__version__,
        command=settings.command,
        created=created.isoformat(timespec="seconds"),
        seconds=time.perf_counter() - started,
        environment=environment.describe(),
        subjects=tuple(s.target.subject for s in selected),
        artifacts=_kept(selected, gathered.artifacts, cells),
        runtimes=settings.runtimes,
        placements=dict(sorted(gathered.placements.items())),
        verdicts=verdicts,
        summary=summarise(verdicts),
        latency=latency,
        conforms=conclusion.conforms,
        exit_code=conclusion.exit_code,
        conclusion=conclusion.sentence,
        locations=tuple(sorted(gathered.locations, key=lambda found: cells.index(found.cell))),
        limits=(*settings.limits, *gathered.limits),
    )


def _refuse_unmatched(cells: Sequence[Cell], options: Options, settings: Settings) -> None:
    """Raises UsageError for a --cell or a user's expectation that fits nothing and so would do nothing."""
    ids = [cell.id for cell in cells]
    for glob in options.cells:
        if not any(fnmatchcase(cell, glob) for cell in ids):
            raise UsageError(f"--cell {glob} fits no planned cell", expected="such as " + ids[0])
    if settings.every_case and (idle := expectations.unmatched(ids, settings.case_expectations)):
        remedy = "remove it from the list of known failures of the operator cases, or mend its glob"
        raise UsageError(f"the expectation {idle[0].cells} fits no cell of the operator cases", remedy=remedy)
    if not options.cells and (idle := expectations.unmatched(ids, settings.expectations)):
        raise UsageError(f"the expectation {idle[0].cells} fits no planned cell", remedy="remove it, or mend its glob")


def _gatherer(
    gathered: Gathered,
    lines: TextIO,
    expected: Mapping[str, Sequence[Expectation]],
    listener: Listener,
    inputs: str = "",
) -> Callable[[Found], None]:
    """Keeps what comes, and appends verdicts to the results file at once, so that an interrupted run can go on.

    `inputs` are added to the command that repeats a cell with real inputs.
    """

    def on_found(found: Found) -> None:
        if found.artifact is not None:
            gathered.artifacts.append(found.artifact)
        if found.placement is not None:
            gathered.placements[found.placement[0]] = found.placement[1]
        if found.location is not None:
            gathered.locations.append(found.location)
        if found.limit is not None:
            gathered.limits.append(found.limit)
        if found.verdict is not None:
            if found.basis is not None:
                lines.write(_line(found.basis, found.verdict))
                lines.flush()
            verdict = expectations.apply(found.verdict, expected[found.verdict.cell.artifact.subject])
            if inputs and verdict.cell.regime.startswith(PREFIX):
                verdict = dataclasses.replace(verdict, command=f"{verdict.command} {inputs}")
            gathered.verdicts.append(verdict)
            listener.found(verdict)

    return on_found


def _expected(selected: Sequence[Selected], settings: Settings) -> dict[str, tuple[Expectation, ...]]:
    """The known failures of each subject, by its name."""
    return {
        s.target.subject.name: settings.expectations
        + (settings.catalogue_expectations if s.target.subject.kind == "catalogue" else ())
        + (settings.case_expectations if s.described.examples_only else ())
        for s in selected
    }


def _work(
    selected: Selected,
    cells: tuple[Cell, ...],
    folder: Path,
    settings: Settings,
    done: Mapping[str, tuple[Verdict, ...]],
    known: Mapping[str, tuple[Expectation, ...]],
) -> SubjectWork:
    described, against = selected.described, selected.against
    module = against is not None and against.artifact is None
    return SubjectWork(
        subject=selected.target.subject,
        cells=cells,
        folder=str(folder / selected.target.subject.name),
        directory=str(settings.directory),
        given=described.artifact,
        against=None if against is None else against.artifact,
        reference=against.subject if against is not None and module else None,
        examples=described.examples if against is None else against.examples,
        companions=described.companions,
        renamed=selected.renamed,
        use_cache=settings.use_cache,
        expected=described.expected if against is None else against.expected,
        done=done,
        excused=known[selected.target.subject.name] if settings.explain == "red" else (),
        out="" if settings.explain == "none" else str(settings.out),
    )


def _kept(selected: Sequence[Selected], made: Sequence[Artifact], cells: Sequence[Cell]) -> tuple[Artifact, ...]:
    """The artifacts in the order of the plan; those made for this run alone have no path to be found at."""
    order = {key: place for place, key in enumerate(dict.fromkeys(cell.artifact for cell in cells))}
    given = [s.described.artifact for s in selected if s.described.artifact is not None]
    here = [dataclasses.replace(artifact, path="") for artifact in made]
    return tuple(sorted((*given, *here), key=lambda a: order.get(a.key, len(order))))


def _open_results(path: Path, done: Mapping[str, Sequence[Verdict]]) -> TextIO:
    """The results file, with a first line that says what the verdicts rest on, and the verdicts that are kept.

    Written beside and moved into place, so that a run that is interrupted at once has lost nothing.
    """
    fresh = path.with_suffix(".new")
    kept = [_line(basis, verdict) for basis, verdicts in done.items() for verdict in verdicts]
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        fresh.write_text(json.dumps({"versions": environment.versions()}) + "\n" + "".join(kept), encoding="utf-8")
        fresh.replace(path)
        return path.open("a", encoding="utf-8")
    except OSError as error:
        remedy = "name another folder with --out"
        raise UsageError(f"cannot write to {path.parent}", got=error.strerror or str(error), remedy=remedy) from error


def _line(basis: str, verdict: Verdict) -> str:
    return json.dumps({"basis": basis, "verdict": verdict_to_json(verdict)}) + "\n"


def _read_results(path: Path) -> dict[str, tuple[Verdict, ...]]:
    """Verdicts of an interrupted run by what they rest on; none where the versions have changed since.

    A line that was cut short or damaged is dropped, and what tells of the machine is not kept: those cells run again.
    """
    try:
        first, *rest = path.read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError):
        return {}
    if _json(first) != {"versions": environment.versions()}:
        return {}
    found: dict[str, list[Verdict]] = {}
    for document in map(_json, rest):
        try:
            basis, verdict = str(document["basis"]), verdict_from_json(document["verdict"])
        except (KeyError, TypeError, ValueError):
            continue
        if verdict.status not in OF_THE_MACHINE:
            found.setdefault(basis, []).append(verdict)
    return {basis: tuple(verdicts) for basis, verdicts in found.items()}


def _json(line: str) -> Any:  # Any: JSON values
    try:
        return json.loads(line)
    except json.JSONDecodeError:
        return None
