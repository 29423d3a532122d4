"""Oracles of feed-forward networks, norms, encoder and decoder blocks in NumPy float64 (seed 003, parts 2.7 and 2.8).

The block functions take the path of the block (with a trailing dot unless empty), so that stacks are built from them;
the oracles of the subjects are the last step, from weights and feeds to outputs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from onnxparity.models.entry import Float64, Weights
from onnxparity.models.oracles import (
    Keep,
    causal_keep,
    feed_forward,
    gelu,
    layer_norm,
    linear,
    multi_head_attention,
    relu,
    rms_norm,
    silu,
)
from onnxparity.protocols import Array

__all__ = [
    "decoder_block_post_norm",
    "decoder_block_pre_norm",
    "decoder_post_norm",
    "decoder_pre_norm",
    "encoder_block_padded",
    "encoder_block_post_norm",
    "encoder_block_pre_norm",
    "encoder_post_norm",
    "encoder_pre_norm",
    "feed_forward_gelu",
    "feed_forward_relu",
    "feed_forward_swiglu",
    "key_value_memory",
    "layer_norm_subject",
    "rms_norm_subject",
]

Outputs = tuple[Array, ...]


def encoder_post_norm(weights: Weights, name: str, x: Float64, *, num_heads: int, keep: Keep | None = None) -> Float64:
    """Y = LN(X + MHA(X)), Z = LN(Y + FFN(Y)) with a ReLU network; keep broadcasts to (B, T, T)."""
    mha = multi_head_attention(weights, f"{name}attention.", x, x, num_heads=num_heads, keep=keep)
    y = layer_norm(x + mha, weights, f"{name}attention_norm")
    ffn = feed_forward(weights, f"{name}feed_forward.", y, relu)
    return layer_norm(y + ffn, weights, f"{name}feed_forward_norm")


def encoder_pre_norm(weights: Weights, name: str, x: Float64, *, num_heads: int, keep: Keep | None = None) -> Float64:
    """Y = X + MHA(LN(X)), Z = Y + FFN(LN(Y)) with a GELU network; keep broadcasts to (B, T, T)."""
    a = layer_norm(x, weights, f"{name}attention_norm")
    y = x + multi_head_attention(weights, f"{name}attention.", a, a, num_heads=num_heads, keep=keep)
    b = layer_norm(y, weights, f"{name}feed_forward_norm")
    return y + feed_forward(weights, f"{name}feed_forward.", b, gelu)


def decoder_post_norm(
    weights: Weights, name: str, x: Float64, source: Float64, *, num_heads: int, source_keep: Keep | None = None
) -> Float64:
    """LN after causal self-attention, after attention on the source and after a ReLU network, each with its residual;
    source_keep broadcasts to (B, T, S)."""
    past = causal_keep(x.shape[1])
    own = multi_head_attention(weights, f"{name}attention.", x, x, num_heads=num_heads, keep=past)
    y = layer_norm(x + own, weights, f"{name}attention_norm")
    read = multi_head_attention(weights, f"{name}cross.", y, source, num_heads=num_heads, keep=source_keep)
    y = layer_norm(y + read, weights, f"{name}cross_norm")
    return layer_norm(y + feed_forward(weights, f"{name}feed_forward.", y, relu), weights, f"{name}feed_forward_norm")


def decoder_pre_norm(
    weights: Weights, name: str, x: Float64, source: Float64, *, num_heads: int, source_keep: Keep | None = None
) -> Float64:
    """LN before causal self-attention, before attention on the source (which is not normed here) and before a GELU
    network, each with its residual; source_keep broadcasts to (B, T, S)."""
    past = causal_keep(x.shape[1])
    a = layer_norm(x, weights, f"{name}attention_norm")
    y = x + multi_head_attention(weights, f"{name}attention.", a, a, num_heads=num_heads, keep=past)
    b = layer_norm(y, weights, f"{name}cross_norm")
    y = y + multi_head_attention(weights, f"{name}cross.", b, source, num_heads=num_heads, keep=source_keep)
    return y + feed_forward(weights, f"{name}feed_forward.", layer_norm(y, weights, f"{name}feed_forward_norm"), gelu)


def encoder_block_post_norm(weights: Weights, feeds: Mapping[str, Array], *, num_heads: int) -> Outputs:
    """Seed 003, part 2.7."""
    return (encoder_post_norm(weights, "", feeds["x"], num_heads=num_heads),)


def encoder_block_pre_norm(weights: Weights, feeds: Mapping[str, Array], *, num_heads: int) -> Outputs:
    """Xiong et al. 2020, with the parts of seed 003, part 2.7."""
    return (encoder_pre_norm(weights, "", feeds["x"], num_heads=num_heads),)


def encoder_block_padded(weights: Weights, feeds: Mapping[str, Array], *, num_heads: int) -> Outputs:
    """Seed 003, part 2.7, over the kept keys; where none is kept attention gives its last projection's bias."""
    keep = feeds["mask"][:, None, :]  # (B, 1, S)
    return (encoder_post_norm(weights, "block.", feeds["x"], num_heads=num_heads, keep=keep),)


def decoder_block_post_norm(weights: Weights, feeds: Mapping[str, Array], *, num_heads: int) -> Outputs:
    """Seed 003, parts 2.7, 2.8 and 3.1."""
    return (decoder_post_norm(weights, "", feeds["x"], feeds["source"], num_heads=num_heads),)


def decoder_block_pre_norm(weights: Weights, feeds: Mapping[str, Array], *, num_heads: int) -> Outputs:
    """Xiong et al. 2020, with the parts of seed 003, parts 2.7, 2.8 and 3.1."""
    return (decoder_pre_norm(weights, "", feeds["x"], feeds["source"], num_heads=num_heads),)


def _network(activation: Callable[[Float64], Float64]) -> Callable[[Weights, Mapping[str, Array]], Outputs]:
    return lambda weights, feeds: (feed_forward(weights, "", feeds["x"], activation),)


feed_forward_relu = _network(relu)
feed_forward_gelu = _network(gelu)


def feed_forward_swiglu(weights: Weights, feeds: Mapping[str, Array]) -> Outputs:
    """W_down (silu(W_gate x) * W_up x), Shazeer 2020."""
    x = feeds["x"]
    return (linear(silu(linear(x, weights, "gate")) * linear(x, weights, "up"), weights, "down"),)


def key_value_memory(weights: Weights, feeds: Mapping[str, Array]) -> Outputs:
    """Geva et al. 2021, equation 1, memory by memory: sum_i relu(x . key_i + b_i) value_i + c."""
    x = feeds["x"]
    y = np.zeros_like(x) + weights["output_bias"]
    for key, bias, value in zip(weights["keys"], weights["key_bias"], weights["values"], strict=True):
        y += relu(x @ key + bias)[..., None] * value
    return (y,)


def layer_norm_subject(weights: Weights, feeds: Mapping[str, Array]) -> Outputs:
    """Ba et al. 2016."""
    return (layer_norm(feeds["x"], weights, "norm"),)


def rms_norm_subject(weights: Weights, feeds: Mapping[str, Array]) -> Outputs:
    """Zhang and Sennrich 2019."""
    return (rms_norm(feeds["x"], weights, "norm"),)
