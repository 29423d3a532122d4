"""The plan: every cell that will have a verdict, listed before anything runs.

What is planned is reconciled with what came back (`reconcile`), so that nothing can go missing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from onnxparity import grid, invariants, plugins
from onnxparity.case import Subject, parse_shape
from onnxparity.errors import UsageError
from onnxparity.feeds import regimes
from onnxparity.grid import Point
from onnxparity.judge import command
from onnxparity.outcome import Question, Status, Verdict
from onnxparity.plan import ArtifactKey, Cell

__all__ = ["Options", "Target", "keys", "plan", "question_of", "reconcile"]

QUICK_OPSETS = (18, 23)
LARGE = 1_000_000
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
    quick: bool = False
    cells: tuple[str, ...] = ()
    """Globs over cell ids; empty for all."""


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


def keys(target: Target, options: Options) -> tuple[ArtifactKey, ...]:
    """The artifacts of a target."""
    if target.given is not None:
        return (target.given,)
    dtypes = [d for d in options.dtypes if d in target.subject.dtypes]
    return tuple(ArtifactKey(target.subject.name, "dynamo", o, d) for d in dtypes for o in options.opsets)


def plan(target: Target, options: Options) -> tuple[Cell, ...]:
    """Every cell of a target, in a stable order; none where no artifact of it would be judged.

    Raises UsageError for a shape that does not fit.
    """
    judged = [cell for key in keys(target, options) for cell in _artifact_cells(target, options, key)]
    if not judged:  # the module's own cells would pass without a single file behind them
        return ()
    cells = [*_torch_cells(target, options), *judged]
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


def _points(target: Target, options: Options, *, few: bool) -> tuple[Point, ...]:
    """The grid, or the few points that stand for it, with the real inputs."""
    subject = target.subject
    if options.shapes:
        return tuple(p for shape in options.shapes for p in grid.given(subject, shape)) + target.examples
    large = (subject.parameters or 0) >= LARGE
    chosen = grid.core(subject) if few or large or options.quick else grid.full(subject)
    return chosen + target.examples


def _torch_cells(target: Target, options: Options) -> list[Cell]:
    name = target.subject.name
    cells: list[Cell] = []
    if target.given is not None:
        return cells
    if target.has_oracle and "torch-float64" in options.runtimes:
        key = ArtifactKey(name, "torch", None, "float64")
        points = [p for p in _points(target, options, few=False) if p not in target.examples]
        cells += [Cell(key, "torch-float64", p.shape, p.regime) for p in points]
    if "torch-eager" in options.runtimes:
        for dtype in (d for d in options.dtypes if d in target.subject.dtypes):
            key = ArtifactKey(name, "torch", None, dtype)
            cells += [Cell(key, "torch-eager", p.shape, p.regime) for p in _points(target, options, few=True)]
    return cells


def _artifact_cells(target: Target, options: Options, key: ArtifactKey) -> list[Cell]:
    cells: list[Cell] = []
    for runtime in options.runtimes:
        if runtime in plugins.TORCH_RUNTIMES or (runtime == plugins.MEANING and not target.has_reference):
            continue
        few = runtime == plugins.SPEC or runtime in plugins.LEVELS
        if few and options.quick and runtime in plugins.LEVELS:
            continue
        cells += [Cell(key, runtime, p.shape, p.regime) for p in _points(target, options, few=few)]
        if not few:
            cells += _property_cells(target, options, key, runtime)
    return cells


def _property_cells(target: Target, options: Options, key: ArtifactKey, runtime: str) -> list[Cell]:
    subject = target.subject
    asked = dict.fromkeys(p.shape for shape in options.shapes for p in grid.given(subject, shape))
    shapes = tuple(asked) or (grid.core(subject)[0].shape,)
    return [
        Cell(key, runtime, shape, name)
        for shape in shapes
        for name in subject.properties
        if invariants.plannable(name, subject, parse_shape(subject, shape))
    ]
