"""Factories for small models on which exports or runtimes are known to go wrong; each stands for its kind.

Run from this folder, `onnxparity verify public_cases:mask_bool` shows what the tests expect.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.export import Dim

Case = dict[str, Any]  # Any: a module, its arguments, and torch.export's own nested structure of dims

BATCH, TOKENS = Dim("batch"), Dim("tokens")
HIDDEN_ROW = 2


def normal(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0))


def seeded(module: type[nn.Module]) -> nn.Module:
    torch.manual_seed(0)
    return module()


class Attention(nn.Module):
    """Scaled dot-product attention under a mask that the caller brings."""

    def forward(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)  # (B, H, T, D)


def one_row_hidden(fill: float | None) -> Case:
    """A mask (B, 1, T, T) under which one query of the first sample sees no key at all."""
    keep = torch.ones(2, 1, 5, 5, dtype=torch.bool)
    keep[0, 0, HIDDEN_ROW] = False
    mask = keep if fill is None else torch.where(keep, 0.0, fill)
    rows = {0: BATCH, 2: TOKENS}
    args = (*(normal(2, 2, 5, 8) + n for n in range(3)), mask)
    return {"module": Attention(), "args": args, "dynamic_shapes": (rows, rows, rows, {0: BATCH, 2: TOKENS, 3: TOKENS})}


def mask_bool() -> Case:
    return one_row_hidden(None)


def mask_infinite() -> Case:
    return one_row_hidden(float("-inf"))


def mask_lowest() -> Case:
    return one_row_hidden(torch.finfo(torch.float32).min)


def mask_ten_thousand() -> Case:
    return one_row_hidden(-1e4)


class Unscaled(nn.Module):
    """Attention without the scale: the scores grow with the width of a head, the softmax would not mind."""

    def forward(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return F.scaled_dot_product_attention(q, k, v, scale=1.0)  # (B, H, T, D)


def scores_beyond_half() -> Case:
    wide = (normal(1, 2, 8, 512) * 16).half()
    return {"module": Unscaled().eval(), "args": (wide, wide.clone(), wide.clone())}


class PaddedEncoder(nn.Module):
    """An encoder that is told which tokens are padding."""

    def __init__(self) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)

    def forward(self, x: Tensor, pad: Tensor) -> Tensor:
        y: Tensor = self.encoder(x, src_key_padding_mask=pad)  # (B, T, 32)
        return y


def padding() -> Case:
    pad = torch.zeros(2, 6, dtype=torch.bool)
    pad[1, 4:] = True
    sizes = {0: BATCH, 1: TOKENS}
    return {"module": seeded(PaddedEncoder).eval(), "args": (normal(2, 6, 32), pad), "dynamic_shapes": (sizes, sizes)}


class SelfAttention(nn.Module):
    """Queries, keys and values from one sequence."""

    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(32, 4, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.attention(x, x, x, need_weights=False)[0]  # (B, T, 32)
        return y


def batch_of_one() -> Case:
    sizes = ({0: BATCH, 1: TOKENS},)
    return {"module": seeded(SelfAttention).eval(), "args": (normal(1, 6, 32),), "dynamic_shapes": sizes}


def batch_of_two() -> Case:
    return batch_of_one() | {"args": (normal(2, 6, 32),)}


class WithDropout(nn.Module):
    """A projection with dropout behind it."""

    def __init__(self) -> None:
        super().__init__()
        self.project, self.drop = nn.Linear(16, 16), nn.Dropout(0.5)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.drop(self.project(x))  # (B, 16)
        return y


def left_in_training() -> Case:
    module = seeded(WithDropout).train()
    return {"module": module, "args": (normal(3, 16),), "dynamic_shapes": ({0: BATCH},)}


class Projection(nn.Module):
    """One linear layer."""

    def __init__(self) -> None:
        super().__init__()
        self.project = nn.Linear(16, 16)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.project(x)  # (B, 16)
        return y


def in_bfloat16() -> Case:
    module = seeded(Projection).bfloat16().eval()
    return {"module": module, "args": (normal(3, 16).bfloat16(),), "dynamic_shapes": ({0: BATCH},)}


class Rotary(nn.Module):
    """Rotary embedding whose table of angles has no batch and is broadcast over that of x."""

    def forward(self, x: Tensor) -> Tensor:
        tokens, width = x.shape[2], x.shape[3]
        speed = 10000.0 ** (-torch.arange(0, width, 2, dtype=torch.float32) / width)
        angle = torch.arange(tokens, dtype=torch.float32)[:, None] * speed  # (T, D/2)
        table = torch.cat([angle, angle], -1)[None, None]  # (1, 1, T, D)
        turned = torch.cat([-x[..., width // 2 :], x[..., : width // 2]], -1)
        return x * table.cos() + turned * table.sin()  # (B, H, T, D)


def rotary() -> Case:
    return {"module": Rotary().eval(), "args": (normal(2, 2, 6, 16),), "dynamic_shapes": ({0: BATCH, 2: TOKENS},)}
