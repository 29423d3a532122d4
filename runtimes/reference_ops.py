"""Operators of the ONNX reference evaluator that had to be written anew, each in the dtype it is given.

The evaluator of onnx 1.23.2 is right on most operators. These it gets wrong, or sends through float32
where float64 was meant, or evaluates one element at a time. Found by running the third-party operator
cases promoted to float64, and against ONNX Runtime at opsets 11 to 24; the tests repeat both.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import reduce
from typing import Any

import numpy as np
import numpy.typing as npt
from onnx import TensorProto, helper
from onnx.reference.op_run import OpRun

from onnxparity.protocols import Array
from onnxparity.runtimes.attention_op import Attention
from onnxparity.runtimes.quantised_ops import QUANTISED_OPS

__all__ = ["OPERATORS", "erf", "matmul", "rotated"]

_SPACING = 1 / 16


class Erf(OpRun):
    """The evaluator's goes through float32."""

    op_domain = ""

    def _run(self, x: Array) -> tuple[Array]:
        return (erf(x.astype(np.float64)).astype(x.dtype),)


class Gelu(OpRun):
    """The evaluator's expands a function whose constants are float32."""

    op_domain = ""

    def _run(self, x: Array, approximate: str = "none") -> tuple[Array]:
        kind = x.dtype.type
        if approximate == "tanh":
            inner = kind(math.sqrt(2 / math.pi)) * (x + kind(0.044715) * (x * x * x))
            return (kind(0.5) * x * (kind(1) + np.tanh(inner)),)
        phi = erf((x * kind(math.sqrt(0.5))).astype(np.float64)).astype(x.dtype)
        return (kind(0.5) * x * (kind(1) + phi),)


class HardSwish(OpRun):
    """The evaluator's has 1/6 in float32."""

    op_domain = ""

    def _run(self, x: Array) -> tuple[Array]:
        kind = x.dtype.type
        return (x * np.clip(x * kind(1 / 6) + kind(0.5), kind(0), kind(1)),)


class Mish(OpRun):
    """Has no implementation of its own in the evaluator."""

    op_domain = ""

    def _run(self, x: Array) -> tuple[Array]:
        return (x * np.tanh(np.logaddexp(x.dtype.type(0), x)).astype(x.dtype),)


class Softmax(OpRun):
    """The evaluator's knows only the rule of opset 13; before it, all axes from `axis` on are one."""

    op_domain = ""

    def _run(self, x: Array, axis: int = -1) -> tuple[Array]:
        e, axes = _exponentials(self, x, axis)
        return ((e / np.sum(e, axis=axes, keepdims=True)).astype(x.dtype),)


class LogSoftmax(OpRun):
    """As Softmax."""

    op_domain = ""

    def _run(self, x: Array, axis: int = -1) -> tuple[Array]:
        axes = softmax_axes(self, x, axis)
        shifted = x - np.max(x, axis=axes, keepdims=True, initial=-np.inf)
        return ((shifted - np.log(np.sum(np.exp(shifted), axis=axes, keepdims=True))).astype(x.dtype),)


def _exponentials(op: OpRun, x: Array, axis: int) -> tuple[Array, tuple[int, ...]]:
    axes = softmax_axes(op, x, axis)
    return np.exp(x - np.max(x, axis=axes, keepdims=True, initial=-np.inf)), axes


def softmax_axes(op: OpRun, x: Array, axis: int) -> tuple[int, ...]:
    """The axes one distribution spans: one since opset 13, all from `axis` (default 1) on before."""
    if op.run_params["opsets"].get("", 13) >= 13:
        return (axis % x.ndim,)
    named = any(a.name == "axis" for a in op.onnx_node.attribute)
    return tuple(range((axis if named else 1) % x.ndim, x.ndim))


class LayerNormalization(OpRun):
    """The evaluator's computes halves in half, where stash_type says float32."""

    op_domain = ""

    def _run(
        self,
        x: Array,
        scale: Array,
        bias: Array | None = None,
        axis: int = -1,
        epsilon: float = 1e-5,
        stash_type: int = 1,
    ) -> tuple[Array, Array, Array]:
        axes = tuple(range(axis % x.ndim, x.ndim))
        normal, mean, inverse = _standardised(x, axes, epsilon, stash_type)
        return _scaled(normal, scale, bias), mean, inverse


class RMSNormalization(OpRun):
    """As LayerNormalization."""

    op_domain = ""

    def _run(
        self, x: Array, scale: Array, axis: int = -1, epsilon: float = 1e-5, stash_type: int = 1
    ) -> tuple[Array]:
        wide = x.astype(_stash(x, stash_type))
        axes = tuple(range(axis % x.ndim, x.ndim))
        square = np.mean(wide * wide, axis=axes, keepdims=True)
        return (_scaled((wide / np.sqrt(square + wide.dtype.type(epsilon))).astype(x.dtype), scale, None),)


