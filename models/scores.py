"""What the softmax of attention takes, with and without the scale: scores of queries and keys by themselves."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor, nn

from onnxparity.case import OutputSpec
from onnxparity.models.describe import BATCH, SEQUENCE, SOURCE, describe, features
from onnxparity.models.drawing import seeded
from onnxparity.models.entry import Entry, Oracle, Weights
from onnxparity.models.oracles import softmax
from onnxparity.protocols import Array

__all__ = ["ENTRIES", "AttentionScores", "scores_oracle"]

WIDTH = 64
"""The head size that seed 000, part 2.3 names as large."""


class AttentionScores(nn.Module):
    """q kᵀ / divisor and its softmax: query (B, T, D), key (B, S, D) -> scores (B, T, S), weights (B, T, S).

    Raises ValueError where the divisor is not positive.
    """

    def __init__(self, *, divisor: float) -> None:
        super().__init__()
        if not divisor > 0:
            raise ValueError(f"divisor must be above 0, got {divisor}")
        self.divisor = divisor

    def forward(self, query: Tensor, key: Tensor) -> tuple[Tensor, Tensor]:
        scores = query @ key.transpose(-2, -1) / self.divisor  # (B, T, S)
        return scores, torch.softmax(scores, dim=-1)


def scores_oracle(divisor: float) -> Oracle:
    """Score by score, as seed 000, part 2.2 writes a product of two vectors."""

    def oracle(weights: Weights, feeds: Mapping[str, Array]) -> tuple[Array, ...]:
        scores = np.einsum("btd,bsd->bts", feeds["query"], feeds["key"]) / divisor
        return scores, softmax(scores)

    return oracle


def _entry(name: str, summary: str, source: str, claim: str, divisor: float) -> Entry:
    dims = ("batch", "sequence", "source")
    subject = describe(
        name,
        summary,
        source=source,
        inputs=(features("query", "batch", "sequence", WIDTH), features("key", "batch", "source", WIDTH)),
        outputs=(OutputSpec("scores", dims, "scores"), OutputSpec("weights", dims, "weights")),
        axes=(BATCH, SEQUENCE, SOURCE),
        properties=("batch-invariance", "simplex", "permutation-invariance", claim),
    )
    return Entry(
        subject=subject,
        build=lambda: seeded(lambda: AttentionScores(divisor=divisor), seed=721),
        oracle=scores_oracle(divisor),
    )


ENTRIES: tuple[Entry, ...] = (
    _entry(
        "scaled-scores",
        f"scores of {WIDTH} components, divided by their root, and their softmax",
        "seed 000, part 2.3; seed 001, why to divide by sqrt(d_k); seed 004, part 3",
        "unit-variance",
        math.sqrt(WIDTH),
    ),
    _entry(
        "unscaled-scores",
        f"scores of {WIDTH} components as they are, whose softmax saturates",
        "seed 000, part 2.3; seed 003, part 2.3",
        "saturation",
        1.0,
    ),
)
