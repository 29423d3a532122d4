"""Attention that shares heads, looks at a window, or bounds its scores; all causal, as in decoder-only models."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from onnxparity.models import oracles_attention as oracles
from onnxparity.models.attention import MultiHeadAttention, causal_mask, head_size, merge_heads, split_heads
from onnxparity.models.describe import describe, features, output
from onnxparity.models.drawing import seeded
from onnxparity.models.entry import Entry, Oracle

__all__ = ["ENTRIES", "GroupedQueryAttention", "SlidingWindowAttention", "SoftCappedAttention"]


class GroupedQueryAttention(nn.Module):
    """Causal attention in which groups of query heads share a key and value head: (B, T, E) -> (B, T, E).

    Ainslie et al. 2023; with num_kv_heads=1 the multi-query attention of Shazeer 2019.
    """

    def __init__(self, *, embed_dim: int, num_heads: int, num_kv_heads: int) -> None:
        super().__init__()
        head_dim = head_size(embed_dim, num_heads)
        if num_kv_heads < 1 or num_heads % num_kv_heads:
            raise ValueError(f"num_heads must be a multiple of num_kv_heads, got {num_heads} and {num_kv_heads}")
        self.num_heads, self.num_kv_heads = num_heads, num_kv_heads
        self.query = nn.Linear(embed_dim, embed_dim, bias=False)
        self.key = nn.Linear(embed_dim, num_kv_heads * head_dim, bias=False)
        self.value = nn.Linear(embed_dim, num_kv_heads * head_dim, bias=False)
        self.out = nn.Linear(embed_dim, embed_dim, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        group = self.num_heads // self.num_kv_heads
        q = split_heads(self.query(x), self.num_heads)  # (B, H, T, D)
        k = split_heads(self.key(x), self.num_kv_heads).repeat_interleave(group, dim=1)  # (B, H, T, D)
        v = split_heads(self.value(x), self.num_kv_heads).repeat_interleave(group, dim=1)  # (B, H, T, D)
        out: Tensor = self.out(merge_heads(F.scaled_dot_product_attention(q, k, v, attn_mask=causal_mask(x))))
        return out


class SlidingWindowAttention(nn.Module):
    """Causal attention on the last `window` positions, the query's own included: (B, T, E) -> (B, T, E).

    Beltagy et al. 2020, section 3.1, in the causal form of Mistral 7B.
    """

    def __init__(self, *, embed_dim: int, num_heads: int, window: int) -> None:
        super().__init__()
        if window < 1:
            raise ValueError(f"window must be at least 1, got {window} for embed_dim {embed_dim}")
        self.window = window
        self.attention = MultiHeadAttention(embed_dim=embed_dim, num_heads=num_heads)

    def forward(self, x: Tensor) -> Tensor:
        position = torch.arange(x.shape[1], device=x.device)
        distance = position[:, None] - position[None, :]  # (T, T)
        out: Tensor = self.attention(x, x, (distance >= 0) & (distance < self.window))
        return out


class SoftCappedAttention(nn.Module):
    """Causal attention whose scores are bounded by cap * tanh(score / cap): (B, T, E) -> (B, T, E).

    Gemma 2 (2024), section 2, where the cap is 50.
    """

    def __init__(self, *, embed_dim: int, num_heads: int, cap: float) -> None:
        super().__init__()
        if not 0 < cap < math.inf:
            raise ValueError(f"cap must be positive and finite, got {cap} for embed_dim {embed_dim}")
        self.num_heads, self.cap = num_heads, cap
        self.scale = 1 / math.sqrt(head_size(embed_dim, num_heads))
        self.query = nn.Linear(embed_dim, embed_dim, bias=False)
        self.key = nn.Linear(embed_dim, embed_dim, bias=False)
        self.value = nn.Linear(embed_dim, embed_dim, bias=False)
        self.out = nn.Linear(embed_dim, embed_dim, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (split_heads(w(x), self.num_heads) for w in (self.query, self.key, self.value))  # (B, H, T, D)
        scores = q @ k.transpose(-2, -1) * self.scale  # (B, H, T, T)
        capped = self.cap * torch.tanh(scores / self.cap)
        weights = F.softmax(capped.masked_fill(~causal_mask(x), -math.inf), dim=-1)
        out: Tensor = self.out(merge_heads(weights @ v))
        return out


EMBED, HEADS, KV_HEADS, WINDOW, CAP = 32, 4, 2, 4, 5.0
"""A cap of 5, not Gemma's 50: scores of this size must feel it, or a lost cap would not show."""


def _entry(
    name: str,
    summary: str,
    source: str,
    make: Callable[[], nn.Module],
    oracle: Oracle,
    seed: int,
    *,
    window: int | None = None,
) -> Entry:
    subject = describe(
        name,
        summary,
        source=source,
        inputs=(features("x", "batch", "sequence", EMBED),),
        outputs=(output("batch", "sequence", EMBED),),
        properties=("causality", "batch-invariance", *(() if window is None else ("window",))),
        window=window,
    )
    return Entry(subject=subject, build=lambda: seeded(make, seed=seed), oracle=oracle)


ENTRIES: tuple[Entry, ...] = (
    _entry(
        "grouped-query-attention",
        "causal attention with four query heads on two key and value heads",
        "Ainslie et al. 2023; seed 003, part 2.5",
        lambda: GroupedQueryAttention(embed_dim=EMBED, num_heads=HEADS, num_kv_heads=KV_HEADS),
        partial(oracles.grouped_query_attention, num_heads=HEADS, num_kv_heads=KV_HEADS),
        201,
    ),
    _entry(
        "multi-query-attention",
        "causal attention with four query heads on one key and value head",
        "Shazeer 2019; seed 003, part 2.5",
        lambda: GroupedQueryAttention(embed_dim=EMBED, num_heads=HEADS, num_kv_heads=1),
        partial(oracles.grouped_query_attention, num_heads=HEADS, num_kv_heads=1),
        202,
    ),
    _entry(
        "sliding-window-attention",
        "causal attention on the last four positions",
        "Beltagy et al. 2020; seed 004, part 5",
        lambda: SlidingWindowAttention(embed_dim=EMBED, num_heads=HEADS, window=WINDOW),
        partial(oracles.sliding_window_attention, num_heads=HEADS, window=WINDOW),
        203,
        window=WINDOW,
    ),
    _entry(
        "soft-capped-attention",
        "causal attention with scores bounded by a tanh",
        "Gemma 2, 2024; seed 003, part 2.3",
        lambda: SoftCappedAttention(embed_dim=EMBED, num_heads=HEADS, cap=CAP),
        partial(oracles.soft_capped_attention, num_heads=HEADS, cap=CAP),
        204,
    ),
)
