"""Encoder and decoder blocks: attention, feed-forward, residuals and norms (seed 003, parts 2.7, 2.8 and 3.1)."""

from __future__ import annotations

from functools import partial

from torch import Tensor, nn

from onnxparity.models import oracles_blocks as oracles
from onnxparity.models.attention import MultiHeadAttention, causal_mask, key_padding
from onnxparity.models.describe import BATCH, SEQUENCE, SOURCE, describe, features, keep_mask, output
from onnxparity.models.drawing import seeded
from onnxparity.models.entry import Entry
from onnxparity.models.feedforward import FeedForwardGELU, FeedForwardReLU

__all__ = [
    "ENTRIES",
    "DecoderBlockPostNorm",
    "DecoderBlockPreNorm",
    "EncoderBlockPadded",
    "EncoderBlockPostNorm",
    "EncoderBlockPreNorm",
]


class EncoderBlockPostNorm(nn.Module):
    """Y = LN(X + MHA(X)), Z = LN(Y + FFN(Y)) with a ReLU network, exactly as seed 003, part 2.7.

    x (B, T, E), mask broadcastable to (B, H, T, T), True keeps -> (B, T, E).
    """

    def __init__(self, *, embed_dim: int, num_heads: int, hidden_dim: int) -> None:
        super().__init__()
        self.attention = MultiHeadAttention(embed_dim=embed_dim, num_heads=num_heads)
        self.attention_norm = nn.LayerNorm(embed_dim)
        self.feed_forward = FeedForwardReLU(embed_dim=embed_dim, hidden_dim=hidden_dim)
        self.feed_forward_norm = nn.LayerNorm(embed_dim)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        y = self.attention_norm(x + self.attention(x, x, mask))
        z: Tensor = self.feed_forward_norm(y + self.feed_forward(y))
        return z


class EncoderBlockPreNorm(nn.Module):
    """Y = X + MHA(LN(X)), Z = Y + FFN(LN(Y)) with a GELU network (Xiong et al. 2020), as in GPT-2 and ViT.

    x (B, T, E), mask broadcastable to (B, H, T, T), True keeps -> (B, T, E). With `causal_mask(x)` it is
    the block of a decoder-only model.
    """

    def __init__(self, *, embed_dim: int, num_heads: int, hidden_dim: int) -> None:
        super().__init__()
        self.attention_norm = nn.LayerNorm(embed_dim)
        self.attention = MultiHeadAttention(embed_dim=embed_dim, num_heads=num_heads)
        self.feed_forward_norm = nn.LayerNorm(embed_dim)
        self.feed_forward = FeedForwardGELU(embed_dim=embed_dim, hidden_dim=hidden_dim)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        normed = self.attention_norm(x)
        y = x + self.attention(normed, normed, mask)
        z: Tensor = y + self.feed_forward(self.feed_forward_norm(y))
        return z


class EncoderBlockPadded(nn.Module):
    """`EncoderBlockPostNorm` that looks at kept positions only: x (B, T, E), mask (B, T), True keeps -> (B, T, E)."""

    def __init__(self, *, embed_dim: int, num_heads: int, hidden_dim: int) -> None:
        super().__init__()
        self.block = EncoderBlockPostNorm(embed_dim=embed_dim, num_heads=num_heads, hidden_dim=hidden_dim)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        out: Tensor = self.block(x, key_padding(mask))
        return out


class DecoderBlockPostNorm(nn.Module):
    """Masked self-attention, attention on a source, feed-forward, each followed by its norm (seed 003, parts 2.8, 3.1).

    x (B, T, E), source (B, S, E), source_mask broadcastable to (B, H, T, S), True keeps -> (B, T, E).
    """

    def __init__(self, *, embed_dim: int, num_heads: int, hidden_dim: int) -> None:
        super().__init__()
        self.attention = MultiHeadAttention(embed_dim=embed_dim, num_heads=num_heads)
        self.attention_norm = nn.LayerNorm(embed_dim)
        self.cross = MultiHeadAttention(embed_dim=embed_dim, num_heads=num_heads)
        self.cross_norm = nn.LayerNorm(embed_dim)
        self.feed_forward = FeedForwardReLU(embed_dim=embed_dim, hidden_dim=hidden_dim)
        self.feed_forward_norm = nn.LayerNorm(embed_dim)

    def forward(self, x: Tensor, source: Tensor, source_mask: Tensor | None = None) -> Tensor:
        y = self.attention_norm(x + self.attention(x, x, causal_mask(x)))
        y = self.cross_norm(y + self.cross(y, source, source_mask))
        z: Tensor = self.feed_forward_norm(y + self.feed_forward(y))
        return z


