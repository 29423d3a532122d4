"""Oracles of the attention subjects and of the subjects with positions, in NumPy float64.

Each takes the module's weights by PyTorch's names and the feeds by input name, and returns every output in order.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from onnxparity.models.entry import Float64, Weights
from onnxparity.models.oracles import Keep, attention, causal_keep, linear, multi_head_attention, softmax
from onnxparity.protocols import Array

__all__ = [
    "alibi_attention",
    "causal_attention",
    "cross_attention",
    "fused_self_attention",
    "grouped_query_attention",
    "learned_positions",
    "padded_self_attention",
    "pure_self_attention",
    "relative_bias_attention",
    "relative_bucket",
    "rotary_at_positions",
    "rotary_attention",
    "scaled_dot_product_additive",
    "scaled_dot_product_keep",
    "self_attention",
    "sinusoidal_positions",
    "sinusoids",
    "sliding_window_attention",
    "soft_capped_attention",
    "table_at_positions",
]

Outputs = tuple[Array, ...]


def _heads(weights: Weights, name: str, x: Float64, num_heads: int) -> list[Float64]:
    """The projection of x by each head's own rows of the matrix: `num_heads` arrays (B, T, D)."""
    return np.split(linear(x, weights, name), num_heads, axis=-1)


def pure_self_attention(weights: Weights, feeds: Mapping[str, Array], *, num_heads: int) -> Outputs:
    """Seed 000, part 4, head by head, with the formula of part 2; output and attention weights (B, H, T, T)."""
    q, k, v = (_heads(weights, name, feeds["x"], num_heads) for name in ("W_q", "W_k", "W_v"))
    results = [attention(*head) for head in zip(q, k, v, strict=True)]
    context = np.concatenate([read for read, _ in results], axis=-1)
    return linear(context, weights, "W_o"), np.stack([probabilities for _, probabilities in results], axis=1)


def fused_self_attention(weights: Weights, feeds: Mapping[str, Array], *, num_heads: int) -> Outputs:
    """Seed 000, part 4, without the attention weights."""
    return pure_self_attention(weights, feeds, num_heads=num_heads)[:1]


def scaled_dot_product_keep(weights: Weights, feeds: Mapping[str, Array]) -> Outputs:
    """Seed 001's masked attention, mask True keeps; a row masked entirely gives 0 (see `oracles.softmax`)."""
    return attention(feeds["query"], feeds["key"], feeds["value"], keep=feeds["mask"])[:1]


def scaled_dot_product_additive(weights: Weights, feeds: Mapping[str, Array]) -> Outputs:
    """Seed 003, part 2.8, the mask added before the softmax. A row of -inf gives 0; a row of any one finite number
    masks nothing, since adding a constant leaves a softmax alone."""
    return attention(feeds["query"], feeds["key"], feeds["value"], bias=feeds["mask"])[:1]


def self_attention(weights: Weights, feeds: Mapping[str, Array], *, num_heads: int) -> Outputs:
    """Seed 003, part 2.5."""
    return (multi_head_attention(weights, "attention.", feeds["x"], feeds["x"], num_heads=num_heads),)


def padded_self_attention(weights: Weights, feeds: Mapping[str, Array], *, num_heads: int) -> Outputs:
    """Seed 003, part 2.5, over the kept keys; where none is kept the output is the last projection's bias."""
    x, keep = feeds["x"], feeds["mask"][:, None, :]  # heads are taken one at a time: (B, 1, S)
    return (multi_head_attention(weights, "attention.", x, x, num_heads=num_heads, keep=keep),)


def cross_attention(weights: Weights, feeds: Mapping[str, Array], *, num_heads: int) -> Outputs:
    """Seed 003, parts 2.5 and 4.1: queries from x, keys and values from the source."""
    return (multi_head_attention(weights, "", feeds["x"], feeds["source"], num_heads=num_heads),)


def causal_attention(weights: Weights, feeds: Mapping[str, Array], *, num_heads: int) -> Outputs:
    """Seed 003, part 2.8."""
    x = feeds["x"]
    keep = causal_keep(x.shape[1])
    return (multi_head_attention(weights, "attention.", x, x, num_heads=num_heads, keep=keep),)


