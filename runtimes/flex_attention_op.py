"""The ONNX operator FlexAttention (ai.onnx.preview 1): attention with a graph of the model's own on either side of
its softmax."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from onnx import helper
from onnx.reference.op_run import OpRun

from onnxparity.protocols import Array
from onnxparity.runtimes.attention_op import Rounded
from onnxparity.runtimes.products import product

__all__ = ["FlexAttention", "flex_attention"]

Mod = Callable[[Array], Array]


class FlexAttention(OpRun):
    """The evaluator's takes the root of the scale in float32."""

    op_domain = "ai.onnx.preview"

    def _run(self, q: Array, k: Array, v: Array, **attributes: float | Mod | None) -> tuple[Array]:
        return self.stepwise(q, k, v, rounded=None, **attributes)

    def stepwise(
        self, q: Array, k: Array, v: Array, *, rounded: Rounded | None, **attributes: float | Mod | None
    ) -> tuple[Array]:
        """The node's output with every step rounded."""
        return (flex_attention(q, k, v, rounded=rounded, **attributes),)  # type: ignore[arg-type]  # attributes come by name, each of the type that the schema gives it


def flex_attention(
    q: Array,
    k: Array,
    v: Array,
    *,
    scale: float | None = None,
    softmax_precision: int | None = None,
    score_mod: Mod | None = None,
    prob_mod: Mod | None = None,
    rounded: Rounded | None = None,
) -> Array:
    """softmax(score_mod(q k^T scale)), through prob_mod, times v: (B, H, T, V).

    Shapes: q (B, H, T, D), k (B, G, S, D), v (B, G, S, V) with H a multiple of G; both graphs keep (B, H, T, S).
    From the scores on it is computed in softmax_precision, by default float32 for halves, unless q is float64.
    Source: ONNX operator FlexAttention-1 of the domain ai.onnx.preview.
    """
    k, v = (np.repeat(t, q.shape[1] // t.shape[1], axis=1) for t in (k, v))
    root = q.dtype.type(math.sqrt(1 / math.sqrt(q.shape[-1]) if scale is None else scale))
    left, right = _rounded(q * root, rounded), _rounded(k * root, rounded)
    scores = _product(left, right.swapaxes(2, 3), rounded)  # (B, H, T, S)
    wide = np.dtype(np.float32) if q.dtype.itemsize < 4 else q.dtype
    if softmax_precision and q.dtype != np.float64:
        wide = helper.tensor_dtype_to_np_dtype(softmax_precision)
    scores = scores.astype(wide)
    if score_mod is not None:
        scores = score_mod(scores)
    e = np.exp(scores - np.max(scores, axis=-1, keepdims=True))
    weights = e / np.sum(e, axis=-1, keepdims=True)
    if rounded is not None:
        weights = rounded.softmax(weights, scores)
    if prob_mod is not None:
        weights = prob_mod(weights)
    return _product(weights, v.astype(wide), rounded).astype(q.dtype)


def _product(a: Array, b: Array, rounded: Rounded | None) -> Array:
    return product(a, b) if rounded is None else rounded.product(a, b)


def _rounded(value: Array, rounded: Rounded | None) -> Array:
    return value if rounded is None else rounded.round(value, np.abs(value))
