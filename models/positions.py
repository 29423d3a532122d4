"""Where a token stands: added to the input (seed 003, part 2.6), turned into q and k, or added to the scores."""

from __future__ import annotations

import math
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from onnxparity.case import Axis
from onnxparity.models import oracles_attention as oracles
from onnxparity.models.attention import causal_mask, head_size, merge_heads, split_heads
from onnxparity.models.describe import BATCH, SEQUENCE, describe, features, output
from onnxparity.models.drawing import seeded
from onnxparity.models.entry import Entry

__all__ = [
    "ENTRIES",
    "AlibiAttention",
    "LearnedPositions",
    "RelativeBiasAttention",
    "RotaryAttention",
    "SinusoidalPositions",
    "rotate",
    "sinusoids",
    "wide",
]


def wide(x: Tensor) -> torch.dtype:
    """The dtype for angles and distances: float32 for a half input, whose integers end at 2048, else x's own."""
    return torch.promote_types(x.dtype, torch.float32)


def sinusoids(x: Tensor) -> Tensor:
    """p_t^(2i) = sin(t / 10000^(2i/E)), p_t^(2i+1) = cos(the same) for x (B, T, E): shape (T, E) in x's dtype."""
    length, width = x.shape[1], x.shape[2]
    position = torch.arange(length, device=x.device, dtype=wide(x))
    frequency = 10000.0 ** (-torch.arange(0, width, 2, device=x.device, dtype=wide(x)) / width)
    angles = position[:, None] * frequency  # (T, E/2)
    return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(-2).to(x.dtype)


class SinusoidalPositions(nn.Module):
    """x + p with sinusoids of geometrically falling frequency (seed 003, part 2.6): (B, T, E) -> (B, T, E)."""

    def __init__(self, *, embed_dim: int) -> None:
        super().__init__()
        if embed_dim < 2 or embed_dim % 2:
            raise ValueError(f"embed_dim must be a positive multiple of 2 (sine and cosine), got {embed_dim}")

    def forward(self, x: Tensor) -> Tensor:
        return x + sinusoids(x)


class LearnedPositions(nn.Module):
    """x + p with p a learned table, which ends at `max_length` (Vaswani et al. 2017, 3.5): (B, T, E) -> (B, T, E).

    A longer input raises IndexError.
    """

    def __init__(self, *, embed_dim: int, max_length: int) -> None:
        super().__init__()
        if embed_dim < 1 or max_length < 1:
            raise ValueError(f"embed_dim and max_length must be positive, got {embed_dim} and {max_length}")
        self.table = nn.Embedding(max_length, embed_dim)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = x + self.table(torch.arange(x.shape[1], device=x.device))
        return out


def rotate(x: Tensor, base: float) -> Tensor:
    """Turns components i and i + D/2 of x (B, H, T, D) at position t by the angle t * base^(-2i/D).

    Angles are taken in `wide` and their sines rounded to x's dtype once, as in Llama.
    """
    length, half = x.shape[2], x.shape[3] // 2
    position = torch.arange(length, device=x.device, dtype=wide(x))
    frequency = base ** (-torch.arange(half, device=x.device, dtype=wide(x)) / half)
    angles = position[:, None] * frequency  # (T, D/2)
    sin, cos = angles.sin().to(x.dtype), angles.cos().to(x.dtype)
    a, b = x[..., :half], x[..., half:]
    return torch.cat([a * cos - b * sin, b * cos + a * sin], dim=-1)


