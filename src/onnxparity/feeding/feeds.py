"""Inputs: which values are fed, from a seed that depends only on subject, shape and regime.

The same feeds reach every opset and runtime, so that verdicts can be compared, and a cell's id is
enough to draw them again.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Collection, Mapping
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt

from onnxparity.case import FLOATING, Axis, Subject, TensorSpec, parts_of, size_of
from onnxparity.errors import SubjectError
from onnxparity.numerics.floats import lowest, named
from onnxparity.protocols import Array

__all__ = [
    "BEYOND",
    "EXAMPLE_SIZES",
    "OVERFLOW",
    "draw",
    "example",
    "export_sizes",
    "generator",
    "positions",
    "regimes",
    "resolve",
    "stays_finite",
    "tells",
]

EXAMPLE_SIZES = {"batch": 2, "sequence": 5, "source": 7, "past": 3, "other": 4}
"""Sizes of the tensors an export is traced with: distinct, and never 1, which would become a constant."""

OVERFLOW = "score-overflow"
"""Values so large that products of queries and keys pass 65504, the largest number of half precision."""
BEYOND = "beyond-length"
"""Normal values at one size more than the subject serves; see `beyond`."""
LATE = "late-positions"
"""Positions that end where their table ends, or far out where there is none."""
SCALES = {"normal": 1.0, "tiny": 0.01, "saturated": 30.0, OVERFLOW: 300.0}
OUTLIER_SCALE, OUTLIER_CHANNELS = 200.0, 2
GENTLER: Mapping[tuple[str, str], float] = {
    ("saturated", "float16"): 8.0,
    ("saturated", "bfloat16"): 3.0,
    ("outlier", "float16"): 30.0,
    ("outlier", "bfloat16"): 10.0,
}
"""Scales of dtypes with few digits. A score rounds by its size times the unit roundoff; where that comes near 1, a
nearly saturated softmax gives the weight to another key: any answer is honest there, and none can be judged."""
TOKENS = ("tokens-same", "tokens-last", "tokens-ends")
"""One token everywhere; the last of the vocabulary everywhere; nothing but the first and the last."""
ZERO_ROWS = 0.3
"""Share of the vectors that are nothing but zeros in `zero-rows`, at least one."""
FAR_POSITION = 4099
"""Where late positions begin if no table ends before: integers from 2048 on are not exact in half precision."""
MASK_PATTERNS = ("right", "left", "holes", "empty")
FILLS = {"": -np.inf, "-min": None, "-1e4": -1e4}
"""What an additive mask adds where a position is masked; None is the dtype's most negative number."""


def regimes(subject: Subject) -> tuple[str, ...]:
    """The regimes that change something for this subject: value scales, then the mask matrix."""
    names = ["normal"]
    if any(spec.role in ("features", "past") and _is_float(spec) for spec in subject.inputs):
        names += ["tiny", "saturated", "outlier", "zero-rows", OVERFLOW]
    if subject.input("positions") is not None:
        names.append(LATE)
    if any(spec.role == "tokens" and spec.high > spec.low for spec in subject.inputs):
        names += TOKENS
    for spec in subject.inputs:
        if spec.role == "mask":
            fills = FILLS if spec.mask_meaning == "additive" else {"": None}
            names.append("mask-full")
            names += [f"mask-{pattern}{suffix}" for pattern in MASK_PATTERNS for suffix in fills]
    return tuple(dict.fromkeys(names))


def tells(subject: Subject, sizes: Mapping[str, int], regime: str) -> bool:
    """Whether a mask regime masks something at these sizes, and leaves something to be compared.

    At length 1 there is no position to drop beside one to keep; all other regimes tell something at every size.
    """
    if not regime.startswith("mask-") or regime == "mask-full":
        return True
    pattern = regime.split("-")[1]
    kept = [_kept(pattern, resolve(spec, sizes)) for spec in subject.inputs if spec.role == "mask"]
    return any(keep.any() and not keep.all() for keep in kept)


def stays_finite(regime: str, dtype: str) -> bool:
    """Whether an honest model of this dtype can answer with finite numbers that mean something; where not, the regime
    is tried only when it is asked for."""
    return regime != OVERFLOW or dtype not in ("float16", "bfloat16")


