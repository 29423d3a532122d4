"""The Vision Transformer, which seed 000 names beside the language models: an image as a sequence of patches."""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor, nn

from onnxparity.case import OutputSpec
from onnxparity.models import oracles_composed as oracles
from onnxparity.models.blocks import EncoderBlockPreNorm
from onnxparity.models.describe import BATCH, describe, features
from onnxparity.models.drawing import seeded
from onnxparity.models.entry import Entry
from onnxparity.models.stacks import positive_layers

__all__ = ["ENTRIES", "VisionTransformer"]


class VisionTransformer(nn.Module):
    """images (B, 3, S, S) -> logits (B, C), read from a class token in front of the patches (Dosovitskiy et al. 2021).

    The learned positions fix the image's size. Raises ValueError where patches do not tile the image.
    """

    def __init__(
        self,
        *,
        image_size: int,
        patch_size: int,
        embed_dim: int,
        num_heads: int,
        hidden_dim: int,
        num_layers: int,
        num_classes: int,
    ) -> None:
        super().__init__()
        if image_size % patch_size:
            raise ValueError(f"image_size {image_size} is not a multiple of patch_size {patch_size}")
        patches = (image_size // patch_size) ** 2
        self.patches = nn.Conv2d(3, embed_dim, kernel_size=patch_size, stride=patch_size)
        self.class_token = nn.Parameter(torch.randn(1, 1, embed_dim))
        self.positions = nn.Parameter(torch.randn(1, patches + 1, embed_dim))
        self.blocks = nn.ModuleList(
            EncoderBlockPreNorm(embed_dim=embed_dim, num_heads=num_heads, hidden_dim=hidden_dim)
            for _ in range(positive_layers(num_layers))
        )
        self.norm = nn.LayerNorm(embed_dim)
        self.logits = nn.Linear(embed_dim, num_classes)

    def forward(self, images: Tensor) -> Tensor:
        patches = self.patches(images).flatten(2).transpose(1, 2)  # (B, N, E)
        x = torch.cat([self.class_token.expand(images.shape[0], -1, -1), patches], dim=1) + self.positions
        for block in self.blocks:
            x = block(x)
        logits: Tensor = self.logits(self.norm(x[:, 0]))
        return logits


IMAGE, PATCH, EMBED, HEADS, HIDDEN, LAYERS, CLASSES = 16, 4, 32, 4, 64, 2, 10

ENTRIES: tuple[Entry, ...] = (
    Entry(
        subject=describe(
            "vision-transformer",
            "patches, class token, learned positions, pre-norm encoder, class logits",
            source="seed 000, introduction; Dosovitskiy et al. 2021",
            inputs=(features("images", "batch", 3, IMAGE, IMAGE),),
            outputs=(OutputSpec("logits", ("batch", CLASSES), "logits"),),
            axes=(BATCH,),
        ),
        build=lambda: seeded(
            lambda: VisionTransformer(
                image_size=IMAGE,
                patch_size=PATCH,
                embed_dim=EMBED,
                num_heads=HEADS,
                hidden_dim=HIDDEN,
                num_layers=LAYERS,
                num_classes=CLASSES,
            ),
            seed=841,
        ),
        oracle=partial(oracles.vision_transformer, num_heads=HEADS, num_layers=LAYERS, patch_size=PATCH),
    ),
)
