"""Properties of what a model gives: weights on the simplex, and decoding with a cache as one pass gives it."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from onnxparity.errors import SubjectError
from onnxparity.invariants import check
from onnxparity.outcome import Status
from onnxparity.protocols import Feeds, Outputs
from tests.unit.hub.models import (
    CAUSAL,
    DECODE,
    TABLE,
    WEIGHTS,
    causal_weights,
    changed_weights,
    decode,
    look,
    prefill,
    running_mean,
    setting,
    wide,
    zeros,
)

SIZES = {"batch": 2, "sequence": 7}
DTYPES = pytest.mark.parametrize("dtype", ["float64", "float32", "float16"])


@DTYPES
def test_a_softmax_is_on_the_simplex(dtype: str) -> None:
    assert look("simplex", WEIGHTS, {"batch": 2, "sequence": 64}, causal_weights, dtype=dtype).status is Status.PASS


@DTYPES
@pytest.mark.parametrize("factor", [0.95, 1.05])
def test_rows_that_do_not_sum_to_one_are_found(dtype: str, factor: float) -> None:
    def scaled(feeds: Feeds) -> Outputs:
        return {"a": causal_weights(feeds)["a"] * factor}

    for length in (7, 64):
        sizes = {"batch": 2, "sequence": length}
        assert look("simplex", WEIGHTS, sizes, scaled, dtype=dtype).status is Status.PROPERTY


def test_one_row_that_does_not_sum_to_one_is_found() -> None:
    def one(feeds: Feeds) -> Outputs:
        a = causal_weights(feeds)["a"].copy()
        a[1, 5] *= 1 + 1e-4
        return {"a": a}

    found = look("simplex", WEIGHTS, SIZES, one)
    assert found.status is Status.PROPERTY
    assert found.worst is not None and found.worst.index == (1, 5, 0)


@DTYPES
def test_negative_weights_are_found_though_the_rows_sum_to_one(dtype: str) -> None:
    def shifted(feeds: Feeds) -> Outputs:
        a = causal_weights(feeds)["a"].copy()
        a[0, 3, 1] -= 2 * a[0, 3, 1]
        a[0, 3, 0] += 1 - a[0, 3].sum()
        return {"a": a}

    assert look("simplex", WEIGHTS, SIZES, shifted, dtype=dtype).status is Status.PROPERTY


def test_weights_that_are_nan_are_found() -> None:
    broken = changed_weights(lambda a: np.where(a > 0.9, np.nan, a))
    assert look("simplex", WEIGHTS, SIZES, broken).status is Status.NONFINITE


def test_the_simplex_allows_for_measured_noise_and_no_more() -> None:
    def noisy(size: float) -> Status:
        chosen = setting(WEIGHTS, SIZES, changed_weights(lambda a: a * 1.01))
        louder = dataclasses.replace(chosen, noise=lambda f: {"a": zeros(causal_weights(f))["a"] + size})
        return check("simplex", louder).status

    assert noisy(1e-2) is Status.PASS
    assert noisy(1e-5) is Status.PROPERTY


def test_a_subject_without_weights_has_no_simplex() -> None:
    with pytest.raises(SubjectError, match="weights"):
        look("simplex", CAUSAL, SIZES, running_mean)


STEPS = {"batch": 2, "sequence": 4, "past": 3}


def stepped(run: object, dtype: str = "float32") -> Status:
    """Checks decoding against `prefill`."""
    assert callable(run)
    chosen = setting(DECODE, STEPS, run, dtype=dtype, companions={"prefill": prefill})
    return check("prefill-decode", chosen).status


@DTYPES
def test_decoding_with_a_cache_is_prefill(dtype: str) -> None:
    assert stepped(decode(), dtype) is Status.PASS


def test_a_cache_that_is_off_by_one_is_found() -> None:
    assert stepped(decode(lambda past: past[:, 1:])) is Status.PROPERTY
    assert stepped(decode(lambda past: past[:, :-1])) is Status.PROPERTY
    assert stepped(decode(lambda past: np.roll(past, 1, axis=0))) is Status.PROPERTY
    assert stepped(decode(np.zeros_like)) is Status.PROPERTY


def test_a_cache_that_does_not_grow_or_grows_at_the_wrong_end_is_found() -> None:
    def with_present(present: object) -> object:
        def run(feeds: Feeds) -> Outputs:
            assert callable(present)
            past, new = wide(feeds["past"]), TABLE[feeds["ids"]]
            return decode()(feeds) | {"present": present(past, new)}

        return run

    assert stepped(with_present(lambda past, new: past)) is Status.STRUCTURE
    assert stepped(with_present(lambda past, new: np.concatenate([new, past], axis=1))) is Status.PROPERTY
    rounded = with_present(lambda past, new: np.concatenate([past, np.round(new, 3)], axis=1))
    assert stepped(rounded) is Status.PROPERTY


def test_decoding_is_checked_step_by_step_from_the_prefilled_cache() -> None:
    seen: list[tuple[int, int]] = []

    def watched(feeds: Feeds) -> Outputs:
        seen.append((feeds["ids"].shape[1], feeds["past"].shape[1]))
        return decode()(feeds)

    chosen = setting(DECODE, STEPS, watched, noise=lambda f: zeros(decode()(f)), companions={"prefill": prefill})
    assert check("prefill-decode", chosen).status is Status.PASS
    assert seen == [(1, 3), (1, 4), (1, 5), (1, 6)]


def test_decoding_without_its_companion_is_an_error() -> None:
    with pytest.raises(SubjectError, match="prefill"):
        check("prefill-decode", setting(DECODE, STEPS, decode()))
    with pytest.raises(SubjectError, match="prefill"):
        check("prefill-decode", setting(CAUSAL, SIZES, running_mean, companions={"prefill": prefill}))
