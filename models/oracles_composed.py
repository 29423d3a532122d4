"""Oracles of stacks and whole models in NumPy float64, composed of the blocks' formulas, never of the modules."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from onnxparity.models.entry import Float64, Weights
from onnxparity.models.oracles import (
    attention,
    causal_keep,
    feed_forward,
    gelu,
    layer_norm,
    linear,
    relu,
)
from onnxparity.models.oracles_attention import sinusoids
from onnxparity.models.oracles_blocks import decoder_post_norm, encoder_post_norm, encoder_pre_norm
from onnxparity.protocols import Array

__all__ = [
    "autoregressive_decoder",
    "decoder_stack",
    "decoder_with_cache",
    "encoder_stack_post_norm",
    "encoder_stack_pre_norm",
    "induced_set_attention",
    "pooling_by_attention",
    "set_attention",
    "text_classifier",
    "translation",
    "vision_transformer",
]

Outputs = tuple[Array, ...]
Feeds = Mapping[str, Array]


def encoder_stack_post_norm(weights: Weights, feeds: Feeds, *, num_heads: int, num_layers: int) -> Outputs:
    """Seed 003, part 2.7, block after block."""
    x = feeds["x"]
    for layer in range(num_layers):
        x = encoder_post_norm(weights, f"blocks.{layer}.", x, num_heads=num_heads)
    return (x,)


def encoder_stack_pre_norm(weights: Weights, feeds: Feeds, *, num_heads: int, num_layers: int) -> Outputs:
    """Xiong et al. 2020: block after block, and a last norm."""
    x = feeds["x"]
    for layer in range(num_layers):
        x = encoder_pre_norm(weights, f"blocks.{layer}.", x, num_heads=num_heads)
    return (layer_norm(x, weights, "norm"),)


def decoder_stack(weights: Weights, feeds: Feeds, *, num_heads: int, num_layers: int) -> Outputs:
    """Seed 003, part 3.1: every block reads the same source."""
    x = feeds["x"]
    for layer in range(num_layers):
        x = decoder_post_norm(weights, f"blocks.{layer}.", x, feeds["source"], num_heads=num_heads)
    return (x,)


def translation(weights: Weights, feeds: Feeds, *, num_heads: int, num_layers: int) -> Outputs:
    """Seed 003, parts 3.1 and 4.1; embeddings times sqrt(d) plus sinusoids (Vaswani et al. 2017, 3.4 and 3.5)."""
    keep = feeds["source_mask"][:, None, :]  # (B, 1, S)
    source, target = (
        _scaled_tokens(weights, f"{side}_embedding", feeds[f"{side}_ids"]) for side in ("source", "target")
    )
    for layer in range(num_layers):
        source = encoder_post_norm(weights, f"encoder.{layer}.", source, num_heads=num_heads, keep=keep)
    for layer in range(num_layers):
        name = f"decoder.{layer}."
        target = decoder_post_norm(weights, name, target, source, num_heads=num_heads, source_keep=keep)
    return (linear(target, weights, "logits"),)


def _scaled_tokens(weights: Weights, name: str, ids: Array) -> Float64:
    table = weights[f"{name}.weight"]
    return table[ids] * math.sqrt(table.shape[1]) + sinusoids(ids.shape[1], table.shape[1])


def text_classifier(weights: Weights, feeds: Feeds, *, num_heads: int, num_layers: int) -> Outputs:
    """Seed 003, part 4.2, sentence by sentence on its kept tokens alone, as if there were no padding."""
    logits = []
    for ids, keep in zip(feeds["input_ids"], feeds["mask"], strict=True):
        table = weights["embedding.weight"]
        x = (table[ids[keep]] + sinusoids(int(keep.sum()), table.shape[1]))[None]  # (1, kept, E)
        if not keep.any():
            logits.append(weights["logits.bias"])
            continue
        for layer in range(num_layers):
            x = encoder_pre_norm(weights, f"blocks.{layer}.", x, num_heads=num_heads)
        logits.append(linear(layer_norm(x, weights, "norm").mean(axis=1), weights, "logits")[0])
    return (np.stack(logits),)


def vision_transformer(weights: Weights, feeds: Feeds, *, num_heads: int, num_layers: int, patch_size: int) -> Outputs:
    """Dosovitskiy et al. 2021, equations 1 to 4: each patch is cut out, flattened and projected."""
    images = feeds["images"]
    kernel = weights["patches.weight"].reshape(weights["patches.weight"].shape[0], -1)  # (E, 3 * P * P)
    starts = range(0, images.shape[2], patch_size)
    cut = [images[:, :, r : r + patch_size, c : c + patch_size] for r in starts for c in starts]
    patches = np.stack([patch.reshape(len(images), -1) @ kernel.T for patch in cut], axis=1) + weights["patches.bias"]
    token = np.repeat(weights["class_token"], len(images), axis=0)
    x = np.concatenate([token, patches], axis=1) + weights["positions"]
    for layer in range(num_layers):
        x = encoder_pre_norm(weights, f"blocks.{layer}.", x, num_heads=num_heads)
    return (linear(layer_norm(x[:, 0], weights, "norm"), weights, "logits"),)


def autoregressive_decoder(weights: Weights, feeds: Feeds, *, num_heads: int, num_layers: int, base: float) -> Outputs:
    """Seed 003, part 3.2."""
    return decoder_with_cache(weights, feeds, num_heads=num_heads, num_layers=num_layers, base=base)[:1]


def decoder_with_cache(weights: Weights, feeds: Feeds, *, num_heads: int, num_layers: int, base: float) -> Outputs:
    """Seed 003, parts 2.8 and 3.2, head by head: logits, then each layer's keys and values with the past in front."""
    x = weights["decoder.embedding.weight"][feeds["tokens"]]  # (B, T, E)
    outputs: list[Float64] = []
    for layer in range(num_layers):
        past = [feeds[f"past_{part}_{layer}"] for part in ("key", "value")] if "past_key_0" in feeds else None
        name = f"decoder.blocks.{layer}."
        normed = layer_norm(x, weights, f"{name}attention_norm")
        q, k, v = (_heads(linear(normed, weights, name + part), num_heads) for part in ("query", "key", "value"))
        start = 0 if past is None else past[0].shape[2]
        q, k = _turned(q, start, base), _turned(k, start, base)
        if past is not None:
            k, v = np.concatenate([past[0], k], axis=2), np.concatenate([past[1], v], axis=2)
        keep = causal_keep(q.shape[2], k.shape[2])
        read = np.concatenate([attention(q[:, h], k[:, h], v[:, h], keep=keep)[0] for h in range(num_heads)], axis=-1)
        x = x + linear(read, weights, f"{name}out")
        x = x + feed_forward(weights, f"{name}feed_forward.", layer_norm(x, weights, f"{name}feed_forward_norm"), gelu)
        outputs += [k, v]
    return linear(layer_norm(x, weights, "decoder.norm"), weights, "decoder.logits"), *outputs


