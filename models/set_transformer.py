"""The Set Transformer's blocks: attention without positions, on sets (Lee et al. 2019, reference 2 of seed 004).

MAB(X, Y) = LN(H + rFF(H)), H = LN(X + Multihead(X, Y, Y)); SAB(X) = MAB(X, X);
ISAB(X) = MAB(X, MAB(I, X)) with learned inducing points I; PMA(Z) = MAB(S, rFF(Z)) with learned seeds S.
The paper divides scores by the square root of the whole width, not of a head's.
"""

from __future__ import annotations

import math
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from onnxparity.models import oracles_composed as oracles
from onnxparity.models.attention import head_size, merge_heads, split_heads
from onnxparity.models.describe import describe, features, output
from onnxparity.models.drawing import seeded
from onnxparity.models.entry import Entry
from onnxparity.models.feedforward import FeedForwardReLU

__all__ = ["ENTRIES", "InducedSetAttention", "PoolingByAttention", "SetAttention"]


class MultiheadAttentionBlock(nn.Module):
    """MAB(X, Y) of the paper's equations 6 and 7: x (B, N, E), y (B, M, E) -> (B, N, E)."""

    def __init__(self, *, embed_dim: int, num_heads: int, hidden_dim: int) -> None:
        super().__init__()
        head_size(embed_dim, num_heads)
        self.num_heads, self.scale = num_heads, 1 / math.sqrt(embed_dim)
        self.query = nn.Linear(embed_dim, embed_dim)
        self.key = nn.Linear(embed_dim, embed_dim)
        self.value = nn.Linear(embed_dim, embed_dim)
        self.out = nn.Linear(embed_dim, embed_dim)
        self.attention_norm = nn.LayerNorm(embed_dim)
        self.feed_forward = FeedForwardReLU(embed_dim=embed_dim, hidden_dim=hidden_dim)
        self.feed_forward_norm = nn.LayerNorm(embed_dim)

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        q, k, v = (split_heads(z, self.num_heads) for z in (self.query(x), self.key(y), self.value(y)))
        read = self.out(merge_heads(F.scaled_dot_product_attention(q, k, v, scale=self.scale)))  # (B, N, E)
        h = self.attention_norm(x + read)
        out: Tensor = self.feed_forward_norm(h + self.feed_forward(h))
        return out


class SetAttention(nn.Module):
    """SAB: every element attends to every other; x (B, N, E) -> (B, N, E), permuted as x is."""

    def __init__(self, *, embed_dim: int, num_heads: int, hidden_dim: int) -> None:
        super().__init__()
        self.block = MultiheadAttentionBlock(embed_dim=embed_dim, num_heads=num_heads, hidden_dim=hidden_dim)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.block(x, x)
        return out


class InducedSetAttention(nn.Module):
    """ISAB: the set is read by a few learned points, and those by the set, in O(N M): x (B, N, E) -> (B, N, E).

    Raises ValueError without any point.
    """

    def __init__(self, *, embed_dim: int, num_heads: int, hidden_dim: int, num_points: int) -> None:
        super().__init__()
        self.points = _learned_rows("num_points", num_points, embed_dim)
        self.induce = MultiheadAttentionBlock(embed_dim=embed_dim, num_heads=num_heads, hidden_dim=hidden_dim)
        self.block = MultiheadAttentionBlock(embed_dim=embed_dim, num_heads=num_heads, hidden_dim=hidden_dim)

    def forward(self, x: Tensor) -> Tensor:
        summary = self.induce(self.points.expand(x.shape[0], -1, -1), x)  # (B, M, E)
        out: Tensor = self.block(x, summary)
        return out


class PoolingByAttention(nn.Module):
    """PMA: a set of any size becomes k vectors, whatever its order: x (B, N, E) -> (B, k, E).

    Raises ValueError without any seed.
    """

    def __init__(self, *, embed_dim: int, num_heads: int, hidden_dim: int, num_seeds: int) -> None:
        super().__init__()
        self.seeds = _learned_rows("num_seeds", num_seeds, embed_dim)
        self.feed_forward = FeedForwardReLU(embed_dim=embed_dim, hidden_dim=hidden_dim)
        self.block = MultiheadAttentionBlock(embed_dim=embed_dim, num_heads=num_heads, hidden_dim=hidden_dim)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.block(self.seeds.expand(x.shape[0], -1, -1), self.feed_forward(x))
        return out


def _learned_rows(name: str, rows: int, embed_dim: int) -> nn.Parameter:
    if rows < 1:
        raise ValueError(f"{name} must be at least 1, got {rows} for embed_dim {embed_dim}")
    return nn.Parameter(torch.randn(1, rows, embed_dim))


EMBED, HEADS, HIDDEN, POINTS, SEEDS = 32, 4, 64, 4, 2

_SIZES = {"embed_dim": EMBED, "num_heads": HEADS, "hidden_dim": HIDDEN}
_describe = partial(
    describe,
    source="seed 004, reference 2: Lee et al. 2019",
    inputs=(features("x", "batch", "sequence", EMBED),),
    outputs=(output("batch", "sequence", EMBED),),
)

ENTRIES: tuple[Entry, ...] = (
    Entry(
        subject=_describe(
            "set-attention-block",
            "self-attention on a set (SAB)",
            properties=("batch-invariance", "permutation-equivariance"),
        ),
        build=lambda: seeded(lambda: SetAttention(**_SIZES), seed=711),
        oracle=partial(oracles.set_attention, num_heads=HEADS),
    ),
    Entry(
        subject=_describe(
            "induced-set-attention-block",
            "attention on a set through learned points (ISAB)",
            properties=("batch-invariance", "permutation-equivariance"),
        ),
        build=lambda: seeded(lambda: InducedSetAttention(**_SIZES, num_points=POINTS), seed=712),
        oracle=partial(oracles.induced_set_attention, num_heads=HEADS),
    ),
    Entry(
        subject=_describe(
            "pooling-by-multihead-attention",
            "learned queries that pool a set (PMA)",
            outputs=(output("batch", SEEDS, EMBED),),
            properties=("batch-invariance", "permutation-invariance"),
        ),
        build=lambda: seeded(lambda: PoolingByAttention(**_SIZES, num_seeds=SEEDS), seed=713),
        oracle=partial(oracles.pooling_by_attention, num_heads=HEADS),
    ),
)
