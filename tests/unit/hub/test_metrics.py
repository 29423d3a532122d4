"""Every metric against a formula that is written another way."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest

from onnxparity.numerics.metrics import measure
from onnxparity.outcome import OutputMetrics

Float64 = npt.NDArray[np.float64]
RNG = np.random.default_rng(7)
WANT = RNG.standard_normal((4, 5, 6)).astype(np.float32).astype(np.float64)
GOT = (WANT * (1 + 1e-3 * RNG.standard_normal(WANT.shape))).astype(np.float32)


def metrics(want: object, got: object, *, logits: bool = False) -> OutputMetrics:
    """Measures one output named y."""
    return measure("y", np.asarray(want), np.asarray(got), 0.5, 0.25, logits=logits)


def test_it_keeps_what_it_was_given_and_describes_what_was_got() -> None:
    m = metrics(WANT, GOT)
    assert (m.output, m.dtype, m.shape, m.elements, m.ratio, m.budget) == ("y", "float32", (4, 5, 6), 120, 0.5, 0.25)


def test_absolute_differences_and_their_quantiles() -> None:
    m = metrics(WANT, GOT)
    ordered = sorted(abs(float(g) - float(w)) for g, w in zip(GOT.ravel(), WANT.ravel(), strict=True))
    assert m.max_abs == ordered[-1]
    assert m.p50_abs == pytest.approx((ordered[59] + ordered[60]) / 2)
    assert m.p99_abs is not None and ordered[116] <= m.p99_abs <= ordered[118]
    assert m.rms == pytest.approx((sum(d * d for d in ordered) / 120) ** 0.5)


def test_relative_difference_is_of_a_vector() -> None:
    largest = max(
        max(abs(GOT[i, j].astype(float) - WANT[i, j])) / max(abs(WANT[i, j])) for i in range(4) for j in range(5)
    )
    assert metrics(WANT, GOT).max_rel == pytest.approx(largest)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("scale", [1.0, -1.0, 1e-3, 3.0e4, 6e-8, 0.0])
def test_ulp_is_numpys_spacing_at_the_wanted_value(dtype: type[np.floating], scale: float) -> None:
    want = (np.array([1.0, 1.5, 0.999, 0.75]) * scale).astype(dtype)
    got = np.nextafter(np.nextafter(want, dtype(np.inf)), dtype(np.inf))
    expected = np.max(np.abs(got.astype(np.float64) - want.astype(np.float64)) / np.spacing(np.abs(want)).astype(float))
    assert metrics(want.astype(np.float64), got).max_ulp == pytest.approx(float(expected))


def test_ulp_of_bfloat16_has_eight_bits() -> None:
    got = np.array([[1.0, 2.0]]).astype(ml_dtypes.bfloat16)
    assert metrics([[1.0, 2.0 + 2.0**-6]], got).max_ulp == pytest.approx(1.0)


def test_ulp_of_a_float64_at_zero_overflows_without_a_warning() -> None:
    assert metrics([[0.0]], [[1.0]]).max_ulp == np.inf


def test_integers_have_no_ulp() -> None:
    m = metrics([[1, 2]], [[1, 4]])
    assert m.max_ulp is None
    assert (m.max_abs, m.dtype) == (2.0, "int64")


def test_booleans_are_measured() -> None:
    assert metrics([[True, False]], [[True, True]]).max_abs == 1.0


def test_cosine_and_snr() -> None:
    m = metrics([3.0, 4.0], [4.0, 3.0])
    assert m.cosine == pytest.approx(24 / 25)
    assert m.snr_db == pytest.approx(10 * np.log10(25 / 2))
    assert metrics([3.0, 4.0], [-3.0, -4.0]).cosine == pytest.approx(-1.0)


def test_what_is_not_defined_is_none_and_not_zero() -> None:
    same = metrics([1.0, 2.0], [1.0, 2.0])
    assert same.snr_db is None
    silent = metrics([0.0, 0.0], [0.0, 0.0])
    assert (silent.cosine, silent.snr_db, silent.max_abs) == (None, None, 0.0)
    lost = metrics([np.nan, np.nan], [np.nan, np.nan], logits=True)
    assert (lost.max_abs, lost.max_rel, lost.max_ulp, lost.rms, lost.p50_abs, lost.kl_divergence) == (None,) * 6
    assert (metrics([1.0], [1.0]).top1_agreement, metrics([1.0], [1.0]).kl_divergence) == (None, None)


def test_elements_that_are_not_finite_are_counted_and_left_out() -> None:
    m = metrics([[1.0, np.nan, 2.0, np.inf]], [[1.5, 7.0, 2.0, np.inf]])
    assert (m.nonfinite_want, m.nonfinite_got) == (2, 1)
    assert m.max_abs == 0.5
    assert m.rms == pytest.approx((0.25 / 2) ** 0.5)


def test_top1_is_the_share_of_vectors_with_the_same_argmax() -> None:
    m = metrics([[0, 1.0], [1, 0.0], [0, 3.0]], [[0, 1.0], [0, 1.0], [0, 9.0]], logits=True)
    assert m.top1_agreement == pytest.approx(2 / 3)


def test_kl_is_that_of_the_worst_vector() -> None:
    want, got = np.array([[0.0, 1.0, 2.0], [0.0, 0.0, 0.0]]), np.array([[0.0, 1.0, 2.0], [1.0, 0.0, 0.0]])

    def softmax(x: Float64) -> Float64:
        return np.asarray(np.exp(x) / np.exp(x).sum())

    p, q = softmax(want[1]), softmax(got[1])
    m = metrics(want, got, logits=True)
    assert m.kl_divergence == pytest.approx(float((p * np.log(p / q)).sum()))
    assert metrics(want, want, logits=True).kl_divergence == 0.0


def test_kl_takes_large_logits() -> None:
    assert metrics([[1e4, 0.0]], [[1e4, 0.0]], logits=True).kl_divergence == 0.0


def test_kl_leaves_out_vectors_that_are_not_finite_instead_of_inventing_a_logit() -> None:
    assert metrics([[-np.inf, 0.0]], [[-np.inf, 0.0]], logits=True).kl_divergence is None
    m = metrics([[-np.inf, 0.0], [0.0, 0.0]], [[-np.inf, 9.0], [0.0, 0.0]], logits=True)
    assert m.kl_divergence == 0.0


def test_values_whose_squares_overflow_are_measured_without_a_warning() -> None:
    m = metrics([[1e200, 1.0]], [[1e200, 3.0]])
    assert m.max_abs == 2.0
    assert m.cosine == pytest.approx(1.0)


def test_a_scalar_is_measured() -> None:
    m = metrics(2.0, 2.5, logits=True)
    assert (m.shape, m.elements, m.max_abs, m.max_rel) == ((), 1, 0.5, 0.25)