def _heads(x: Float64, num_heads: int) -> Float64:
    """(B, T, E) -> (B, H, T, D): head h is the h-th part of the features."""
    return np.stack(np.split(x, num_heads, axis=-1), axis=1)


def _turned(x: Float64, start: int, base: float) -> Float64:
    """Su et al. 2021: components i and i + D/2 as one complex number, times exp(i t base^(-2i/D)), t from `start`."""
    half = x.shape[-1] // 2
    position = np.arange(start, start + x.shape[-2])
    phase = np.exp(1j * position[:, None] / base ** (np.arange(half) / half))  # (T, D/2)
    turned = (x[..., :half] + 1j * x[..., half:]) * phase
    return np.concatenate([turned.real, turned.imag], axis=-1)


def set_attention(weights: Weights, feeds: Feeds, *, num_heads: int) -> Outputs:
    """SAB(X) = MAB(X, X), Lee et al. 2019, equation 8."""
    return (_mab(weights, "block.", feeds["x"], feeds["x"], num_heads),)


def induced_set_attention(weights: Weights, feeds: Feeds, *, num_heads: int) -> Outputs:
    """ISAB(X) = MAB(X, H), H = MAB(I, X), equations 9 and 10."""
    x = feeds["x"]
    points = np.repeat(weights["points"], len(x), axis=0)
    return (_mab(weights, "block.", x, _mab(weights, "induce.", points, x, num_heads), num_heads),)


def pooling_by_attention(weights: Weights, feeds: Feeds, *, num_heads: int) -> Outputs:
    """PMA(Z) = MAB(S, rFF(Z)), equation 11."""
    x = feeds["x"]
    seeds = np.repeat(weights["seeds"], len(x), axis=0)
    return (_mab(weights, "block.", seeds, feed_forward(weights, "feed_forward.", x, relu), num_heads),)


def _mab(weights: Weights, name: str, x: Float64, y: Float64, num_heads: int) -> Float64:
    """MAB(X, Y) = LN(H + rFF(H)), H = LN(X + Multihead(X, Y, Y)), with scores over sqrt(d): equations 6 and 7."""
    parts = (("query", x), ("key", y), ("value", y))
    q, k, v = (_heads(linear(z, weights, name + part), num_heads) for part, z in parts)
    scale = 1 / math.sqrt(x.shape[-1])
    heads = [attention(q[:, h], k[:, h], v[:, h], scale=scale)[0] for h in range(num_heads)]
    h = layer_norm(x + linear(np.concatenate(heads, -1), weights, f"{name}out"), weights, f"{name}attention_norm")
    return layer_norm(h + feed_forward(weights, f"{name}feed_forward.", h, relu), weights, f"{name}feed_forward_norm")
