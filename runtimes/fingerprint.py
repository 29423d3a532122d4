"""Whether two sides hold the same constant: a hash of its values that a transpose or a reshape leaves alone."""

from __future__ import annotations

import hashlib

import numpy as np

from onnxparity.protocols import Array

__all__ = ["fingerprint"]


def fingerprint(value: Array) -> str:
    """Of the values in float64, in order of size: two constants with the same values have the same."""
    positive_zeros = np.asarray(value, np.float64) + 0.0  # -0.0 and 0.0 sort as equals and have other bytes
    ordered = np.sort(positive_zeros, axis=None)
    return hashlib.sha256(ordered.tobytes()).hexdigest()
