"""Running planned cells in worker processes: one subject at a time per slot, each slot with two workers.

A worker with torch exports and evaluates the module; a worker without judges the artifacts. A worker that
dies or overruns costs the cell it was working on, and nothing else.
"""

from __future__ import annotations

import queue
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from types import TracebackType

from onnxparity import plugins
from onnxparity.artifact import Artifact
from onnxparity.case import Subject
from onnxparity.errors import LintError, OnnxParityError, WorkerCrashedError, WorkerTimeoutError
from onnxparity.feeding.references import References
from onnxparity.judging.examining import ExamineRequest, Placements, Started
from onnxparity.judging.judge import failed
from onnxparity.locating.diagnosing import Diagnoser
from onnxparity.location import Location
from onnxparity.outcome import Status, Verdict
from onnxparity.plan import ArtifactKey, Cell
from onnxparity.planning.planner import question_of
from onnxparity.running.authoring import Authored, AuthorRequest, Refused
from onnxparity.running.subject_work import (
    Found,
    SubjectWork,
    basis_of,
    is_red,
    lost_references,
    reference_points,
    request_of,
)
from onnxparity.running.worker import Worker

__all__ = ["Found", "Slot", "SubjectWork", "run_all"]

Step = ArtifactKey | Cell
"""What a worker with torch does one after the other: an export, or a cell of the module's own."""

EXPORT_LIMIT = 600.0
"""Seconds one export may take."""
DEATHS: Mapping[type[OnnxParityError], Status] = {WorkerTimeoutError: Status.TIMEOUT, WorkerCrashedError: Status.CRASH}


