"""Running planned cells in worker processes: one subject at a time per slot, each slot with two workers.

A worker with torch exports and evaluates the module; a worker without judges the artifacts. A worker that
dies or overruns costs the cell it was working on, and nothing else.
"""

from __future__ import annotations

import hashlib
import queue
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import suppress
from dataclasses import dataclass, field, replace
from types import TracebackType

from onnxparity import plugins
from onnxparity.artifact import Artifact
from onnxparity.authoring import Authored, AuthorRequest, Refused
from onnxparity.case import Subject
from onnxparity.errors import LintError, OnnxParityError, WorkerCrashedError, WorkerTimeoutError
from onnxparity.examining import ExamineRequest, Placements, Started
from onnxparity.grid import Point
from onnxparity.judge import failed
from onnxparity.outcome import Status, Verdict
from onnxparity.plan import ArtifactKey, Cell
from onnxparity.planning import question_of
from onnxparity.protocols import Feeds, Placement
from onnxparity.references import References, write_failure
from onnxparity.worker import Worker

__all__ = ["Found", "Slot", "SubjectWork", "run_all"]

Step = ArtifactKey | Cell
"""What a worker with torch does one after the other: an export, or a cell of the module's own."""

EXPORT_LIMIT = 600.0
"""Seconds one export may take."""
DEATHS: Mapping[type[OnnxParityError], Status] = {WorkerTimeoutError: Status.TIMEOUT, WorkerCrashedError: Status.CRASH}


@dataclass(frozen=True)
class SubjectWork:
    """Everything that is to be done for one subject."""

    subject: Subject
    cells: tuple[Cell, ...]
    folder: str
    directory: str
    given: Artifact | None = None
    """The artifact where it was given as a file."""
    against: Artifact | None = None
    reference: Subject | None = None
    """The PyTorch subject a given file is held against."""
    examples: Mapping[str, Feeds] = field(default_factory=dict)
    companions: Mapping[str, Subject] = field(default_factory=dict)
    renamed: Mapping[str, str] = field(default_factory=dict)
    use_cache: bool = True
    done: Mapping[str, tuple[Verdict, ...]] = field(default_factory=dict)
    """Verdicts of an interrupted run, by what they rest on (see `_basis`)."""


@dataclass(frozen=True)
class Found:
    """What came of a step: verdicts, an artifact, placements."""

    verdict: Verdict | None = None
    artifact: Artifact | None = None
    placement: tuple[str, tuple[Placement, ...]] | None = None
    basis: str | None = None
    """What the verdict rests on, see `_basis`; None for the module's own, which are always judged again, and for
    one of an interrupted run, which is already on record."""


