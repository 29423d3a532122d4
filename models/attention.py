"""Scaled dot-product and multi-head attention as the seeds write them, and as PyTorch's fused call computes them.

`MultiHeadAttention` is the part that the blocks are built from; the small modules around it fix what is
attended to: the sequence itself, its kept positions, its past.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from onnxparity.case import OutputSpec
from onnxparity.models import oracles_attention as oracles
from onnxparity.models.describe import (
    BATCH,
    SEQUENCE,
    SOURCE,
    describe,
    features,
    keep_mask,
    output,
)
from onnxparity.models.drawing import seeded
from onnxparity.models.entry import Entry

__all__ = [
    "ENTRIES",
    "CausalAttention",
    "FusedSelfAttention",
    "MultiHeadAttention",
    "PaddedSelfAttention",
    "PureSelfAttention",
    "SelfAttention",
    "causal_mask",
    "from_torch_state",
    "head_size",
    "key_padding",
    "merge_heads",
    "split_heads",
    "to_torch_state",
]


def head_size(embed_dim: int, num_heads: int) -> int:
    """embed_dim / num_heads; raises ValueError where that is not a positive whole number."""
    if embed_dim < 1 or num_heads < 1 or embed_dim % num_heads:
        raise ValueError(f"embed_dim must be a positive multiple of num_heads, got {embed_dim} and {num_heads}")
    return embed_dim // num_heads


def split_heads(x: Tensor, num_heads: int) -> Tensor:
    """(B, T, H*D) -> (B, H, T, D)."""
    return torch.unflatten(x, -1, (num_heads, -1)).transpose(1, 2)


def merge_heads(x: Tensor) -> Tensor:
    """(B, H, T, D) -> (B, T, H*D)."""
    return x.transpose(1, 2).flatten(-2)


def causal_mask(x: Tensor) -> Tensor:
    """Seed 003, part 2.8, for x (B, T, E): True where position i may see j <= i, shape (T, T).

    Made from the length at each call, so that an exported graph has no longest length."""
    position = torch.arange(x.shape[1], device=x.device)
    return position[:, None] >= position[None, :]  # (T, T)


def key_padding(mask: Tensor) -> Tensor:
    """A key padding mask (B, S), True keeps, as a mask for scores (B, H, T, S)."""
    return mask[:, None, None, :]  # (B, 1, 1, S)


class PureSelfAttention(nn.Module):
    """Bias-free multi-head self-attention in plain matrix products (seed 000, part 4).

    x (B, T, E) -> output (B, T, E), attention weights (B, H, T, T).
    """

    def __init__(self, *, embed_dim: int, num_heads: int) -> None:
        super().__init__()
        self.num_heads = num_heads
        self.head_dim = head_size(embed_dim, num_heads)
        self.W_q = nn.Linear(embed_dim, embed_dim, bias=False)
        self.W_k = nn.Linear(embed_dim, embed_dim, bias=False)
        self.W_v = nn.Linear(embed_dim, embed_dim, bias=False)
        self.W_o = nn.Linear(embed_dim, embed_dim, bias=False)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        q, k, v = (split_heads(w(x), self.num_heads) for w in (self.W_q, self.W_k, self.W_v))  # (B, H, T, D)
        scores = q @ k.transpose(-2, -1) / math.sqrt(self.head_dim)  # (B, H, T, T)
        weights = F.softmax(scores, dim=-1)
        return self.W_o(merge_heads(weights @ v)), weights


class FusedSelfAttention(nn.Module):
    """`PureSelfAttention` with the same weights through PyTorch's fused call; it cannot return attention weights.

    x (B, T, E) -> (B, T, E). Seed 001, note on production code.
    """

    def __init__(self, *, embed_dim: int, num_heads: int) -> None:
        super().__init__()
        self.num_heads = num_heads
        head_size(embed_dim, num_heads)
        self.W_q = nn.Linear(embed_dim, embed_dim, bias=False)
        self.W_k = nn.Linear(embed_dim, embed_dim, bias=False)
        self.W_v = nn.Linear(embed_dim, embed_dim, bias=False)
        self.W_o = nn.Linear(embed_dim, embed_dim, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (split_heads(w(x), self.num_heads) for w in (self.W_q, self.W_k, self.W_v))  # (B, H, T, D)
        out: Tensor = self.W_o(merge_heads(F.scaled_dot_product_attention(q, k, v)))
        return out


class MultiHeadAttention(nn.Module):
    """Multi-head attention with biases, of one sequence on another (seed 003, part 2.5).

    x (B, T, E), source (B, S, E), mask broadcastable to (B, H, T, S), True keeps -> (B, T, E). A query whose row is
    masked entirely reads 0, which the output projection then maps to its bias.
    """

    def __init__(self, *, embed_dim: int, num_heads: int) -> None:
        super().__init__()
        self.num_heads = num_heads
        head_size(embed_dim, num_heads)
        self.query = nn.Linear(embed_dim, embed_dim)
        self.key = nn.Linear(embed_dim, embed_dim)
        self.value = nn.Linear(embed_dim, embed_dim)
        self.out = nn.Linear(embed_dim, embed_dim)

    def forward(self, x: Tensor, source: Tensor, mask: Tensor | None = None) -> Tensor:
        q = split_heads(self.query(x), self.num_heads)  # (B, H, T, D)
        k = split_heads(self.key(source), self.num_heads)  # (B, H, S, D)
        v = split_heads(self.value(source), self.num_heads)  # (B, H, S, D)
        out: Tensor = self.out(merge_heads(F.scaled_dot_product_attention(q, k, v, attn_mask=mask)))
        return out


class SelfAttention(nn.Module):
    """Multi-head attention of a sequence on itself: x (B, T, E) -> (B, T, E). Seed 003, parts 2.1 to 2.5."""

    def __init__(self, *, embed_dim: int, num_heads: int) -> None:
        super().__init__()
        self.attention = MultiHeadAttention(embed_dim=embed_dim, num_heads=num_heads)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.attention(x, x)
        return out


class PaddedSelfAttention(nn.Module):
    """Self-attention that looks at kept positions only: x (B, T, E), mask (B, T), True keeps -> (B, T, E)."""

    def __init__(self, *, embed_dim: int, num_heads: int) -> None:
        super().__init__()
        self.attention = MultiHeadAttention(embed_dim=embed_dim, num_heads=num_heads)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        out: Tensor = self.attention(x, x, key_padding(mask))
        return out


class CausalAttention(nn.Module):
    """Self-attention that looks at the past only: x (B, T, E) -> (B, T, E). Seed 003, part 2.8."""

    def __init__(self, *, embed_dim: int, num_heads: int) -> None:
        super().__init__()
        self.attention = MultiHeadAttention(embed_dim=embed_dim, num_heads=num_heads)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.attention(x, x, causal_mask(x))
        return out


def to_torch_state(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The state of a `MultiHeadAttention` as one of `nn.MultiheadAttention` with the same sizes."""
    packed = {
        f"in_proj_{kind}": torch.cat([state[f"{name}.{kind}"] for name in ("query", "key", "value")])
        for kind in ("weight", "bias")
    }
    return packed | {f"out_proj.{kind}": state[f"out.{kind}"] for kind in ("weight", "bias")}


