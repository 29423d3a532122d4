"""Which shapes and regimes are tried: the grid, and the few points that stand for it where time is short.

The grid is a covering array over the classes of sizes of each axis (see `covering`), drawn from the subject's name:
kernels break at 1, at lengths that no block divides, and on either side of the sizes they block by.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from math import prod

from onnxparity.case import Axis, AxisRole, Subject, parse_shape, shape_id
from onnxparity.errors import UsageError
from onnxparity.feeding.feeds import BEYOND, generator, regimes, tells
from onnxparity.planning.covering import Place, pairwise

__all__ = ["Point", "beyond", "core", "full", "given", "lighter", "share"]

Sizes = dict[AxisRole, int]

CORE: Sizes = {"batch": 2, "sequence": 17, "source": 13, "past": 11, "other": 5}
"""Primes, and source and target of unequal length."""
ONES: Sizes = {"batch": 1, "sequence": 1, "source": 1, "past": 1, "other": 1}
PRIMES: Mapping[AxisRole, tuple[int, ...]] = {
    "batch": (2, 3, 5),
    "sequence": (11, 19, 5),
    "source": (13, 23, 3),
    "past": (11, 29, 3),
    "other": (5, 3, 13),
}
BLOCKS: Mapping[AxisRole, tuple[int, ...]] = {
    "batch": (8,),
    "sequence": (8, 16, 64, 128),
    "source": (8, 16, 64, 128),
    "past": (8, 16, 64, 128),
    "other": (8, 16),
}
"""Sizes that kernels block by: each is tried with its neighbours on either side."""
LONG = 100
"""From this size on an axis is long: it meets no other long one, and the batch is as small as can be."""
LONGEST = 1024
"""An axis whose end lies further off is not tried at its end: memory grows with its square."""
BOUNDED: tuple[AxisRole, ...] = ("sequence", "source", "past")
"""Axes whose end can be that of a table of positions or of a buffer."""


@dataclass(frozen=True, order=True)
class Point:
    """One shape with one regime."""

    shape: str
    regime: str


def full(subject: Subject) -> tuple[Point, ...]:
    """Every shape with normal values; every regime that tells something at the core shape, and at one more shape
    unless it only writes a mask in another way; one size too many."""
    core_shape = _shape(subject, CORE)
    shapes = _shapes(subject.name, subject.axes)
    points = [Point(shape, "normal") for shape in shapes]
    others = [regime for regime in regimes(subject) if regime != "normal"]
    points += [
        Point(core_shape, regime) for regime in others if tells(subject, parse_shape(subject, core_shape), regime)
    ]
    points += _spread(subject, [r for r in others if not _rewrites(r)], shapes[2:])
    return tuple(dict.fromkeys(points)) + beyond(subject)


def core(subject: Subject) -> tuple[Point, ...]:
    """The points that stand for the grid: the core shape, size 1, and near-saturated values."""
    core_shape = _shape(subject, CORE)
    hard = [r for r in ("saturated", "mask-right") if r in _telling(subject, core_shape)]
    points = [Point(core_shape, r) for r in ("normal", *hard)] + [Point(_shape(subject, ONES), "normal")]
    return tuple(dict.fromkeys(points))


def share(subject: Subject, part: int, parts: int) -> tuple[Point, ...]:
    """One artifact's share of the grid, where `parts` artifacts of one subject divide it among them: the core shape
    in every regime that does not only write a mask in another way, size 1, and every so many-th of the other points.
    Together they hold all of it."""
    core_shape, few, every = _shape(subject, CORE), core(subject), full(subject)
    common = [p for p in every if p in few or (p.shape == core_shape and not _rewrites(p.regime))]
    rest = [p for p in every if p not in common]
    start = part + int(generator(subject.name, "share").integers(parts))  # else all subjects would leave out the same
    return (*common, *rest[start % parts :: parts])


def lighter(subject: Subject, points: Sequence[Point], most: int) -> tuple[Point, ...]:
    """The same points with batches so small that no shape holds more than so many positions, as far as a batch goes."""
    axis = subject.axis("batch")
    found: dict[Point, None] = {}
    for point in points:
        sizes = parse_shape(subject, point.shape)
        if axis is not None and point.regime != BEYOND:
            others = prod(n for symbol, n in sizes.items() if symbol != axis.symbol)
            sizes[axis.symbol] = min(sizes[axis.symbol], max(axis.low, 1, most // max(1, others)))
        found[Point(shape_id(subject, sizes), point.regime)] = None
    return tuple(found)


def beyond(subject: Subject) -> tuple[Point, ...]:
    """One size more than each bounded length, all else as in the core: there the artifact refuses, or agrees."""
    found = []
    for axis in subject.axes:
        if axis.role in BOUNDED and axis.high is not None and axis.high < LONGEST:
            sizes = _sizes(subject.axes, CORE) | {axis.symbol: axis.high + 1}
            found.append(Point(shape_id(subject, sizes), BEYOND))
    return tuple(found)


def given(subject: Subject, shape: str) -> tuple[Point, ...]:
    """Every regime that tells something at a shape that the user names, such as `b2-t17`.

    Raises UsageError where it does not fit.
    """
    try:
        sizes = parse_shape(subject, shape)
    except ValueError as error:
        raise UsageError(str(error)) from error
    shape = shape_id(subject, sizes)
    if too_long := [point for point in beyond(subject) if point.shape == shape]:
        return tuple(too_long)
    for axis in subject.axes:
        size = sizes[axis.symbol]
        if size < axis.low or (axis.high is not None and size > axis.high):
            bound = f"{axis.low} to {axis.high or 'any size'}"
            raise UsageError(f"shape {shape}: {axis.symbol} is out of range", expected=bound, got=str(size))
    return tuple(Point(shape, regime) for regime in _telling(subject, shape))


def _rewrites(regime: str) -> bool:
    """Whether a regime masks what another one masks, with another number: `mask-left-1e4`, `mask-left-min`. Where a
    whole row is masked the number decides what comes out, so `mask-empty-min` is a regime of its own."""
    return regime.startswith("mask-") and regime.count("-") > 1 and not regime.startswith("mask-empty")


def _telling(subject: Subject, shape: str) -> tuple[str, ...]:
    """The regimes that tell something at a shape."""
    sizes = parse_shape(subject, shape)
    return tuple(regime for regime in regimes(subject) if tells(subject, sizes, regime))


def _spread(subject: Subject, wanted: Sequence[str], shapes: Sequence[str]) -> list[Point]:
    """Each regime at one of the shapes at which it tells something: another one for each, as far as they go."""
    order = [shapes[i] for i in generator(subject.name, "regimes").permutation(len(shapes))]
    points = []
    for regime in wanted:
        shape = next((s for s in order if tells(subject, parse_shape(subject, s), regime)), None)
        if shape is not None:
            points.append(Point(shape, regime))
            order = [*(s for s in order if s != shape), shape]
    return points


@cache
def _shapes(name: str, axes: tuple[Axis, ...]) -> tuple[str, ...]:
    """Shape ids: the core, size 1, then what covers every pair of classes and every size of each class."""
    rng = generator(name, "grid")
    classes = {axis.symbol: _classes(axis) for axis in axes}
    columns = {s: [list(classes[s])[i] for i in rng.permutation(len(classes[s]))] for s in classes}
    first = [_sizes(axes, sizes) for sizes in (CORE, ONES)]
    there = [{a.symbol: _class_of(classes[a.symbol], sizes[a.symbol]) for a in axes} for sizes in first]
    rows = [*pairwise(columns, allowed=_Allowed(axes, classes), there=there)]
    found = first + _members(axes, classes, rows)
    return tuple(dict.fromkeys(_id(axes, sizes) for sizes in found))


def _classes(axis: Axis) -> dict[str, tuple[int, ...]]:
    """The sizes of each class that the axis serves, by the class's name; the first size is taken first."""
    primes = PRIMES[axis.role]
    wanted = {"none": (0,), "one": (1,), "prime": primes}
    wanted |= {f"block-{n}": (n, n - 1, n + 1) for n in BLOCKS[axis.role]}
    found = {name: tuple(n for n in sizes if _serves(axis, n)) for name, sizes in wanted.items()}
    known = {n for sizes in found.values() for n in sizes}
    low = max(axis.low, 1) if axis.high is None else min(max(axis.low, 1), axis.high)
    found |= {} if low in known else {"low": (low,)}
    if axis.high is not None and axis.high <= LONGEST and axis.high not in {*known, low}:
        found["high"] = (axis.high,)
    return {name: sizes for name, sizes in found.items() if sizes}


