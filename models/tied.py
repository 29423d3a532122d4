"""A language model whose output weights are its embeddings (Press and Wolf 2017), as GPT-2 and T5 have it."""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch.nn.functional as F
from torch import Tensor, nn

from onnxparity.case import OutputSpec, TensorSpec
from onnxparity.models.attention import causal_mask
from onnxparity.models.blocks import EncoderBlockPreNorm
from onnxparity.models.describe import BATCH, SEQUENCE, describe
from onnxparity.models.drawing import seeded
from onnxparity.models.entry import Entry, Weights
from onnxparity.models.oracles import causal_keep, layer_norm
from onnxparity.models.oracles_attention import sinusoids as sinusoids_oracle
from onnxparity.models.oracles_blocks import encoder_pre_norm
from onnxparity.models.positions import sinusoids
from onnxparity.protocols import Array

__all__ = ["ENTRIES", "TiedLanguageModel"]


class TiedLanguageModel(nn.Module):
    """tokens (B, T) -> logits (B, T, V), each the product of a position's features with a token's embedding.

    Press and Wolf 2017; seed 003, 3.2. One causal pre-norm block; embeddings have deviation 1/sqrt(E) and are
    multiplied by sqrt(E) on their way in (Vaswani et al. 2017, 3.4).
    """

    def __init__(self, *, vocabulary: int, embed_dim: int, num_heads: int, hidden_dim: int) -> None:
        super().__init__()
        self.scale = math.sqrt(embed_dim)
        self.embedding = nn.Embedding(vocabulary, embed_dim)
        nn.init.normal_(self.embedding.weight, std=embed_dim**-0.5)
        self.block = EncoderBlockPreNorm(embed_dim=embed_dim, num_heads=num_heads, hidden_dim=hidden_dim)
        self.norm = nn.LayerNorm(embed_dim)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.embedding(tokens) * self.scale  # (B, T, E)
        x = x + sinusoids(x)
        x = self.norm(self.block(x, causal_mask(x)))
        return F.linear(x, self.embedding.weight)  # (B, T, V)


VOCABULARY, EMBED, HEADS, HIDDEN = 48, 32, 4, 64


def _oracle(weights: Weights, feeds: Mapping[str, Array]) -> tuple[Array, ...]:
    """Seed 003, parts 2.6 to 2.8, and one table at both ends."""
    table, tokens = weights["embedding.weight"], feeds["tokens"]
    x = table[tokens] * math.sqrt(EMBED) + sinusoids_oracle(tokens.shape[1], EMBED)
    x = encoder_pre_norm(weights, "block.", x, num_heads=HEADS, keep=causal_keep(tokens.shape[1]))
    return (layer_norm(x, weights, "norm") @ table.T,)


ENTRIES: tuple[Entry, ...] = (
    Entry(
        subject=describe(
            "tied-language-model",
            "causal language model whose output weights are its embeddings",
            source="seed 003, 3.2; Press and Wolf 2017",
            inputs=(TensorSpec("tokens", ("batch", "sequence"), "int64", "tokens", high=VOCABULARY - 1),),
            outputs=(OutputSpec("logits", ("batch", "sequence", VOCABULARY), "logits"),),
            axes=(BATCH, SEQUENCE),
            properties=("causality", "batch-invariance"),
        ),
        build=lambda: seeded(
            lambda: TiedLanguageModel(vocabulary=VOCABULARY, embed_dim=EMBED, num_heads=HEADS, hidden_dim=HIDDEN),
            seed=851,
        ),
        oracle=_oracle,
    ),
)