def from_torch_state(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The inverse of `to_torch_state`. Raises KeyError for a state without biases or with unpacked projections."""
    own: dict[str, Tensor] = {}
    for kind in ("weight", "bias"):
        parts = state[f"in_proj_{kind}"].chunk(3)
        own |= {f"{name}.{kind}": part for name, part in zip(("query", "key", "value"), parts, strict=True)}
        own[f"out.{kind}"] = state[f"out_proj.{kind}"]
    return own


EMBED, HEADS = 32, 4
PURE_EMBED = 48
"""Heads of 12 components, so that 1/sqrt(D) is a constant that rounds."""

_X, _OUTPUT = features("x", "batch", "sequence", EMBED), output("batch", "sequence", EMBED)
_PURE_X, _PURE_OUTPUT = features("x", "batch", "sequence", PURE_EMBED), output("batch", "sequence", PURE_EMBED)
ENTRIES: tuple[Entry, ...] = (
    Entry(
        subject=describe(
            "pure-self-attention",
            "bias-free multi-head self-attention in plain matrix products, with its weights",
            source="seed 000, part 4",
            inputs=(_PURE_X,),
            outputs=(
                _PURE_OUTPUT,
                OutputSpec("attention_weights", ("batch", HEADS, "sequence", "sequence"), "weights"),
            ),
            properties=(
                "batch-invariance",
                "simplex",
                "permutation-equivariance",
                "reparametrisation",
            ),
            companions={"reparametrised": "reparametrised-self-attention"},
        ),
        build=lambda: seeded(lambda: PureSelfAttention(embed_dim=PURE_EMBED, num_heads=HEADS), seed=101),
        oracle=partial(oracles.pure_self_attention, num_heads=HEADS),
    ),
    Entry(
        subject=describe(
            "fused-self-attention",
            "the same self-attention through PyTorch's fused call",
            source="seed 000, part 4; seed 001, note on production code",
            inputs=(_PURE_X,),
            outputs=(_PURE_OUTPUT,),
            properties=(
                "batch-invariance",
                "permutation-equivariance",
            ),
        ),
        build=lambda: seeded(lambda: FusedSelfAttention(embed_dim=PURE_EMBED, num_heads=HEADS), seed=101),
        oracle=partial(oracles.fused_self_attention, num_heads=HEADS),
    ),
    Entry(
        subject=describe(
            "multi-head-attention",
            "multi-head self-attention with biases",
            source="seed 003, part 2.5",
            inputs=(_X,),
            outputs=(_OUTPUT,),
            properties=(
                "batch-invariance",
                "permutation-equivariance",
            ),
        ),
        build=lambda: seeded(lambda: SelfAttention(embed_dim=EMBED, num_heads=HEADS), seed=106),
        oracle=partial(oracles.self_attention, num_heads=HEADS),
    ),
    Entry(
        subject=describe(
            "multi-head-attention-padded",
            "multi-head self-attention on kept positions",
            source="seed 003, parts 2.5 and 2.8",
            inputs=(_X, keep_mask("mask", "batch", "sequence")),
            outputs=(_OUTPUT,),
            properties=(
                "padding-invariance",
                "masked-content",
                "left-padding-invariance",
                "batch-invariance",
                "permutation-equivariance",
            ),
        ),
        build=lambda: seeded(lambda: PaddedSelfAttention(embed_dim=EMBED, num_heads=HEADS), seed=107),
        oracle=partial(oracles.padded_self_attention, num_heads=HEADS),
    ),
    Entry(
        subject=describe(
            "cross-attention",
            "multi-head attention on a source of another length",
            source="seed 003, parts 2.5 and 4.1",
            inputs=(_X, features("source", "batch", "source", EMBED)),
            outputs=(_OUTPUT,),
            axes=(BATCH, SEQUENCE, SOURCE),
            properties=(
                "batch-invariance",
                "permutation-invariance",
            ),
        ),
        build=lambda: seeded(lambda: MultiHeadAttention(embed_dim=EMBED, num_heads=HEADS), seed=108),
        oracle=partial(oracles.cross_attention, num_heads=HEADS),
    ),
    Entry(
        subject=describe(
            "causal-attention",
            "multi-head self-attention on the past",
            source="seed 003, part 2.8",
            inputs=(_X,),
            outputs=(_OUTPUT,),
            properties=("causality", "batch-invariance"),
        ),
        build=lambda: seeded(lambda: CausalAttention(embed_dim=EMBED, num_heads=HEADS), seed=109),
        oracle=partial(oracles.causal_attention, num_heads=HEADS),
    ),
)
