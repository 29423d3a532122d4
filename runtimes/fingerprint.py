"""Whether two sides hold the same constant: a hash of its values that a transpose or a reshape leaves alone."""

from __future__ import annotations

import hashlib

import numpy as np

from onnxparity.protocols import Array

__all__ = ["fingerprint"]


def fingerprint(value: Array) -> str:
    """Of the values in float64, in order of size: two constants with the same values have the same."""
    ordered = np.sort(np.asarray(value, np.float64), axis=None)
    return hashlib.sha256(ordered.tobytes()).hexdigest()
