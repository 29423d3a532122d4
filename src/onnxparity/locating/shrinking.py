"""From a shape that fails to the smallest one that still fails: axis after axis, halving first, then one by one.

Greedy as Hypothesis shrinks (MacIver and Donaldson, ECOOP 2020): what is smaller and still fails is kept, until
nothing smaller along any one axis fails. Where failing is not monotonic, a smaller shape elsewhere may fail as well.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass

from onnxparity.case import Axis, Subject, parse_shape, shape_id

__all__ = ["TRIES", "Shrunk", "shrink", "size_of"]

TRIES = 40
"""Shapes that are tried for one failure."""
STEPS = 4
"""Sizes below one another that are tried at once when going down one by one."""

Sizes = Mapping[str, int]
Fails = Callable[[tuple[str, ...]], Collection[str]]
"""Takes shape ids and says which of them fail in the same way; asked once for each."""


@dataclass(frozen=True)
class Shrunk:
    """Where the walk ended."""

    shape: str
    tries: int
    complete: bool
    """False where the tries ran out before the walk did."""


def size_of(subject: Subject, shape: str) -> tuple[int, int]:
    """What makes one shape smaller than another: its volume, then the sum of its sizes."""
    sizes = parse_shape(subject, shape).values()
    return math.prod(max(size, 1) for size in sizes), sum(sizes)


def shrink(subject: Subject, shape: str, *, tells: Callable[[Sizes], bool], fails: Fails, tries: int = TRIES) -> Shrunk:
    """The smallest shape that still fails.

    Args:
        shape: a shape id that fails.
        tells: whether anything would be learned at these sizes; where not, they are not tried.
        fails: asked for several shapes at a time, since each question may wait for a worker.

    Raises:
        ValueError: the shape does not fit the subject.
    """
    return _Walk(subject, shape, tells, fails, tries).run()


class _Walk:
    """The state of one walk: where it is, what it knows, and how many questions it has left."""

    def __init__(self, subject: Subject, shape: str, tells: Callable[[Sizes], bool], fails: Fails, tries: int) -> None:
        self.subject = subject
        self.sizes = parse_shape(subject, shape)
        self.known = {shape: True}
        self.tells = tells
        self.fails = fails
        self.tries = tries

    def run(self) -> Shrunk:
        """Tries the corner first, where most faults show, then walks down each axis until none gives way."""
        for above in (0, 1):
            self._try([{a.symbol: min(self.sizes[a.symbol], a.low + above) for a in self.subject.axes}])
        before = None
        while before != self.sizes:
            before = self.sizes
            for axis in self.subject.axes:
                self._halve(axis)
                self._step(axis)
        return Shrunk(shape_id(self.subject, self.sizes), len(self.known) - 1, self.tries > 0)

    def _halve(self, axis: Axis) -> None:
        """Halves the gap to the largest size that is known not to fail, several halvings at a time."""
        floor = self._floor(axis)
        while (gap := self.sizes[axis.symbol] - floor) > (floor > axis.low):
            self._try(self._along(axis, sorted({floor + (gap >> n) for n in range(1, gap.bit_length() + 1)})))
            floor, before = self._floor(axis), floor
            if floor == before:
                return

    def _floor(self, axis: Axis) -> int:
        """The largest smaller size that does not fail; the lowest of the axis where none is known."""
        below = range(self.sizes[axis.symbol] - 1, axis.low - 1, -1)
        passes = (n for n in below if self.known.get(shape_id(self.subject, {**self.sizes, axis.symbol: n})) is False)
        return next(passes, axis.low)

    def _step(self, axis: Axis) -> None:
        before = None
        while before != self.sizes:
            before, size = self.sizes, self.sizes[axis.symbol]
            self._try(self._along(axis, range(max(axis.low, size - STEPS), size)))

    def _along(self, axis: Axis, values: Iterable[int]) -> list[dict[str, int]]:
        return [{**self.sizes, axis.symbol: value} for value in values]

    def _try(self, candidates: list[dict[str, int]]) -> None:
        """Moves to the first of these, smallest first, that fails."""
        shapes = {shape_id(self.subject, sizes): sizes for sizes in candidates}
        new = [s for s, sizes in shapes.items() if s not in self.known and self.tells(sizes)][: self.tries]
        if new:
            failing = self.fails(tuple(new))
            self.tries -= len(new)
            self.known |= {shape: shape in failing for shape in new}
        found = next((sizes for shape, sizes in shapes.items() if self.known.get(shape)), None)
        self.sizes = found or self.sizes
