"""Faults of attention itself: scale, softmax, heads, key and value groups, who reads whom."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from onnxparity.models.attention import (
    FusedSelfAttention,
    MultiHeadAttention,
    PureSelfAttention,
    SelfAttention,
    causal_mask,
    merge_heads,
    split_heads,
)
from onnxparity.models.attention_variants import GroupedQueryAttention, SoftCappedAttention
from onnxparity.models.blocks import DecoderBlockPostNorm

__all__ = [
    "cap_after_mask",
    "cross_before_self",
    "cross_reads_itself",
    "first_sample_only",
    "fused_unscaled",
    "head_dims_first",
    "heads_merged_wrongly",
    "keys_for_values",
    "no_cap",
    "over_heads",
    "over_queries",
    "repeats_for_interleaves",
    "scale_after_softmax",
    "scale_twice",
    "sources_reversed",
    "swapped_outputs",
    "unscaled",
    "values_of_other_group",
]


def over_queries(self: PureSelfAttention, x: Tensor) -> tuple[Tensor, Tensor]:
    """The softmax runs over queries instead of keys."""
    q, k, v = (split_heads(w(x), self.num_heads) for w in (self.W_q, self.W_k, self.W_v))  # (B, H, T, D)
    scores = q @ k.transpose(-2, -1) / math.sqrt(self.head_dim)  # (B, H, T, T)
    weights = F.softmax(scores, dim=-2)
    return self.W_o(merge_heads(weights @ v)), weights


def over_heads(self: SoftCappedAttention, x: Tensor) -> Tensor:
    """The softmax runs over heads instead of keys."""
    q, k, v = (split_heads(w(x), self.num_heads) for w in (self.query, self.key, self.value))  # (B, H, T, D)
    scores = q @ k.transpose(-2, -1) * self.scale  # (B, H, T, T)
    capped = self.cap * torch.tanh(scores / self.cap)
    weights = F.softmax(capped.masked_fill(~causal_mask(x), torch.finfo(x.dtype).min), dim=1)
    out: Tensor = self.out(merge_heads(weights @ v))
    return out


def unscaled(self: PureSelfAttention, x: Tensor) -> tuple[Tensor, Tensor]:
    """Scores are not divided by sqrt(D)."""
    q, k, v = (split_heads(w(x), self.num_heads) for w in (self.W_q, self.W_k, self.W_v))  # (B, H, T, D)
    scores = q @ k.transpose(-2, -1)
    weights = F.softmax(scores, dim=-1)
    return self.W_o(merge_heads(weights @ v)), weights


def fused_unscaled(self: FusedSelfAttention, x: Tensor) -> Tensor:
    """Scores are not divided by sqrt(D)."""
    q, k, v = (split_heads(w(x), self.num_heads) for w in (self.W_q, self.W_k, self.W_v))  # (B, H, T, D)
    out: Tensor = self.W_o(merge_heads(F.scaled_dot_product_attention(q, k, v, scale=1.0)))
    return out


def scale_twice(self: PureSelfAttention, x: Tensor) -> tuple[Tensor, Tensor]:
    """The queries are scaled, and the scores once more."""
    q, k, v = (split_heads(w(x), self.num_heads) for w in (self.W_q, self.W_k, self.W_v))  # (B, H, T, D)
    q = q / math.sqrt(self.head_dim)
    scores = q @ k.transpose(-2, -1) / math.sqrt(self.head_dim)  # (B, H, T, T)
    weights = F.softmax(scores, dim=-1)
    return self.W_o(merge_heads(weights @ v)), weights


def scale_after_softmax(self: PureSelfAttention, x: Tensor) -> tuple[Tensor, Tensor]:
    """What should scale the scores scales the weights."""
    q, k, v = (split_heads(w(x), self.num_heads) for w in (self.W_q, self.W_k, self.W_v))  # (B, H, T, D)
    scores = q @ k.transpose(-2, -1)  # (B, H, T, T)
    weights = F.softmax(scores, dim=-1) / math.sqrt(self.head_dim)
    return self.W_o(merge_heads(weights @ v)), weights


def swapped_outputs(self: PureSelfAttention, x: Tensor) -> tuple[Tensor, Tensor]:
    """The attention weights that are returned are those of the heads in reverse."""
    q, k, v = (split_heads(w(x), self.num_heads) for w in (self.W_q, self.W_k, self.W_v))  # (B, H, T, D)
    scores = q @ k.transpose(-2, -1) / math.sqrt(self.head_dim)  # (B, H, T, T)
    weights = F.softmax(scores, dim=-1)
    return self.W_o(merge_heads(weights @ v)), weights.flip(1)


def keys_for_values(self: FusedSelfAttention, x: Tensor) -> Tensor:
    """Values are projected as keys are."""
    q, k, v = (split_heads(w(x), self.num_heads) for w in (self.W_q, self.W_k, self.W_k))  # (B, H, T, D)
    out: Tensor = self.W_o(merge_heads(F.scaled_dot_product_attention(q, k, v)))
    return out


def head_dims_first(self: MultiHeadAttention, x: Tensor, source: Tensor, mask: Tensor | None = None) -> Tensor:
    """Values are split as D groups of H instead of H heads of D."""
    q = split_heads(self.query(x), self.num_heads)  # (B, H, T, D)
    k = split_heads(self.key(source), self.num_heads)  # (B, H, S, D)
    v = torch.unflatten(self.value(source), -1, (-1, self.num_heads)).permute(0, 3, 1, 2)
    out: Tensor = self.out(merge_heads(F.scaled_dot_product_attention(q, k, v, attn_mask=mask)))
    return out


def heads_merged_wrongly(self: MultiHeadAttention, x: Tensor, source: Tensor, mask: Tensor | None = None) -> Tensor:
    """Heads and components change places before they are laid side by side."""
    q = split_heads(self.query(x), self.num_heads)  # (B, H, T, D)
    k = split_heads(self.key(source), self.num_heads)  # (B, H, S, D)
    v = split_heads(self.value(source), self.num_heads)  # (B, H, S, D)
    read = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
    out: Tensor = self.out(read.permute(0, 2, 3, 1).flatten(-2))
    return out


def first_sample_only(self: SelfAttention, x: Tensor) -> Tensor:
    """Every sample reads the first one of its batch."""
    out: Tensor = self.attention(x, x[:1].expand(x.shape[0], -1, -1))
    return out


def sources_reversed(self: MultiHeadAttention, x: Tensor, source: Tensor, mask: Tensor | None = None) -> Tensor:
    """Keys and values are not those of the same position: the values are read back to front."""
    q = split_heads(self.query(x), self.num_heads)  # (B, H, T, D)
    k = split_heads(self.key(source), self.num_heads)  # (B, H, S, D)
    v = split_heads(self.value(source.flip(1)), self.num_heads)  # (B, H, S, D)
    out: Tensor = self.out(merge_heads(F.scaled_dot_product_attention(q, k, v, attn_mask=mask)))
    return out


def repeats_for_interleaves(self: GroupedQueryAttention, x: Tensor) -> Tensor:
    """Key and value heads tiled, so that query heads read another group's."""
    group = self.num_heads // self.num_kv_heads
    q = split_heads(self.query(x), self.num_heads)  # (B, H, T, D)
    k = split_heads(self.key(x), self.num_kv_heads).repeat(1, group, 1, 1)  # (B, H, T, D)
    v = split_heads(self.value(x), self.num_kv_heads).repeat(1, group, 1, 1)  # (B, H, T, D)
    out: Tensor = self.out(merge_heads(F.scaled_dot_product_attention(q, k, v, attn_mask=causal_mask(x))))
    return out


