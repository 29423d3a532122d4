"""Which shapes and regimes are tried: the first grid, and the few points that stand for it where time is short."""

from __future__ import annotations

from dataclasses import dataclass

from onnxparity.case import AxisRole, Subject, parse_shape, shape_id
from onnxparity.errors import UsageError
from onnxparity.feeds import regimes, tells

__all__ = ["Point", "core", "full", "given"]

Sizes = dict[AxisRole, int]

CORE: Sizes = {"batch": 2, "sequence": 17, "source": 13, "past": 11, "other": 5}
"""Primes, and source and target of unequal length."""
ONES: Sizes = {"batch": 1, "sequence": 1, "source": 1, "past": 1, "other": 1}
EDGES: tuple[Sizes, ...] = (
    {"batch": 3, "sequence": 7, "source": 16, "past": 2, "other": 3},
    {"batch": 1, "sequence": 15, "source": 16, "past": 17, "other": 2},
    {"batch": 2, "sequence": 16, "source": 17, "past": 1, "other": 7},
    {"batch": 1, "sequence": 63, "source": 64, "past": 15, "other": 8},
    {"batch": 3, "sequence": 64, "source": 15, "past": 63, "other": 9},
    {"batch": 1, "sequence": 65, "source": 63, "past": 16, "other": 1},
)
"""Either side of the sizes that kernels block by, each with another partner."""


@dataclass(frozen=True, order=True)
class Point:
    """One shape with one regime."""

    shape: str
    regime: str


def full(subject: Subject) -> tuple[Point, ...]:
    """Every shape with normal values, every regime that tells something at the core shape."""
    core_shape = _shape(subject, CORE)
    shapes = dict.fromkeys(_shape(subject, sizes) for sizes in (CORE, ONES, *EDGES))
    points = [Point(shape, "normal") for shape in shapes]
    points += [Point(core_shape, regime) for regime in _telling(subject, core_shape) if regime != "normal"]
    return tuple(points)


def core(subject: Subject) -> tuple[Point, ...]:
    """The points that stand for the grid: the core shape, size 1, and near-saturated values."""
    core_shape = _shape(subject, CORE)
    hard = [r for r in ("saturated", "mask-right") if r in _telling(subject, core_shape)]
    points = [Point(core_shape, r) for r in ("normal", *hard)] + [Point(_shape(subject, ONES), "normal")]
    return tuple(dict.fromkeys(points))


def given(subject: Subject, shape: str) -> tuple[Point, ...]:
    """Every regime that tells something at a shape that the user names, such as `b2-t17`.

    Raises UsageError where it does not fit.
    """
    try:
        sizes = parse_shape(subject, shape)
    except ValueError as error:
        raise UsageError(str(error)) from error
    for axis in subject.axes:
        size = sizes[axis.symbol]
        if size < axis.low or (axis.high is not None and size > axis.high):
            bound = f"{axis.low} to {axis.high or 'any size'}"
            raise UsageError(f"shape {shape}: {axis.symbol} is out of range", expected=bound, got=str(size))
    shape = shape_id(subject, sizes)
    return tuple(Point(shape, regime) for regime in _telling(subject, shape))


def _telling(subject: Subject, shape: str) -> tuple[str, ...]:
    """The regimes that tell something at a shape."""
    sizes = parse_shape(subject, shape)
    return tuple(regime for regime in regimes(subject) if tells(subject, sizes, regime))


def _shape(subject: Subject, wanted: Sizes) -> str:
    """The id of the wanted sizes, moved inside the subject's bounds."""
    sizes = {}
    for axis in subject.axes:
        size = max(wanted[axis.role], axis.low)
        sizes[axis.symbol] = size if axis.high is None else min(size, axis.high)
    return shape_id(subject, sizes)
