"""`selftest`: plants every fault, judges it as `verify` would, judges what is clean beside it, and keeps score."""

from __future__ import annotations

import dataclasses
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path

from onnxparity import expectations, plugins
from onnxparity.case import Subject
from onnxparity.feeding.feeds import stays_finite
from onnxparity.location import Location
from onnxparity.outcome import Expectation, Verdict
from onnxparity.plan import ArtifactKey, Cell
from onnxparity.planning import grid
from onnxparity.planning.planner import LARGE, Target, reconcile
from onnxparity.planning.selection import Described, DescribeRequest
from onnxparity.running.pipeline import Listener
from onnxparity.running.schedule import run_all
from onnxparity.running.subject_work import Found, SubjectWork
from onnxparity.running.worker import Worker
from onnxparity.selftesting.planting import Planted, PlantRequest, Unplanted
from onnxparity.selftesting.scoring import Clean, Fault, Score, judge_fault, lacking, unplanted

__all__ = ["FAULT_RUNTIMES", "Settings", "clean_cells", "excuses", "fault_cells", "selftest"]

FAULT_RUNTIMES = (plugins.MEANING, plugins.SPEC, "ort-cpu")
OPSETS, DTYPES = (18, 23), ("float32", "float16", "bfloat16")
CLEAN_RUNTIMES = (plugins.MEANING, plugins.SPEC, "ort-cpu", *plugins.LEVELS)
QUICK_CLEAN = ("causal-attention", "encoder-block-padded", "layer-norm")
"""Subjects that stand for the catalogue where time is short, among them those whose faults are smallest."""
PLANT_LIMIT = 600.0


@dataclass(frozen=True)
class Settings:
    """What is tested, and how."""

    kinds: tuple[str, ...] = ()
    """Globs over kinds of faults; empty for all."""
    quick: bool = False
    slots: int = 1
    out: Path | None = None
    """Where the faulty files and their reproductions are kept; None for nowhere."""
    limit: float = 300.0
    """Seconds a cell may take."""
    use_cache: bool = True
    expectations: tuple[Expectation, ...] = ()
    """Known failures of the clean catalogue."""
    directory: Path = field(default_factory=Path.cwd)


@dataclass
class Gathered:
    """What came of each subject, by its name in the cells."""

    verdicts: dict[str, list[Verdict]] = field(default_factory=dict)
    locations: dict[str, list[Location]] = field(default_factory=dict)
    limits: list[str] = field(default_factory=list)


def selftest(settings: Settings, listener: Listener) -> Score:
    """Plants, judges, scores. Raises UsageError for a kind that there is not."""
    started = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="onnxparity-") as temporary:
        folder = Path(temporary) if settings.out is None else settings.out.absolute()
        items, described = _planted(settings, folder)
        after_planting = time.perf_counter()
        planted = [item for item in items if isinstance(item, Planted)]
        works = [_fault_work(p, folder, settings) for p in planted]
        works += [_clean_work(d, folder, settings) for d in described]
        listener.planned(sum(len(work.cells) for work in works))
        gathered = Gathered()
        longest_first = sorted(works, key=lambda work: -len(work.cells))
        run_all(longest_first, slots=settings.slots, limit=settings.limit, on_found=_gatherer(gathered, listener))
    verdicts = {work.subject.name: _told(work, gathered) for work in works}
    failed = [unplanted(item) for item in items if isinstance(item, Unplanted)]
    failed += [line for name, found in verdicts.items() for line in lacking(name, found)]
    faults = [_fault(p, verdicts, gathered) for p in planted if not p.equivalent]
    equivalents = [v for p in planted if p.equivalent for v in verdicts[p.name]]
    clean = [v for d in described for v in verdicts[d.subject.name]]
    ended = time.perf_counter()
    return Score(
        quick=settings.quick,
        faults=tuple(faults),
        clean=Clean.of([*clean, *equivalents], len(equivalents)),
        incomplete=tuple(failed),
        seconds=ended - started,
        parts={"planting": after_planting - started, "judging": ended - after_planting},
    )


def fault_cells(planted: Planted) -> tuple[Cell, ...]:
    """Where a planted file is judged: at the grid's core and at the points that its kind needs."""
    needs = tuple(grid.Point(*point.split("/")) for point in planted.points)
    points = dict.fromkeys((*grid.core(planted.subject), *needs))
    return tuple(Cell(planted.artifact.key, runtime, p.shape, p.regime) for runtime in FAULT_RUNTIMES for p in points)


def clean_cells(target: Target, *, quick: bool) -> tuple[Cell, ...]:
    """The cells of one clean subject: both opsets, every dtype, every optimisation level."""
    subject = target.subject
    large = (subject.parameters or 0) >= LARGE
    dtypes = DTYPES[:1] if large else DTYPES[:2] if quick else DTYPES
    runtimes = FAULT_RUNTIMES if quick or large else CLEAN_RUNTIMES
    return tuple(
        Cell(ArtifactKey(subject.name, "dynamo", opset, dtype), runtime, p.shape, p.regime)
        for dtype in dtypes
        if dtype in subject.dtypes
        for opset in (OPSETS[len(subject.name) % 2 :][:1] if quick else OPSETS)
        for runtime in runtimes
        if dtype not in plugins.NO_KERNELS.get(runtime, ())
        for p in _clean_points(subject, dtype, quick=quick)
    )


