"""What is recorded of every compared output, whether or not it decides anything."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from onnxparity.numerics.budget import vector_error
from onnxparity.outcome import OutputMetrics
from onnxparity.protocols import Array

__all__ = ["measure"]

Float64 = npt.NDArray[np.float64]
SPACING_BITS = {"float16": 10, "bfloat16": 7, "float32": 23, "float64": 52}
SMALLEST_EXPONENT = {"float16": -14, "bfloat16": -126, "float32": -126, "float64": -1022}


def measure(
    name: str, want: Array, got: Array, ratio: float, budget: float, *, logits: bool, over_noise: float | None = None
) -> OutputMetrics:
    """Every metric of one output; `want` is the exact value, `got` what is judged, both of the same shape.

    Elements that are not finite on either side are counted, and left out of all other metrics but top-1.
    """
    a, b = np.asarray(want, np.float64), np.asarray(got, np.float64)
    finite = np.isfinite(a) & np.isfinite(b)
    clean_a, clean_b = np.where(finite, a, 0.0), np.where(finite, b, 0.0)
    some = bool(finite.any())
    with np.errstate(over="ignore", invalid="ignore"):  # what is too large to be said is infinite
        difference = np.abs(clean_b - clean_a)
        quantiles = np.quantile(difference[finite], (0.5, 0.99)) if some else None
        return OutputMetrics(
            output=name,
            dtype=str(got.dtype),
            shape=tuple(int(n) for n in got.shape),
            elements=int(got.size),
            ratio=ratio,
            budget=budget,
            over_noise=over_noise,
            max_abs=float(difference.max()) if some else None,
            max_rel=float(vector_error(difference, clean_a).max()) if some else None,
            max_ulp=_ulp(difference, clean_a, str(got.dtype)) if some else None,
            rms=_length(difference) / float(np.sqrt(np.count_nonzero(finite))) if some else None,
            cosine=_cosine(clean_a, clean_b),
            snr_db=_snr(clean_a, difference),
            p50_abs=None if quantiles is None else float(quantiles[0]),
            p99_abs=None if quantiles is None else float(quantiles[1]),
            nonfinite_got=int(np.count_nonzero(~np.isfinite(b))),
            nonfinite_want=int(np.count_nonzero(~np.isfinite(a))),
            top1_agreement=_top1(a, b) if logits else None,
            kl_divergence=_kl(a, b, finite) if logits else None,
        )


def _ulp(difference: Float64, want: Float64, dtype: str) -> float | None:
    """Largest difference in spacings of `dtype` at the wanted value (at 0, its smallest one); None for integers."""
    bits = SPACING_BITS.get(dtype)
    if bits is None:
        return None
    smallest = SMALLEST_EXPONENT[dtype]
    exponent = np.where(want == 0, smallest, np.maximum(np.frexp(want)[1] - 1, smallest))
    return float(np.max(difference / np.ldexp(1.0, exponent - bits)))


def _cosine(want: Float64, got: Float64) -> float | None:
    a, b = _length(want), _length(got)
    return float(np.clip(np.vdot(want / a, got / b), -1.0, 1.0)) if a > 0 and b > 0 else None


def _snr(want: Float64, difference: Float64) -> float | None:
    """Signal to noise in dB; None where there is no signal or no noise."""
    signal, noise = _length(want), _length(difference)
    return float(20 * np.log10(signal / noise)) if signal > 0 and noise > 0 else None


def _length(value: Float64) -> float:
    """The Euclidean length; scaled first, so that the squares of large values do not overflow."""
    largest = float(np.max(np.abs(value)))
    return largest * float(np.linalg.norm(value / largest)) if largest > 0 else 0.0


def _top1(want: Float64, got: Float64) -> float:
    return float(np.mean(np.argmax(np.atleast_1d(want), -1) == np.argmax(np.atleast_1d(got), -1)))


def _kl(want: Float64, got: Float64, finite: npt.NDArray[np.bool_]) -> float | None:
    """Of the worst vector that is finite on both sides; None where none is."""
    whole = np.atleast_1d(finite).all(axis=-1)
    if not whole.any():
        return None
    log_p, log_q = _log_softmax(np.atleast_1d(want)[whole]), _log_softmax(np.atleast_1d(got)[whole])
    return float(np.max(np.sum(np.exp(log_p) * (log_p - log_q), axis=-1)))


def _log_softmax(x: Float64) -> Float64:
    shifted = x - x.max(axis=-1, keepdims=True)
    return np.asarray(shifted - np.log(np.sum(np.exp(shifted), axis=-1, keepdims=True)))
