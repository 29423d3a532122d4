"""Nadaraya-Watson regression: what attention is when the kernel is Gaussian instead of learned.

y(x) = sum_i K(x, x_i) y_i / sum_j K(x, x_j), with K(x, z) = exp(-|x - z|^2 / (2 h^2)) (seed 000, part 5.2).
For keys and queries of norm 1, |q - k|^2 = 2 - 2 q.k, so this is softmax attention with scale 1 / h^2.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor, nn

from onnxparity.case import OutputSpec
from onnxparity.models.describe import BATCH, SEQUENCE, SOURCE, describe, features, output
from onnxparity.models.drawing import seeded
from onnxparity.models.entry import Entry, Weights
from onnxparity.protocols import Array

__all__ = ["ENTRIES", "KernelRegression", "kernel_regression_oracle"]

FEATURES, TARGETS, BANDWIDTH = 8, 16, 1.5


class KernelRegression(nn.Module):
    """query (B, T, D), keys (B, S, D), values (B, S, M) -> output (B, T, M), weights (B, T, S).

    Raises ValueError where the bandwidth is not positive.
    """

    def __init__(self, *, bandwidth: float) -> None:
        super().__init__()
        if not bandwidth > 0:
            raise ValueError(f"bandwidth must be above 0, got {bandwidth}")
        self.bandwidth = nn.Parameter(torch.tensor(bandwidth))

    def forward(self, query: Tensor, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        # Divided before it is squared: half precision ends at 65504. Kernel and quotient are one softmax, which
        # subtracts the nearest key's exponent; the kernels themselves underflow to 0/0 far from every key.
        steps = (query.unsqueeze(2) - keys.unsqueeze(1)) / self.bandwidth  # (B, T, S, D)
        weights = torch.softmax(-0.5 * (steps * steps).sum(-1), dim=-1)  # (B, T, S)
        return weights @ values, weights


def kernel_regression_oracle(weights: Weights, feeds: Mapping[str, Array]) -> tuple[Array, ...]:
    """Kernel by kernel; numerator and denominator share the factor exp(nearest), which cancels."""
    difference = feeds["query"][:, :, None] - feeds["keys"][:, None]
    distance = np.einsum("btsd,btsd->bts", difference, difference)
    kernel = np.exp((distance.min(axis=-1, keepdims=True) - distance) / (2 * weights["bandwidth"] ** 2))
    total = kernel.sum(axis=-1)[..., None]
    return np.einsum("bts,bsm->btm", kernel, feeds["values"]) / total, kernel / total


ENTRIES: tuple[Entry, ...] = (
    Entry(
        subject=describe(
            "kernel-regression",
            "attention with a fixed Gaussian kernel over Euclidean distances",
            source="seed 000, 5.2: Nadaraya-Watson kernel regression",
            inputs=(
                features("query", "batch", "sequence", FEATURES),
                features("keys", "batch", "source", FEATURES),
                features("values", "batch", "source", TARGETS),
            ),
            outputs=(
                output("batch", "sequence", TARGETS),
                OutputSpec("weights", ("batch", "sequence", "source"), "weights"),
            ),
            axes=(BATCH, SEQUENCE, SOURCE),
            properties=(
                "batch-invariance",
                "simplex",
                "permutation-invariance",
                "convex-hull",
                "kernel-regression",
                "weights-not-enough",
            ),
            reads={"output": "values"},
        ),
        build=lambda: seeded(lambda: KernelRegression(bandwidth=BANDWIDTH), seed=702),
        oracle=kernel_regression_oracle,
    ),
)
