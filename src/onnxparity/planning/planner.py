"""The plan: every cell that will have a verdict, listed before anything runs.

What is planned is reconciled with what came back (`reconcile`), so that nothing can go missing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from onnxparity import invariants, plugins
from onnxparity.case import Subject, parse_shape
from onnxparity.errors import UsageError
from onnxparity.feeding.feeds import BEYOND, regimes, stays_finite
from onnxparity.judging.judge import command
from onnxparity.outcome import Question, Status, Verdict
from onnxparity.plan import ArtifactKey, Cell
from onnxparity.planning import grid
from onnxparity.planning.grid import Point

__all__ = ["Options", "Target", "keys", "plan", "question_of", "reconcile", "served"]

QUICK_OPSETS = (18, 23)
HEAVY, MOST_POSITIONS = 1_000_000, 128
"""Parameters from which batches are made small enough for so many positions: what an evaluation in float64 costs grows
with both."""
LARGE = 10_000_000
"""Parameters from which a subject is tried at the few points that stand for the grid, and on its real inputs."""


@dataclass(frozen=True)
class Options:
    """What the user asked for."""

    opsets: tuple[int, ...]
    dtypes: tuple[str, ...]
    runtimes: tuple[str, ...]
    """Those that will be used: asked for, or default and available."""
    shapes: tuple[str, ...] = ()
    """Shape ids; empty for the grid."""
    regimes: tuple[str, ...] = ()
    """Names of regimes, examples and properties; empty for all that tell something."""
    quick: bool = False
    cells: tuple[str, ...] = ()
    """Globs over cell ids; empty for all."""
    own_dtype: bool = False
    """Whether a subject that comes in none of the dtypes is tried in its own; where no dtype was asked for."""
    asked: tuple[str, ...] = ()
    """The runtimes that were asked for by name."""


@dataclass(frozen=True)
class Target:
    """A subject with what is known of it before the plan."""

    subject: Subject
    given: ArtifactKey | None = None
    """The artifact's key where the subject is a file."""
    has_oracle: bool = False
    has_reference: bool = True
    """Whether there is something to hold the meaning against."""
    examples: tuple[Point, ...] = ()
    """Real inputs, by the shape they have."""
    examples_only: bool = False
    """Whether nothing else can be fed, since outputs are known for these alone."""
    recorded: tuple[str, ...] = ()
    """The real inputs whose outputs were recorded, so that a meaning can be held against them."""


def keys(target: Target, options: Options) -> tuple[ArtifactKey, ...]:
    """The artifacts of a target."""
    if target.given is not None:
        return (target.given,)
    dtypes = _dtypes(target, options)
    return tuple(ArtifactKey(target.subject.name, "dynamo", o, d) for d in dtypes for o in options.opsets)


def _dtypes(target: Target, options: Options) -> tuple[str, ...]:
    """Those of the dtypes that the subject comes in, else its own where none was asked for."""
    subject = target.subject
    found = tuple(d for d in options.dtypes if d in subject.dtypes)
    return found or (subject.dtypes[:1] if options.own_dtype else ())


def served(target: Target, options: Options, key: ArtifactKey, runtime: str) -> bool:
    """Whether a runtime takes part in a dtype: not where it is known to have no kernels and nobody insists.

    A subject's own dtype is tried all the same, since the user may mean to deploy it there.
    """
    lacks = key.dtype in plugins.NO_KERNELS.get(runtime, ())
    return not lacks or runtime in options.asked or key.dtype == target.subject.dtypes[0]


def plan(target: Target, options: Options) -> tuple[Cell, ...]:
    """Every cell of a target, in a stable order; none where no artifact of it would be judged.

    Raises UsageError for a shape that does not fit.
    """
    judged = [cell for key in keys(target, options) for cell in _artifact_cells(target, options, key)]
    if not judged:  # the module's own cells would pass without a single file behind them
        return ()
    cells = [*_torch_cells(target, options), *judged]
    if options.regimes:
        cells = [c for c in cells if c.regime in options.regimes]
    if options.cells:
        cells = [c for c in cells if any(fnmatchcase(c.id, wanted) for wanted in options.cells)]
    return tuple(dict.fromkeys(cells))


def question_of(cell: Cell, subject: Subject) -> Question:
    """Which question a cell asks."""
    if cell.regime in invariants.PROPERTIES and cell.regime not in regimes(subject):
        return "property"
    return plugins.question(cell.runtime)


def reconcile(
    planned: Sequence[Cell], verdicts: Iterable[Verdict], subjects: dict[str, Subject]
) -> tuple[Verdict, ...]:
    """One verdict per planned cell, in the order of the plan; MISSING where none came.

    Raises UsageError for a verdict that nobody planned or that came twice.
    """
    found: dict[Cell, Verdict] = {}
    for verdict in verdicts:
        if verdict.cell in found:
            raise UsageError(f"two verdicts for {verdict.cell.id}")
        found[verdict.cell] = verdict
    known = set(planned)
    strangers = [c.id for c in found if c not in known]
    if strangers:
        raise UsageError(f"verdicts for cells that were not planned: {', '.join(strangers[:5])}")
    return tuple(found.get(cell) or _missing(cell, subjects[cell.artifact.subject]) for cell in planned)


