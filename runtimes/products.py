"""Matrix products in the stored dtype."""

from __future__ import annotations

import numpy as np

from onnxparity.protocols import Array

__all__ = ["product"]


def product(a: Array, b: Array) -> Array:
    """a @ b in the dtype of a; halves accumulate in float32.

    NumPy's own product of halves does the same without BLAS (bit for bit, and 20 times slower); its product of
    bfloat16 answers in float32.
    """
    if a.dtype.itemsize == 2:
        return np.asarray(np.matmul(a.astype(np.float32), b.astype(np.float32)).astype(a.dtype))
    return np.asarray(np.matmul(a, b)).astype(a.dtype, copy=False)
