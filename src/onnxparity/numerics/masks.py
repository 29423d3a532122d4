"""What masks a score: a large negative number that stands for minus infinity.

Beside one of -65504, -10000 or finfo.min every other number of a vector looks small, and an error in it too. Where the
inside of a graph is judged, such numbers therefore count as minus infinity, which they become in some runtimes anyway.
"""

from __future__ import annotations

import numpy as np

from onnxparity.protocols import Array

__all__ = ["LARGEST_MASK", "masked_as_infinite"]

LARGEST_MASK = -9e3
"""Masks in use begin at -1e4."""
CONTRAST = 2.0**10
"""How many times larger a mask is than the smallest number beside it; what is all large is no mask."""


def masked_as_infinite(value: Array) -> Array:
    """The float64 array, with -inf for what masks in its vector (last axis); any other array as it is."""
    if value.dtype != np.float64 or not value.ndim or not value.size:
        return value
    beside = np.min(np.abs(value), axis=-1, keepdims=True)
    masks = (value <= LARGEST_MASK) & (-value > CONTRAST * beside)
    return np.where(masks, -np.inf, value) if masks.any() else value