def export_sizes(subject: Subject) -> dict[str, int]:
    """Sizes for the export's example: distinct per axis, at least 2, inside the axis's bounds.

    Raises SubjectError where there are none: equal sizes would let two axes become one in the file.
    """
    sizes: dict[str, int] = {}
    for axis in sorted(subject.axes, key=lambda a: math.inf if a.high is None else a.high):  # the tightest first
        sizes[axis.symbol] = _export_size(axis, sizes.values())
    return {axis.symbol: sizes[axis.symbol] for axis in subject.axes}


def _export_size(axis: Axis, taken: Collection[int]) -> int:
    """The size of the axis's role, or the next free one inside its bounds."""
    smallest = max(2, axis.low)
    wanted = max(EXAMPLE_SIZES[axis.role], smallest)
    largest = wanted + len(taken) if axis.high is None else axis.high
    candidates = chain(range(wanted, largest + 1), range(smallest, min(wanted, largest + 1)))
    size = next((n for n in candidates if n not in taken), None)
    if size is None:
        raise SubjectError(
            f"axis {axis.symbol!r} has no size left to export with",
            expected="a size of at least 2 that no other axis has",
            got=f"sizes {axis.low} to {axis.high}, taken: {', '.join(map(str, sorted(taken))) or 'none'}",
            remedy="widen its bounds, or declare the dim as a number",
        )
    return size


def generator(*parts: object) -> np.random.Generator:
    """A generator seeded by these words alone."""
    digest = hashlib.sha256("/".join(map(str, parts)).encode()).digest()
    return np.random.default_rng(int.from_bytes(digest[:8], "little"))


def resolve(spec: TensorSpec, sizes: Mapping[str, int]) -> tuple[int, ...]:
    """The concrete shape. Raises SubjectError for an axis without a size."""
    missing = [part for dim in spec.dims for part in parts_of(dim) if part not in sizes]
    if missing:
        raise SubjectError(f"input {spec.name!r} needs a size for {missing}", got=f"sizes for {sorted(sizes)}")
    return tuple(size_of(dim, sizes) for dim in spec.dims)


def draw(subject: Subject, sizes: Mapping[str, int], regime: str, dtype: str) -> dict[str, Array]:
    """Feeds by input name, in the dtypes the artifact takes.

    Args:
        sizes: by axis symbol, see `case.parse_shape`.
        regime: one of `regimes(subject)`, or BEYOND; an unknown one raises SubjectError.
        dtype: the cell's dtype, taken by inputs declared `float`.
    """
    if regime != BEYOND and regime not in regimes(subject):
        raise SubjectError(f"unknown regime {regime!r} for {subject.name}", expected=", ".join(regimes(subject)))
    shape = ",".join(f"{k}={v}" for k, v in sorted(sizes.items()))
    return {
        spec.name: positions(spec, subject, sizes, late=regime == LATE)
        if spec.role == "positions"
        else _values(spec, resolve(spec, sizes), regime, dtype, subject, shape)
        for spec in subject.inputs
    }


def positions(spec: TensorSpec, subject: Subject, sizes: Mapping[str, int], *, late: bool = False) -> Array:
    """The places of the tokens, from the past's length on, along the last dim; at most `spec.high`, the last of a
    table; `late` ones end there, or begin at FAR_POSITION. Seed 003, 2.6: positions are part of the input, so they
    must fit the tokens they come with."""
    past, shape = subject.axis("past"), resolve(spec, sizes)
    start = 0 if past is None else sizes[past.symbol]
    if late:
        start = max(start, min(FAR_POSITION, spec.high - (shape[-1] if shape else 1) + 1))
    count = np.arange(start, start + shape[-1]) if shape else np.asarray(start)
    return np.broadcast_to(np.minimum(count, spec.high), shape).astype(spec.dtype)


def example(subject: Subject, dtype: str) -> dict[str, Array]:
    """The feeds an export is traced with."""
    return draw(subject, export_sizes(subject), "normal", dtype)


def _is_float(spec: TensorSpec) -> bool:
    return spec.dtype == FLOATING or spec.dtype.startswith(("float", "bfloat"))


