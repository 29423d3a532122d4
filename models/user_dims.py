"""From torch.export's `dynamic_shapes` to symbolic dims and the axes behind them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from torch.export import Dim

from onnxparity.case import Axis, AxisRole

__all__ = ["Dims", "assign_dims"]

Dims = tuple[int | str, ...]
Hint = Any  # Any: what torch.export takes for one dimension: Dim, Dim.DYNAMIC/AUTO/STATIC, int, str or None
Bounds = tuple[int, int | None]

_ROLES: Mapping[AxisRole, tuple[str, ...]] = {
    "batch": ("batch", "batch_size", "b", "bs", "n"),
    "sequence": ("sequence", "sequence_length", "seq", "seq_len", "seqlen", "length", "target", "tgt", "t"),
    "source": ("source", "source_length", "src", "src_len", "memory", "s"),
    "past": ("past", "past_length", "past_len", "past_sequence_length", "cache", "p"),
}
_LETTERS: Mapping[AxisRole, str] = {"batch": "b", "sequence": "t", "source": "s", "past": "p", "other": ""}


def assign_dims(
    shapes: Mapping[str, Sequence[int]], hints: Mapping[str, Sequence[Hint]]
) -> tuple[dict[str, Dims], tuple[Axis, ...]]:
    """The dims of each input and the axes they name, from the example's shapes and its hints, by input name.

    A named `Dim` keeps its name. `Dim.DYNAMIC` and `Dim.AUTO` have none: those of equal size in the example
    are one axis, as `torch.export` itself takes them. Raises ValueError for a `Dim` computed from another and
    for one name with two sizes.
    """
    sizes: dict[str, int] = {}
    bounds: dict[str, Bounds] = {}
    for name, shape in shapes.items():
        for size, hint in zip(shape, hints[name], strict=True):
            if (symbol := _symbol(hint)) is None:
                continue
            if sizes.setdefault(symbol, size) != size:
                raise ValueError(f"dim {symbol!r} is {sizes[symbol]} in one place and {size} in {name!r}")
            bounds[symbol] = _bounds(hint)
    dims: dict[str, Dims] = {}
    for name, shape in shapes.items():
        found: list[int | str] = []
        for place, (size, hint) in enumerate(zip(shape, hints[name], strict=True)):
            symbol = _symbol(hint)
            if symbol is None and _is_nameless(hint):
                symbol = next((s for s, n in sizes.items() if n == size), None) or _fresh(name, place, sizes)
                sizes[symbol] = size
                bounds.setdefault(symbol, _bounds(hint))
            found.append(size if symbol is None else symbol)
        dims[name] = tuple(found)
    return dims, _axes(bounds)


def _symbol(hint: Hint) -> str | None:
    if isinstance(hint, str):
        return hint
    if not isinstance(hint, Dim):
        return None
    name = str(hint.__name__)
    if hasattr(hint, "root"):
        raise ValueError(f"dim {name!r} is computed from another; only plain Dims can be varied one by one")
    return None if name.isdigit() else name


def _is_nameless(hint: Hint) -> bool:
    return getattr(getattr(hint, "type", None), "name", "") in ("AUTO", "DYNAMIC")


def _bounds(hint: Hint) -> Bounds:
    """torch's infinity is no int, and its default lower bound is 0, a size that nobody promised to serve."""
    low, high = getattr(hint, "min", None), getattr(hint, "max", None)
    return max(1, low) if isinstance(low, int) else 1, high if isinstance(high, int) else None


def _fresh(name: str, place: int, taken: Mapping[str, int]) -> str:
    symbol = "batch" if place == 0 else "sequence"
    return symbol if symbol not in taken else f"{name}_{place}"


def _axes(bounds: Mapping[str, Bounds]) -> tuple[Axis, ...]:
    axes: list[Axis] = []
    for symbol, (low, high) in bounds.items():
        role: AxisRole = next((r for r, names in _ROLES.items() if symbol.lower() in names), "other")
        taken = {axis.letter for axis in axes}
        candidates = _LETTERS[role] + re.sub("[^a-z]", "", symbol.lower()) + "abcdefghijklmnopqrstuvwxyz"
        letter = next(c for c in candidates if c not in taken)
        axes.append(Axis(symbol, letter, role, low, high))
    return tuple(axes)
