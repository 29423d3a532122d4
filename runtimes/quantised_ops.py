"""Integer operators of quantised graphs, exact in float64 and open to fractional integers.

A quantised tensor carries integers in both arithmetics. When the noise of quantisation is measured it
moves by up to half a step, so these operators also take floats in place of integers and then keep the
fraction; the evaluator's own would cut it off, and its DequantizeLinear goes through float32.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
from onnx import helper, numpy_helper
from onnx.reference.op_run import OpRun

from onnxparity.protocols import Array
from onnxparity.runtimes.convolution_op import convolved

__all__ = ["QUANTISED_OPS", "is_integer"]


class DequantizeLinear(OpRun):
    """The evaluator's goes through float32."""

    op_domain = ""

    def _run(
        self,
        x: Array,
        scale: Array,
        zero_point: Array | None = None,
        axis: int = 1,
        block_size: int = 0,
        output_dtype: int = 0,
    ) -> tuple[Array]:
        wide = np.float64 if scale.dtype == np.float64 else np.float32
        shifted = x.astype(wide) if zero_point is None else x.astype(wide) - _along(zero_point, x, axis, block_size)
        y = shifted * _along(scale, x, axis, block_size)
        return (y.astype(helper.tensor_dtype_to_np_dtype(output_dtype) if output_dtype else scale.dtype),)


class DynamicQuantizeLinear(OpRun):
    """The evaluator's takes range, scale and zero point in float32."""

    op_domain = ""

    def _run(self, x: Array) -> tuple[Array, Array, Array]:
        low, high = np.minimum(0, x.min(initial=0)), np.maximum(0, x.max(initial=0))
        scale = np.asarray((high - low) / x.dtype.type(255) if high > low else x.dtype.type(1) / x.dtype.type(255))
        zero_point = np.asarray(np.clip(np.rint(-low / scale), 0, 255))
        steps = _saturated(np.rint(x / scale) + zero_point, np.dtype(np.uint8))
        return steps, scale.astype(x.dtype), zero_point.astype(np.uint8)


class QuantizeLinear(OpRun):
    """The evaluator's passes through int32, so that values beyond 2**31 steps saturate at the wrong end."""

    op_domain = ""

    def _run(
        self,
        x: Array,
        scale: Array,
        zero_point: Array | None = None,
        axis: int = 1,
        block_size: int = 0,
        output_dtype: int = 0,
        precision: int = 0,
        saturate: int = 1,
    ) -> tuple[Array]:
        stored = np.dtype(np.uint8) if zero_point is None else zero_point.dtype
        if output_dtype:
            stored = helper.tensor_dtype_to_np_dtype(output_dtype)
        if precision:
            x, scale = (v.astype(helper.tensor_dtype_to_np_dtype(precision)) for v in (x, scale))
        steps = x / _along(scale, x, axis, block_size)
        if is_integer(stored):
            shift = np.zeros(()) if zero_point is None else _along(zero_point, x, axis, block_size)
            return (_saturated(np.rint(steps) + shift.astype(np.float64), stored),)
        return (numpy_helper.saturate_cast(steps, stored) if saturate else steps.astype(stored),)


class MatMulInteger(OpRun):
    """The evaluator's takes a zero point per row for one per column."""

    op_domain = ""

    def _run(self, a: Array, b: Array, a_zero: Array | None = None, b_zero: Array | None = None) -> tuple[Array]:
        return (_counted(_shifted(a, a_zero, rows=True) @ _shifted(b, b_zero), a, b),)


class ConvInteger(OpRun):
    """As MatMulInteger."""

    op_domain = ""

    def _run(
        self, x: Array, w: Array, x_zero: Array | None = None, w_zero: Array | None = None, **attributes: Any
    ) -> tuple[Array]:  # Any: the node's attributes, passed on by name
        attributes.pop("kernel_shape", None)
        return (_counted(convolved(_shifted(x, x_zero), _shifted(w, _channels(w_zero, w)), None, **attributes), x, w),)


class QLinearMatMul(OpRun):
    """As MatMulInteger."""

    op_domain = ""

    def _run(
        self,
        a: Array,
        a_scale: Array,
        a_zero: Array,
        b: Array,
        b_scale: Array,
        b_zero: Array,
        y_scale: Array,
        y_zero: Array,
    ) -> tuple[Array]:
        product = _shifted(a, a_zero, rows=True) @ _shifted(b, b_zero)
        per_row = a_scale if a_scale.size == 1 else a_scale[..., None]
        return (_saturated(np.rint(product * (per_row * b_scale / y_scale)) + y_zero, y_zero.dtype),)


class QLinearConv(OpRun):
    """As MatMulInteger."""

    op_domain = ""

    def _run(
        self,
        x: Array,
        x_scale: Array,
        x_zero: Array,
        w: Array,
        w_scale: Array,
        w_zero: Array,
        y_scale: Array,
        y_zero: Array,
        b: Array | None = None,
        **attributes: Any,  # Any: the node's attributes, passed on by name
    ) -> tuple[Array]:
        attributes.pop("kernel_shape", None)
        sums = convolved(_shifted(x, x_zero), _shifted(w, _channels(w_zero, w)), b, **attributes)
        per_channel = w_scale if w_scale.size == 1 else w_scale.reshape(-1, *[1] * (x.ndim - 2))
        return (_saturated(np.rint(sums * (x_scale * per_channel / y_scale)) + y_zero, y_zero.dtype),)


QUANTISED_OPS: tuple[type[OpRun], ...] = (
    ConvInteger,
    DequantizeLinear,
    DynamicQuantizeLinear,
    MatMulInteger,
    QLinearConv,
    QLinearMatMul,
    QuantizeLinear,
)


def _along(parameter: Array, x: Array, axis: int, block_size: int) -> Array:
    """A scale or zero point in a shape that broadcasts to x: for the tensor, for an axis, or for blocks of it."""
    if parameter.size == 1:
        return parameter.reshape(())
    if block_size:
        return np.repeat(parameter, block_size, axis=axis).take(range(x.shape[axis]), axis=axis)
    dims = [1] * x.ndim
    dims[axis] = parameter.size
    return parameter.reshape(dims)


def is_integer(dtype: np.dtype[Any]) -> bool:  # Any: a dtype is what it is about
    """Also for the 4-bit and 2-bit integers that NumPy takes for bytes."""
    return dtype.kind in "iu" or dtype.name.startswith(("int", "uint"))


def _saturated(steps: Array, dtype: np.dtype[Any]) -> Array:  # Any: a dtype is what it is about
    limits = ml_dtypes.iinfo(dtype)  # type: ignore[no-untyped-call]  # the only untyped function of ml_dtypes
    return np.clip(steps, int(limits.min), int(limits.max)).astype(dtype)


def _shifted(x: Array, zero: Array | None, *, rows: bool = False) -> Array:
    """x less its zero point, in float64, where integer products are exact below 2**53 and fast."""
    if zero is None:
        return x.astype(np.float64)
    shift = zero.astype(np.float64)
    return x.astype(np.float64) - (shift[..., None] if rows and shift.ndim == 1 and shift.size > 1 else shift)


def _channels(zero: Array | None, w: Array) -> Array | None:
    """A zero point per output channel of w (M, C, *kernel)."""
    return zero if zero is None or zero.size == 1 else zero.reshape(-1, *[1] * (w.ndim - 1))


def _counted(total: Array, *factors: Array) -> Array:
    """An int32 as the operator says; a float where a factor has a fraction, see the module."""
    return total if any(f.dtype == np.float64 for f in factors) else total.astype(np.int32)