def _values(spec: TensorSpec, shape: tuple[int, ...], regime: str, dtype: str, subject: Subject, sizes: str) -> Array:
    rng = generator(subject.name, sizes, regime, spec.name)
    target = named(dtype if spec.dtype == FLOATING else spec.dtype)
    if spec.role == "mask":
        return _mask(spec, shape, regime if regime.startswith("mask-") else "", target)
    if not _is_float(spec):
        return _integers(spec, shape, regime, rng).astype(target)
    values = rng.standard_normal(shape) * (1.0 if regime == "outlier" else _scale(regime, dtype))
    if regime == "outlier" and shape:
        values[..., _outliers(spec, shape[-1], subject)] *= _scale(regime, dtype)
    if regime == "zero-rows" and values.size:
        empty = np.asarray(rng.random(shape[:-1]) < ZERO_ROWS)
        empty.flat[rng.integers(empty.size)] = True
        values[empty] = 0.0
    return values.astype(target)


def _scale(regime: str, dtype: str) -> float:
    return GENTLER.get((regime, dtype), OUTLIER_SCALE if regime == "outlier" else SCALES.get(regime, 1.0))


def _outliers(spec: TensorSpec, width: int, subject: Subject) -> npt.NDArray[np.intp]:
    """The channels that stand out: the same at every size, as in a trained model, and others in each input, so that
    a query's never meet a key's, whose product would be too large for half precision."""
    floats = [s.name for s in subject.inputs if _is_float(s) and s.role != "mask"]
    order = generator(subject.name, "outlier", width).permutation(width)
    start = OUTLIER_CHANNELS * floats.index(spec.name)
    return order[(start + np.arange(min(OUTLIER_CHANNELS, width))) % width]


def _full_of_holes(shape: tuple[int, ...], sample: int) -> Array:
    """Every third key dropped, from another one on in each head and query, so that none passes for another."""
    place = np.indices(shape)
    start = 1 + (sample + place[:-1].sum(axis=0)) % 2
    return np.asarray((place[-1] < start) | ((place[-1] - start) % 3 != 0))


def _integers(spec: TensorSpec, shape: tuple[int, ...], regime: str, rng: np.random.Generator) -> Array:
    drawn = np.asarray(rng.integers(spec.low, spec.high, shape, endpoint=True))
    if spec.role != "tokens" or regime not in TOKENS or not drawn.size:
        return drawn
    if regime == "tokens-ends":
        return np.where(rng.random(shape) < 0.5, spec.low, spec.high)
    return np.full(shape, spec.high if regime == "tokens-last" else drawn.flat[0])


def _mask(spec: TensorSpec, shape: tuple[int, ...], regime: str, target: np.dtype[Any]) -> Array:
    """A mask in the input's own encoding; without a mask regime every position is kept."""
    pattern, _, fill_name = regime.removeprefix("mask-").partition("-")
    keep = _kept(pattern, shape)
    if spec.mask_meaning == "keep":
        return keep.astype(target)
    if spec.mask_meaning == "drop":
        return (~keep).astype(target)
    fill = FILLS[f"-{fill_name}" if fill_name else ""]
    least = lowest(target)
    return np.where(keep, 0.0, least if fill is None else max(fill, least) if np.isfinite(fill) else fill).astype(
        target
    )


def _kept(pattern: str, shape: tuple[int, ...]) -> Array:
    """Which positions are kept: True keeps. Keys are the last axis, samples the first; only `empty` masks a whole
    row: that of one query where the mask has queries, else that of one sample."""
    if len(shape) < 2:
        return _kept(pattern, (1,) * (2 - len(shape)) + shape).reshape(shape)
    keep = np.ones(shape, bool)
    keys, batch = shape[-1], shape[0]
    for sample in range(batch):
        cut = keys * (sample + 1) // (batch + 1)
        if pattern == "right":
            keep[sample, ..., keys - cut :] = False
        elif pattern == "left":
            keep[sample, ..., :cut] = False
        elif pattern == "holes":
            keep[sample] = _full_of_holes(shape[1:], sample)
    if pattern == "empty" and len(shape) >= 3 and shape[-2] > 1:
        keep[-1, ..., shape[-2] // 2, :] = False
    elif pattern == "empty":
        keep[-1:] = False
    return keep
