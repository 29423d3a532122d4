"""Positions as an input, as decoders with a cache take them: an index into a table, and an angle to turn by."""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor, nn

from onnxparity.case import TensorSpec
from onnxparity.models import oracles_attention as oracles
from onnxparity.models.describe import describe, features, output
from onnxparity.models.drawing import seeded
from onnxparity.models.entry import Entry
from onnxparity.models.positions import wide

__all__ = ["ENTRIES", "RotaryAtPositions", "TableAtPositions"]


class TableAtPositions(nn.Module):
    """x + p with p a learned table, read where each token stands (seed 003, part 2.6; Vaswani et al. 2017, 3.5).

    x (B, T, E), position_ids (B, T) below `max_length` -> (B, T, E). A position beyond the table raises IndexError.
    """

    def __init__(self, *, embed_dim: int, max_length: int) -> None:
        super().__init__()
        if embed_dim < 1 or max_length < 1:
            raise ValueError(f"embed_dim and max_length must be positive, got {embed_dim} and {max_length}")
        self.table = nn.Embedding(max_length, embed_dim)

    def forward(self, x: Tensor, position_ids: Tensor) -> Tensor:
        out: Tensor = x + self.table(position_ids)
        return out


class RotaryAtPositions(nn.Module):
    """Components i and i + D/2 of x turned by the angle t * base^(-2i/D) (Su et al. 2021, in Llama's pairing).

    x (B, H, T, D), position_ids (B, T) with the t of each token -> (B, H, T, D). There is no last position.
    """

    def __init__(self, *, head_dim: int, base: float) -> None:
        super().__init__()
        if head_dim < 2 or head_dim % 2:
            raise ValueError(f"head_dim must be a positive multiple of 2, got {head_dim}")
        self.pairs, self.base = head_dim // 2, base

    def forward(self, x: Tensor, position_ids: Tensor) -> Tensor:
        exponent = torch.arange(self.pairs, device=x.device, dtype=wide(x)) / self.pairs
        angles = position_ids[:, None, :, None].to(wide(x)) * self.base**-exponent  # (B, 1, T, D/2)
        sin, cos = angles.sin().to(x.dtype), angles.cos().to(x.dtype)
        a, b = x[..., : self.pairs], x[..., self.pairs :]
        return torch.cat([a * cos - b * sin, b * cos + a * sin], dim=-1)


EMBED, MAX_LENGTH = 32, 256
HEADS, HEAD_DIM, BASE = 4, 10, 10000.0


def _positions(high: int) -> TensorSpec:
    return TensorSpec("position_ids", ("batch", "sequence"), "int64", "positions", high=high)


ENTRIES: tuple[Entry, ...] = (
    Entry(
        subject=describe(
            "learned-positions-given",
            "input plus a learned table of positions that are an input too",
            source="seed 003, part 2.6; Vaswani et al. 2017, 3.5",
            inputs=(features("x", "batch", "sequence", EMBED), _positions(MAX_LENGTH - 1)),
            outputs=(output("batch", "sequence", EMBED),),
        ),
        build=lambda: seeded(lambda: TableAtPositions(embed_dim=EMBED, max_length=MAX_LENGTH), seed=1401),
        oracle=oracles.table_at_positions,
    ),
    Entry(
        subject=describe(
            "rotary-positions-given",
            "heads turned by positions that are an input, however late",
            source="Su et al. 2021; seed 003, part 2.6",
            inputs=(features("x", "batch", HEADS, "sequence", HEAD_DIM), _positions(1 << 20)),
            outputs=(output("batch", HEADS, "sequence", HEAD_DIM),),
        ),
        build=lambda: seeded(lambda: RotaryAtPositions(head_dim=HEAD_DIM, base=BASE), seed=1402),
        oracle=partial(oracles.rotary_at_positions, base=BASE),
    ),
)
