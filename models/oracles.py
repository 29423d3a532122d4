"""The elementary formulas in NumPy float64, from which every block's oracle is composed.

Written from the seeds and papers, never from the modules: heads are rows of the projection matrices, taken one
at a time as seed 003, part 2.5 writes them, so that a wrong reshape in a module cannot be repeated here.
All arrays are float64, feature axes last; weights are indexed by PyTorch's names, so `W` has shape (outputs, inputs).
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from onnxparity.models.entry import Float64, Weights

__all__ = [
    "Keep",
    "attention",
    "causal_keep",
    "feed_forward",
    "gelu",
    "layer_norm",
    "linear",
    "multi_head_attention",
    "relu",
    "rms_norm",
    "sigmoid",
    "silu",
    "softmax",
]

Keep = npt.NDArray[np.bool_]
_erf = np.vectorize(math.erf, otypes=[np.float64])


def softmax(scores: Float64, axis: int = -1) -> Float64:
    """Seed 001's softmax, with the largest score taken off first. A row of nothing but -inf, where the formula
    is 0/0, gets the weights 0, as in PyTorch's attention: a query with nothing to look at reads nothing."""
    peak = scores.max(axis=axis, keepdims=True)
    empty = np.isneginf(peak)
    e = np.exp(scores - np.where(empty, 0.0, peak))
    weights: Float64 = e / np.where(empty, 1.0, e.sum(axis=axis, keepdims=True))
    return weights


def attention(
    q: Float64,
    k: Float64,
    v: Float64,
    *,
    keep: Keep | None = None,
    bias: Float64 | None = None,
    scale: float | None = None,
) -> tuple[Float64, Float64]:
    """softmax(q kᵀ / sqrt(d) + bias, where kept) v, and the weights: seed 001's code, seed 003, parts 2.3 and 2.8.

    q (..., T, D), k (..., S, D), v (..., S, V); keep and bias broadcast to (..., T, S); `scale` replaces
    1/sqrt(D). Returns (..., T, V) and (..., T, S).
    """
    scores = q @ np.swapaxes(k, -1, -2)
    scores = scores / math.sqrt(q.shape[-1]) if scale is None else scores * scale
    if bias is not None:
        scores = scores + bias
    if keep is not None:
        scores = np.where(keep, scores, -np.inf)
    weights = softmax(scores)
    return weights @ v, weights


def causal_keep(length: int, source: int | None = None) -> Keep:
    """Seed 003, part 2.8: position i sees j where j <= i. The last of `length` queries sees all `source` keys
    (default: as many as queries). Shape (T, S), True keeps."""
    source = length if source is None else source
    return np.tri(length, source, source - length, dtype=np.bool_)


def linear(x: Float64, weights: Weights, name: str) -> Float64:
    """x Wᵀ + b with W at `name.weight` and, where there is one, b at `name.bias`."""
    y: Float64 = x @ weights[f"{name}.weight"].T
    return y + weights[f"{name}.bias"] if f"{name}.bias" in weights else y


def multi_head_attention(
    weights: Weights,
    name: str,
    x: Float64,
    source: Float64,
    *,
    num_heads: int,
    keep: Keep | None = None,
) -> Float64:
    """Concat(head_1, ..., head_H) W_O, head_h = Attention(x W_Q^h, source W_K^h, source W_V^h): seed 003, part 2.5.

    `name` is the path of a `MultiHeadAttention`, with a trailing dot unless empty; x (..., T, E), source (..., S, E);
    keep broadcasts to (..., T, S). Returns (..., T, E).
    """
    q, k, v = (linear(a, weights, name + p) for p, a in (("query", x), ("key", source), ("value", source)))
    head_dim = q.shape[-1] // num_heads
    heads = [slice(h * head_dim, (h + 1) * head_dim) for h in range(num_heads)]
    context = np.concatenate([attention(q[..., h], k[..., h], v[..., h], keep=keep)[0] for h in heads], axis=-1)
    return linear(context, weights, name + "out")


def feed_forward(weights: Weights, name: str, x: Float64, activation: Callable[[Float64], Float64]) -> Float64:
    """W_2 sigma(W_1 x + b_1) + b_2, seed 003, part 2.7; `name` is the path of a feed-forward block, with its dot."""
    return linear(activation(linear(x, weights, name + "up")), weights, name + "down")


def layer_norm(x: Float64, weights: Weights, name: str, *, eps: float = 1e-5) -> Float64:
    """(x - mean) / sqrt(variance + eps) * weight + bias over the last axis, with the biased variance
    (Ba et al. 2016)."""
    centred = x - x.mean(axis=-1, keepdims=True)
    variance = (centred**2).mean(axis=-1, keepdims=True)
    y: Float64 = centred / np.sqrt(variance + eps) * weights[f"{name}.weight"] + weights[f"{name}.bias"]
    return y


def rms_norm(x: Float64, weights: Weights, name: str, *, eps: float = 1e-6) -> Float64:
    """x / sqrt(mean of squares + eps) * weight over the last axis (Zhang and Sennrich 2019)."""
    y: Float64 = x / np.sqrt((x**2).mean(axis=-1, keepdims=True) + eps) * weights[f"{name}.weight"]
    return y


def relu(x: Float64) -> Float64:
    """max(x, 0)."""
    return np.maximum(x, 0.0)


def gelu(x: Float64) -> Float64:
    """x Phi(x) with the exact normal distribution function (Hendrycks and Gimpel 2016), no tanh."""
    y: Float64 = x * 0.5 * (1.0 + _erf(x / math.sqrt(2.0)))
    return y


def sigmoid(x: Float64) -> Float64:
    """1 / (1 + exp(-x)), without overflow for large negative x."""
    e = np.exp(-np.abs(x))
    return np.where(x >= 0, 1.0, e) / (1.0 + e)


def silu(x: Float64) -> Float64:
    """x sigmoid(x) (Elfwing et al. 2017)."""
    return x * sigmoid(x)
