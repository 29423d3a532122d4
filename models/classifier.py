"""Text understanding: an encoder over padded sentences, the mean of what is kept, one decision (seed 003, 4.2)."""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor, nn

from onnxparity.case import OutputSpec, TensorSpec
from onnxparity.models import oracles_composed as oracles
from onnxparity.models.blocks import EncoderBlockPreNorm
from onnxparity.models.describe import BATCH, SEQUENCE, describe, keep_mask
from onnxparity.models.drawing import seeded
from onnxparity.models.entry import Entry
from onnxparity.models.positions import wide
from onnxparity.models.stacks import padding_rows, positive_layers

__all__ = ["ENTRIES", "TextClassifier"]


class TextClassifier(nn.Module):
    """input_ids (B, T), mask (B, T), True keeps -> logits (B, C).

    Positions count kept tokens only, so that padding may stand on either side. A row without any token gets the
    logits of the zero vector. Raises ValueError for fewer than two classes.
    """

    def __init__(
        self, *, vocabulary: int, embed_dim: int, num_heads: int, hidden_dim: int, num_layers: int, num_classes: int
    ) -> None:
        super().__init__()
        if num_classes < 2:
            raise ValueError(f"num_classes must be at least 2, got {num_classes}")
        self.embedding = nn.Embedding(vocabulary, embed_dim)
        self.blocks = nn.ModuleList(
            EncoderBlockPreNorm(embed_dim=embed_dim, num_heads=num_heads, hidden_dim=hidden_dim)
            for _ in range(positive_layers(num_layers))
        )
        self.norm = nn.LayerNorm(embed_dim)
        self.logits = nn.Linear(embed_dim, num_classes)

    def forward(self, input_ids: Tensor, mask: Tensor) -> Tensor:
        x = self.embedding(input_ids)  # (B, T, E)
        x = x + _counted_sinusoids(mask, x)
        keep = padding_rows(mask, x.shape[1])  # (B, 1, T, T)
        for block in self.blocks:
            x = block(x, keep)
        x = torch.where(mask[..., None], self.norm(x), 0)
        count = mask.sum(dim=1, keepdim=True).clamp(min=1)  # (B, 1)
        logits: Tensor = self.logits(x.sum(dim=1) / count)
        return logits


def _counted_sinusoids(mask: Tensor, x: Tensor) -> Tensor:
    """Seed 003, part 2.6, where t is the number of kept tokens before: mask (B, T), x (B, T, E) -> (B, T, E)."""
    position = (mask.long().cumsum(dim=1) - 1).clamp(min=0).to(wide(x))  # (B, T)
    frequency = 10000.0 ** (-torch.arange(0, x.shape[2], 2, device=x.device).to(wide(x)) / x.shape[2])
    angles = position[..., None] * frequency  # (B, T, E/2)
    return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(-2).to(x.dtype)


VOCABULARY, EMBED, HEADS, HIDDEN, LAYERS, CLASSES = 80, 32, 4, 64, 2, 5

ENTRIES: tuple[Entry, ...] = (
    Entry(
        subject=describe(
            "text-classifier",
            "pre-norm encoder over padded token ids, masked mean, class logits",
            source="seed 003, 4.2",
            inputs=(
                TensorSpec("input_ids", ("batch", "sequence"), "int64", "tokens", high=VOCABULARY - 1),
                keep_mask("mask", "batch", "sequence"),
            ),
            outputs=(OutputSpec("logits", ("batch", CLASSES), "logits"),),
            axes=(BATCH, SEQUENCE),
            properties=(
                "padding-invariance",
                "masked-content",
                "left-padding-invariance",
                "batch-invariance",
                "position-sensitivity",
            ),
        ),
        build=lambda: seeded(
            lambda: TextClassifier(
                vocabulary=VOCABULARY,
                embed_dim=EMBED,
                num_heads=HEADS,
                hidden_dim=HIDDEN,
                num_layers=LAYERS,
                num_classes=CLASSES,
            ),
            seed=831,
        ),
        oracle=partial(oracles.text_classifier, num_heads=HEADS, num_layers=LAYERS),
    ),
)
