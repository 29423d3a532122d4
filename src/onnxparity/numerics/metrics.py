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


def measure(name: str, want: Array, got: Array, ratio: float, budget: float, *, logits: bool) -> OutputMetrics:
    """Every metric of one output; `want` is the exact value, `got` what is judged, both of the same shape."""
    a, b = np.asarray(want, np.float64), np.asarray(got, np.float64)
    finite = np.isfinite(a) & np.isfinite(b)
    difference = np.abs(np.where(finite, b, 0.0) - np.where(finite, a, 0.0))
    clean_a, clean_b = np.where(finite, a, 0.0), np.where(finite, b, 0.0)
    some = bool(finite.any())
    quantiles = np.quantile(difference[finite], (0.5, 0.99)) if some else None
    return OutputMetrics(
        output=name,
        dtype=str(got.dtype),
        shape=tuple(int(n) for n in got.shape),
        elements=int(got.size),
        ratio=ratio,
        budget=budget,
        max_abs=float(difference.max()) if some else None,
        max_rel=float(vector_error(difference, clean_a).max()) if some else None,
        max_ulp=_ulp(difference, clean_a, str(got.dtype)) if some else None,
        rms=float(np.sqrt(np.mean(difference[finite] ** 2))) if some else None,
        cosine=_cosine(clean_a, clean_b),
        snr_db=_snr(clean_a, difference),
        p50_abs=None if quantiles is None else float(quantiles[0]),
        p99_abs=None if quantiles is None else float(quantiles[1]),
        nonfinite_got=int(np.count_nonzero(~np.isfinite(b))),
        nonfinite_want=int(np.count_nonzero(~np.isfinite(a))),
        top1_agreement=_top1(a, b) if logits else None,
        kl_divergence=_kl(clean_a, clean_b) if logits and some else None,
    )


def _ulp(difference: Float64, want: Float64, dtype: str) -> float | None:
    """Largest difference in spacings of `dtype` at the wanted value; None for integers."""
    bits = SPACING_BITS.get(dtype)
    if bits is None:
        return None
    exponent = np.maximum(np.frexp(want)[1] - 1, SMALLEST_EXPONENT[dtype])
    return float(np.max(difference / np.ldexp(1.0, exponent - bits)))


def _cosine(want: Float64, got: Float64) -> float | None:
    lengths = np.linalg.norm(want) * np.linalg.norm(got)
    return float(np.clip(np.vdot(want, got) / lengths, -1.0, 1.0)) if lengths > 0 else None


def _snr(want: Float64, difference: Float64) -> float | None:
    """Signal to noise in dB; None where there is no signal or no noise."""
    signal, noise = float(np.sum(want**2)), float(np.sum(difference**2))
    return float(10 * np.log10(signal / noise)) if signal > 0 and noise > 0 else None


def _top1(want: Float64, got: Float64) -> float:
    return float(np.mean(np.argmax(np.atleast_1d(want), -1) == np.argmax(np.atleast_1d(got), -1)))


def _kl(want: Float64, got: Float64) -> float:
    log_p, log_q = _log_softmax(np.atleast_1d(want)), _log_softmax(np.atleast_1d(got))
    return float(np.max(np.sum(np.exp(log_p) * (log_p - log_q), axis=-1)))


def _log_softmax(x: Float64) -> Float64:
    shifted = x - x.max(axis=-1, keepdims=True)
    return np.asarray(shifted - np.log(np.sum(np.exp(shifted), axis=-1, keepdims=True)))
