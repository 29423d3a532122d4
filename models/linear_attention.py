"""Linear attention: the softmax kernel replaced by phi(q).phi(k), so that sums over keys are taken once.

Katharopoulos et al., ICML 2020, with phi(x) = elu(x) + 1; named in the conclusion of seed 000 as one of the ways
around Transformer's mathematical bottleneck. The causal form carries running sums instead of a mask.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import numpy as np
import torch
from torch import Tensor, nn

from onnxparity.models.attention import head_size, merge_heads, split_heads
from onnxparity.models.describe import describe, features, output
from onnxparity.models.drawing import seeded
from onnxparity.models.entry import Entry, Float64, Oracle, Weights
from onnxparity.models.oracles import linear
from onnxparity.protocols import Array

__all__ = [
    "ENTRIES",
    "CausalLinearAttention",
    "LinearAttention",
    "QuadraticLinearAttention",
    "linear_attention_oracle",
    "positive_features",
]

EMBED, HEADS = 32, 2

FLOOR = 2.0**-14
"""Added to each normaliser so that features that underflow give 0, not 0/0; the smallest normal half number."""


def positive_features(x: Tensor) -> Tensor:
    """elu(x) + 1, written as exp(min(x, 0)) + max(x, 0): adding 1 to an elu near -1 would lose every digit."""
    return torch.exp(torch.clamp(x, max=0)) + torch.relu(x)


class LinearAttention(nn.Module):
    """Every position reads sum_j phi(k_j) v_j^T, which is computed once: x (B, T, E) -> (B, T, E)."""

    def __init__(self, *, embed_dim: int, num_heads: int) -> None:
        super().__init__()
        self.num_heads = num_heads
        head_size(embed_dim, num_heads)
        self.query = nn.Linear(embed_dim, embed_dim, bias=False)
        self.key = nn.Linear(embed_dim, embed_dim, bias=False)
        self.value = nn.Linear(embed_dim, embed_dim, bias=False)
        self.out = nn.Linear(embed_dim, embed_dim, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        query = positive_features(split_heads(self.query(x), self.num_heads))  # (B, H, T, D)
        key = positive_features(split_heads(self.key(x), self.num_heads))
        value = split_heads(self.value(x), self.num_heads)
        memory = key.transpose(-2, -1) @ value  # (B, H, D, D)
        normaliser = query @ key.sum(-2).unsqueeze(-1)  # (B, H, T, 1)
        out: Tensor = self.out(merge_heads((query @ memory) / (normaliser + FLOOR)))
        return out


class QuadraticLinearAttention(nn.Module):
    """`LinearAttention` with the same weights, all pairs phi(q_i).phi(k_j) formed first: x (B, T, E) -> (B, T, E)."""

    def __init__(self, *, embed_dim: int, num_heads: int) -> None:
        super().__init__()
        self.num_heads = num_heads
        head_size(embed_dim, num_heads)
        self.query = nn.Linear(embed_dim, embed_dim, bias=False)
        self.key = nn.Linear(embed_dim, embed_dim, bias=False)
        self.value = nn.Linear(embed_dim, embed_dim, bias=False)
        self.out = nn.Linear(embed_dim, embed_dim, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        query = positive_features(split_heads(self.query(x), self.num_heads))  # (B, H, T, D)
        key = positive_features(split_heads(self.key(x), self.num_heads))
        value = split_heads(self.value(x), self.num_heads)
        pairs = query @ key.transpose(-2, -1)  # (B, H, T, T)
        read = pairs @ value / (pairs.sum(-1, keepdim=True) + FLOOR)
        out: Tensor = self.out(merge_heads(read))
        return out


class CausalLinearAttention(nn.Module):
    """Position i reads the running sum over j <= i, as a recurrent network would: x (B, T, E) -> (B, T, E)."""

    def __init__(self, *, embed_dim: int, num_heads: int) -> None:
        super().__init__()
        self.num_heads = num_heads
        head_size(embed_dim, num_heads)
        self.query = nn.Linear(embed_dim, embed_dim, bias=False)
        self.key = nn.Linear(embed_dim, embed_dim, bias=False)
        self.value = nn.Linear(embed_dim, embed_dim, bias=False)
        self.out = nn.Linear(embed_dim, embed_dim, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        query = positive_features(split_heads(self.query(x), self.num_heads))  # (B, H, T, D)
        key = positive_features(split_heads(self.key(x), self.num_heads))
        value = split_heads(self.value(x), self.num_heads)
        memory = torch.cumsum(key.unsqueeze(-1) * value.unsqueeze(-2), dim=2)  # (B, H, T, D, D)
        normaliser = (query * torch.cumsum(key, dim=2)).sum(-1, keepdim=True)  # (B, H, T, 1)
        read = (query.unsqueeze(-2) @ memory).squeeze(-2) / (normaliser + FLOOR)
        out: Tensor = self.out(merge_heads(read))
        return out


def linear_attention_oracle(*, causal: bool) -> Oracle:
    """The quadratic form: all pairs phi(q_i).phi(k_j), a triangle where causal, rows divided by their sums."""

    def phi(x: Float64) -> Float64:
        return np.where(x > 0, x + 1, np.exp(np.minimum(x, 0)))

    def head(q: Float64, k: Float64, v: Float64) -> Float64:
        pairs = np.einsum("bid,bjd->bij", phi(q), phi(k))
        if causal:
            pairs = np.tril(pairs)
        read: Float64 = (pairs / (pairs.sum(axis=-1, keepdims=True) + FLOOR)) @ v
        return read

    def oracle(weights: Weights, feeds: Mapping[str, Array]) -> tuple[Array, ...]:
        q, k, v = (linear(feeds["x"], weights, name) for name in ("query", "key", "value"))
        heads = (slice(start, start + EMBED // HEADS) for start in range(0, EMBED, EMBED // HEADS))
        return (linear(np.concatenate([head(q[..., h], k[..., h], v[..., h]) for h in heads], -1), weights, "out"),)

    return oracle


_describe = partial(
    describe,
    source="seed 000, 6: Katharopoulos et al. 2020",
    inputs=(features("x", "batch", "sequence", EMBED),),
    outputs=(output("batch", "sequence", EMBED),),
)

ENTRIES: tuple[Entry, ...] = (
    Entry(
        subject=_describe(
            "linear-attention",
            "attention with elu + 1 features in place of the softmax",
            properties=("batch-invariance", "permutation-equivariance", "associativity"),
            companions={"quadratic": "quadratic-linear-attention"},
        ),
        build=lambda: seeded(lambda: LinearAttention(embed_dim=EMBED, num_heads=HEADS), seed=703),
        oracle=linear_attention_oracle(causal=False),
    ),
    Entry(
        subject=_describe(
            "quadratic-linear-attention",
            "the same linear attention with all pairs formed first",
            properties=("batch-invariance", "permutation-equivariance"),
        ),
        build=lambda: seeded(lambda: QuadraticLinearAttention(embed_dim=EMBED, num_heads=HEADS), seed=703),
        oracle=linear_attention_oracle(causal=False),
    ),
    Entry(
        subject=_describe(
            "causal-linear-attention",
            "linear attention over running sums of the past",
            properties=("batch-invariance", "causality"),
        ),
        build=lambda: seeded(lambda: CausalLinearAttention(embed_dim=EMBED, num_heads=HEADS), seed=704),
        oracle=linear_attention_oracle(causal=True),
    ),
)
