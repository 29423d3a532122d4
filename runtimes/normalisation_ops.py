"""Normalisations, in the stash dtype where halves are normalised and in float64 where all is float64."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from onnx import TensorProto, helper
from onnx.reference.op_run import OpRun

from onnxparity.protocols import Array

__all__ = [
    "BatchNormalization",
    "GroupNormalization",
    "InstanceNormalization",
    "LayerNormalization",
    "LpNormalization",
    "RMSNormalization",
]


class LayerNormalization(OpRun):
    """The evaluator's computes halves in half, where stash_type says float32."""

    op_domain = ""

    def _run(
        self,
        x: Array,
        scale: Array,
        bias: Array | None = None,
        axis: int = -1,
        epsilon: float = 1e-5,
        stash_type: int = 1,
    ) -> tuple[Array, Array, Array]:
        axes = tuple(range(axis % x.ndim, x.ndim))
        normal, mean, inverse = _standardised(x, axes, epsilon, stash_type)
        return _scaled(normal, scale, bias), mean, inverse


class RMSNormalization(OpRun):
    """As LayerNormalization."""

    op_domain = ""

    def _run(self, x: Array, scale: Array, axis: int = -1, epsilon: float = 1e-5, stash_type: int = 1) -> tuple[Array]:
        wide = x.astype(_stash(x, stash_type))
        axes = tuple(range(axis % x.ndim, x.ndim))
        square = np.mean(wide * wide, axis=axes, keepdims=True)
        return (_scaled((wide / np.sqrt(square + wide.dtype.type(epsilon))).astype(x.dtype), scale, None),)


class GroupNormalization(OpRun):
    """Has no implementation of its own in the evaluator. Scales per group at opset 18, per channel from 21 on."""

    op_domain = ""

    def _run(
        self,
        x: Array,
        scale: Array,
        bias: Array,
        num_groups: int = 1,
        epsilon: float = 1e-5,
        stash_type: int = 1,
    ) -> tuple[Array]:
        grouped = x.reshape(x.shape[0], num_groups, -1)  # (N, G, C/G * ...)
        normal = _standardised(grouped, (2,), epsilon, stash_type)[0].reshape(x.shape)
        if scale.size != x.shape[1]:
            scale, bias = (np.repeat(v, x.shape[1] // num_groups) for v in (scale, bias))
        per_channel = (-1,) + (1,) * (x.ndim - 2)
        return (_scaled(normal, scale.reshape(per_channel), bias.reshape(per_channel)),)


class InstanceNormalization(OpRun):
    """The evaluator's computes halves in half."""

    op_domain = ""

    def _run(self, x: Array, scale: Array, bias: Array, epsilon: float = 1e-5) -> tuple[Array]:
        normal = _standardised(x, tuple(range(2, x.ndim)), epsilon, TensorProto.FLOAT)[0]
        per_channel = (-1,) + (1,) * (x.ndim - 2)
        return (_scaled(normal, scale.reshape(per_channel), bias.reshape(per_channel)),)


class BatchNormalization(OpRun):
    """The evaluator's trains at opsets 9 to 13, where a node with one output is inference."""

    op_domain = ""

    def _run(
        self,
        x: Array,
        scale: Array,
        bias: Array,
        mean: Array,
        var: Array,
        epsilon: float = 1e-5,
        momentum: float = 0.9,
        training_mode: int = 0,
    ) -> tuple[Array]:
        if training_mode or sum(map(bool, self.onnx_node.output)) > 1:
            raise NotImplementedError("BatchNormalization in training mode: export in eval mode")
        per_channel = (-1,) + (1,) * (x.ndim - 2)
        scale, bias, mean, var = (v.reshape(per_channel) for v in (scale, bias, mean, var))
        return (((x - mean) / np.sqrt(var + var.dtype.type(epsilon)) * scale + bias).astype(x.dtype),)


class LpNormalization(OpRun):
    """The evaluator's adds signed values for p = 1."""

    op_domain = ""

    def _run(self, x: Array, axis: int = -1, p: int = 2) -> tuple[Array]:
        norm = np.abs(x).sum(axis=axis, keepdims=True) if p == 1 else np.sqrt((x * x).sum(axis=axis, keepdims=True))
        return (np.where(norm == 0, 0, x / norm).astype(x.dtype),)


def _stash(x: Array, stash_type: int) -> npt.DTypeLike:
    """What a normalisation computes in: float64 for float64, else what the node says."""
    return np.float64 if x.dtype == np.float64 else helper.tensor_dtype_to_np_dtype(stash_type)


def _standardised(x: Array, axes: tuple[int, ...], epsilon: float, stash_type: int) -> tuple[Array, Array, Array]:
    """(x - mean) / sqrt(variance + epsilon) in the dtype of x; mean and 1/sqrt(...) in the stash dtype."""
    wide = x.astype(_stash(x, stash_type), copy=False)
    mean = np.mean(wide, axis=axes, keepdims=True)
    deviation = wide - mean
    variance = np.mean(deviation * deviation, axis=axes, keepdims=True)
    inverse = 1 / np.sqrt(variance + wide.dtype.type(epsilon))
    return (deviation * inverse).astype(x.dtype, copy=False), mean, inverse


def _scaled(normal: Array, scale: Array, bias: Array | None) -> Array:
    scaled = normal * scale
    return np.asarray(scaled if bias is None else scaled + bias)
