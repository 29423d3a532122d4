"""Faults of positions: tables, sinusoids, rotation, distance penalties, relative biases."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from onnxparity.models.attention import causal_mask, merge_heads, split_heads
from onnxparity.models.positions import (
    AlibiAttention,
    LearnedPositions,
    RelativeBiasAttention,
    RotaryAttention,
    SinusoidalPositions,
    rotate,
    wide,
)

__all__ = [
    "bias_dropped",
    "cosines_first",
    "halves_for_pairs",
    "linear_frequencies",
    "one_direction_buckets",
    "one_on",
    "other_sign",
    "other_slopes",
    "pairs_for_halves",
    "penalty_as_reward",
    "query_one_ahead",
    "relative_scaled",
    "sinusoids_cosines_first",
    "sinusoids_in_halves",
    "sinusoids_linear",
    "starts_at_one",
    "table_truncated",
    "turned_back",
    "turned_by_pairs",
    "turned_the_other_way",
    "turned_values",
    "turns_both_one_on",
]


def sinusoids_cosines_first(x: Tensor) -> Tensor:
    """Cosines where sines should stand."""
    length, width = x.shape[1], x.shape[2]
    position = torch.arange(length, device=x.device, dtype=wide(x))
    frequency = 10000.0 ** (-torch.arange(0, width, 2, device=x.device, dtype=wide(x)) / width)
    angles = position[:, None] * frequency  # (T, E/2)
    return torch.stack([angles.cos(), angles.sin()], dim=-1).flatten(-2).to(x.dtype)


def sinusoids_in_halves(x: Tensor) -> Tensor:
    """All sines before all cosines instead of in turn."""
    length, width = x.shape[1], x.shape[2]
    position = torch.arange(length, device=x.device, dtype=wide(x))
    frequency = 10000.0 ** (-torch.arange(0, width, 2, device=x.device, dtype=wide(x)) / width)
    angles = position[:, None] * frequency  # (T, E/2)
    return torch.cat([angles.sin(), angles.cos()], dim=-1).to(x.dtype)


def sinusoids_linear(x: Tensor) -> Tensor:
    """The exponent runs over half the range: i / E instead of 2i / E."""
    length, width = x.shape[1], x.shape[2]
    position = torch.arange(length, device=x.device, dtype=wide(x))
    frequency = 10000.0 ** (-torch.arange(width // 2, device=x.device, dtype=wide(x)) / width)
    angles = position[:, None] * frequency  # (T, E/2)
    return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(-2).to(x.dtype)


def cosines_first(self: SinusoidalPositions, x: Tensor) -> Tensor:
    """See `sinusoids_cosines_first`."""
    return x + sinusoids_cosines_first(x)


def halves_for_pairs(self: SinusoidalPositions, x: Tensor) -> Tensor:
    """See `sinusoids_in_halves`."""
    return x + sinusoids_in_halves(x)


def linear_frequencies(self: SinusoidalPositions, x: Tensor) -> Tensor:
    """See `sinusoids_linear`."""
    return x + sinusoids_linear(x)


def starts_at_one(self: LearnedPositions, x: Tensor) -> Tensor:
    """The first token reads the table's second row."""
    out: Tensor = x + self.table(torch.arange(1, x.shape[1] + 1, device=x.device))
    return out


def table_truncated(self: LearnedPositions, x: Tensor) -> Tensor:
    """The table ends at 32: every later token reads the last row."""
    out: Tensor = x + self.table(torch.arange(x.shape[1], device=x.device).clamp(max=31))
    return out


def turned_by_pairs(x: Tensor, base: float) -> Tensor:
    """Turns components 2i and 2i + 1, as in GPT-J, where i and i + D/2 are meant, as in Llama."""
    length, half = x.shape[2], x.shape[3] // 2
    position = torch.arange(length, device=x.device, dtype=wide(x))
    frequency = base ** (-torch.arange(half, device=x.device, dtype=wide(x)) / half)
    angles = position[:, None] * frequency  # (T, D/2)
    sin, cos = angles.sin().to(x.dtype), angles.cos().to(x.dtype)
    a, b = x[..., 0::2], x[..., 1::2]
    return torch.stack([a * cos - b * sin, b * cos + a * sin], dim=-1).flatten(-2)


def turned_back(x: Tensor, base: float) -> Tensor:
    """Turns by minus the angle."""
    length, half = x.shape[2], x.shape[3] // 2
    position = torch.arange(length, device=x.device, dtype=wide(x))
    frequency = base ** (-torch.arange(half, device=x.device, dtype=wide(x)) / half)
    angles = position[:, None] * frequency  # (T, D/2)
    sin, cos = angles.sin().to(x.dtype), angles.cos().to(x.dtype)
    a, b = x[..., :half], x[..., half:]
    return torch.cat([a * cos + b * sin, b * cos - a * sin], dim=-1)


def one_on(x: Tensor, base: float) -> Tensor:
    """Positions counted from 1 instead of 0."""
    length, half = x.shape[2], x.shape[3] // 2
    position = torch.arange(1, length + 1, device=x.device, dtype=wide(x))
    frequency = base ** (-torch.arange(half, device=x.device, dtype=wide(x)) / half)
    angles = position[:, None] * frequency  # (T, D/2)
    sin, cos = angles.sin().to(x.dtype), angles.cos().to(x.dtype)
    a, b = x[..., :half], x[..., half:]
    return torch.cat([a * cos - b * sin, b * cos + a * sin], dim=-1)


