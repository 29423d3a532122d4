"""Which values of the candidate the reference computes too: by value, at a tolerance of their own each.

The tolerance is the rule of the verdict at every value: `KAPPA` times what rounding the constants of one side
explains there, and a share of `MEANING_FLOOR`, since a fault in one vector is diluted in what a signature adds up.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from onnxparity.locating.sides import OUTPUT, Side, Value
from onnxparity.locating.signature import distance, long_dims, ratio_of, scaled, sizes_of
from onnxparity.numerics.budget import KAPPA, MEANING_FLOOR

__all__ = ["FLOORS", "Match", "Matcher"]

FLOORS = (MEANING_FLOOR / 64, MEANING_FLOOR / 4096)
"""Relative differences that always count as the same; the second where a fault is too faint for the first."""
NEAR = 32.0
"""Two values are about as near to a third where their distances differ by no more than this factor."""
SLACK = 4.0
"""Of the roundoff with which a constant is stored, since a product of two may be stored as one."""


@dataclass(frozen=True)
class Match:
    """What the reference holds of a value."""

    same: tuple[Value, ...]
    """The same values in the same order, the earliest first."""
    permuted: tuple[Value, ...] = ()
    """The same values in another order, where the reference has values of the same size whose order could agree."""

    def __bool__(self) -> bool:
        return bool(self.same)


class Matcher:
    """Finds values of the reference."""

    def __init__(self, reference: Side, floor: float) -> None:
        self.floor = floor
        self._by_size: dict[float, list[Value]] = defaultdict(list)
        self._squares: dict[float, npt.NDArray[np.float64]] = {}
        self._dims = {sizes_of(v.shape) for v in reference.values}
        for value in reference.values:
            if value.node.operator != OUTPUT:
                self._by_size[value.signature.size].append(value)
        for size, values in self._by_size.items():
            self._squares[size] = np.array([v.signature.squares for v in values])
        self._widest = max((v.spread for v in reference.values), default=0.0)
        self._known: dict[int, Match] = {}

    def find(self, value: Value) -> Match:
        """What the reference holds of it."""
        if value.place not in self._known:
            self._known[value.place] = self._found(value)
        return self._known[value.place]

    def same(self, value: Value, other: Value) -> bool:
        """Whether two values agree, order included."""
        return self._apart(value, other) <= self._tolerance(value, other)

    def scaled(self, value: Value, first: Value | None = None) -> tuple[Value, float] | None:
        """A value of the reference that this one is a multiple of, and the factor. first: looked at before all."""
        others = self._by_size.get(value.signature.size, [])
        for other in others if first is None else [first, *others]:
            factor = ratio_of(value.signature, other.signature)
            if factor is None or other.signature.size < 8 or other.signature.size != value.signature.size:
                continue
            found = distance(value.signature, scaled(other.signature, factor))
            if max(found.content, found.order) <= self._tolerance(value, other):
                return other, factor
        return None

    def nearest(self, value: Value) -> Value | None:
        """The value of the same dims that is least far away, in order; one of the same name before all, and a weight
        before what was made of it."""
        alike = [v for v in self._by_size.get(value.signature.size, ()) if sizes_of(v.shape) == sizes_of(value.shape)]
        named = [v for v in alike if v.name == value.name]
        apart = {v: self._apart(value, v) for v in named or alike}
        near = [v for v, far in apart.items() if far <= NEAR * min(apart.values())]
        return min(near, key=lambda v: (v.computed, apart[v]), default=None)

    def _apart(self, value: Value, other: Value) -> float:
        found = distance(value.signature, other.signature)
        return max(found.content, found.order)

    def _found(self, value: Value) -> Match:
        content = [
            (other, found.order)
            for other in self._possible(value)
            for found in (distance(value.signature, other.signature),)
            if found.content <= self._tolerance(value, other)
        ]
        dims = sizes_of(value.shape)
        alike = [(other, order) for other, order in content if sizes_of(other.shape) == dims]
        exact = [(other, order) for other, order in alike if long_dims(other.shape) == long_dims(value.shape)]
        # values of the same shape tell best whether the order is right, then those of the same dims
        same = tuple(other for other, order in exact or alike or content if order <= self._tolerance(value, other))
        everything = tuple(other for other, _ in content)
        if same or alike or dims in self._dims:
            return Match(same, () if same else everything)
        return Match(everything)

    def _possible(self, value: Value) -> list[Value]:
        """Those of the same size whose squares add up to about the same: few, of which each is looked at."""
        values = self._by_size.get(value.signature.size)
        if values is None:
            return []
        apart = np.abs(self._squares[value.signature.size] - value.signature.squares)
        loosest = 4 * (self.floor + KAPPA * max(value.spread, self._widest)) * value.signature.squares
        return [values[k] for k in np.flatnonzero(apart <= loosest)]

    def _tolerance(self, value: Value, other: Value) -> float:
        factor = KAPPA if value.computed else SLACK
        return self.floor + factor * max(value.spread, other.spread)