class RotaryAttention(nn.Module):
    """Causal self-attention with rotary positions (Su et al. 2021, in Llama's pairing): (B, T, E) -> (B, T, E)."""

    def __init__(self, *, embed_dim: int, num_heads: int, base: float = 10000.0) -> None:
        super().__init__()
        if head_size(embed_dim, num_heads) % 2:
            raise ValueError(f"embed_dim must be a multiple of 2 * num_heads, got {embed_dim} and {num_heads}")
        self.num_heads, self.base = num_heads, base
        self.query = nn.Linear(embed_dim, embed_dim, bias=False)
        self.key = nn.Linear(embed_dim, embed_dim, bias=False)
        self.value = nn.Linear(embed_dim, embed_dim, bias=False)
        self.out = nn.Linear(embed_dim, embed_dim, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (split_heads(w(x), self.num_heads) for w in (self.query, self.key, self.value))  # (B, H, T, D)
        q, k = rotate(q, self.base), rotate(k, self.base)
        out: Tensor = self.out(merge_heads(F.scaled_dot_product_attention(q, k, v, attn_mask=causal_mask(x))))
        return out


class AlibiAttention(nn.Module):
    """Causal self-attention with a penalty that grows with distance (Press et al. 2022): (B, T, E) -> (B, T, E)."""

    def __init__(self, *, embed_dim: int, num_heads: int) -> None:
        super().__init__()
        head_size(embed_dim, num_heads)
        if num_heads & (num_heads - 1):
            raise ValueError(f"num_heads must be a power of two, got {num_heads} for embed_dim {embed_dim}")
        self.num_heads = num_heads
        self.query = nn.Linear(embed_dim, embed_dim, bias=False)
        self.key = nn.Linear(embed_dim, embed_dim, bias=False)
        self.value = nn.Linear(embed_dim, embed_dim, bias=False)
        self.out = nn.Linear(embed_dim, embed_dim, bias=False)

    def penalty(self, x: Tensor) -> Tensor:
        """-2^(-8h/H) (i - j) where j <= i, -inf elsewhere, for x (B, T, E): shape (H, T, T) in x's dtype."""
        position = torch.arange(x.shape[1], device=x.device, dtype=wide(x))
        head = torch.arange(1, self.num_heads + 1, device=x.device, dtype=wide(x))
        slope = 2.0 ** (-8.0 / self.num_heads * head)
        penalty = slope[:, None, None] * (position[None, :] - position[:, None])  # (H, T, T)
        return penalty.masked_fill(~causal_mask(x), -math.inf).to(x.dtype)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (split_heads(w(x), self.num_heads) for w in (self.query, self.key, self.value))  # (B, H, T, D)
        read = F.scaled_dot_product_attention(q, k, v, attn_mask=self.penalty(x)[None])
        out: Tensor = self.out(merge_heads(read))
        return out


class RelativeBiasAttention(nn.Module):
    """Self-attention with a learned bias per bucket of relative positions (T5, Raffel et al. 2020, 2.1).

    x (B, T, E) -> (B, T, E). As in T5, both directions are seen and scores are not divided by sqrt(D).
    """

    def __init__(self, *, embed_dim: int, num_heads: int, num_buckets: int, max_distance: int) -> None:
        super().__init__()
        head_size(embed_dim, num_heads)
        if num_buckets < 4 or num_buckets % 4 or max_distance <= num_buckets // 4:
            raise ValueError(
                "num_buckets must be a multiple of 4 and max_distance above a quarter of it, "
                f"got {num_buckets} and {max_distance}"
            )
        self.num_heads, self.num_buckets, self.max_distance = num_heads, num_buckets, max_distance
        self.relative_bias = nn.Embedding(num_buckets, num_heads)
        self.query = nn.Linear(embed_dim, embed_dim, bias=False)
        self.key = nn.Linear(embed_dim, embed_dim, bias=False)
        self.value = nn.Linear(embed_dim, embed_dim, bias=False)
        self.out = nn.Linear(embed_dim, embed_dim, bias=False)

    def buckets(self, x: Tensor) -> Tensor:
        """The bucket of each key (column) as each query (row) sees it, for x (B, T, E): (T, T) integers.

        A logarithm decides, so a distance exactly on a bucket's edge could fall to either side in another precision;
        with 16 buckets up to distance 32 no edge is a whole number.
        """
        side, exact = self.num_buckets // 2, self.num_buckets // 4
        position = torch.arange(x.shape[1], device=x.device)
        offset = position[None, :] - position[:, None]
        distance = offset.abs()
        growth = torch.log(distance.clamp(min=exact).to(wide(x)) / exact) / math.log(self.max_distance / exact)
        far = (exact + (growth * (side - exact)).long()).clamp(max=side - 1)
        return torch.where(distance < exact, distance, far) + torch.where(offset > 0, side, 0)

    def forward(self, x: Tensor) -> Tensor:
        bias = self.relative_bias(self.buckets(x)).permute(2, 0, 1)[None]  # (1, H, T, T)
        q, k, v = (split_heads(w(x), self.num_heads) for w in (self.query, self.key, self.value))  # (B, H, T, D)
        out: Tensor = self.out(merge_heads(F.scaled_dot_product_attention(q, k, v, attn_mask=bias, scale=1.0)))
        return out


EMBED, HEADS, MAX_LENGTH = 32, 4, 256
ROTARY_EMBED, BASE = 40, 10000.0
"""Heads of 10 components, so that 1/sqrt(D) is a constant that rounds."""
BUCKETS, MAX_DISTANCE = 16, 32

_X, _OUTPUT = features("x", "batch", "sequence", EMBED), output("batch", "sequence", EMBED)

ENTRIES: tuple[Entry, ...] = (
    Entry(
        subject=describe(
            "sinusoidal-positions",
            "input plus sinusoidal positions",
            source="seed 003, part 2.6",
            inputs=(_X,),
            outputs=(_OUTPUT,),
            properties=(
                "causality",
                "batch-invariance",
                "position-sensitivity",
            ),
        ),
        build=lambda: seeded(lambda: SinusoidalPositions(embed_dim=EMBED), seed=301),
        oracle=oracles.sinusoidal_positions,
    ),
    Entry(
        subject=describe(
            "learned-positions",
            "input plus a learned table of positions",
            source="seed 003, part 2.6; Vaswani et al. 2017, 3.5",
            inputs=(_X,),
            outputs=(_OUTPUT,),
            axes=(BATCH, Axis("sequence", "t", "sequence", high=MAX_LENGTH)),
            properties=(
                "causality",
                "batch-invariance",
                "position-sensitivity",
            ),
        ),
        build=lambda: seeded(lambda: LearnedPositions(embed_dim=EMBED, max_length=MAX_LENGTH), seed=302),
        oracle=oracles.learned_positions,
    ),
    Entry(
        subject=describe(
            "rotary-attention",
            "causal attention with rotary positions",
            source="Su et al. 2021; seed 003, parts 2.6 and 2.8",
            inputs=(features("x", "batch", "sequence", ROTARY_EMBED),),
            outputs=(output("batch", "sequence", ROTARY_EMBED),),
            axes=(BATCH, SEQUENCE),
            properties=(
                "causality",
                "batch-invariance",
                "position-sensitivity",
            ),
        ),
        build=lambda: seeded(lambda: RotaryAttention(embed_dim=ROTARY_EMBED, num_heads=HEADS, base=BASE), seed=303),
        oracle=partial(oracles.rotary_attention, num_heads=HEADS, base=BASE),
    ),
    Entry(
        subject=describe(
            "alibi-attention",
            "causal attention with linear distance penalties",
            source="Press et al. 2022; seed 003, part 2.8",
            inputs=(_X,),
            outputs=(_OUTPUT,),
            properties=(
                "causality",
                "batch-invariance",
                "position-sensitivity",
            ),
        ),
        build=lambda: seeded(lambda: AlibiAttention(embed_dim=EMBED, num_heads=HEADS), seed=304),
        oracle=partial(oracles.alibi_attention, num_heads=HEADS),
    ),
    Entry(
        subject=describe(
            "relative-bias-attention",
            "attention with bucketed relative position biases, as in T5",
            source="Raffel et al. 2020, 2.1; seed 003, part 2.6",
            inputs=(_X,),
            outputs=(_OUTPUT,),
            properties=(
                "batch-invariance",
                "position-sensitivity",
            ),
        ),
        build=lambda: seeded(
            lambda: RelativeBiasAttention(
                embed_dim=EMBED, num_heads=HEADS, num_buckets=BUCKETS, max_distance=MAX_DISTANCE
            ),
            seed=305,
        ),
        oracle=partial(
            oracles.relative_bias_attention, num_heads=HEADS, num_buckets=BUCKETS, max_distance=MAX_DISTANCE
        ),
    ),
)
