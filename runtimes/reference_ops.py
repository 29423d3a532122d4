"""Operators of the ONNX reference evaluator that had to be written anew, each in the dtype it is given.

The evaluator of onnx 1.23.2 is right on most operators. These it gets wrong, or sends through float32
where float64 was meant, or evaluates one element at a time. Found by running the third-party operator
cases promoted to float64, and against ONNX Runtime at opsets 11 to 24; the tests repeat both.
"""

from __future__ import annotations

import math
from functools import reduce
from typing import Any

import numpy as np
from onnx.reference.op_run import OpRun

from onnxparity.protocols import Array
from onnxparity.runtimes.attention_op import Attention
from onnxparity.runtimes.convolution_op import Conv, ConvTranspose
from onnxparity.runtimes.error_function import erf
from onnxparity.runtimes.flex_attention_op import FlexAttention
from onnxparity.runtimes.indexing_ops import (
    ConstantOfShape,
    Expand,
    GatherElements,
    GatherND,
    ScatterElements,
    ScatterND,
)
from onnxparity.runtimes.linear_attention_op import CausalConvWithState, LinearAttention
from onnxparity.runtimes.normalisation_ops import (
    BatchNormalization,
    GroupNormalization,
    InstanceNormalization,
    LayerNormalization,
    LpNormalization,
    RMSNormalization,
)
from onnxparity.runtimes.plain_ops import PLAIN_OPS
from onnxparity.runtimes.products import product
from onnxparity.runtimes.quantised_ops import QUANTISED_OPS

__all__ = ["OPERATORS", "rotated", "softmax_axes"]


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
        axes = softmax_axes(self, x.ndim, axis)
        e = np.exp(x - np.max(x, axis=axes, keepdims=True, initial=-np.inf))
        return ((e / np.sum(e, axis=axes, keepdims=True)).astype(x.dtype),)


class LogSoftmax(OpRun):
    """As Softmax."""

    op_domain = ""

    def _run(self, x: Array, axis: int = -1) -> tuple[Array]:
        axes = softmax_axes(self, x.ndim, axis)
        shifted = x - np.max(x, axis=axes, keepdims=True, initial=-np.inf)
        return ((shifted - np.log(np.sum(np.exp(shifted), axis=axes, keepdims=True))).astype(x.dtype),)


def softmax_axes(op: OpRun, rank: int, axis: int) -> tuple[int, ...]:
    """The axes one distribution spans: one since opset 13, all from `axis` (default 1) on before."""
    if op.run_params["opsets"].get("", 13) >= 13:
        return (axis % rank,)
    named = any(a.name == "axis" for a in op.onnx_node.attribute)
    return tuple(range((axis if named else 1) % rank, rank))


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
    """The evaluator's is slow in half and answers in float32 for bfloat16."""

    op_domain = ""

    def _run(self, a: Array, b: Array) -> tuple[Array]:
        return (product(a, b),)


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
        exponent = float(b.flat[0]) if b.size == 1 else 0.0
        if exponent in (2.0, 3.0) and a.ndim >= b.ndim and a.dtype.kind == "f":
            return (a * a if exponent == 2 else a * a * a,)  # as exact, and thirty times as fast
        return (np.power(a, b).astype(a.dtype),)


class Scan(OpRun):
    """The evaluator's refuses axes and directions when it is made; subgraphs are run in `evaluation`."""

    op_domain = ""

    def _run(self, *values: Array) -> tuple[Array]:
        raise NotImplementedError("subgraphs are run in `evaluation`")


OPERATORS: tuple[type[OpRun], ...] = (
    Attention,
    BatchNormalization,
    CausalConvWithState,
    ConstantOfShape,
    Conv,
    ConvTranspose,
    Dropout,
    Erf,
    Expand,
    FlexAttention,
    GatherElements,
    GatherND,
    Gelu,
    GroupNormalization,
    HardSwish,
    InstanceNormalization,
    LayerNormalization,
    LinearAttention,
    LogSoftmax,
    LpNormalization,
    MatMul,
    Max,
    Min,
    Mish,
    Pow,
    RMSNormalization,
    RotaryEmbedding,
    Scan,
    ScatterElements,
    ScatterND,
    Softmax,
    *PLAIN_OPS,
    *QUANTISED_OPS,
)
"""What replaces the evaluator's own, for float64 and for the stored dtypes alike."""
