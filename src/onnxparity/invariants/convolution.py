"""Attention over the offsets of a kernel is a convolution: its taps are read off, and must give the outputs."""

from __future__ import annotations

import dataclasses

import numpy as np

from onnxparity.case import TensorSpec
from onnxparity.invariants.setting import Setting, lacks
from onnxparity.numerics.compare import Comparison
from onnxparity.protocols import Array

__all__ = ["convolution"]


def convolution(setting: Setting) -> Comparison:
    """The layer is a convolution with zero padding: y(p) = b + sum_c sum_d W_c(d) x_c(p - d).

    The taps W are what one bright pixel in the middle of an image gives, the bias b what a dark image gives; both
    are then held against the outputs of real images at every pixel, the border included.
    Source: Cordonnier et al. 2020, theorem 1 (reference 7 of seed 004, part 5).
    """
    images, output = _sides(setting)
    outputs, noise = setting.run(setting.feeds), setting.noise(setting.feeds)
    x = np.asarray(setting.feeds[images.name], np.float64)  # (B, C, H, W)
    dark = _answer(setting, images.name, output, np.zeros_like(x))  # (B, M, H, W)
    middle = x.shape[2] // 2, x.shape[3] // 2
    want = np.zeros_like(dark) + dark[..., middle[0], middle[1], None, None]
    read = np.zeros_like(dark)  # what the rounding of the answers that are read may come to
    reach = []
    for channel in range(x.shape[1]):
        bright = np.zeros_like(x)
        bright[:, channel, middle[0], middle[1]] = 1
        answer = _answer(setting, images.name, output, bright)
        taps = answer - dark  # (B, M, H, W), the middle is offset 0
        for row, column in np.argwhere(np.abs(taps).max(axis=(0, 1)) > 0):
            down, right = int(row) - middle[0], int(column) - middle[1]
            moved = _moved(x[:, channel, None], down, right)
            want += taps[:, :, row, column, None, None] * moved
            read += setting.floor * np.abs(answer[:, :, row, column, None, None] * moved)
            reach += [abs(down), abs(right)]
    spread = np.maximum(noise[output], setting.at_most(read, want))
    found = setting.same({output: want}, {output: outputs[output]}, {output: spread})
    size = 2 * max(reach, default=0) + 1
    return dataclasses.replace(found, evidence=(*found.evidence, f"the kernel is at most {size} x {size}"))


def _sides(setting: Setting) -> tuple[TensorSpec, str]:
    """The images (B, C, H, W) and the name of the output (B, M, H, W)."""
    images = [s for s in setting.subject.inputs if s.role == "features" and len(s.dims) == 4]
    outputs = [o for o in setting.subject.outputs if images and o.dims[2:] == images[0].dims[2:] and len(o.dims) == 4]
    if not images or not outputs:
        raise lacks(setting.subject, "has no images (B, C, H, W) and no output of their height and width")
    return images[0], outputs[0].name


def _answer(setting: Setting, images: str, output: str, values: Array) -> Array:
    fed = {**setting.feeds, images: values.astype(setting.feeds[images].dtype)}
    return np.asarray(setting.run(fed)[output], np.float64)


def _moved(image: Array, down: int, right: int) -> Array:
    """The image moved by an offset, with zeros where nothing moves in."""
    height, width = image.shape[-2:]
    moved = np.zeros_like(image)
    if abs(down) < height and abs(right) < width:
        to = slice(max(down, 0), height + min(down, 0)), slice(max(right, 0), width + min(right, 0))
        of = slice(max(-down, 0), height + min(-down, 0)), slice(max(-right, 0), width + min(-right, 0))
        moved[..., to[0], to[1]] = image[..., of[0], of[1]]
    return moved
