"""Operators that the evaluator does not have, or has in float32 only: shifts, windows, grids, a norm, a scatter."""

from __future__ import annotations

import math

import numpy as np
from onnx import helper
from onnx.reference.op_run import OpRun

from onnxparity.protocols import Array
from onnxparity.runtimes.indexing_ops import ScatterElements

__all__ = ["PLAIN_OPS"]


class AffineGrid(OpRun):
    """The evaluator's grid is float32."""

    op_domain = ""

    def _run(self, theta: Array, size: Array, align_corners: int = 0) -> tuple[Array]:
        """theta (N, 2, 3) and size (N, C, H, W) give a grid (N, H, W, 2); with depth they give (N, D, H, W, 3)."""
        lengths = [int(n) for n in size[2:]]
        axes = [_places(n, bool(align_corners), theta.dtype.type) for n in lengths]
        mesh = np.meshgrid(*axes, indexing="ij")[::-1]  # x first, which is the last axis
        points = np.stack([*mesh, np.ones(lengths, theta.dtype)], -1)  # (H, W, 3)
        grid = points.reshape(-1, points.shape[-1]) @ theta.swapaxes(1, 2)
        return (grid.reshape(theta.shape[0], *lengths, len(lengths)).astype(theta.dtype),)


class BitShift(OpRun):
    """The evaluator's has a calling convention of its own."""

    op_domain = ""

    def _run(self, x: Array, count: Array, direction: str = "") -> tuple[Array]:
        """Bits move by `count`; by the width or more they are all gone, and a shift of negative size counts as that."""
        width = 8 * x.dtype.itemsize
        gone = (count < 0) | (count >= width)
        count = np.where(gone, 0, count).astype(x.dtype)
        if direction == "LEFT":
            return (np.where(gone, 0, np.left_shift(x, count)).astype(x.dtype),)
        rest = np.where(x < 0, -1, 0)  # an arithmetic shift keeps the sign
        return (np.where(gone, rest, np.right_shift(x, count)).astype(x.dtype),)


class MeanVarianceNormalization(OpRun):
    """The evaluator expands a function whose constant is float32."""

    op_domain = ""

    def _run(self, x: Array, axes: tuple[int, ...] = (0, 2, 3)) -> tuple[Array]:
        axes = tuple(axes)
        mean = np.mean(x, axis=axes, keepdims=True)
        variance = np.mean(x * x, axis=axes, keepdims=True) - mean * mean
        return (((x - mean) / (np.sqrt(variance) + x.dtype.type(1e-9))).astype(x.dtype),)


class Scatter(ScatterElements):
    """Has no implementation in the evaluator; ScatterElements without a reduction."""

    op_domain = ""


class _Window(OpRun):
    """A sum of cosines over the places of a window; the evaluator's is float32."""

    op_domain = ""
    weights: tuple[float, ...] = ()

    def _run(self, size: Array, output_datatype: int = 1, periodic: int = 1) -> tuple[Array]:
        kind = helper.tensor_dtype_to_np_dtype(output_datatype)
        angle = 2 * math.pi * np.arange(int(size)) / (int(size) if periodic else int(size) - 1)
        terms = [w * (-1) ** k * np.cos(k * angle) for k, w in enumerate(self.weights)]
        return (np.sum(terms, axis=0).astype(kind),)


class HannWindow(_Window):
    """0.5 - 0.5 cos."""

    weights = (0.5, 0.5)


class HammingWindow(_Window):
    """25/46 - 21/46 cos."""

    weights = (25 / 46, 21 / 46)


class BlackmanWindow(_Window):
    """0.42 - 0.5 cos + 0.08 cos of twice the angle."""

    weights = (0.42, 0.5, 0.08)


PLAIN_OPS: tuple[type[OpRun], ...] = (
    AffineGrid,
    BitShift,
    BlackmanWindow,
    HammingWindow,
    HannWindow,
    MeanVarianceNormalization,
    Scatter,
)


def _places(length: int, align_corners: bool, kind: type[np.generic]) -> Array:
    """Centres of `length` cells between -1 and 1, or their ends where corners are aligned."""
    if align_corners:
        return np.linspace(-1, 1, length).astype(kind)
    return ((2 * np.arange(length) + 1) / length - 1).astype(kind)
