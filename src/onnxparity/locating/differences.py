"""Numbers and tables that one side computes with and the other does not, with both values."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

import numpy as np

from onnxparity.locating.counterpart import kind
from onnxparity.locating.matching import Matcher
from onnxparity.locating.requests import Constant
from onnxparity.locating.sides import Side, Value
from onnxparity.locating.signature import long_dims
from onnxparity.location import Node

__all__ = ["number", "numbers_that_differ", "size_text", "table_that_differs", "title", "value_text"]

AS_STORED = 4 * 2.0**-24
"""Relative difference of a number from what float32 makes of it, with room for a product of two."""
SHOWN = 4
NAMES = {"eps": "epsilon", "other": "", "self": "", "alpha": "", "s": "", "exponent": ""}
"""What arguments of PyTorch's operators are called in words; nothing where the name says nothing."""


def numbers_that_differ(
    candidate: Side, reference: Side, near: Collection[Node], there: Collection[Node]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Lines on numbers at these nodes that the other side does not have at its own: those that stand for each other,
    with both values; then those that stand alone.

    near: the candidate's node at fault and its neighbours; there: the reference's.
    """
    ours = _distinct(c for c in candidate.constants if c.node in near)
    theirs = _distinct(c for c in reference.constants if c.node in there)
    held = [c.value for c in reference.constants] + [_single(v) for v in reference.values if v.signature.size == 1]
    known = [c.value for c in candidate.constants] + [_single(v) for v in candidate.values if v.signature.size == 1]
    only_ours = [c for c in ours if not _among(c.value, [t.value for t in theirs]) and not _neutral(c.value)]
    only_theirs = [c for c in theirs if not _among(c.value, [o.value for o in ours]) and not _neutral(c.value)]
    pairs, alone = [], []
    for own in only_ours:
        other = next((t for t in only_theirs if _alike(own, t)), None)
        if other is not None:
            only_theirs.remove(other)
            pairs.append(_line(own, other))
        elif not _among(own.value, held):
            alone.append(f"{_named(own)} is {number(own.value)} at {title(own.node)}; the reference has no such number")
    alone += [
        f"{_named(other)} is {number(other.value)} at the reference's {title(other.node)}; the candidate has none"
        for other in only_theirs
        if not _among(other.value, known)
    ]
    return tuple(pairs[:SHOWN]), tuple(alone[:SHOWN])


def table_that_differs(weight: Value, matcher: Matcher) -> str:
    """A line on a table that the reference does not hold: the nearest that it has, and the first difference."""
    other = matcher.nearest(weight)
    what = f"table {weight.name!r} of {size_text(weight.shape)} values"
    if other is None:
        return f"{what} stands in the candidate alone; the reference has none of these sizes"
    ours, theirs = weight.signature.samples, other.signature.samples
    whose = f"{other.name!r}" + (f" ({other.node.source})" if other.node.source else "")
    apart = np.abs(ours - theirs) > 1e-7 * max(weight.signature.rms, other.signature.rms)
    if not apart.any() or long_dims(other.shape) != long_dims(weight.shape):
        sums = f"{weight.signature.total:.6g} against {other.signature.total:.6g}"
        return f"{what} differs from {whose}: they add up to {sums}"
    first = int(np.argmax(apart))
    return f"{what} differs from {whose}: first differing element seen {ours[first]:.6g} against {theirs[first]:.6g}"


def number(value: float) -> str:
    """As it was written before it was stored: `1e-05`."""
    short = str(np.float32(value))
    near = np.isfinite(value) and abs(float(np.float32(value)) - value) <= AS_STORED * abs(value)
    return short.removesuffix(".0") if near or not np.isfinite(value) else f"{value:.6g}"


def title(node: Node) -> str:
    """An operator with its name and line."""
    place = node.source or node.module
    return f"{node.operator} {node.name}" + (f" ({place})" if place else "")


def size_text(shape: Sequence[int]) -> str:
    """`8×4`."""
    return "×".join(map(str, shape)) or "1"


def value_text(value: Value) -> str:
    """A value by name, with its line."""
    return f"{value.name!r}" + (f" ({value.node.source})" if value.node.source else "")


def _line(own: Constant, other: Constant) -> str:
    return f"{_named(own)} is {number(own.value)}, the reference has {number(other.value)} at {title(other.node)}"


def _named(constant: Constant) -> str:
    known = NAMES.get(constant.name, constant.name)
    return known if known and not known.startswith("val_") else "a number"


def _alike(own: Constant, other: Constant) -> bool:
    """Whether two numbers may play the same part: by name where both have one, else by the operator's kind."""
    ours, theirs = NAMES.get(own.name, own.name), NAMES.get(other.name, other.name)
    return ours == theirs or kind(own.node) == kind(other.node) or {kind(own.node), kind(other.node)} <= {"mul", "div"}


def _distinct(constants: Iterable[Constant]) -> list[Constant]:
    found: list[Constant] = []
    for constant in constants:
        if not any(constant.value == c.value and constant.name == c.name for c in found):
            found.append(constant)
    return found


def _neutral(value: float) -> bool:
    """Numbers that operators are given when nothing is asked of them."""
    return value in (0.0, 1.0) or not np.isfinite(value)


def _among(value: float, others: Iterable[float]) -> bool:
    return any(value == o or abs(value - o) <= AS_STORED * abs(o) for o in others)


def _single(value: Value) -> float:
    return float(value.signature.samples[0])
