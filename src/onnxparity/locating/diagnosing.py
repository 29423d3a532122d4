"""From the red cells of one subject to what they come from: shrunk to the smallest shape, traced and located.

Each try is judged by the same jobs that judged the cell. Whatever goes wrong here costs a location and leaves a
sentence that says so, never a verdict.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Protocol, TypeVar

from onnxparity import invariants
from onnxparity.case import Subject, parse_shape
from onnxparity.errors import InternalError, OnnxParityError, UsageError
from onnxparity.feeding.feeds import tells
from onnxparity.judging.examining import ExamineRequest
from onnxparity.locating.grouping import LOCATED, Group, group
from onnxparity.locating.requests import LocateRequest, Traced, TraceRequest
from onnxparity.locating.shrinking import Shrunk, Sizes, shrink, size_of
from onnxparity.location import Location
from onnxparity.outcome import Verdict
from onnxparity.plan import ArtifactKey
from onnxparity.planning.grid import Point
from onnxparity.running.authoring import AuthorRequest

__all__ = ["FOLDER", "GROUPS", "Diagnoser", "clear", "reproductions"]

T = TypeVar("T")

GROUPS = 6
"""Groups of one subject that are led back to their cause; `onnxparity explain` does it for any one cell."""
LOCATE_LIMIT = 180.0
"""Seconds that tracing the module, or locating one failure, may take."""
SHRINK_SECONDS = 60.0
"""Seconds after which no further shapes are tried for one failure."""
FOLDER, MARKER = "reproductions", ".onnxparity"
"""Where reproductions lie below the report's folder, and what marks that folder as one of ours."""


class Calls(Protocol):
    """What is needed of a `worker.Worker`."""

    def call(self, job: str, request: Any, *, limit: float) -> Iterator[Any]:  # Any: each job has its own types
        """Runs a job and yields what it finds."""
        ...