class Slot:
    """Two workers that serve one subject after another."""

    def __init__(self, *, limit: float) -> None:
        self.limit = limit
        self.torch = Worker()
        self.native = Worker()
        self.closed = False

    def __enter__(self) -> Slot:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.torch.__exit__(kind, error, trace)
        self.native.__exit__(kind, error, trace)

    def abort(self) -> None:
        """Ends both workers at once; what waits for them raises."""
        self.closed = True
        self.torch.abort()
        self.native.abort()

    def run(self, work: SubjectWork) -> Iterator[Found]:
        """Everything found for one subject, as it comes."""
        module_cells = [c for c in work.cells if c.runtime in plugins.TORCH_RUNTIMES]
        keys = list(dict.fromkeys(c.artifact for c in work.cells if c.runtime not in plugins.TORCH_RUNTIMES))
        artifacts = {} if work.given is None else {work.given.key: work.given}
        references: References | None = None
        author = work.reference or (work.subject if work.given is None else None)
        if author is not None:
            for item in self._author(work, author, keys, module_cells):
                if isinstance(item, Artifact):
                    artifacts[item.key] = item
                    yield Found(artifact=item)
                elif isinstance(item, References):
                    references = item
                else:
                    yield Found(verdict=item)
        companions = self._companions(work, keys)
        for key in keys:
            if key in artifacts:
                yield from self._examine(work, artifacts[key], references, companions.get(key, {}))

    def _author(
        self, work: SubjectWork, author: Subject, keys: Sequence[ArtifactKey], module_cells: Sequence[Cell]
    ) -> Iterator[Artifact | References | Verdict]:
        """Artifacts, references and the module's own verdicts; a key that failed fails each of its cells.

        A worker that dies costs the key, the references or the cell it was working on; another does the rest.
        """
        by_key = {key: [c for c in work.cells if c.artifact == key] for key in keys}
        left: list[Step] = [*(() if work.given is not None else keys), *module_cells]
        points = _reference_points(work)
        while left or points:
            current: Step | None = None
            request = AuthorRequest(
                subject=author,
                keys=tuple(step for step in left if isinstance(step, ArtifactKey)),
                points=points,
                torch_cells=tuple(step for step in left if isinstance(step, Cell)),
                folder=work.folder,
                directory=work.directory,
                use_cache=work.use_cache,
                examples=work.examples,
            )
            try:
                for item in self.torch.call("author", request, limit=EXPORT_LIMIT):
                    if isinstance(item, Started):
                        current = item.step
                        continue
                    done: Step | None = None
                    if isinstance(item, References):
                        points = {}
                        yield item
                    elif isinstance(item, Authored):
                        done = item.artifact.key
                        yield item.artifact
                    elif isinstance(item, Refused):
                        done = item.key
                        status = Status.LINT_ERROR if isinstance(item.error, LintError) else Status.EXPORT_ERROR
                        yield from (self._failed(work, cell, status, item.error) for cell in by_key[item.key])
                    else:
                        done = item.cell
                        yield item
                    if done is not None:
                        left.remove(done)
                    current = None
                return
            except OnnxParityError as error:
                if self.closed:
                    raise
                status = DEATHS.get(type(error), Status.EXPORT_ERROR)
                if current is None and points:
                    yield _lost(work.folder, points, error)
                    points = {}
                    continue
                step = current if current is not None else left[0]
                left.remove(step)
                cells = by_key[step] if isinstance(step, ArtifactKey) else [step]
                yield from (self._failed(work, cell, status, error) for cell in cells)

    def _companions(self, work: SubjectWork, keys: Sequence[ArtifactKey]) -> dict[ArtifactKey, dict[str, Artifact]]:
        """What properties need besides: the companions' artifacts by key and role; none where they fail."""
        found: dict[ArtifactKey, dict[str, Artifact]] = {}
        for role, companion in work.companions.items():
            theirs = {replace(key, subject=companion.name): key for key in keys}
            request = AuthorRequest(
                companion, tuple(theirs), {}, (), work.folder, work.directory, use_cache=work.use_cache
            )
            try:
                for item in self.torch.call("author", request, limit=EXPORT_LIMIT):
                    if isinstance(item, Authored):
                        found.setdefault(theirs[item.artifact.key], {})[role] = item.artifact
            except OnnxParityError:
                if self.closed:
                    raise
        return found

    def _examine(
        self, work: SubjectWork, artifact: Artifact, references: References | None, companions: Mapping[str, Artifact]
    ) -> Iterator[Found]:
        """Judges an artifact's cells; starts another worker after one died, until every cell has a verdict."""
        basis = _basis(artifact, work, references, companions)
        done = {v.cell: v for v in work.done.get(basis, ())}
        cells = [c for c in work.cells if c.artifact == artifact.key]
        yield from (Found(verdict=done[c]) for c in cells if c in done)
        left = [c for c in cells if c not in done]
        while left:
            current: Cell | None = None
            request = ExamineRequest(
                subject=work.reference or work.subject,
                artifact=artifact,
                cells=tuple(left),
                references=references,
                against=work.against,
                examples=work.examples,
                companions=companions,
                renamed=work.renamed,
                origin=work.subject.origin,
                use_cache=work.use_cache,
            )
            try:
                for item in self.native.call("examine", request, limit=self.limit):
                    if isinstance(item, Started):
                        current = item.step if isinstance(item.step, Cell) else None
                    elif isinstance(item, Placements):
                        yield Found(placement=(f"{artifact.key.id}/{item.runtime}", item.nodes))
                    else:
                        left.remove(item.cell)
                        current = None
                        yield Found(verdict=item, basis=basis)
                return
            except OnnxParityError as error:
                if self.closed:
                    raise
                blamed = current or (left[0] if left else None)
                if blamed is None:
                    return
                left.remove(blamed)
                status = DEATHS.get(type(error), Status.CRASH)
                yield Found(verdict=self._failed(work, blamed, status, error), basis=basis)

    def _failed(self, work: SubjectWork, cell: Cell, status: Status, error: OnnxParityError) -> Verdict:
        return failed(cell, question_of(cell, work.subject), work.subject.origin, status, error)


