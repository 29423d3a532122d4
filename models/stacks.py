"""Blocks on top of each other: encoders of both norm orders, a decoder, and one built to be numerically hard."""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor, nn

from onnxparity.models import oracles_composed as oracles
from onnxparity.models.attention import key_padding
from onnxparity.models.blocks import DecoderBlockPostNorm, EncoderBlockPostNorm, EncoderBlockPreNorm
from onnxparity.models.describe import BATCH, SEQUENCE, SOURCE, describe, features, output
from onnxparity.models.drawing import seeded
from onnxparity.models.entry import Entry

__all__ = ["ENTRIES", "DecoderStack", "EncoderStackPostNorm", "EncoderStackPreNorm", "padding_rows", "positive_layers"]


def padding_rows(mask: Tensor, length: int) -> Tensor:
    """A key padding mask (B, S), True keeps, once for each of `length` queries: (B, 1, T, S).

    Broadcasting would do, but ONNX Runtime 1.31's CPU kernel for Attention (opset 23) refuses a query dim of 1.
    """
    return key_padding(mask).expand(-1, -1, length, -1)


def positive_layers(num_layers: int) -> int:
    """The number itself; raises ValueError below 1."""
    if num_layers < 1:
        raise ValueError(f"num_layers must be at least 1, got {num_layers}")
    return num_layers


class EncoderStackPostNorm(nn.Module):
    """Post-norm encoder blocks in a row: x (B, T, E) -> (B, T, E). Seed 003, parts 2.7 and 3.1."""

    def __init__(self, *, embed_dim: int, num_heads: int, hidden_dim: int, num_layers: int) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(
            EncoderBlockPostNorm(embed_dim=embed_dim, num_heads=num_heads, hidden_dim=hidden_dim)
            for _ in range(positive_layers(num_layers))
        )

    def forward(self, x: Tensor) -> Tensor:
        for block in self.blocks:
            x = block(x)
        return x


class EncoderStackPreNorm(nn.Module):
    """Pre-norm encoder blocks in a row and the norm that their open residual stream needs at its end.

    x (B, T, E) -> (B, T, E). Xiong et al. 2020, with the parts of seed 003, part 2.7.
    """

    def __init__(self, *, embed_dim: int, num_heads: int, hidden_dim: int, num_layers: int) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(
            EncoderBlockPreNorm(embed_dim=embed_dim, num_heads=num_heads, hidden_dim=hidden_dim)
            for _ in range(positive_layers(num_layers))
        )
        self.norm = nn.LayerNorm(embed_dim)

    def forward(self, x: Tensor) -> Tensor:
        for block in self.blocks:
            x = block(x)
        out: Tensor = self.norm(x)
        return out


class DecoderStack(nn.Module):
    """Decoder blocks in a row, each reading the same source, which may have another length.

    x (B, T, E), source (B, S, E) -> (B, T, E). Seed 003, parts 2.8 and 3.1.
    """

    def __init__(self, *, embed_dim: int, num_heads: int, hidden_dim: int, num_layers: int) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(
            DecoderBlockPostNorm(embed_dim=embed_dim, num_heads=num_heads, hidden_dim=hidden_dim)
            for _ in range(positive_layers(num_layers))
        )

    def forward(self, x: Tensor, source: Tensor) -> Tensor:
        for block in self.blocks:
            x = block(x, source)
        return x


EMBED, HEADS, HIDDEN, LAYERS, DEEP = 32, 4, 64, 3, 12
SHARPEN, OUTLIERS, OUTLIER_SIZE = 2.0, (3, 17), 8.0


def _saturated() -> EncoderStackPostNorm:
    """Twelve layers whose scores are large enough for a nearly one-hot softmax, and whose norms pass on a few
    channels much larger than the rest, as trained models do (seed 000, part 2.3; Dettmers et al. 2022)."""
    stack = seeded(
        lambda: EncoderStackPostNorm(embed_dim=EMBED, num_heads=HEADS, hidden_dim=HIDDEN, num_layers=DEEP), seed=804
    )
    with torch.no_grad():
        for name, parameter in stack.named_parameters():
            if name.endswith(("attention.query.weight", "attention.key.weight")):
                parameter.mul_(SHARPEN)
            if name.endswith("norm.weight"):
                parameter[list(OUTLIERS)] *= OUTLIER_SIZE
    return stack


_X, _OUTPUT = features("x", "batch", "sequence", EMBED), output("batch", "sequence", EMBED)
_SIZES = {"embed_dim": EMBED, "num_heads": HEADS, "hidden_dim": HIDDEN}

ENTRIES: tuple[Entry, ...] = (
    Entry(
        subject=describe(
            "encoder-stack-post-norm",
            f"{LAYERS} encoder blocks, each norm after its residual",
            source="seed 003, parts 2.7 and 3.1",
            inputs=(_X,),
            outputs=(_OUTPUT,),
            properties=(
                "batch-invariance",
                "permutation-equivariance",
            ),
        ),
        build=lambda: seeded(lambda: EncoderStackPostNorm(**_SIZES, num_layers=LAYERS), seed=801),
        oracle=partial(oracles.encoder_stack_post_norm, num_heads=HEADS, num_layers=LAYERS),
    ),
    Entry(
        subject=describe(
            "encoder-stack-pre-norm",
            f"{LAYERS + 1} encoder blocks, each norm before its sub-layer, and a last norm",
            source="seed 003, parts 2.7 and 3.1; Xiong et al. 2020",
            inputs=(_X,),
            outputs=(_OUTPUT,),
            properties=(
                "batch-invariance",
                "permutation-equivariance",
            ),
        ),
        build=lambda: seeded(lambda: EncoderStackPreNorm(**_SIZES, num_layers=LAYERS + 1), seed=802),
        oracle=partial(oracles.encoder_stack_pre_norm, num_heads=HEADS, num_layers=LAYERS + 1),
    ),
    Entry(
        subject=describe(
            "decoder-stack",
            f"{LAYERS} decoder blocks over a source of another length",
            source="seed 003, parts 2.8 and 3.1",
            inputs=(_X, features("source", "batch", "source", EMBED)),
            outputs=(_OUTPUT,),
            axes=(BATCH, SEQUENCE, SOURCE),
            properties=(
                "causality",
                "batch-invariance",
                "permutation-invariance",
            ),
        ),
        build=lambda: seeded(lambda: DecoderStack(**_SIZES, num_layers=LAYERS), seed=803),
        oracle=partial(oracles.decoder_stack, num_heads=HEADS, num_layers=LAYERS),
    ),
    Entry(
        subject=describe(
            "deep-encoder-stack-saturated",
            f"{DEEP} encoder blocks with a nearly one-hot softmax and outlier channels",
            source="seed 000, part 2.3; seed 003, part 2.7",
            inputs=(_X,),
            outputs=(_OUTPUT,),
            properties=(
                "batch-invariance",
                "permutation-equivariance",
            ),
            # With 11 bits or fewer a score of its softmax is off by more than the next one is away: honest rounding
            # moves some vectors by more than their own size, and any answer is honest there.
            dtypes=("float32",),
        ),
        build=_saturated,
        oracle=partial(oracles.encoder_stack_post_norm, num_heads=HEADS, num_layers=DEEP),
    ),
)
