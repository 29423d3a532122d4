"""Faults of masks and windows: which positions a query may see, and how that is written."""

from __future__ import annotations

import torch
from torch import Tensor

from onnxparity.models.attention import CausalAttention, PaddedSelfAttention, causal_mask
from onnxparity.models.attention_variants import SlidingWindowAttention
from onnxparity.models.blocks import DecoderBlockPostNorm, EncoderBlockPadded

__all__ = [
    "additive_lowest",
    "additive_small",
    "block_ignores_padding",
    "cross_attention_is_causal",
    "decoder_looks_ahead",
    "ignores_padding",
    "inverted",
    "keeps_first_only",
    "looks_ahead",
    "looks_back",
    "masks_queries",
    "misses_itself",
    "other_side",
    "padded_inverted",
    "padding_as_small_number",
    "sees_everything",
    "small_number",
    "window_narrow",
    "window_wide",
]


def looks_ahead(self: CausalAttention, x: Tensor) -> Tensor:
    """Each position sees the next one."""
    position = torch.arange(x.shape[1], device=x.device)
    out: Tensor = self.attention(x, x, position[:, None] + 1 >= position[None, :])
    return out


def misses_itself(self: CausalAttention, x: Tensor) -> Tensor:
    """Each position but the first sees its past without itself."""
    position = torch.arange(x.shape[1], device=x.device)
    earlier = position[:, None] > position[None, :]
    out: Tensor = self.attention(x, x, earlier | (position[None, :] == 0))
    return out


def looks_back(self: CausalAttention, x: Tensor) -> Tensor:
    """The triangle the other way round: each position sees the future."""
    out: Tensor = self.attention(x, x, causal_mask(x).transpose(0, 1))
    return out


def sees_everything(self: CausalAttention, x: Tensor) -> Tensor:
    """No mask at all."""
    out: Tensor = self.attention(x, x)
    return out


def decoder_looks_ahead(self: DecoderBlockPostNorm, x: Tensor, source: Tensor, mask: Tensor | None = None) -> Tensor:
    """The self-attention's mask is shifted by one."""
    position = torch.arange(x.shape[1], device=x.device)
    y = self.attention_norm(x + self.attention(x, x, position[:, None] + 1 >= position[None, :]))
    y = self.cross_norm(y + self.cross(y, source, mask))
    z: Tensor = self.feed_forward_norm(y + self.feed_forward(y))
    return z


def cross_attention_is_causal(
    self: DecoderBlockPostNorm, x: Tensor, source: Tensor, source_mask: Tensor | None = None
) -> Tensor:
    """The attention on the source is masked as if the source were the past."""
    y = self.attention_norm(x + self.attention(x, x, causal_mask(x)))
    seen = torch.arange(x.shape[1])[:, None] >= torch.arange(source.shape[1])
    y = self.cross_norm(y + self.cross(y, source, seen))
    z: Tensor = self.feed_forward_norm(y + self.feed_forward(y))
    return z


def ignores_padding(self: PaddedSelfAttention, x: Tensor, mask: Tensor) -> Tensor:
    """The mask is read, and every position is kept."""
    out: Tensor = self.attention(x, x, (mask | ~mask)[:, None, None, :])
    return out


def block_ignores_padding(self: EncoderBlockPadded, x: Tensor, mask: Tensor) -> Tensor:
    """The mask is read, and every position is kept."""
    out: Tensor = self.block(x, (mask | ~mask)[:, None, None, :])
    return out


def padded_inverted(self: PaddedSelfAttention, x: Tensor, mask: Tensor) -> Tensor:
    """True drops a position instead of keeping it; the first one stays, so that every row has one."""
    first = torch.arange(x.shape[1], device=x.device) == 0
    out: Tensor = self.attention(x, x, (~mask | first)[:, None, None, :])
    return out


def inverted(self: EncoderBlockPadded, x: Tensor, mask: Tensor) -> Tensor:
    """True drops a position instead of keeping it."""
    out: Tensor = self.block(x, ~mask[:, None, None, :])
    return out


def other_side(self: EncoderBlockPadded, x: Tensor, mask: Tensor) -> Tensor:
    """Padding on the right is taken for padding on the left."""
    out: Tensor = self.block(x, mask.flip(1)[:, None, None, :])
    return out


def masks_queries(self: EncoderBlockPadded, x: Tensor, mask: Tensor) -> Tensor:
    """The mask is broadcast over keys instead of over queries: padding is dropped as queries, and read as keys."""
    out: Tensor = self.block(x, mask[:, None, :, None])
    return out


def keeps_first_only(self: EncoderBlockPadded, x: Tensor, mask: Tensor) -> Tensor:
    """Every sample is padded like the first one of its batch."""
    out: Tensor = self.block(x, mask[:1, None, None, :])
    return out


def small_number(self: EncoderBlockPadded, x: Tensor, mask: Tensor) -> Tensor:
    """-10 is added to masked scores instead of -inf, which large scores outweigh."""
    penalty = torch.where(mask[:, None, None, :], 0.0, -10.0)
    out: Tensor = self.block(x, penalty.to(x.dtype))
    return out


def padding_as_small_number(self: PaddedSelfAttention, x: Tensor, mask: Tensor) -> Tensor:
    """-1e4 is added to masked scores instead of -inf, under which a row of masked keys keeps its scores."""
    penalty = torch.where(mask[:, None, None, :], 0.0, -1e4)
    out: Tensor = self.attention(x, x, penalty.to(x.dtype))
    return out


def additive_small(self: CausalAttention, x: Tensor) -> Tensor:
    """-100 is added to masked scores instead of -inf, which large scores outweigh."""
    penalty = torch.where(causal_mask(x), 0.0, -100.0)
    out: Tensor = self.attention(x, x, penalty.to(x.dtype))
    return out


def additive_lowest(self: CausalAttention, x: Tensor) -> Tensor:
    """The dtype's lowest number is added to masked scores: no score can lift it, and every row keeps its own."""
    mask = causal_mask(x)
    penalty = torch.zeros_like(mask, dtype=x.dtype).masked_fill(~mask, torch.finfo(x.dtype).min)
    out: Tensor = self.attention(x, x, penalty)
    return out


def window_wide(self: SlidingWindowAttention, x: Tensor) -> Tensor:
    """One position more than the window holds."""
    position = torch.arange(x.shape[1], device=x.device)
    distance = position[:, None] - position[None, :]  # (T, T)
    out: Tensor = self.attention(x, x, (distance >= 0) & (distance <= self.window))
    return out


def window_narrow(self: SlidingWindowAttention, x: Tensor) -> Tensor:
    """One position less than the window holds."""
    position = torch.arange(x.shape[1], device=x.device)
    distance = position[:, None] - position[None, :]  # (T, T)
    out: Tensor = self.attention(x, x, (distance >= 0) & (distance < self.window - 1))
    return out
