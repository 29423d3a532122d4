"""Integer operators of quantised graphs, exact in float64 and open to fractional integers.

A quantised tensor carries integers in both arithmetics. When the noise of quantisation is measured it
moves by up to half a step, so these operators also take floats in place of integers and then keep the
fraction; the evaluator's own would cut it off, and its DequantizeLinear goes through float32.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import helper
from onnx.reference.op_run import OpRun

from onnxparity.protocols import Array

__all__ = ["QUANTISED_OPS"]


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
        return quantised(x, scale, zero_point, np.uint8), scale.astype(x.dtype), zero_point.astype(np.uint8)