@dataclass
class Diagnoser:
    """Leads one subject's red cells back to their cause, with the two workers of a slot."""

    torch: Calls
    native: Calls
    limit: float
    """Seconds one cell may take."""
    requests: Mapping[ArtifactKey, ExamineRequest]
    """How each artifact was judged; their `cells` are not used."""
    author: AuthorRequest | None
    """How the module is evaluated; None where no module is the reference. Its keys, points and cells are not used."""
    out: Path
    """The report's folder."""
    traces: dict[tuple[str, Point], Traced] = field(default_factory=dict)

    def run(self, red: Sequence[Verdict], name: str) -> Iterator[Location | str]:
        """A location for each group that fails alike, or a sentence that says why there is none.

        Args:
            red: verdicts that no expectation excuses.
            name: of the subject, for those sentences.
        """
        groups = group(red, self.requests)
        for each in groups[:GROUPS]:
            try:
                yield self.locate(each)
            except OnnxParityError as error:
                yield f"{each.walked.cell.id} was not led back to its cause: {error.what}"
        if left := groups[GROUPS:]:
            yield (
                f"{name}: of {len(groups)} groups of cells that fail alike, {GROUPS} were led back to their cause; "
                f"for any other use `onnxparity explain CELL`, such as {left[0].walked.cell.id}"
            )

    def locate(self, each: Group) -> Location:
        """What a group leads back to. Raises OnnxParityError where a worker died, overran or failed."""
        smallest, walked, notes = self._shrunk(each.walked)
        if walked.status in LOCATED:
            folder = reproductions(self.out) / each.name
            request = LocateRequest(self._request(walked), walked, self._traced(walked), str(folder))
            found = _one(self.native.call("locate", request, limit=LOCATE_LIMIT), Location)
        else:
            nodes = sum(self._request(walked).artifact.op_census.values())
            shape = walked.cell.shape
            found = Location(
                walked.cell, walked.status, walked.message, "unknown", None, 0, nodes, shape, walked.evidence
            )
        return replace(
            found,
            cell=each.walked.cell,
            smallest_shape=smallest,
            evidence=(*found.evidence, *notes),
            reproduction=f"{FOLDER}/{each.name}" if found.reproduction else "",
            explains=tuple(v.cell.id for v in each.verdicts),
        )

    def _shrunk(self, walked: Verdict) -> tuple[str, Verdict, tuple[str, ...]]:
        """The smallest shape that fails in the same way, the verdict to be walked, and what to know of the search.

        The verdict is that of the smallest shape that tells most: at length 1 a wrong mask or order may coincide
        with the right one on the way, and be seen one node too late.
        """
        cell, request = walked.cell, self._request(walked)
        if cell.regime in request.examples:
            return cell.shape, walked, ()
        seen, deadline = {cell.shape: walked}, time.monotonic() + SHRINK_SECONDS

        def fails(shapes: tuple[str, ...]) -> set[str]:
            if time.monotonic() < deadline:
                seen.update((v.cell.shape, v) for v in self._judge(walked, shapes) if v.status is walked.status)
            return seen.keys() & set(shapes)

        check = invariants.plannable if walked.question == "property" else _tells
        found = shrink(request.subject, cell.shape, tells=partial(check, cell.regime, request.subject), fails=fails)
        telling = [shape for shape in seen if _tells_most(request.subject, shape)]
        chosen = min(telling, key=partial(size_of, request.subject), default=found.shape)
        return found.shape, seen[chosen], _notes(found, late=time.monotonic() >= deadline)

    def _judge(self, walked: Verdict, shapes: Sequence[str]) -> Iterator[Verdict]:
        """The verdicts of a cell at other shapes, as far as the workers get."""
        cells = tuple(replace(walked.cell, shape=shape) for shape in shapes)
        try:
            if walked.question == "meaning" and self.author is not None:
                points = {self._dtype(walked): tuple(Point(c.shape, c.regime) for c in cells)}
                list(self.torch.call("author", replace(self.author, points=points), limit=self.limit))
            request = replace(self._request(walked), cells=cells)
            for item in self.native.call("examine", request, limit=self.limit):
                if isinstance(item, Verdict):
                    yield item
        except OnnxParityError:  # a shape at which a worker dies fails in another way
            return

    def _traced(self, walked: Verdict) -> Traced | None:
        """Everything the module computes where the verdict was found; None where no module is the reference."""
        if self.author is None or walked.question != "meaning":
            return None
        at = self._dtype(walked), Point(walked.cell.shape, walked.cell.regime)
        if at not in self.traces:
            request = TraceRequest(self.author.subject, *at, self.author.directory, self.author.examples)
            self.traces[at] = _one(self.torch.call("trace", request, limit=LOCATE_LIMIT), Traced)
        return self.traces[at]

    def _request(self, walked: Verdict) -> ExamineRequest:
        return self.requests[walked.cell.artifact]

    def _dtype(self, walked: Verdict) -> str:
        """As `examining.Bench.reference_dtype`."""
        references, own = self._request(walked).references, walked.cell.artifact.dtype
        return own if references is not None and own in references.fingerprints else "float32"


def clear(out: Path, *, empty: bool = False) -> None:
    """Removes the reproductions that an earlier run left; a folder of that name that is the user's own stays.

    empty: only where there is none in it.
    """
    folder = out / FOLDER
    if (folder / MARKER).is_file() and not (empty and len(list(folder.iterdir())) > 1):
        shutil.rmtree(folder, ignore_errors=True)


def reproductions(out: Path) -> Path:
    """The folder of the reproductions below a report's. Raises UsageError where it cannot be made."""
    folder = (out / FOLDER).absolute()
    try:
        if not folder.exists():
            folder.mkdir(parents=True)
            (folder / MARKER).touch()
    except OSError as error:
        raise UsageError(
            f"cannot write to {folder}", got=error.strerror, remedy="name another folder with --out"
        ) from error
    return folder


def _tells(regime: str, subject: Subject, sizes: Sizes) -> bool:
    return tells(subject, sizes, regime)


def _tells_most(subject: Subject, shape: str) -> bool:
    """Whether every axis but the batch is longer than 1."""
    sizes = parse_shape(subject, shape)
    return all(sizes[a.symbol] > 1 for a in subject.axes if a.role != "batch")


def _notes(found: Shrunk, *, late: bool) -> tuple[str, ...]:
    """Empty where the walk went to its end."""
    cut = f"smaller shapes were not all tried: the walk was ended after {found.tries}"
    return (cut,) if late or not found.complete else ()


def _one(items: Iterator[Any], kind: type[T]) -> T:  # Any: whatever the job yields
    """The one answer. Raises InternalError where none came."""
    found = [item for item in items if isinstance(item, kind)]
    if not found:
        raise InternalError(f"the worker sent no {kind.__name__}")
    return found[-1]