def _serves(axis: Axis, size: int) -> bool:
    return axis.low <= size <= (size if axis.high is None else axis.high)


def _class_of(classes: Mapping[str, Sequence[int]], size: int) -> str:
    """The class that holds the size, or is nearest to it."""
    return min(classes, key=lambda name: min(abs(size - member) for member in classes[name]))


class _Allowed:
    """Which classes may meet: a long axis stands beside a batch of one and sizes that are small."""

    def __init__(self, axes: Sequence[Axis], classes: Mapping[str, Mapping[str, tuple[int, ...]]]) -> None:
        self.roles = {axis.symbol: axis.role for axis in axes}
        self.classes = classes
        self.smallest = {s: min(min(sizes) for sizes in found.values()) for s, found in classes.items()}

    def __call__(self, one: Place, other: Place) -> bool:
        return self._beside(one, other) and self._beside(other, one)

    def _beside(self, one: Place, other: Place) -> bool:
        """Whether `other` is small enough, where `one` is long."""
        if max(self._of(one)) < LONG:
            return True
        sizes, smallest = self._of(other), self.smallest[other[0]]
        if self.roles[other[0]] == "batch":
            return min(sizes) <= max(smallest, 1)
        return other[1] in ("none", "one", "prime", "low") or min(sizes) == smallest

    def _of(self, place: Place) -> tuple[int, ...]:
        return self.classes[place[0]][place[1]]


