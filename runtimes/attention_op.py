"""The ONNX operator Attention (opset 23 to 25), step by step, so that each step can be rounded.

One node stands for scaling, two products and a softmax. Noise put on its output alone would miss that a
saturated softmax amplifies the rounding of the scores, so every step is offered to `rounded`.
"""

from __future__ import annotations

import math
from typing import Any, Protocol, runtime_checkable

import numpy as np
from onnx import helper
from onnx.reference.op_run import OpRun

from onnxparity.protocols import Array
from onnxparity.runtimes.products import product

__all__ = ["Attention", "Rounded", "Stepwise", "attention"]


@runtime_checkable
class Rounded(Protocol):
    """Rounds what a step gave."""

    def round(self, value: Array, size: Array) -> Array:
        """The value as it came out; size is what its rounding error is relative to."""
        ...

    def product(self, a: Array, b: Array) -> Array:
        """a @ b as it came out."""
        ...

    def softmax(self, probabilities: Array, scores: Array) -> Array:
        """A softmax of the scores over the last axis as it came out."""
        ...


@runtime_checkable
class Stepwise(Protocol):
    """An operator whose steps round one by one."""

    def stepwise(self, *inputs: Array | None, rounded: Rounded | None, **attributes: Any) -> tuple[Array, ...]:
        """The node's outputs with every step rounded. Any: the node's attributes, by name."""
        ...


class Attention(OpRun):
    """The evaluator's takes the root of the scale in float32 and pads a mask that should broadcast at opset 23."""

    op_domain = ""

    def _run(
        self,
        q: Array,
        k: Array,
        v: Array,
        mask: Array | None = None,
        past_key: Array | None = None,
        past_value: Array | None = None,
        valid_keys: Array | None = None,
        **attributes: float | None,
    ) -> tuple[Array, ...]:
        return self.stepwise(q, k, v, mask, past_key, past_value, valid_keys, rounded=None, **attributes)

    def stepwise(self, *inputs: Array | None, rounded: Rounded | None, **attributes: float | None) -> tuple[Array, ...]:
        """The node's outputs with every step rounded."""
        pads = self.run_params["opsets"].get("", 24) >= 24
        return attention(*inputs, pads_mask=pads, rounded=rounded, **attributes)  # type: ignore[arg-type]  # attributes come by name, each of the type that the schema gives it


