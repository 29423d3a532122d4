"""The axes of a given file: its free dims, with a symbol, a letter, a role and, where it is evident, a bound."""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from onnxparity.artifact import FileInput
from onnxparity.case import Axis, AxisRole, parts_of
from onnxparity.errors import UsageError
from onnxparity.export.trace import SizeOf

__all__ = ["FileAxes", "find_axes"]

_BY_PLACE = ("batch", "sequence")
_LETTERS: Mapping[AxisRole, str] = {"batch": "b", "sequence": "t", "source": "s", "past": "p", "other": ""}
_BY_NAME: tuple[tuple[AxisRole, str], ...] = (
    ("past", r"past|cache"),
    ("source", r"source|src|encoder|memory"),
    ("batch", r"batch|^b$|^n$"),
    ("sequence", r"seq|length|target|tgt|^t$|^l$"),
)


@dataclass(frozen=True)
class FileAxes:
    """What `find_axes` finds."""

    axes: tuple[Axis, ...]
    dims: Mapping[str, tuple[int | str, ...]]
    """Each input's dims, every free one with the symbol of an axis."""
    symbols: Mapping[str, str]
    """The file's own symbols, and which axis each became."""


def find_axes(inputs: Sequence[FileInput], limits: Mapping[SizeOf, int], notes: list[str]) -> FileAxes:
    """Names every free dim; `limits` are sizes beyond which a table is too short; guesses go to `notes`.

    The file's symbols are kept. A dim without one is named by its place, `batch`, `sequence`, `dim2`, so that
    dims in the same place are one axis.
    """
    dims: dict[str, tuple[int | str, ...]] = {}
    symbols: dict[str, str] = {}
    alone = {dim for value in inputs for dim in value.dims if isinstance(dim, str)}
    for value in inputs:
        named = [_sum(dim, alone) or _name(dim, place, symbols) for place, dim in enumerate(value.dims)]
        dims[value.name] = tuple(named)
        unnamed = [s for s, dim in zip(named, value.dims, strict=True) if isinstance(s, str) and not _said(dim)]
        if unnamed:
            notes.append(f"input {value.name!r} has dims without a name, taken for {', '.join(unnamed)}")
        notes += [
            f"input {value.name!r}: the dim {dim!r} is computed from others in the file and is taken for a free one"
            for dim in value.dims
            if isinstance(dim, str) and re.search(r"\w\s*[+*/]\s*\w| - ", dim) and not _sum(dim, alone)
        ]
    roles = _roles(dims, notes)
    letters = _letters(roles)
    bounds = {dims[name][place]: rows for (name, place), rows in sorted(limits.items(), key=lambda item: -item[1])}
    notes += [
        f"axis {s!r} is at most {n}: a table of that length is cut to it" for s, n in bounds.items() if s in roles
    ]
    axes = tuple(Axis(s, letters[s], role, high=bounds.get(s)) for s, role in roles.items())
    return FileAxes(axes, dims, symbols)


def _said(dim: int | str | None) -> bool:
    """Whether the file says anything; some write `?` where they do not know."""
    return isinstance(dim, int) or (dim is not None and re.search(r"\w", dim) is not None)


def _sum(dim: int | str | None, alone: Collection[str]) -> str | None:
    """The dim as a sum of axes, where each part is a number or a dim of some input by itself."""
    parts = [part.strip() for part in dim.split("+")] if isinstance(dim, str) else []
    summed = len(parts) > 1 and all(part.isdigit() or part in alone for part in parts)
    return "+".join(map(_symbol, parts)) if summed else None


def _symbol(dim: str) -> str:
    return re.sub(r"\W+", "_", dim).strip("_")


def _name(dim: int | str | None, place: int, symbols: dict[str, str]) -> int | str:
    if isinstance(dim, int):
        return dim
    if dim is not None and _said(dim):
        return symbols.setdefault(dim, _symbol(dim))
    return _BY_PLACE[place] if place < len(_BY_PLACE) else f"dim{place}"


def _roles(dims: Mapping[str, tuple[int | str, ...]], notes: list[str]) -> dict[str, AxisRole]:
    """By the symbol's own name, else by place: the first dim of most inputs is the batch, the second the sequence."""
    every = dict.fromkeys(part for shape in dims.values() for dim in shape for part in parts_of(dim))
    roles: dict[str, AxisRole] = {s: _role_by_name(s) for s in every}
    for place, role in enumerate(_BY_PLACE):
        if role in roles.values():
            continue
        counted = Counter(s for shape in dims.values() if len(shape) > place and (s := shape[place]) in roles)
        # In an encoder alone, `encoder_sequence_length` is the sequence.
        free = [s for s, _ in counted.most_common() if roles[s] in ("other", "source")]
        if free:
            roles[free[0]] = "batch" if role == "batch" else "sequence"
            notes.append(f"axis {free[0]!r} is taken for the {role}: it is dim {place} of most inputs")
    return roles


def _role_by_name(symbol: str) -> AxisRole:
    return next((role for role, pattern in _BY_NAME if re.search(pattern, symbol.lower())), "other")


def _letters(roles: Mapping[str, AxisRole]) -> dict[str, str]:
    """One for each axis: that of its role, else the first free one of its name, else any free one."""
    letters: dict[str, str] = {}
    for symbol, role in roles.items():
        name = [c for c in symbol.lower() if c in string.ascii_lowercase]
        letters[symbol] = _first_free((_LETTERS[role], *name, *string.ascii_letters), letters.values())
    return letters


def _first_free(candidates: Iterable[str], taken: Iterable[str]) -> str:
    used = set(taken)
    for letter in candidates:
        if letter and letter not in used:
            return letter
    raise UsageError("the file has more free dims than there are letters", got=f"{len(used)} dims named")