def pairs_for_halves(self: RotaryAttention, x: Tensor) -> Tensor:
    """See `turned_by_pairs`."""
    q, k, v = (split_heads(w(x), self.num_heads) for w in (self.query, self.key, self.value))  # (B, H, T, D)
    q, k = turned_by_pairs(q, self.base), turned_by_pairs(k, self.base)
    out: Tensor = self.out(merge_heads(F.scaled_dot_product_attention(q, k, v, attn_mask=causal_mask(x))))
    return out


def turned_the_other_way(self: RotaryAttention, x: Tensor) -> Tensor:
    """See `turned_back`."""
    q, k, v = (split_heads(w(x), self.num_heads) for w in (self.query, self.key, self.value))  # (B, H, T, D)
    q, k = turned_back(q, self.base), turned_back(k, self.base)
    out: Tensor = self.out(merge_heads(F.scaled_dot_product_attention(q, k, v, attn_mask=causal_mask(x))))
    return out


def query_one_ahead(self: RotaryAttention, x: Tensor) -> Tensor:
    """Queries are turned as if they stood one further than they do."""
    q, k, v = (split_heads(w(x), self.num_heads) for w in (self.query, self.key, self.value))  # (B, H, T, D)
    q, k = one_on(q, self.base), rotate(k, self.base)
    out: Tensor = self.out(merge_heads(F.scaled_dot_product_attention(q, k, v, attn_mask=causal_mask(x))))
    return out


def turns_both_one_on(self: RotaryAttention, x: Tensor) -> Tensor:
    """Queries and keys are turned by the same one step more, which their products do not see."""
    q, k, v = (split_heads(w(x), self.num_heads) for w in (self.query, self.key, self.value))  # (B, H, T, D)
    q, k = one_on(q, self.base), one_on(k, self.base)
    out: Tensor = self.out(merge_heads(F.scaled_dot_product_attention(q, k, v, attn_mask=causal_mask(x))))
    return out


def turned_values(self: RotaryAttention, x: Tensor) -> Tensor:
    """Values are turned too."""
    q, k, v = (split_heads(w(x), self.num_heads) for w in (self.query, self.key, self.value))  # (B, H, T, D)
    q, k, v = rotate(q, self.base), rotate(k, self.base), rotate(v, self.base)
    out: Tensor = self.out(merge_heads(F.scaled_dot_product_attention(q, k, v, attn_mask=causal_mask(x))))
    return out


def other_slopes(self: AlibiAttention, x: Tensor) -> Tensor:
    """Heads counted from 0: the first slope is 1 instead of 2^(-8/H)."""
    position = torch.arange(x.shape[1], device=x.device, dtype=wide(x))
    head = torch.arange(self.num_heads, device=x.device, dtype=wide(x))
    slope = 2.0 ** (-8.0 / self.num_heads * head)
    penalty = slope[:, None, None] * (position[None, :] - position[:, None])  # (H, T, T)
    return penalty.masked_fill(~causal_mask(x), -math.inf).to(x.dtype)


def penalty_as_reward(self: AlibiAttention, x: Tensor) -> Tensor:
    """Distance is rewarded."""
    position = torch.arange(x.shape[1], device=x.device, dtype=wide(x))
    head = torch.arange(1, self.num_heads + 1, device=x.device, dtype=wide(x))
    slope = 2.0 ** (-8.0 / self.num_heads * head)
    penalty = slope[:, None, None] * (position[:, None] - position[None, :])
    return penalty.masked_fill(~causal_mask(x), -math.inf).to(x.dtype)


def other_sign(self: RelativeBiasAttention, x: Tensor) -> Tensor:
    """Keys before a query read the biases of keys after it."""
    side, exact = self.num_buckets // 2, self.num_buckets // 4
    position = torch.arange(x.shape[1], device=x.device)
    offset = position[:, None] - position[None, :]
    distance = offset.abs()
    growth = torch.log(distance.clamp(min=exact).to(wide(x)) / exact) / math.log(self.max_distance / exact)
    far = (exact + (growth * (side - exact)).long()).clamp(max=side - 1)
    return torch.where(distance < exact, distance, far) + torch.where(offset > 0, side, 0)


def one_direction_buckets(self: RelativeBiasAttention, x: Tensor) -> Tensor:
    """Both directions read the same biases."""
    side, exact = self.num_buckets // 2, self.num_buckets // 4
    position = torch.arange(x.shape[1], device=x.device)
    offset = position[None, :] - position[:, None]
    distance = offset.abs()
    growth = torch.log(distance.clamp(min=exact).to(wide(x)) / exact) / math.log(self.max_distance / exact)
    far = (exact + (growth * (side - exact)).long()).clamp(max=side - 1)
    return torch.where(distance < exact, distance, far)


def relative_scaled(self: RelativeBiasAttention, x: Tensor) -> Tensor:
    """Scores are divided by sqrt(D), which T5 does not do."""
    bias = self.relative_bias(self.buckets(x)).permute(2, 0, 1)[None]  # (1, H, T, T)
    q, k, v = (split_heads(w(x), self.num_heads) for w in (self.query, self.key, self.value))  # (B, H, T, D)
    out: Tensor = self.out(merge_heads(F.scaled_dot_product_attention(q, k, v, attn_mask=bias)))
    return out


def bias_dropped(self: RelativeBiasAttention, x: Tensor) -> Tensor:
    """No biases."""
    q, k, v = (split_heads(w(x), self.num_heads) for w in (self.query, self.key, self.value))  # (B, H, T, D)
    out: Tensor = self.out(merge_heads(F.scaled_dot_product_attention(q, k, v, scale=1.0)))
    return out
