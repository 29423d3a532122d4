"""How much error is allowed, per output vector: a multiple of measured honest rounding, never a picked tolerance.

Arithmetic: Monte Carlo arithmetic gives the noise of this graph on these inputs (Parker 1997; CADNA;
Verificarlo), and KAPPA times that noise plus one unit roundoff is the budget. Meaning: the noise is what
rounding of the constants that stand on one side only explains.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from onnxparity.protocols import Array

__all__ = ["CEILING", "DOUBLE_FLOOR", "KAPPA", "MEANING_FLOOR", "allowance", "vector_error", "vector_size"]

KAPPA = 8.0
"""Room above the measured noise. Honest error/noise was measured at 0.05 to 3.2 (see README, how to read a verdict)."""
NEIGHBOUR = 0.25
"""A vector's noise counts as at least this share of the median vector of its output: a few draws can miss.

Not of the noisiest vector: one that is ill-conditioned (a row whose keys are all masked with finfo.min, a
saturated softmax in float16) would widen the budget of every other to the ceiling, and nothing could fail.
"""
MEANING_FLOOR = 2.0**-26
"""Relative difference in float64 that two evaluations of the same function may always have."""
DOUBLE_FLOOR = 2.0**-40
"""Floor of a property that is checked on float64 outputs."""
CEILING = 0.5
"""No budget is wider than half the vector's largest value: above that a comparison could not fail."""

Float64 = npt.NDArray[np.float64]


def vector_size(value: Array) -> Float64:
    """Largest finite magnitude of each vector (last axis); 1 where that is 0, so that errors there are absolute."""
    value = np.atleast_1d(np.asarray(value, np.float64))
    size = np.max(np.where(np.isfinite(value), np.abs(value), 0.0), axis=-1)
    return np.asarray(np.where(size == 0, 1.0, size))


def vector_error(difference: Array, value: Array) -> Float64:
    """Largest difference in each vector (last axis) relative to that vector's size; NaN stays NaN."""
    worst = np.max(np.abs(np.atleast_1d(np.asarray(difference, np.float64))), axis=-1)
    return np.asarray(worst / vector_size(value))


def allowance(noise: Array, floor: float, *, kappa: float = KAPPA) -> Float64:
    """The budget of each vector, relative to its size: kappa·noise + floor, at most CEILING.

    Raises ValueError where the noise is not finite, since such a budget would allow anything.
    """
    noise = np.asarray(noise, np.float64)
    if not np.all(np.isfinite(noise)):
        raise ValueError("the noise of an output is not finite: no budget can be drawn from it")
    ordered = np.sort(noise, axis=None)
    median = ordered[(noise.size - 1) // 2] if noise.size else 0.0
    return np.asarray(np.minimum(kappa * np.maximum(noise, NEIGHBOUR * median) + floor, CEILING))