def _members(
    axes: Sequence[Axis], classes: Mapping[str, Mapping[str, tuple[int, ...]]], rows: list[Mapping[str, str]]
) -> list[dict[str, int]]:
    """A size for each class of each row, the members of a class in turn; a row is repeated until every size around
    its blocks had its turn."""
    had: dict[tuple[str, str], list[int]] = {}
    found = [_next_sizes(axes, classes, row, had) for row in rows]
    for row in rows:
        blocks = [place for place in row.items() if place[1].startswith("block-")]
        while any(len(had[place]) < len(classes[place[0]][place[1]]) for place in blocks):
            found.append(_next_sizes(axes, classes, row, had))
    return found


def _next_sizes(
    axes: Sequence[Axis],
    classes: Mapping[str, Mapping[str, tuple[int, ...]]],
    row: Mapping[str, str],
    had: dict[tuple[str, str], list[int]],
) -> dict[str, int]:
    """The member of each class that had the fewest turns; source and target differ where they can."""
    sizes: dict[str, int] = {}
    taken = {"sequence": set[int](), "source": set[int]()}
    for axis in axes:
        place = (axis.symbol, row[axis.symbol])
        members, turns = classes[place[0]][place[1]], had.setdefault(place, [])
        others = taken.get("source" if axis.role == "sequence" else "sequence" if axis.role == "source" else "", set())
        free = [n for n in members if n not in others or n <= 1] or list(members)
        sizes[axis.symbol] = min(free, key=turns.count)
        turns.append(sizes[axis.symbol])
        taken.get(axis.role, set()).add(sizes[axis.symbol])
    return sizes


def _id(axes: Sequence[Axis], sizes: Mapping[str, int]) -> str:
    return "-".join(f"{a.letter}{sizes[a.symbol]}" for a in axes) or "fixed"


def _shape(subject: Subject, wanted: Sizes) -> str:
    """The id of the wanted sizes, moved inside the subject's bounds."""
    return shape_id(subject, _sizes(subject.axes, wanted))


def _sizes(axes: Sequence[Axis], wanted: Sizes) -> dict[str, int]:
    sizes = {}
    for axis in axes:
        size = max(wanted[axis.role], axis.low)
        sizes[axis.symbol] = size if axis.high is None else min(size, axis.high)
    return sizes
