"""One tensor inside a graph is judged as an output is, but masks and noise without end excuse what they must."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from onnxparity.locating.tensors import Stash, judge, limits, statistics
from onnxparity.numerics.compare import compare
from onnxparity.numerics.masks import masked_as_infinite
from onnxparity.outcome import Status
from onnxparity.protocols import Array

U = 2.0**-24
WANT = np.random.default_rng(0).standard_normal((3, 8))
NOISE = np.full(3, U)


@pytest.mark.parametrize("off", [0.0, 4.0, 20.0])
def test_it_is_judged_as_an_output_is(off: float) -> None:
    got = WANT + off * U
    judged = judge("t", WANT, got, NOISE, U)
    compared = compare({"t": WANT}, {"t": got}, {"t": NOISE}, floor=U, failure=Status.ARITHMETIC)
    assert judged.ratio == compared.ratio
    assert (judged.out > 0) == (compared.status is Status.ARITHMETIC) == (off == 20)
    assert judged.vectors == 3 and judged.lost == 0


@pytest.mark.parametrize("off", [0.0, 4.0, 20.0])
def test_the_limits_of_a_reproduction_agree_with_the_judgement(off: float) -> None:
    got = WANT + off * U
    out = np.abs(got - WANT) > limits(WANT, NOISE, U)
    assert bool(out.any()) == (judge("t", WANT, got, NOISE, U).ratio > 1)


def test_what_is_finite_on_one_side_only_is_lost() -> None:
    got = WANT.copy()
    got[1, 2] = np.nan
    judged = judge("t", WANT, got, NOISE, U)
    assert (judged.lost, judged.out, judged.ratio) == (1, 1, np.inf)
    both = np.where(np.eye(3, 8, dtype=bool), np.nan, WANT)
    assert judge("t", both, both, NOISE, U).ratio == 0


def test_noise_without_end_excuses_its_vector_alone() -> None:
    noise = np.array([U, np.inf, U])
    got = WANT.copy()
    got[1] *= 1.2
    assert judge("t", WANT, got, noise, U).ratio <= 1
    got[2] *= 1.2
    assert judge("t", WANT, got, noise, U).out == 1


def test_integers_are_equal_except_where_rounding_alone_decides() -> None:
    want, got = np.array([[1, 2], [3, 4]]), np.array([[1, 2], [3, 5]])
    assert judge("t", want, got, np.zeros(2), U).ratio == np.inf
    assert judge("t", want, got, np.array([0.0, 1.0]), U).ratio == 0
    assert judge("t", want, want, np.zeros(2), U).ratio == 0
    assert not limits(want, np.zeros(2), U).any()


def test_another_shape_is_out_of_budget() -> None:
    assert judge("t", WANT, WANT[:, :4], NOISE, U).ratio == np.inf


@pytest.mark.parametrize("mask", [-1e4, -65504.0, -3.4e38])
@pytest.mark.parametrize("got_mask", [None, -np.inf])
def test_an_error_beside_a_mask_is_seen(mask: float, got_mask: float | None) -> None:
    want = WANT.copy()
    want[:, 5:] = mask
    got = want.copy()
    got[:, 5:] = mask if got_mask is None else got_mask
    assert judge("t", want, got, NOISE, U).ratio == 0
    got[0, 0] += 1e-3
    judged = judge("t", want, got, NOISE, U)
    assert judged.out == 1 and judged.lost == 0
    out = np.abs(np.where(got == want, 0, got - want)) > limits(want, NOISE, U)
    assert out.tolist() == (np.arange(24).reshape(3, 8) == 0).tolist()
    assert judge("t", want, got, NOISE, U, inside=False).ratio != judged.ratio, "an output is what it is"


@pytest.mark.parametrize(
    "value",
    [
        np.full((2, 3), -1e5),
        np.array([[-9e4, 9e4, 3e3]]),
        np.array([[-5.0, 0.0, 1.0]]),
        np.array(-1e5),
        np.zeros((2, 0)),
    ],
    ids=["all-large", "signed", "small", "scalar", "empty"],
)
def test_what_is_all_large_or_not_large_is_no_mask(value: Array) -> None:
    assert masked_as_infinite(value) is value


def test_a_mask_that_is_gone_is_lost() -> None:
    want = np.array([[0.5, -1e5, 0.25]])
    judged = judge("t", want, np.array([[0.5, 0.0, 0.25]]), np.array([U]), U)
    assert judged.ratio > 1


def test_statistics_leave_out_what_is_not_finite() -> None:
    found = statistics("t", np.array([1.0, -3.0, np.nan, np.inf]), "got", "float16")
    assert (found.smallest, found.largest, found.mean, found.nonfinite) == (-3.0, 1.0, -1.0, 2)
    assert found.rms == pytest.approx(5**0.5)
    lost = statistics("t", np.array([np.nan]), "want")
    assert (lost.smallest, lost.mean, lost.nonfinite, lost.dtype) == (None, None, 1, "float64")


def test_arrays_are_kept_with_the_dtype_they_had() -> None:
    stash = Stash()
    try:
        stash.keep("a/b", np.array([1.5], ml_dtypes.bfloat16))
        stash.keep("n", np.array([3]))
        assert stash.find("a/b").tolist() == [1.5] and stash.find("a/b").dtype == np.float64
        assert dict(stash.dtypes) == {"a/b": "bfloat16", "n": "int64"}
        assert stash.sizes == {"a/b": 8, "n": 8}
        with pytest.raises(KeyError):
            stash.find("other")
    finally:
        stash.close()