def _clean_points(subject: Subject, dtype: str, *, quick: bool) -> tuple[grid.Point, ...]:
    """The core and outlier channels; where few files are exported, every regime of the core shape instead."""
    core = grid.core(subject)
    at_core = [p for p in grid.given(subject, core[0].shape) if stays_finite(p.regime, dtype)]
    return tuple(dict.fromkeys((*core, *(p for p in at_core if quick or p.regime == "outlier"))))


def excuses(name: str, subject: Subject, known: Sequence[Expectation]) -> tuple[Expectation, ...]:
    """The known failures of a clean subject as those of a file made from it: they show no fault."""
    found = []
    for expectation in known:
        first, form, rest = expectation.cells.split("/", 2)
        if fnmatchcase(subject.name, first):
            cells = f"{name}/{form.replace('dynamo', 'file')}/{rest}"
            found.append(dataclasses.replace(expectation, cells=cells))
    return tuple(found)


def _planted(settings: Settings, folder: Path) -> tuple[list[Planted | Unplanted], list[Described]]:
    """Every fault in a file of its own, planted by as many workers as there are slots, and the clean subjects."""
    (folder / "faults").mkdir(parents=True, exist_ok=True)

    def plant(number: int) -> tuple[list[Planted | Unplanted], list[Described]]:
        request = PlantRequest(
            kinds=settings.kinds,
            folder=str(folder / "faults"),
            quick=settings.quick,
            share=(number, settings.slots),
            use_cache=settings.use_cache,
        )
        with Worker() as worker:
            items = list(worker.call("plant", request, limit=PLANT_LIMIT))
            asked = DescribeRequest(_clean_names(settings, number, items), str(settings.directory))
            described = list(worker.call("describe", asked, limit=PLANT_LIMIT)) if asked.texts else []
        return items, [d for d in described if not d.left_out]

    with ThreadPoolExecutor(settings.slots) as pool:
        found = list(pool.map(plant, range(settings.slots)))
    return [i for items, _ in found for i in items], [d for _, described in found for d in described]


def _clean_names(settings: Settings, number: int, items: Sequence[Planted | Unplanted]) -> tuple[str, ...]:
    """The subjects whose clean files are judged; each worker describes those it spoiled, or the first one all."""
    if settings.kinds:
        return tuple(dict.fromkeys(item.subject.name for item in items if isinstance(item, Planted)))
    return () if number else QUICK_CLEAN if settings.quick else ("*",)


def _fault_work(planted: Planted, folder: Path, settings: Settings) -> SubjectWork:
    against = planted.against
    reference = planted.subject.origin if against is None else against.path
    subject = dataclasses.replace(
        planted.subject,
        name=planted.name,
        kind="onnx",
        origin=f"{planted.artifact.path} --against {reference}",
        properties=(),
        companions={},
        roles={},
    )
    return SubjectWork(
        subject=subject,
        cells=fault_cells(planted),
        folder=str(folder / "references" / planted.name),
        directory=str(settings.directory),
        given=planted.artifact,
        against=against,
        reference=planted.subject if against is None else None,
        use_cache=settings.use_cache,
        excused=(*planted.known, *excuses(planted.name, planted.subject, settings.expectations)),
        out=str(folder / "located" / planted.name),
    )


def _clean_work(described: Described, folder: Path, settings: Settings) -> SubjectWork:
    return SubjectWork(
        subject=described.subject,
        cells=clean_cells(Target(described.subject), quick=settings.quick),
        folder=str(folder / "clean" / described.subject.name),
        directory=str(settings.directory),
        use_cache=settings.use_cache,
        excused=settings.expectations,
    )


def _gatherer(gathered: Gathered, listener: Listener) -> Callable[[Found], None]:
    def on_found(found: Found) -> None:
        if found.verdict is not None:
            gathered.verdicts.setdefault(found.verdict.cell.artifact.subject, []).append(found.verdict)
            listener.found(found.verdict)
        if found.location is not None:
            gathered.locations.setdefault(found.location.cell.artifact.subject, []).append(found.location)
        if found.limit is not None:
            gathered.limits.append(found.limit)

    return on_found


def _told(work: SubjectWork, gathered: Gathered) -> tuple[Verdict, ...]:
    """One verdict for each planned cell, the known failures of the clean file marked as such."""
    found = gathered.verdicts.get(work.subject.name, [])
    every = reconcile(work.cells, found, {work.subject.name: work.subject})
    return tuple(expectations.apply(verdict, work.excused) for verdict in every)


def _fault(planted: Planted, verdicts: Mapping[str, Sequence[Verdict]], gathered: Gathered) -> Fault:
    return judge_fault(planted, verdicts[planted.name], gathered.locations.get(planted.name, ()))