class Slot:
    """Two workers that serve one subject after another."""

    def __init__(self, *, limit: float, native: Worker | None = None, threads: int = 1) -> None:
        """native: a worker without torch that is running already, closed with the slot; by default another one.

        threads: in which exact values are computed ahead.
        """
        self.limit, self.threads = limit, threads
        self.torch = Worker()
        self.native = native or Worker()
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
        companions, lacking = self._companions(work, keys)
        requests: dict[ArtifactKey, ExamineRequest] = {}
        red: list[Verdict] = []
        for key in (k for k in keys if k in artifacts):
            requests[key] = request_of(work, artifacts[key], references, companions.get(key, {}))
            for found in self._examine(work, requests[key], lacking.get(key, ())):
                yield found
                red += [] if found.verdict is None or not is_red(found.verdict, work) else [found.verdict]
        if work.out and red:
            yield from self._diagnose(work, author, requests, red)

    def _author(
        self, work: SubjectWork, author: Subject, keys: Sequence[ArtifactKey], module_cells: Sequence[Cell]
    ) -> Iterator[Artifact | References | Verdict]:
        """Artifacts, references and the module's own verdicts; a key that failed fails each of its cells.

        A worker that dies costs the key, the references or the cell it was working on; another does the rest.
        """
        by_key = {key: [c for c in work.cells if c.artifact == key] for key in keys}
        left: list[Step] = [*(() if work.given is not None else keys), *module_cells]
        points = reference_points(work)
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
                    yield lost_references(work.folder, points, error)
                    points = {}
                    continue
                step = current if current is not None else left[0]
                left.remove(step)
                cells = by_key[step] if isinstance(step, ArtifactKey) else [step]
                yield from (self._failed(work, cell, status, error) for cell in cells)

    def _companions(
        self, work: SubjectWork, keys: Sequence[ArtifactKey]
    ) -> tuple[dict[ArtifactKey, dict[str, Artifact]], dict[ArtifactKey, tuple[str, ...]]]:
        """What properties need besides: the companions' artifacts by key and role, and by key why one is lacking."""
        found: dict[ArtifactKey, dict[str, Artifact]] = {}
        lacking: dict[ArtifactKey, tuple[str, ...]] = {}
        for role, companion in work.companions.items():
            theirs = {replace(key, subject=companion.name): key for key in keys}
            request = AuthorRequest(
                companion, tuple(theirs), {}, (), work.folder, work.directory, use_cache=work.use_cache
            )
            reasons = dict.fromkeys(theirs, "it was never exported")
            try:
                for item in self.torch.call("author", request, limit=EXPORT_LIMIT):
                    if isinstance(item, Authored):
                        found.setdefault(theirs[item.artifact.key], {})[role] = item.artifact
                        del reasons[item.artifact.key]
                    elif isinstance(item, Refused):
                        reasons[item.key] = _in_a_line(item.error)
            except OnnxParityError as error:
                if self.closed:
                    raise
                reasons = dict.fromkeys(reasons, _in_a_line(error))
            for key, reason in reasons.items():
                why = f"its companion {companion.name} ({role}) has no artifact: {reason}"
                lacking[theirs[key]] = (*lacking.get(theirs[key], ()), why)
        return found, lacking

    def _examine(self, work: SubjectWork, whole: ExamineRequest, lacking: tuple[str, ...]) -> Iterator[Found]:
        """Judges an artifact's cells; starts another worker after one died, until every cell has a verdict.

        lacking: why properties that need a companion cannot be judged.
        """
        artifact = whole.artifact
        basis = basis_of(artifact, work, whole.references, whole.companions)
        done = {v.cell: v for v in work.done.get(basis, ())}
        cells = [c for c in work.cells if c.artifact == artifact.key]
        yield from (Found(verdict=done[c]) for c in cells if c in done)
        left = [c for c in cells if c not in done]
        while left:
            current: Cell | None = None
            request = replace(whole, cells=tuple(left), threads=self.threads)
            try:
                for item in self.native.call("examine", request, limit=self.limit):
                    if isinstance(item, Started):
                        current = item.step if isinstance(item.step, Cell) else None
                    elif isinstance(item, Placements):
                        yield Found(placement=(f"{artifact.key.id}/{item.runtime}", item.nodes))
                    else:
                        left.remove(item.cell)
                        current = None
                        yield Found(verdict=_with_reason(item, lacking), basis=basis)
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

    def _diagnose(
        self,
        work: SubjectWork,
        author: Subject | None,
        requests: Mapping[ArtifactKey, ExamineRequest],
        red: Sequence[Verdict],
    ) -> Iterator[Found]:
        """What the red cells lead back to."""
        whole = None
        if author is not None:
            whole = AuthorRequest(
                author, (), {}, (), work.folder, work.directory, use_cache=work.use_cache, examples=work.examples
            )
        diagnoser = Diagnoser(self.torch, self.native, self.limit, requests, whole, Path(work.out))
        for found in diagnoser.run(red, work.subject.name):
            yield Found(location=found) if isinstance(found, Location) else Found(limit=found)

    def _failed(self, work: SubjectWork, cell: Cell, status: Status, error: OnnxParityError) -> Verdict:
        return failed(cell, question_of(cell, work.subject), work.subject.origin, status, error)


def run_all(
    works: Sequence[SubjectWork],
    *,
    slots: int,
    limit: float,
    on_found: Callable[[Found], None],
    native: Worker | None = None,
) -> None:
    """Runs every subject's work, `slots` at a time; `on_found` is called from one thread only.

    native: a worker for the first slot, see `Slot`.
    """
    todo: queue.SimpleQueue[SubjectWork] = queue.SimpleQueue()
    for work in works:
        todo.put(work)
    results: queue.SimpleQueue[Found | None] = queue.SimpleQueue()
    count = max(1, min(slots, len(works)))
    threads = max(1, slots // count)  # a lone subject would leave the other cores idle
    open_slots = [Slot(limit=limit, native=native if place == 0 else None, threads=threads) for place in range(count)]

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


def _with_reason(verdict: Verdict, lacking: tuple[str, ...]) -> Verdict:
    """A property that could not be judged, with what it lacks."""
    judged = verdict.question != "property" or verdict.status is not Status.RUN_ERROR
    return verdict if judged else replace(verdict, evidence=(*verdict.evidence, *lacking))


def _in_a_line(error: OnnxParityError) -> str:
    return ": ".join(part.splitlines()[0] for part in (error.what, error.got) if part)