def attention(
    q: Array,
    k: Array,
    v: Array,
    mask: Array | None = None,
    past_key: Array | None = None,
    past_value: Array | None = None,
    valid_keys: Array | None = None,
    *,
    is_causal: int = 0,
    kv_num_heads: int | None = None,
    left_window_size: int = -1,
    pads_mask: bool = True,
    q_num_heads: int | None = None,
    qk_matmul_output_mode: int = 0,
    right_window_size: int = -1,
    scale: float | None = None,
    softcap: float = 0.0,
    softmax_precision: int | None = None,
    rounded: Rounded | None = None,
) -> tuple[Array, Array, Array, Array]:
    """Y, present key, present value and the scores at the stage that qk_matmul_output_mode asks for.

    Shapes: q (B, H, T, D) or (B, T, H*D); k and v (B, G, S, D) or (B, S, G*D) with H a multiple of G;
    mask broadcastable to (B, H, T, S). A query that may see no key gives a row of zeros (errata of onnx
    1.23). Everything is computed in the dtype of q, the softmax in softmax_precision unless q is float64.
    Source: ONNX operators Attention-23, -24 and -25.
    """
    flat = q.ndim == 3
    if flat:
        q, k, v = _heads(q, q_num_heads), _heads(k, kv_num_heads), _heads(v, kv_num_heads)
    offset = _offset(past_key, valid_keys, q.shape[2])
    if past_key is not None and past_value is not None:
        k, v = np.concatenate([past_key, k], 2), np.concatenate([past_value, v], 2)
    if mask is not None:
        mask = _additive(mask, q, k.shape[2] if pads_mask else 0)
    bias = _bias(q, k.shape[2], mask, valid_keys, offset, is_causal, left_window_size, right_window_size)
    keys, values = (np.repeat(t, q.shape[1] // t.shape[1], axis=1) for t in (k, v))  # (B, H, S, D)

    stages = [_scores(q, keys, scale, rounded)]  # (B, H, T, S)
    stages.append(_capped(stages[0], softcap, rounded) if softcap else stages[0])
    biased = stages[1] + bias
    stages.append(_rounded(biased, rounded))
    stages.append(_weights(stages[2], bias, softmax_precision, rounded))
    y = _product(stages[3], values, rounded)
    if flat:
        y = y.swapaxes(1, 2).reshape(y.shape[0], y.shape[2], -1)
    return y, k, v, stages[qk_matmul_output_mode]


def _heads(x: Array, heads: int | None) -> Array:
    """(B, T, H*D) to (B, H, T, D)."""
    if not heads:
        raise ValueError("Attention on 3-D inputs needs q_num_heads and kv_num_heads")
    return x.reshape(x.shape[0], x.shape[1], heads, -1).swapaxes(1, 2)


def _offset(past_key: Array | None, valid_keys: Array | None, queries: int) -> Array:
    """How many keys come before the first query: (1, 1, 1, 1) or (B, 1, 1, 1)."""
    if past_key is not None:
        return np.full((1, 1, 1, 1), past_key.shape[2])
    if valid_keys is not None:
        return np.asarray(valid_keys).reshape(-1, 1, 1, 1) - queries
    return np.zeros((1, 1, 1, 1), np.int64)


def _bias(
    q: Array,
    keys: int,
    mask: Array | None,
    valid_keys: Array | None,
    offset: Array,
    is_causal: int,
    left: int,
    right: int,
) -> Array:
    """What is added to the scores: the mask and -inf wherever a query may not look, (1 or B, 1 or H, T, S)."""
    place, key = np.arange(q.shape[2])[:, None] + offset, np.arange(keys)  # (1 or B, 1, T, 1), (S,)
    allowed = np.ones((1, 1, q.shape[2], keys), bool)
    if is_causal:
        allowed = allowed & (key <= place)
    if left >= 0:
        allowed = allowed & (place - key <= left)
    if right >= 0:
        allowed = allowed & (key - place <= right)
    if valid_keys is not None:
        allowed = allowed & (key < np.asarray(valid_keys).reshape(-1, 1, 1, 1))
    return np.where(allowed, q.dtype.type(0) if mask is None else mask, q.dtype.type(-np.inf))


def _additive(mask: Array, q: Array, keys: int) -> Array:
    """The mask as numbers to add; one shorter than the keys hides the rest (opset 24)."""
    if mask.dtype == bool:
        mask = np.where(mask, q.dtype.type(0), q.dtype.type(-np.inf))
    short = max(0, keys - mask.shape[-1])
    hidden = np.full((*mask.shape[:-1], short), -np.inf, q.dtype)
    return np.concatenate([mask.astype(q.dtype), hidden], -1)


def _scores(q: Array, keys: Array, scale: float | None, rounded: Rounded | None) -> Array:
    """(q sqrt(scale)) (k sqrt(scale))^T, as the operator says, (B, H, T, S)."""
    root = q.dtype.type(math.sqrt(1 / math.sqrt(q.shape[-1]) if scale is None else scale))
    return _product(_rounded(q * root, rounded), _rounded(keys * root, rounded).swapaxes(2, 3), rounded)


def _capped(scores: Array, softcap: float, rounded: Rounded | None) -> Array:
    cap = scores.dtype.type(softcap)
    inner = _rounded(scores / cap, rounded)
    return _rounded(_rounded(np.tanh(inner), rounded) * cap, rounded)


def _weights(biased: Array, bias: Array, precision: int | None, rounded: Rounded | None) -> Array:
    """The softmax over the keys; zeros where the bias hides every key."""
    wide = biased
    if precision and biased.dtype != np.float64:
        wide = biased.astype(helper.tensor_dtype_to_np_dtype(precision))
    hidden = np.isneginf(np.max(bias, axis=-1, keepdims=True, initial=-np.inf))
    top = np.where(hidden, 0, np.max(wide, axis=-1, keepdims=True, initial=-np.inf))
    e = np.exp(wide - top.astype(wide.dtype))
    total = np.sum(e, axis=-1, keepdims=True)
    p = np.where(hidden, 0, e / np.where(hidden, 1, total)).astype(biased.dtype)
    return p if rounded is None else rounded.softmax(p, np.where(hidden, 0, biased))


def _product(a: Array, b: Array, rounded: Rounded | None) -> Array:
    return product(a, b) if rounded is None else rounded.product(a, b)


def _rounded(value: Array, rounded: Rounded | None) -> Array:
    return value if rounded is None else rounded.round(value, np.abs(value))
