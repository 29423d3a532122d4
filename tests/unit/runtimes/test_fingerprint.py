"""Fingerprints of constants: the same values, however they lie."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from onnxparity.protocols import Array
from onnxparity.runtimes.fingerprint import fingerprint

VALUES = np.array([[-0.0, 1.5, 0.0], [np.inf, -2.0, 0.1]], np.float32)


@pytest.mark.parametrize(
    "same", [VALUES.T, VALUES.reshape(3, 2), VALUES[::-1], VALUES.astype(np.float64), VALUES.ravel(), VALUES + 0]
)
def test_layout_order_and_width_do_not_matter(same: Array) -> None:
    assert fingerprint(same) == fingerprint(VALUES)


@pytest.mark.parametrize(
    "other",
    [VALUES.astype(np.float16), VALUES.astype(ml_dtypes.bfloat16), np.nextafter(VALUES, np.float32(9)), VALUES[:1]],
)
def test_other_values_do(other: Array) -> None:
    assert fingerprint(other) != fingerprint(VALUES)