def grouped_query_attention(
    weights: Weights, feeds: Mapping[str, Array], *, num_heads: int, num_kv_heads: int
) -> Outputs:
    """Ainslie et al. 2023: query head h reads key and value head floor(h / (H / H_kv)); causal."""
    x = feeds["x"]
    q = _heads(weights, "query", x, num_heads)
    k, v = (_heads(weights, name, x, num_kv_heads) for name in ("key", "value"))
    shared = [h * num_kv_heads // num_heads for h in range(num_heads)]
    keep = causal_keep(x.shape[1])
    context = [attention(q[h], k[g], v[g], keep=keep)[0] for h, g in enumerate(shared)]
    return (linear(np.concatenate(context, axis=-1), weights, "out"),)


def sliding_window_attention(weights: Weights, feeds: Mapping[str, Array], *, num_heads: int, window: int) -> Outputs:
    """Beltagy et al. 2020, causal: position i sees the `window` positions i - window + 1 ... i."""
    x = feeds["x"]
    length = x.shape[1]
    keep: Keep = np.array([[i - window < j <= i for j in range(length)] for i in range(length)], dtype=np.bool_)
    return (multi_head_attention(weights, "attention.", x, x, num_heads=num_heads, keep=keep),)


def soft_capped_attention(weights: Weights, feeds: Mapping[str, Array], *, num_heads: int, cap: float) -> Outputs:
    """Gemma 2 (2024), section 2: scores s become cap * tanh(s / cap) before the mask and the softmax; causal."""
    q, k, v = (_heads(weights, name, feeds["x"], num_heads) for name in ("query", "key", "value"))
    keep = causal_keep(feeds["x"].shape[1])
    context = []
    for head_q, head_k, head_v in zip(q, k, v, strict=True):
        scores = np.einsum("bid,bjd->bij", head_q, head_k) / math.sqrt(head_q.shape[-1])
        context.append(softmax(np.where(keep, cap * np.tanh(scores / cap), -np.inf)) @ head_v)
    return (linear(np.concatenate(context, axis=-1), weights, "out"),)


def sinusoids(length: int, width: int) -> Float64:
    """p_t^(2i) = sin(t / 10000^(2i/d)), p_t^(2i+1) = cos(the same), shape (T, d): seed 003, part 2.6."""
    p = np.empty((length, width))
    for t in range(length):
        for i in range(width // 2):
            angle = t / 10000.0 ** (2 * i / width)
            p[t, 2 * i], p[t, 2 * i + 1] = math.sin(angle), math.cos(angle)
    return p


def sinusoidal_positions(weights: Weights, feeds: Mapping[str, Array]) -> Outputs:
    """x_t = e_t + p_t, seed 003, part 2.6."""
    x = feeds["x"]
    return (x + sinusoids(*x.shape[1:]),)


def learned_positions(weights: Weights, feeds: Mapping[str, Array]) -> Outputs:
    """x_t = e_t + p_t with p a table, seed 003, part 2.6."""
    x = feeds["x"]
    return (x + weights["table.weight"][: x.shape[1]],)


def rotary_attention(weights: Weights, feeds: Mapping[str, Array], *, num_heads: int, base: float) -> Outputs:
    """Su et al. 2021: components i and i + D/2 of q and k, as one complex number, are multiplied by
    exp(i t base^(-2i/D)) at position t; causal."""
    x = feeds["x"]
    q, k, v = (_heads(weights, name, x, num_heads) for name in ("query", "key", "value"))
    half = q[0].shape[-1] // 2
    angles = np.arange(x.shape[1])[:, None] / base ** (np.arange(half) / half)  # (T, D/2)

    def turn(z: Float64) -> Float64:
        turned = (z[..., :half] + 1j * z[..., half:]) * np.exp(1j * angles)
        return np.concatenate([turned.real, turned.imag], axis=-1)

    keep = causal_keep(x.shape[1])
    context = [attention(turn(a), turn(b), c, keep=keep)[0] for a, b, c in zip(q, k, v, strict=True)]
    return (linear(np.concatenate(context, axis=-1), weights, "out"),)


def rotary_at_positions(weights: Weights, feeds: Mapping[str, Array], *, base: float) -> Outputs:
    """Su et al. 2021, for x (B, H, T, D): as one complex number, components i and i + D/2 are multiplied by
    exp(i t base^(-2i/D)) at the position t that is given."""
    x, position = feeds["x"], feeds["position_ids"].astype(np.float64)
    half = x.shape[-1] // 2
    turn = np.exp(1j * position[:, None, :, None] / base ** (np.arange(half) / half))  # (B, 1, T, D/2)
    turned = (x[..., :half] + 1j * x[..., half:]) * turn
    return (np.concatenate([turned.real, turned.imag], axis=-1),)


def table_at_positions(weights: Weights, feeds: Mapping[str, Array]) -> Outputs:
    """Vaswani et al. 2017, 3.5: the table's row for each given position, added to x."""
    return (feeds["x"] + weights["table.weight"][feeds["position_ids"]],)


def alibi_attention(weights: Weights, feeds: Mapping[str, Array], *, num_heads: int) -> Outputs:
    """Press et al. 2022: head h = 1 ... H adds -2^(-8h/H) (i - j) to the score of query i and key j <= i; causal."""
    x = feeds["x"]
    q, k, v = (_heads(weights, name, x, num_heads) for name in ("query", "key", "value"))
    keep = causal_keep(x.shape[1])
    position = np.arange(x.shape[1], dtype=np.float64)
    distance = position[:, None] - position
    context = [
        attention(q[h], k[h], v[h], keep=keep, bias=-distance * 2.0 ** (-8 * (h + 1) / num_heads))[0]
        for h in range(num_heads)
    ]
    return (linear(np.concatenate(context, axis=-1), weights, "out"),)


def relative_bucket(offset: int, *, num_buckets: int, max_distance: int) -> int:
    """The bucket of a key that stands `offset` positions after its query (Raffel et al. 2020, 2.1, both directions).

    Half of the buckets are for keys after the query. In each half the first half is one bucket a distance, and the
    rest grow by a constant factor up to `max_distance`, beyond which everything shares the last one.
    """
    side = num_buckets // 2
    exact = side // 2
    distance = abs(offset)
    if distance >= exact:
        growth = math.log(distance / exact) / math.log(max_distance / exact)
        distance = min(exact + math.floor(growth * (side - exact)), side - 1)
    return distance + (side if offset > 0 else 0)


def relative_bias_attention(
    weights: Weights, feeds: Mapping[str, Array], *, num_heads: int, num_buckets: int, max_distance: int
) -> Outputs:
    """Raffel et al. 2020: a learned number per head and bucket is added to scores that are not scaled."""
    x = feeds["x"]
    q, k, v = (_heads(weights, name, x, num_heads) for name in ("query", "key", "value"))
    steps = range(x.shape[1])
    buckets = [
        [relative_bucket(j - i, num_buckets=num_buckets, max_distance=max_distance) for j in steps] for i in steps
    ]
    bias = weights["relative_bias.weight"][buckets]  # (T, T, H)
    context = [attention(q[h], k[h], v[h], bias=bias[..., h], scale=1.0)[0] for h in range(num_heads)]
    return (linear(np.concatenate(context, axis=-1), weights, "out"),)
