"""Faults of decoding with a cache: its order, its length, the position of new tokens, what is kept in it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from onnxparity.models.attention import merge_heads, split_heads
from onnxparity.models.autoregressive import Cache, CachedBlock, CausalDecoder, DecoderPrefill, _angles, _turn
from onnxparity.models.fault import Plant, changed_lines, instead
from onnxparity.selftesting.planting import Where

__all__ = [
    "cache_appended_in_front",
    "cache_forgets_newest",
    "cache_keeps_unturned",
    "in_every_block",
    "mask_without_cache",
    "one_position_late",
    "past_of_other_layer",
    "positions_start_again",
    "presents_exchanged",
]


def one_position_late(self: CausalDecoder, tokens: Tensor, past: Sequence[Cache] = ()) -> tuple[Tensor, list[Tensor]]:
    """New tokens stand one position after where the cache ends."""
    x = self.embedding(tokens)  # (B, T, E)
    length = past[0][0].shape[2] if past else 0
    sin, cos = _angles(x, length + 1, self.head_dim, self.base)
    key_at = torch.arange(length + x.shape[1], device=x.device)
    mask = key_at[length:, None] >= key_at  # (T, P + T): seed 003, part 2.8, with the cache to the left
    present = []
    for place, block in enumerate(self.blocks):
        x, key, value = block(x, past[place] if past else None, mask, sin, cos)
        present += [key, value]
    return self.logits(self.norm(x)), present


def positions_start_again(
    self: CausalDecoder, tokens: Tensor, past: Sequence[Cache] = ()
) -> tuple[Tensor, list[Tensor]]:
    """New tokens are counted from 0, whatever the cache holds."""
    x = self.embedding(tokens)  # (B, T, E)
    length = past[0][0].shape[2] if past else 0
    sin, cos = _angles(x, 0, self.head_dim, self.base)
    key_at = torch.arange(length + x.shape[1], device=x.device)
    mask = key_at[length:, None] >= key_at  # (T, P + T): seed 003, part 2.8, with the cache to the left
    present = []
    for place, block in enumerate(self.blocks):
        x, key, value = block(x, past[place] if past else None, mask, sin, cos)
        present += [key, value]
    return self.logits(self.norm(x)), present


def mask_without_cache(self: CausalDecoder, tokens: Tensor, past: Sequence[Cache] = ()) -> tuple[Tensor, list[Tensor]]:
    """The triangle starts at the cache's first token: new ones see as much of it as if they stood there."""
    x = self.embedding(tokens)  # (B, T, E)
    length = past[0][0].shape[2] if past else 0
    sin, cos = _angles(x, length, self.head_dim, self.base)
    key_at = torch.arange(length + x.shape[1], device=x.device)
    mask = key_at[: x.shape[1], None] >= key_at
    present = []
    for place, block in enumerate(self.blocks):
        x, key, value = block(x, past[place] if past else None, mask, sin, cos)
        present += [key, value]
    return self.logits(self.norm(x)), present


def past_of_other_layer(self: CausalDecoder, tokens: Tensor, past: Sequence[Cache] = ()) -> tuple[Tensor, list[Tensor]]:
    """Each layer reads the cache of another."""
    x = self.embedding(tokens)  # (B, T, E)
    length = past[0][0].shape[2] if past else 0
    sin, cos = _angles(x, length, self.head_dim, self.base)
    key_at = torch.arange(length + x.shape[1], device=x.device)
    mask = key_at[length:, None] >= key_at  # (T, P + T): seed 003, part 2.8, with the cache to the left
    present = []
    for place, block in enumerate(self.blocks):
        x, key, value = block(x, past[len(past) - 1 - place] if past else None, mask, sin, cos)
        present += [key, value]
    return self.logits(self.norm(x)), present


def cache_forgets_newest(
    self: CachedBlock, x: Tensor, past: Cache | None, mask: Tensor, sin: Tensor, cos: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """The cache's last token is read as its last but one: an index one too small."""
    normed = self.attention_norm(x)
    q, k, v = (split_heads(w(normed), self.num_heads) for w in (self.query, self.key, self.value))  # (B, H, T, D)
    q, k = _turn(q, sin, cos), _turn(k, sin, cos)
    if past is not None:
        k, v = torch.cat([past[0].roll(1, 2), k], dim=2), torch.cat([past[1].roll(1, 2), v], dim=2)
    x = x + self.out(merge_heads(F.scaled_dot_product_attention(q, k, v, attn_mask=mask)))
    return x + self.feed_forward(self.feed_forward_norm(x)), k, v


def cache_appended_in_front(
    self: CachedBlock, x: Tensor, past: Cache | None, mask: Tensor, sin: Tensor, cos: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """New keys and values are put before the cache."""
    normed = self.attention_norm(x)
    q, k, v = (split_heads(w(normed), self.num_heads) for w in (self.query, self.key, self.value))  # (B, H, T, D)
    q, k = _turn(q, sin, cos), _turn(k, sin, cos)
    if past is not None:
        k, v = torch.cat([k, past[0]], dim=2), torch.cat([v, past[1]], dim=2)
    x = x + self.out(merge_heads(F.scaled_dot_product_attention(q, k, v, attn_mask=mask)))
    return x + self.feed_forward(self.feed_forward_norm(x)), k, v


def cache_keeps_unturned(
    self: CachedBlock, x: Tensor, past: Cache | None, mask: Tensor, sin: Tensor, cos: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """The keys that are kept are those before the turn."""
    normed = self.attention_norm(x)
    q, k, v = (split_heads(w(normed), self.num_heads) for w in (self.query, self.key, self.value))  # (B, H, T, D)
    kept = k
    q, k = _turn(q, sin, cos), _turn(k, sin, cos)
    if past is not None:
        k, v = torch.cat([past[0], k], dim=2), torch.cat([past[1], v], dim=2)  # (B, H, P + T, D)
        kept = torch.cat([past[0], kept], dim=2)
    x = x + self.out(merge_heads(F.scaled_dot_product_attention(q, k, v, attn_mask=mask)))
    return x + self.feed_forward(self.feed_forward_norm(x)), kept, v


def presents_exchanged(self: DecoderPrefill, tokens: Tensor) -> tuple[Tensor, ...]:
    """Keys and values leave under each other's names."""
    logits, present = self.decoder(tokens)
    return logits, present[1], present[0], present[3], present[2]


def in_every_block(forward: Callable[..., Any], *, also: Sequence[Where] = ()) -> Plant:  # Any: several results
    """Plants a block's forward in both layers; the first is where it goes wrong."""

    def plant(module: nn.Module) -> Sequence[Where]:
        for path in ("decoder.blocks.0", "decoder.blocks.1"):
            instead(forward, path)(module)
        return (*changed_lines(CachedBlock.forward, forward), *also)

    return plant