class GroupNormalization(OpRun):
    """Has no implementation of its own in the evaluator. Scales per group at opset 18, per channel from 21 on."""

    op_domain = ""

    def _run(
        self,
        x: Array,
        scale: Array,
        bias: Array,
        num_groups: int = 1,
        epsilon: float = 1e-5,
        stash_type: int = 1,
    ) -> tuple[Array]:
        grouped = x.reshape(x.shape[0], num_groups, -1)  # (N, G, C/G * ...)
        normal = _standardised(grouped, (2,), epsilon, stash_type)[0].reshape(x.shape)
        if scale.size != x.shape[1]:
            scale, bias = (np.repeat(v, x.shape[1] // num_groups) for v in (scale, bias))
        per_channel = (-1,) + (1,) * (x.ndim - 2)
        return (_scaled(normal, scale.reshape(per_channel), bias.reshape(per_channel)),)


class InstanceNormalization(OpRun):
    """The evaluator's computes halves in half."""

    op_domain = ""

    def _run(self, x: Array, scale: Array, bias: Array, epsilon: float = 1e-5) -> tuple[Array]:
        normal = _standardised(x, tuple(range(2, x.ndim)), epsilon, TensorProto.FLOAT)[0]
        per_channel = (-1,) + (1,) * (x.ndim - 2)
        return (_scaled(normal, scale.reshape(per_channel), bias.reshape(per_channel)),)


class BatchNormalization(OpRun):
    """The evaluator's trains at opsets 9 to 13, where a node with one output is inference."""

    op_domain = ""

    def _run(
        self,
        x: Array,
        scale: Array,
        bias: Array,
        mean: Array,
        var: Array,
        epsilon: float = 1e-5,
        momentum: float = 0.9,
        training_mode: int = 0,
    ) -> tuple[Array]:
        if training_mode or sum(map(bool, self.onnx_node.output)) > 1:
            raise NotImplementedError("BatchNormalization in training mode: export in eval mode")
        per_channel = (-1,) + (1,) * (x.ndim - 2)
        scale, bias, mean, var = (v.reshape(per_channel) for v in (scale, bias, mean, var))
        return (((x - mean) / np.sqrt(var + var.dtype.type(epsilon)) * scale + bias).astype(x.dtype),)


class LpNormalization(OpRun):
    """The evaluator's adds signed values for p = 1."""

    op_domain = ""

    def _run(self, x: Array, axis: int = -1, p: int = 2) -> tuple[Array]:
        norm = np.abs(x).sum(axis=axis, keepdims=True) if p == 1 else np.sqrt((x * x).sum(axis=axis, keepdims=True))
        return (np.where(norm == 0, 0, x / norm).astype(x.dtype),)


class RotaryEmbedding(OpRun):
    """Written anew so that its products can be sized, see `rotated`."""

    op_domain = ""

    def _run(self, x: Array, cos: Array, sin: Array, positions: Array | None = None, **attributes: Any) -> tuple[Array]:
        # Any: the node's attributes, passed on by name
        return (rotated(x, cos, sin, positions, -1, **attributes),)


def rotated(
    x: Array,
    cos: Array,
    sin: Array,
    positions: Array | None,
    sign: int,
    *,
    interleaved: int = 0,
    rotary_embedding_dim: int = 0,
    num_heads: int = 0,
) -> Array:
    """Pairs (a, b) of x become (a cos + sign b sin, a sin + b cos); sign -1 is the rotation, and with sign 1
    and magnitudes it is the size of what rounds.

    Shapes: x (B, H, T, D) or (B, T, H*D); cos and sin (B, T, R/2), or (P, R/2) with positions (B, T).
    Source: ONNX operator RotaryEmbedding-23.
    """
    heads = x if x.ndim == 4 else x.reshape(*x.shape[:2], num_heads, -1).swapaxes(1, 2)  # (B, H, T, D)
    cos, sin = (v if positions is None else v[positions] for v in (cos, sin))
    cos, sin = cos[:, None], sin[:, None]  # (B, 1, T, R/2)
    size = rotary_embedding_dim or heads.shape[-1]
    turned, rest = heads[..., :size], heads[..., size:]
    a, b = (turned[..., ::2], turned[..., 1::2]) if interleaved else np.split(turned, 2, axis=-1)
    pairs = a * cos + x.dtype.type(sign) * (b * sin), a * sin + b * cos
    joined = np.stack(pairs, -1).reshape(turned.shape) if interleaved else np.concatenate(pairs, -1)
    result = np.concatenate([joined, rest], -1)
    return result if x.ndim == 4 else result.swapaxes(1, 2).reshape(x.shape)


class MatMul(OpRun):
    """In bfloat16 NumPy answers in float32."""

    op_domain = ""

    def _run(self, a: Array, b: Array) -> tuple[Array]:
        return (matmul(a, b),)


def matmul(a: Array, b: Array) -> Array:
    """a @ b in the dtype of a; halves accumulate in float32, as NumPy's own product does."""
    return np.asarray(np.matmul(a, b)).astype(a.dtype, copy=False)


class Conv(OpRun):
    """The evaluator's builds an index as large as all its windows."""

    op_domain = ""

    def _run(
        self,
        x: Array,
        w: Array,
        b: Array | None = None,
        auto_pad: str = "NOTSET",
        dilations: Sequence[int] | None = None,
        group: int = 1,
        kernel_shape: Sequence[int] | None = None,
        pads: Sequence[int] | None = None,
        strides: Sequence[int] | None = None,
    ) -> tuple[Array]:
        n = x.ndim - 2
        strides, dilations = list(strides or [1] * n), list(dilations or [1] * n)
        extent = [(k - 1) * d + 1 for k, d in zip(w.shape[2:], dilations, strict=True)]
        before, after = _conv_pads(auto_pad, pads, x.shape[2:], extent, strides)
        padded = np.pad(x, [(0, 0), (0, 0), *zip(before, after, strict=True)])
        windows = np.lib.stride_tricks.sliding_window_view(padded, extent, axis=tuple(range(2, 2 + n)))
        steps = tuple(slice(None, None, s) for s in strides)
        taps = tuple(slice(None, None, d) for d in dilations)
        windows = windows[(slice(None), slice(None), *steps, *taps)]  # (N, C, *out, *kernel)
        inner = [1, *range(2 + n, 2 + 2 * n)]
        parts = [
            np.tensordot(ours, theirs, axes=(inner, list(range(1, 2 + n))))  # (N, *out, M/G)
            for ours, theirs in zip(np.split(windows, group, 1), np.split(w, group, 0), strict=True)
        ]
        y = np.moveaxis(np.concatenate(parts, -1), -1, 1).astype(x.dtype, copy=False)
        return (y if b is None else y + b.reshape(-1, *[1] * n),)


def _conv_pads(
    auto_pad: str, pads: Sequence[int] | None, sizes: Sequence[int], extent: Sequence[int], strides: Sequence[int]
) -> tuple[list[int], list[int]]:
    """Padding before and after each spatial axis."""
    n = len(sizes)
    if auto_pad in ("NOTSET", ""):
        given = list(pads or [0] * 2 * n)
        return given[:n], given[n:]
    if auto_pad == "VALID":
        return [0] * n, [0] * n
    total = [max(0, (-(-d // s) - 1) * s + e - d) for d, s, e in zip(sizes, strides, extent, strict=True)]
    small, large = [t // 2 for t in total], [t - t // 2 for t in total]
    return (small, large) if auto_pad == "SAME_UPPER" else (large, small)


class GatherElements(OpRun):
    """The evaluator's refuses fewer indices than data, which every BERT export has."""

    op_domain = ""

    def _run(self, data: Array, indices: Array, axis: int = 0) -> tuple[Array]:
        axis %= data.ndim
        others = tuple(slice(None) if k == axis else slice(0, n) for k, n in enumerate(indices.shape))
        return (np.take_along_axis(data[others], indices.astype(np.int64), axis),)


class GatherND(OpRun):
    """The evaluator's takes one element at a time."""

    op_domain = ""

    def _run(self, data: Array, indices: Array, batch_dims: int = 0) -> tuple[Array]:
        batch = np.indices(indices.shape[:-1], sparse=True)[:batch_dims]
        return (data[(*batch, *np.moveaxis(indices, -1, 0))],)


class ScatterElements(OpRun):
    """The evaluator's writes one element at a time."""

    op_domain = ""

    def _run(
        self, data: Array, indices: Array, updates: Array, axis: int = 0, reduction: str = "none"
    ) -> tuple[Array]:
        places = list(np.indices(indices.shape, sparse=True))
        places[axis % data.ndim] = np.where(indices < 0, indices + data.shape[axis], indices)
        return (_scattered(data, tuple(places), updates, reduction),)


class ScatterND(OpRun):
    """The evaluator's writes one slice at a time."""

    op_domain = ""

    def _run(self, data: Array, indices: Array, updates: Array, reduction: str = "none") -> tuple[Array]:
        return (_scattered(data, tuple(np.moveaxis(indices, -1, 0)), updates, reduction),)


def _scattered(data: Array, places: tuple[Array, ...], updates: Array, reduction: str) -> Array:
    """Where an index repeats without a reduction, ONNX leaves the winner open; here the last one wins."""
    result = data.copy()
    combine = {"add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum}.get(reduction)
    if combine is None:
        result[places] = updates
    else:
        combine.at(result, places, updates)
    return result


class Expand(OpRun):
    """The evaluator's multiplies by ones."""

    op_domain = ""

    def _run(self, data: Array, shape: Array) -> tuple[Array]:
        return (np.broadcast_to(data, np.broadcast_shapes(data.shape, tuple(map(int, shape)))),)


class Dropout(OpRun):
    """Inference only: the evaluator's draws random numbers."""

    op_domain = ""

    def _run(
        self,
        x: Array,
        ratio: Array | float | None = None,
        training_mode: Array | None = None,
        seed: int | None = None,
    ) -> tuple[Array, Array]:
        if training_mode is not None and bool(training_mode):
            raise NotImplementedError("Dropout in training mode: export in eval mode")
        return x, np.ones(x.shape, bool)


class Max(OpRun):
    """The evaluator's has a calling convention of its own."""

    op_domain = ""

    def _run(self, *values: Array) -> tuple[Array]:
        return (reduce(np.maximum, values),)


class Min(OpRun):
    """As Max."""

    op_domain = ""

    def _run(self, *values: Array) -> tuple[Array]:
        return (reduce(np.minimum, values),)


class Pow(OpRun):
    """The evaluator's silences warnings at each call, which is slow and not safe among threads."""

    op_domain = ""

    def _run(self, a: Array, b: Array) -> tuple[Array]:
        return (np.power(a, b).astype(a.dtype),)


OPERATORS: tuple[type[OpRun], ...] = (
    Attention,
    BatchNormalization,
    Conv,
    Dropout,
    Erf,
    Expand,
    GatherElements,
    GatherND,
    Gelu,
    GroupNormalization,
    HardSwish,
    InstanceNormalization,
    LayerNormalization,
    LogSoftmax,
    LpNormalization,
    MatMul,
    Max,
    Min,
    Mish,
    Pow,
    RMSNormalization,
    RotaryEmbedding,
    ScatterElements,
    ScatterND,
    Softmax,
    *QUANTISED_OPS,
)
"""What replaces the evaluator's own, for float64 and for the stored dtypes alike."""


def erf(x: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """The error function to 1 ulp or so: Taylor's series around the nearest sixteenth.

    erf' = 2/sqrt(pi) exp(-x^2), and its derivatives are Hermite polynomials times that, so that a table of
    101 points and 10 coefficients serves |x| <= 6.25; beyond it erf is 1.
    """
    size = np.abs(x)
    nearest = np.minimum(np.nan_to_num(size, nan=0.0) / _SPACING + 0.5, len(_SERIES[0]) - 1).astype(np.int64)
    step = size - nearest * _SPACING
    total = _SERIES[-1][nearest]
    for coefficients in _SERIES[-2::-1]:
        total = total * step + coefficients[nearest]
    return np.copysign(np.where(size > 6, 1.0, total), x) + 0 * np.where(np.isnan(x), x, 0)


def _erf_series(points: int = 101, terms: int = 11) -> list[npt.NDArray[np.float64]]:
    """Taylor coefficients by power, each for every point k/16."""
    at = np.arange(points) * _SPACING
    bell = 2 / math.sqrt(math.pi) * np.exp(-at * at)
    series = [np.array([math.erf(v) for v in at])]
    before, hermite = np.zeros(points), np.ones(points)
    for n in range(1, terms):  # erf^(n) = (-1)^(n-1) H_(n-1) bell
        series.append((-1) ** (n - 1) * hermite * bell / math.factorial(n))
        before, hermite = hermite, 2 * at * hermite - 2 * (n - 1) * before
    return series


_SERIES = _erf_series()


def _stash(x: Array, stash_type: int) -> npt.DTypeLike:
    """What a normalisation computes in: float64 for float64, else what the node says."""
    return np.float64 if x.dtype == np.float64 else helper.tensor_dtype_to_np_dtype(stash_type)


def _standardised(x: Array, axes: tuple[int, ...], epsilon: float, stash_type: int) -> tuple[Array, Array, Array]:
    """(x - mean) / sqrt(variance + epsilon) in the dtype of x; mean and 1/sqrt(...) in the stash dtype."""
    wide = x.astype(_stash(x, stash_type), copy=False)
    mean = np.mean(wide, axis=axes, keepdims=True)
    deviation = wide - mean
    variance = np.mean(deviation * deviation, axis=axes, keepdims=True)
    inverse = 1 / np.sqrt(variance + wide.dtype.type(epsilon))
    return (deviation * inverse).astype(x.dtype, copy=False), mean, inverse


def _scaled(normal: Array, scale: Array, bias: Array | None) -> Array:
    scaled = normal * scale
    return np.asarray(scaled if bias is None else scaled + bias)
