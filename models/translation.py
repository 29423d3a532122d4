"""Translation: an encoder reads the source, a decoder predicts the target token by token (seed 003, 3.1 and 4.1)."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import numpy as np
import numpy.typing as npt
from torch import Tensor, nn

from onnxparity.case import OutputSpec, TensorSpec
from onnxparity.models import oracles_composed as oracles
from onnxparity.models.blocks import DecoderBlockPostNorm, EncoderBlockPostNorm
from onnxparity.models.describe import BATCH, SEQUENCE, SOURCE, describe, keep_mask
from onnxparity.models.drawing import seeded
from onnxparity.models.entry import Entry
from onnxparity.models.positions import sinusoids
from onnxparity.models.stacks import padding_rows, positive_layers
from onnxparity.protocols import Array, Feeds

__all__ = ["ENTRIES", "Translation", "greedy_decode"]

Tokens = npt.NDArray[np.int64]


class Translation(nn.Module):
    """source_ids (B, S), source_mask (B, S), True keeps, target_ids (B, T) -> logits (B, T, V).

    The logits at position t are for target token t + 1. Embeddings are multiplied by sqrt(E) before the
    positions are added (Vaswani et al. 2017, 3.4).
    """

    def __init__(self, *, vocabulary: int, embed_dim: int, num_heads: int, hidden_dim: int, num_layers: int) -> None:
        super().__init__()
        self.scale = math.sqrt(embed_dim)
        self.source_embedding = nn.Embedding(vocabulary, embed_dim)
        self.target_embedding = nn.Embedding(vocabulary, embed_dim)
        for table in (self.source_embedding, self.target_embedding):
            nn.init.normal_(table.weight, std=embed_dim**-0.5)
        self.encoder = nn.ModuleList(
            EncoderBlockPostNorm(embed_dim=embed_dim, num_heads=num_heads, hidden_dim=hidden_dim)
            for _ in range(positive_layers(num_layers))
        )
        self.decoder = nn.ModuleList(
            DecoderBlockPostNorm(embed_dim=embed_dim, num_heads=num_heads, hidden_dim=hidden_dim)
            for _ in range(num_layers)
        )
        self.logits = nn.Linear(embed_dim, vocabulary)

    def forward(self, source_ids: Tensor, source_mask: Tensor, target_ids: Tensor) -> Tensor:
        source = self.source_embedding(source_ids) * self.scale  # (B, S, E)
        source = source + sinusoids(source)
        for block in self.encoder:
            source = block(source, padding_rows(source_mask, source.shape[1]))
        target = self.target_embedding(target_ids) * self.scale  # (B, T, E)
        target = target + sinusoids(target)
        for block in self.decoder:
            target = block(target, source, padding_rows(source_mask, target.shape[1]))
        logits: Tensor = self.logits(target)
        return logits


def greedy_decode(
    logits_of: Callable[[Feeds], Array],
    source_ids: Tokens,
    source_mask: npt.NDArray[np.bool_],
    *,
    start: int,
    end: int,
    limit: int,
) -> Tokens:
    """The likeliest next token, again and again, until every row has ended or `limit` tokens are out.

    `logits_of` maps the feeds source_ids, source_mask (B, S) and target_ids (B, T) to logits (B, T, V): a PyTorch
    module or an ORT session, behind a function. Returns (B, N), without `start`; `end` fills rows that have ended.
    Raises ValueError where `limit` is below 1.
    """
    if limit < 1:
        raise ValueError(f"limit must be at least 1, got {limit}")
    target = np.full((source_ids.shape[0], 1), start, dtype=np.int64)
    ended = np.zeros(source_ids.shape[0], dtype=np.bool_)
    while target.shape[1] <= limit and not ended.all():
        feeds = {"source_ids": source_ids, "source_mask": source_mask, "target_ids": target}
        likeliest = logits_of(feeds)[:, -1].argmax(axis=-1)
        following = np.where(ended, end, likeliest).astype(np.int64)
        target = np.concatenate([target, following[:, None]], axis=1)
        ended |= following == end
    return target[:, 1:]


VOCABULARY, EMBED, HEADS, HIDDEN, LAYERS = 64, 32, 4, 64, 2

ENTRIES: tuple[Entry, ...] = (
    Entry(
        subject=describe(
            "translation",
            "encoder and decoder over token ids, with a padded source",
            source="seed 003, 3.1 and 4.1",
            inputs=(
                TensorSpec("source_ids", ("batch", "source"), "int64", "tokens", high=VOCABULARY - 1),
                keep_mask("source_mask", "batch", "source"),
                TensorSpec("target_ids", ("batch", "sequence"), "int64", "tokens", high=VOCABULARY - 1),
            ),
            outputs=(OutputSpec("logits", ("batch", "sequence", VOCABULARY), "logits"),),
            axes=(BATCH, SEQUENCE, SOURCE),
            properties=("causality", "padding-invariance", "masked-content", "batch-invariance"),
        ),
        build=lambda: seeded(
            lambda: Translation(
                vocabulary=VOCABULARY, embed_dim=EMBED, num_heads=HEADS, hidden_dim=HIDDEN, num_layers=LAYERS
            ),
            seed=821,
        ),
        oracle=partial(oracles.translation, num_heads=HEADS, num_layers=LAYERS),
    ),
)