def run_all(works: Sequence[SubjectWork], *, slots: int, limit: float, on_found: Callable[[Found], None]) -> None:
    """Runs every subject's work, `slots` at a time; `on_found` is called from one thread only."""
    todo: queue.SimpleQueue[SubjectWork] = queue.SimpleQueue()
    for work in works:
        todo.put(work)
    results: queue.SimpleQueue[Found | None] = queue.SimpleQueue()
    open_slots = [Slot(limit=limit) for _ in range(max(1, min(slots, len(works))))]

    def serve(slot: Slot) -> None:
        try:
            with slot:
                while not slot.closed and not todo.empty():
                    with suppress(queue.Empty):
                        for found in slot.run(todo.get_nowait()):
                            results.put(found)
        finally:
            results.put(None)

    with ThreadPoolExecutor(len(open_slots)) as pool:
        futures = [pool.submit(serve, slot) for slot in open_slots]
        running = len(futures)
        try:
            while running:
                found = results.get()
                if found is None:
                    running -= 1
                else:
                    on_found(found)
        except BaseException:
            for slot in open_slots:
                slot.abort()
            raise
        for future in as_completed(futures):
            future.result()


def _reference_points(work: SubjectWork) -> dict[str, tuple[Point, ...]]:
    """Where the module is needed, by its dtype: at every meaning cell's point, and else at one point, since the
    arithmetic cells of a dtype are held against the module's own output dtypes."""
    points: dict[str, dict[Point, None]] = {}
    if work.given is not None and work.reference is None:
        return {}
    for cell in work.cells:
        question = question_of(cell, work.reference or work.subject)
        if question == "property" or cell.runtime in plugins.TORCH_RUNTIMES:
            continue
        found = points.setdefault(cell.artifact.dtype, {})
        if question == "meaning" or not found:
            found[Point(cell.shape, cell.regime)] = None
    return {dtype: tuple(found) for dtype, found in points.items()}


def _lost(folder: str, points: Mapping[str, tuple[Point, ...]], error: OnnxParityError) -> References:
    """References without any value: where each would lie, its meaning cell finds the reason."""
    nothing: Mapping[str, frozenset[str]] = {dtype: frozenset() for dtype in points}
    lost = References(folder, nothing, {dtype: {} for dtype in points}, dict.fromkeys(points, f"lost: {error}"))
    for dtype, each in points.items():
        for point in each:
            path = lost.path(dtype, point)
            path.unlink(missing_ok=True)  # a value without its fingerprints would be judged too kindly
            write_failure(path, str(error))
    return lost


def _basis(
    artifact: Artifact, work: SubjectWork, references: References | None, companions: Mapping[str, Artifact]
) -> str:
    """A digest of all that a verdict rests on: the file, what it is held against, its companions, the names."""
    parts = [artifact.sha256, repr(sorted(work.renamed.items()))]
    parts += [] if work.against is None else [work.against.sha256]
    parts += [] if references is None else [repr(sorted(references.contents.items()))]
    parts += [f"{role} {companion.sha256}" for role, companion in sorted(companions.items())]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()