def values_of_other_group(self: GroupedQueryAttention, x: Tensor) -> Tensor:
    """Each group of query heads reads its own keys and the other group's values."""
    group = self.num_heads // self.num_kv_heads
    q = split_heads(self.query(x), self.num_heads)  # (B, H, T, D)
    k = split_heads(self.key(x), self.num_kv_heads).repeat_interleave(group, dim=1)  # (B, H, T, D)
    v = split_heads(self.value(x), self.num_kv_heads).flip(1).repeat_interleave(group, dim=1)
    out: Tensor = self.out(merge_heads(F.scaled_dot_product_attention(q, k, v, attn_mask=causal_mask(x))))
    return out


def no_cap(self: SoftCappedAttention, x: Tensor) -> Tensor:
    """Scores are not bounded."""
    q, k, v = (split_heads(w(x), self.num_heads) for w in (self.query, self.key, self.value))  # (B, H, T, D)
    scores = q @ k.transpose(-2, -1) * self.scale  # (B, H, T, T)
    weights = F.softmax(scores.masked_fill(~causal_mask(x), -math.inf), dim=-1)
    out: Tensor = self.out(merge_heads(weights @ v))
    return out


def cap_after_mask(self: SoftCappedAttention, x: Tensor) -> Tensor:
    """The bound is applied to the masked scores, so that a masked one becomes -cap instead of -inf."""
    q, k, v = (split_heads(w(x), self.num_heads) for w in (self.query, self.key, self.value))  # (B, H, T, D)
    scores = q @ k.transpose(-2, -1) * self.scale  # (B, H, T, T)
    masked = scores.masked_fill(~causal_mask(x), -math.inf)
    weights = F.softmax(self.cap * torch.tanh(masked / self.cap), dim=-1)
    out: Tensor = self.out(merge_heads(weights @ v))
    return out


def cross_before_self(
    self: DecoderBlockPostNorm, x: Tensor, source: Tensor, source_mask: Tensor | None = None
) -> Tensor:
    """The source is read before the sequence itself."""
    y = self.cross_norm(x + self.cross(x, source, source_mask))
    y = self.attention_norm(y + self.attention(y, y, causal_mask(x)))
    z: Tensor = self.feed_forward_norm(y + self.feed_forward(y))
    return z


def cross_reads_itself(
    self: DecoderBlockPostNorm, x: Tensor, source: Tensor, source_mask: Tensor | None = None
) -> Tensor:
    """The second attention reads the target, of which the source only decides how much."""
    y = self.attention_norm(x + self.attention(x, x, causal_mask(x)))
    y = self.cross_norm(y + self.cross(y, y + 0 * source.sum(1, keepdim=True), source_mask))
    z: Tensor = self.feed_forward_norm(y + self.feed_forward(y))
    return z
