"""Feed-forward networks of each position (seed 003, part 2.7), also read as key-value memories (seed 004, part 6)."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from onnxparity.models import oracles_blocks as oracles
from onnxparity.models.describe import describe, features, output
from onnxparity.models.drawing import seeded
from onnxparity.models.entry import Entry, Oracle

__all__ = ["ENTRIES", "FeedForwardGELU", "FeedForwardReLU", "FeedForwardSwiGLU", "KeyValueMemory"]


class FeedForwardReLU(nn.Module):
    """W_2 relu(W_1 x + b_1) + b_2: x (B, T, E) -> (B, T, E). Seed 003, part 2.7; Vaswani et al. 2017, 3.3."""

    def __init__(self, *, embed_dim: int, hidden_dim: int) -> None:
        super().__init__()
        _check(embed_dim, hidden_dim)
        self.up = nn.Linear(embed_dim, hidden_dim)
        self.down = nn.Linear(hidden_dim, embed_dim)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.down(F.relu(self.up(x)))
        return out


class FeedForwardGELU(nn.Module):
    """W_2 gelu(W_1 x + b_1) + b_2 with the exact (erf) GELU of Hendrycks and Gimpel 2016: (B, T, E) -> (B, T, E)."""

    def __init__(self, *, embed_dim: int, hidden_dim: int) -> None:
        super().__init__()
        _check(embed_dim, hidden_dim)
        self.up = nn.Linear(embed_dim, hidden_dim)
        self.down = nn.Linear(hidden_dim, embed_dim)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.down(F.gelu(self.up(x)))
        return out


class FeedForwardSwiGLU(nn.Module):
    """W_down (silu(W_gate x) * W_up x) without biases (Shazeer 2020): x (B, T, E) -> (B, T, E)."""

    def __init__(self, *, embed_dim: int, hidden_dim: int) -> None:
        super().__init__()
        _check(embed_dim, hidden_dim)
        self.gate = nn.Linear(embed_dim, hidden_dim, bias=False)
        self.up = nn.Linear(embed_dim, hidden_dim, bias=False)
        self.down = nn.Linear(hidden_dim, embed_dim, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.down(F.silu(self.gate(x)) * self.up(x))
        return out


class KeyValueMemory(nn.Module):
    """A feed-forward network as a memory: how well x matches each key decides how much of its value is read.

    x (B, T, E) -> sum over memories i of relu(x . key_i + b_i) value_i + c, (B, T, E).
    Seed 004, part 6; Geva et al. 2021, section 2. It is `FeedForwardReLU` with keys W_1 and values W_2 transposed.
    """

    def __init__(self, *, embed_dim: int, memories: int) -> None:
        super().__init__()
        _check(embed_dim, memories)
        self.keys = nn.Parameter(torch.randn(memories, embed_dim) / math.sqrt(embed_dim))
        self.values = nn.Parameter(torch.randn(memories, embed_dim) / math.sqrt(memories))
        self.key_bias = nn.Parameter(torch.randn(memories))
        self.output_bias = nn.Parameter(torch.randn(embed_dim))

    def forward(self, x: Tensor) -> Tensor:
        coefficients = F.relu(x @ self.keys.T + self.key_bias)  # (B, T, M)
        return coefficients @ self.values + self.output_bias


def _check(embed_dim: int, hidden_dim: int) -> None:
    if embed_dim < 1 or hidden_dim < 1:
        raise ValueError(f"embed_dim and the hidden size must be positive, got {embed_dim} and {hidden_dim}")


EMBED, HIDDEN = 32, 64


def _entry(name: str, summary: str, source: str, make: Callable[[], nn.Module], oracle: Oracle, seed: int) -> Entry:
    subject = describe(
        name,
        summary,
        source=source,
        inputs=(features("x", "batch", "sequence", EMBED),),
        outputs=(output("batch", "sequence", EMBED),),
        properties=("batch-invariance", "permutation-equivariance"),
    )
    return Entry(subject=subject, build=lambda: seeded(make, seed=seed), oracle=oracle)


ENTRIES: tuple[Entry, ...] = (
    _entry(
        "feed-forward-relu",
        "feed-forward network with ReLU",
        "seed 003, part 2.7",
        lambda: FeedForwardReLU(embed_dim=EMBED, hidden_dim=HIDDEN),
        oracles.feed_forward_relu,
        501,
    ),
    _entry(
        "feed-forward-gelu",
        "feed-forward network with exact GELU",
        "seed 003, part 2.7; Hendrycks and Gimpel 2016",
        lambda: FeedForwardGELU(embed_dim=EMBED, hidden_dim=HIDDEN),
        oracles.feed_forward_gelu,
        502,
    ),
    _entry(
        "feed-forward-swiglu",
        "gated feed-forward network, as in Llama",
        "Shazeer 2020; seed 003, part 2.7",
        lambda: FeedForwardSwiGLU(embed_dim=EMBED, hidden_dim=HIDDEN),
        oracles.feed_forward_swiglu,
        503,
    ),
    _entry(
        "key-value-memory",
        "feed-forward network as keys that are matched and values that are read",
        "seed 004, part 6; Geva et al. 2021",
        lambda: KeyValueMemory(embed_dim=EMBED, memories=HIDDEN),
        oracles.key_value_memory,
        504,
    ),
)
