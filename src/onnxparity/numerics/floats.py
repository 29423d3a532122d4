"""Floating dtypes by name, bfloat16 among them, which NumPy itself does not know."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["BFLOAT16", "DIGITS", "cast", "is_float", "lowest", "named"]

BFLOAT16 = "bfloat16"
DIGITS = {BFLOAT16: 8, "float16": 11, "float32": 24, "float64": 53}
"""Significant bits of each dtype that a model computes in; the unit roundoff is 2**-digits."""

LOWEST_BFLOAT16 = -(2.0 - 2.0**-7) * 2.0**127

Array = np.ndarray[Any, np.dtype[Any]]  # Any: the element type is data


def named(name: str) -> np.dtype[Any]:
    """The dtype of that name."""
    if name == BFLOAT16:
        import ml_dtypes  # noqa: F401 - teaches NumPy the name, and only where it is needed
    return np.dtype(name)


def is_float(dtype: np.dtype[Any]) -> bool:
    """Whether values of a dtype round."""
    return dtype.kind == "f" or dtype.name == BFLOAT16


def lowest(dtype: np.dtype[Any]) -> float:
    """The most negative finite number of a floating dtype."""
    return LOWEST_BFLOAT16 if dtype.name == BFLOAT16 else float(np.finfo(dtype).min)


def cast(value: Array, dtype: str | None) -> Array:
    """The value in another floating dtype; as it is where either is none."""
    if dtype not in DIGITS or not is_float(value.dtype):
        return value
    with np.errstate(over="ignore"):  # what is too large for the dtype is infinite there
        return value.astype(named(dtype))
