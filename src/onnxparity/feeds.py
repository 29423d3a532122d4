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

from onnxparity.case import FLOATING, Axis, Subject, TensorSpec
from onnxparity.errors import SubjectError
from onnxparity.protocols import Array

__all__ = ["EXAMPLE_SIZES", "draw", "example", "export_sizes", "generator", "regimes", "resolve", "tells"]

EXAMPLE_SIZES = {"batch": 2, "sequence": 5, "source": 7, "past": 3, "other": 4}
"""Sizes of the tensors an export is traced with: distinct, and never 1, which would become a constant."""

SCALES = {"normal": 1.0, "tiny": 0.01, "saturated": 30.0}
OUTLIER_SCALE, OUTLIER_CHANNELS = 200.0, 2
MASK_PATTERNS = ("right", "left", "holes", "empty")
FILLS = {"": -np.inf, "-min": None, "-1e4": -1e4}
"""What an additive mask adds where a position is masked; None is the dtype's most negative number."""


def regimes(subject: Subject) -> tuple[str, ...]:
    """The regimes that change something for this subject: value scales, then the mask matrix."""
    names = ["normal"]
    if any(spec.role in ("features", "past") and _is_float(spec) for spec in subject.inputs):
        names += ["tiny", "saturated", "outlier"]
    for spec in subject.inputs:
        if spec.role == "mask":
            fills = FILLS if spec.mask_meaning == "additive" else {"": None}
            names += [f"mask-{pattern}{suffix}" for pattern in MASK_PATTERNS for suffix in fills]
    return tuple(dict.fromkeys(names))


def tells(subject: Subject, sizes: Mapping[str, int], regime: str) -> bool:
    """Whether a mask regime masks something at these sizes, and leaves something to be compared.

    At length 1 there is no position to drop beside one to keep; all other regimes tell something at every size.
    """
    if not regime.startswith("mask-"):
        return True
    pattern = regime.split("-")[1]
    kept = [_kept(pattern, resolve(spec, sizes)) for spec in subject.inputs if spec.role == "mask"]
    return any(keep.any() and not keep.all() for keep in kept)


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
    missing = [d for d in spec.dims if isinstance(d, str) and d not in sizes]
    if missing:
        raise SubjectError(f"input {spec.name!r} needs a size for {missing}", got=f"sizes for {sorted(sizes)}")
    return tuple(sizes[d] if isinstance(d, str) else d for d in spec.dims)


def draw(subject: Subject, sizes: Mapping[str, int], regime: str, dtype: str) -> dict[str, Array]:
    """Feeds by input name, in the dtypes the artifact takes.

    Args:
        sizes: by axis symbol, see `case.parse_shape`.
        regime: one of `regimes(subject)`; an unknown one raises SubjectError.
        dtype: the cell's dtype, taken by inputs declared `float`.
    """
    if regime not in regimes(subject):
        raise SubjectError(f"unknown regime {regime!r} for {subject.name}", expected=", ".join(regimes(subject)))
    shape = ",".join(f"{k}={v}" for k, v in sorted(sizes.items()))
    return {
        spec.name: _values(spec, resolve(spec, sizes), regime, dtype, generator(subject.name, shape, regime, spec.name))
        for spec in subject.inputs
    }


def example(subject: Subject, dtype: str) -> dict[str, Array]:
    """The feeds an export is traced with."""
    return draw(subject, export_sizes(subject), "normal", dtype)


def _is_float(spec: TensorSpec) -> bool:
    return spec.dtype == FLOATING or spec.dtype.startswith(("float", "bfloat"))


def _values(spec: TensorSpec, shape: tuple[int, ...], regime: str, dtype: str, rng: np.random.Generator) -> Array:
    target = np.dtype(dtype if spec.dtype == FLOATING else spec.dtype)
    if spec.role == "mask":
        return _mask(spec, shape, regime if regime.startswith("mask-") else "", target)
    if not _is_float(spec):
        return np.asarray(rng.integers(spec.low, spec.high, shape, endpoint=True)).astype(target)
    values = rng.standard_normal(shape) * SCALES.get(regime, 1.0)
    if regime == "outlier" and shape:
        channels = rng.choice(shape[-1], size=min(OUTLIER_CHANNELS, shape[-1]), replace=False)
        values[..., channels] *= OUTLIER_SCALE
    return values.astype(target)


def _mask(spec: TensorSpec, shape: tuple[int, ...], regime: str, target: np.dtype[Any]) -> Array:
    """A mask in the input's own encoding; without a mask regime every position is kept."""
    pattern, _, fill_name = regime.removeprefix("mask-").partition("-")
    keep = _kept(pattern, shape)
    if spec.mask_meaning == "keep":
        return keep.astype(target)
    if spec.mask_meaning == "drop":
        return (~keep).astype(target)
    fill = FILLS[f"-{fill_name}" if fill_name else ""]
    lowest = float(np.finfo(target).min)
    return np.where(keep, 0.0, lowest if fill is None else max(fill, lowest) if np.isfinite(fill) else fill).astype(
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
            keep[sample, ..., 1 + sample % 2 :: 3] = False
    if pattern == "empty" and len(shape) >= 3 and shape[-2] > 1:
        keep[-1, ..., shape[-2] // 2, :] = False
    elif pattern == "empty":
        keep[-1:] = False
    return keep
