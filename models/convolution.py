"""Convolution as a special case of self-attention: one head per offset of the kernel, positions decide alone.

Cordonnier, Loukas and Jaggi, ICLR 2020 (reference 7 of seed 004, part 5). With quadratic relative scores
-alpha (|delta|^2 - 2 delta . Delta_h) each head's softmax turns into a one-hot at its own offset Delta_h,
and the layer computes exactly what `nn.Conv2d` computes.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor, nn

from onnxparity.case import Axis
from onnxparity.models.describe import BATCH, describe, features, output
from onnxparity.models.drawing import seeded
from onnxparity.models.entry import Entry, Weights
from onnxparity.protocols import Array

__all__ = ["ENTRIES", "ConvolutionByAttention", "convolution_oracle"]

IN_CHANNELS, OUT_CHANNELS, KERNEL = 3, 8, 3


class ConvolutionByAttention(nn.Module):
    """K*K heads of self-attention over the pixels, each reading one offset of a K x K kernel.

    images (B, C, H, W) -> features (B, M, H, W), equal to a K x K convolution with stride 1 and zero padding
    K // 2. Keys lie on the padded grid: without it, a border pixel would attend to its nearest neighbour
    inside, which is another padding. Raises ValueError for an even kernel or a sharpness that is not hard.
    """

    row_offset: Tensor
    column_offset: Tensor
    sharpness: Tensor

    def __init__(self, *, in_channels: int, out_channels: int, kernel_size: int, sharpness: float = 64.0) -> None:
        super().__init__()
        if kernel_size % 2 == 0:
            raise ValueError(f"kernel_size {kernel_size} has no centre; the nearest odd one is {kernel_size + 1}")
        if sharpness < 40:  # the next pixel weighs exp(-sharpness), which must vanish beside 2**-53
            raise ValueError(f"sharpness {sharpness} leaves weight on neighbours; at least 40 makes the softmax hard")
        self.kernel_size = kernel_size
        self.reach = kernel_size // 2
        steps = torch.arange(-self.reach, self.reach + 1, dtype=torch.get_default_dtype())
        rows, columns = torch.meshgrid(steps, steps, indexing="ij")
        self.register_buffer("row_offset", rows.reshape(-1, 1, 1))  # (K*K, 1, 1): Delta_h, its row part
        self.register_buffer("column_offset", columns.reshape(-1, 1, 1))
        self.register_buffer("sharpness", torch.tensor(sharpness))
        self.output = nn.Linear(kernel_size**2 * in_channels, out_channels)

    def load_kernel(self, convolution: nn.Conv2d) -> None:
        """Takes the weights of a convolution: its tap at each offset becomes that head's value projection."""
        with torch.no_grad():
            taps = convolution.weight.flatten(2).transpose(1, 2)  # (M, K*K, C)
            self.output.weight.copy_(taps.flatten(1))
            if convolution.bias is not None:
                self.output.bias.copy_(convolution.bias)

    def forward(self, images: Tensor) -> Tensor:
        height, width = images.shape[2], images.shape[3]
        padded = nn.functional.pad(images, (self.reach,) * 4)
        keys = padded.flatten(2).transpose(1, 2)  # (B, S, C), S pixels of the padded image
        rows = self._scores(height, self.row_offset)[:, :, None, :, None]  # (K*K, H, 1, H', 1)
        columns = self._scores(width, self.column_offset)[:, None, :, None, :]  # (K*K, 1, W, 1, W')
        weights = torch.softmax((rows + columns).flatten(3).flatten(1, 2), dim=-1)  # (K*K, T, S)
        read = torch.matmul(weights, keys.unsqueeze(1))  # (B, K*K, T, C)
        out: Tensor = self.output(read.transpose(1, 2).flatten(2))  # (B, T, M)
        return out.transpose(1, 2).reshape(images.shape[0], -1, height, width)

    def _scores(self, size: int, offset: Tensor) -> Tensor:
        """One axis of the quadratic score, which is a sum over the two axes: (K*K, size, size + 2 reach)."""
        queries = torch.arange(size).to(offset.dtype) + self.reach
        keys = torch.arange(size + 2 * self.reach).to(offset.dtype)
        delta = keys - queries[:, None]
        return self.sharpness * (2 * delta * offset - delta * delta)


def convolution_oracle(weights: Weights, feeds: Mapping[str, Array]) -> tuple[Array, ...]:
    """What the theorem says comes out: the convolution, tap by tap, with no attention in it."""
    images = feeds["images"]
    height, width = images.shape[2:]
    padded = np.pad(images, ((0, 0), (0, 0), (KERNEL // 2, KERNEL // 2), (KERNEL // 2, KERNEL // 2)))
    taps = weights["output.weight"].reshape(-1, KERNEL, KERNEL, images.shape[1])  # (M, K, K, C)
    output = np.zeros((images.shape[0], taps.shape[0], height, width)) + weights["output.bias"][:, None, None]
    for row in range(KERNEL):
        for column in range(KERNEL):
            window = padded[:, :, row : row + height, column : column + width]
            output += np.einsum("bchw,mc->bmhw", window, taps[:, row, column])
    return (output,)


def _build() -> ConvolutionByAttention:
    return seeded(
        lambda: ConvolutionByAttention(in_channels=IN_CHANNELS, out_channels=OUT_CHANNELS, kernel_size=KERNEL),
        seed=701,
    )


# Up to 16 x 16: the largest squared offset, times the sharpness, must stay below 65504 in half precision.
_HEIGHT = Axis("height", "h", "other", high=16)
_WIDTH = Axis("width", "w", "other", high=16)

ENTRIES: tuple[Entry, ...] = (
    Entry(
        subject=describe(
            "convolution-by-attention",
            "3 x 3 convolution written as self-attention with quadratic relative positions",
            source="seed 004, 5, reference 7: Cordonnier et al. 2020, theorem 1",
            inputs=(features("images", "batch", IN_CHANNELS, "height", "width"),),
            outputs=(output("batch", OUT_CHANNELS, "height", "width"),),
            axes=(BATCH, _HEIGHT, _WIDTH),
            properties=(
                "batch-invariance",
                "convolution",
            ),
        ),
        build=_build,
        oracle=convolution_oracle,
    ),
)