class DecoderBlockPreNorm(nn.Module):
    """`DecoderBlockPostNorm` with each norm before its sub-layer and a GELU network (Xiong et al. 2020).

    x (B, T, E), source (B, S, E), source_mask broadcastable to (B, H, T, S), True keeps -> (B, T, E).
    """

    def __init__(self, *, embed_dim: int, num_heads: int, hidden_dim: int) -> None:
        super().__init__()
        self.attention_norm = nn.LayerNorm(embed_dim)
        self.attention = MultiHeadAttention(embed_dim=embed_dim, num_heads=num_heads)
        self.cross_norm = nn.LayerNorm(embed_dim)
        self.cross = MultiHeadAttention(embed_dim=embed_dim, num_heads=num_heads)
        self.feed_forward_norm = nn.LayerNorm(embed_dim)
        self.feed_forward = FeedForwardGELU(embed_dim=embed_dim, hidden_dim=hidden_dim)

    def forward(self, x: Tensor, source: Tensor, source_mask: Tensor | None = None) -> Tensor:
        normed = self.attention_norm(x)
        y = x + self.attention(normed, normed, causal_mask(x))
        y = y + self.cross(self.cross_norm(y), source, source_mask)
        z: Tensor = y + self.feed_forward(self.feed_forward_norm(y))
        return z


EMBED, HEADS, HIDDEN = 32, 4, 64

_X, _OUTPUT = features("x", "batch", "sequence", EMBED), output("batch", "sequence", EMBED)
_SOURCE = features("source", "batch", "source", EMBED)

ENTRIES: tuple[Entry, ...] = (
    Entry(
        subject=describe(
            "encoder-block-post-norm",
            "encoder block with the norm after each residual",
            source="seed 003, part 2.7",
            inputs=(_X,),
            outputs=(_OUTPUT,),
            properties=(
                "batch-invariance",
                "permutation-equivariance",
            ),
        ),
        build=lambda: seeded(
            lambda: EncoderBlockPostNorm(embed_dim=EMBED, num_heads=HEADS, hidden_dim=HIDDEN), seed=601
        ),
        oracle=partial(oracles.encoder_block_post_norm, num_heads=HEADS),
    ),
    Entry(
        subject=describe(
            "encoder-block-pre-norm",
            "encoder block with the norm before each sub-layer",
            source="seed 003, part 2.7; Xiong et al. 2020",
            inputs=(_X,),
            outputs=(_OUTPUT,),
            properties=(
                "batch-invariance",
                "permutation-equivariance",
            ),
        ),
        build=lambda: seeded(
            lambda: EncoderBlockPreNorm(embed_dim=EMBED, num_heads=HEADS, hidden_dim=HIDDEN), seed=602
        ),
        oracle=partial(oracles.encoder_block_pre_norm, num_heads=HEADS),
    ),
    Entry(
        subject=describe(
            "encoder-block-padded",
            "encoder block that looks at kept positions",
            source="seed 003, parts 2.7 and 2.8",
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
        build=lambda: seeded(lambda: EncoderBlockPadded(embed_dim=EMBED, num_heads=HEADS, hidden_dim=HIDDEN), seed=603),
        oracle=partial(oracles.encoder_block_padded, num_heads=HEADS),
    ),
    Entry(
        subject=describe(
            "decoder-block",
            "decoder block with the norm after each residual",
            source="seed 003, parts 2.7, 2.8 and 3.1",
            inputs=(_X, _SOURCE),
            outputs=(_OUTPUT,),
            axes=(BATCH, SEQUENCE, SOURCE),
            properties=(
                "causality",
                "batch-invariance",
                "permutation-invariance",
            ),
        ),
        build=lambda: seeded(
            lambda: DecoderBlockPostNorm(embed_dim=EMBED, num_heads=HEADS, hidden_dim=HIDDEN), seed=604
        ),
        oracle=partial(oracles.decoder_block_post_norm, num_heads=HEADS),
    ),
    Entry(
        subject=describe(
            "decoder-block-pre-norm",
            "decoder block with the norm before each sub-layer",
            source="seed 003, parts 2.7, 2.8 and 3.1; Xiong et al. 2020",
            inputs=(_X, _SOURCE),
            outputs=(_OUTPUT,),
            axes=(BATCH, SEQUENCE, SOURCE),
            properties=(
                "causality",
                "batch-invariance",
                "permutation-invariance",
            ),
        ),
        build=lambda: seeded(
            lambda: DecoderBlockPreNorm(embed_dim=EMBED, num_heads=HEADS, hidden_dim=HIDDEN), seed=605
        ),
        oracle=partial(oracles.decoder_block_pre_norm, num_heads=HEADS),
    ),
)