def _missing(cell: Cell, subject: Subject) -> Verdict:
    return Verdict(
        cell,
        Status.MISSING,
        question_of(cell, subject),
        "planned, and never ran",
        command=command(cell, subject.origin),
    )


def _points(target: Target, options: Options, key: ArtifactKey, *, few: bool) -> tuple[Point, ...]:
    """The grid, or the few points that stand for it, with the real inputs; of all these, what was asked for."""
    subject = target.subject
    if target.examples_only:
        asked = {p.shape for shape in options.shapes for p in grid.given(subject, shape)}
        return tuple(p for p in target.examples if not asked or p.shape in asked)
    large = (subject.parameters or 0) >= LARGE
    if options.shapes:
        chosen = tuple(p for shape in options.shapes for p in grid.given(subject, shape))
    elif options.regimes:
        chosen = grid.full(subject)
    else:
        chosen = grid.core(subject) if few or large or options.quick else _share(target, options, key)
    if (subject.parameters or 0) >= HEAVY and not options.shapes:
        chosen = grid.lighter(subject, chosen, MOST_POSITIONS)
    if key.exporter == "torch":  # beyond its end the module itself is what an artifact is held against
        chosen = tuple(p for p in chosen if p.regime != BEYOND)
    asked = set(options.regimes)
    finite = tuple(p for p in chosen if p.regime in asked or stays_finite(p.regime, key.dtype))
    return tuple(p for p in finite + target.examples if not asked or p.regime in asked)


def _share(target: Target, options: Options, key: ArtifactKey) -> tuple[Point, ...]:
    """The whole grid at the opsets that an exporter writes differently, in the first dtype and for the module itself;
    the other artifacts of a subject, made by the same code, divide it among them."""
    rest = [k for k in keys(target, options) if not _whole(options, k)]
    return grid.share(target.subject, rest.index(key), len(rest)) if key in rest else grid.full(target.subject)


def _whole(options: Options, key: ArtifactKey) -> bool:
    opsets = options.opsets if len(options.opsets) <= len(QUICK_OPSETS) else QUICK_OPSETS
    first = key.opset in opsets or not set(opsets) & set(options.opsets)
    return key.exporter == "file" or (first and key.dtype == options.dtypes[0])


def _torch_cells(target: Target, options: Options) -> list[Cell]:
    name = target.subject.name
    cells: list[Cell] = []
    if target.given is not None:
        return cells
    if target.has_oracle and "torch-float64" in options.runtimes:
        key = ArtifactKey(name, "torch", None, "float64")
        points = [p for p in _points(target, options, key, few=False) if p not in target.examples]
        cells += [Cell(key, "torch-float64", p.shape, p.regime) for p in points]
    if "torch-eager" in options.runtimes:
        for dtype in _dtypes(target, options):
            key = ArtifactKey(name, "torch", None, dtype)
            cells += [Cell(key, "torch-eager", p.shape, p.regime) for p in _points(target, options, key, few=True)]
    return cells


def _artifact_cells(target: Target, options: Options, key: ArtifactKey) -> list[Cell]:
    cells: list[Cell] = []
    for runtime in options.runtimes:
        if runtime in plugins.TORCH_RUNTIMES:
            continue
        if not served(target, options, key, runtime):
            continue
        few = runtime == plugins.SPEC or runtime in plugins.LEVELS
        if few and options.quick and runtime in plugins.LEVELS:
            continue
        points = _points(target, options, key, few=few)
        if runtime == plugins.MEANING and not target.has_reference:
            points = tuple(p for p in points if p.regime in target.recorded)
        cells += [Cell(key, runtime, p.shape, p.regime) for p in points]
        if not few:
            cells += _property_cells(target, options, key, runtime)
    # What a file alone keeps in float64 says nothing of any runtime.
    return cells if target.has_reference or any(cell.runtime != plugins.MEANING for cell in cells) else []


def _property_cells(target: Target, options: Options, key: ArtifactKey, runtime: str) -> list[Cell]:
    """What the subject promises, at the core shape or those asked for, and once what every file keeps."""
    subject = target.subject
    asked = [p for shape in options.shapes for p in grid.given(subject, shape) if p.regime != BEYOND]
    if options.shapes and not asked:
        return []
    shapes = tuple(dict.fromkeys(p.shape for p in asked)) or (grid.core(subject)[0].shape,)
    promised = [
        Cell(key, runtime, shape, name)
        for shape in shapes
        for name in subject.properties
        if invariants.plannable(name, subject, parse_shape(subject, shape))
    ]
    every = () if target.examples_only else _of_every_file(runtime, options)
    return promised + [Cell(key, runtime, shapes[0], name) for name in every if name not in subject.properties]


def _of_every_file(runtime: str, options: Options) -> tuple[str, ...]:
    """The properties of a runtime rather than of a model; our own float64 is held to them by its tests."""
    if runtime == plugins.MEANING:
        return ()
    levels = runtime == plugins.LEVELLED and not options.quick
    return tuple(name for name in invariants.UNIVERSAL if levels or name != "level-equality")
