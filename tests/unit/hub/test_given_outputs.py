"""Outputs that somebody wrote down: held against float64 with room for their own dtype, and no more."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from onnxparity.feeding.given_outputs import against_given, misfit, with_storage
from onnxparity.numerics.compare import compare
from onnxparity.outcome import Status
from onnxparity.protocols import Array, Outputs

EXACT: Outputs = {"y": np.random.default_rng(0).standard_normal((5, 7))}
NOISE: Outputs = {"y": np.full(5, 2.0**-25)}
FLOOR = 2.0**-24
HALF, BFLOAT16 = np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16)


def stored(dtype: np.dtype[np.generic]) -> dict[str, Array]:
    """The exact values as a file of this dtype holds them."""
    return {"y": EXACT["y"].astype(dtype)}


@pytest.mark.parametrize("dtype", [np.dtype(np.float32), HALF, BFLOAT16], ids=str)
def test_rounding_on_the_way_into_the_file_is_let_pass(dtype: np.dtype[np.generic]) -> None:
    found = against_given(stored(dtype), EXACT, NOISE, floor=FLOOR)
    assert found.status is Status.PASS and found.ratio is not None and 0.05 < found.ratio < 1


@pytest.mark.parametrize("dtype", [np.dtype(np.float32), HALF, BFLOAT16], ids=str)
def test_twice_that_rounding_is_red(dtype: np.dtype[np.generic]) -> None:
    wrong = stored(dtype)
    steps = {HALF: 2.0**-9, BFLOAT16: 2.0**-6}.get(dtype, 2.0**-20)
    wrong["y"][2] *= wrong["y"].dtype.type(1 + steps)
    assert against_given(wrong, EXACT, NOISE, floor=FLOOR).status is Status.MEANING


def test_a_float32_output_has_no_room_beyond_its_noise() -> None:
    assert with_storage(NOISE, {"y": "float32"}, FLOOR)["y"] is NOISE["y"]
    assert np.all(with_storage(NOISE, {"y": "float16"}, FLOOR)["y"] > NOISE["y"])
    assert with_storage(NOISE, {"y": "float16"}, 2.0**-11)["y"] is NOISE["y"], "a half graph rounds like its outputs"
    assert with_storage(NOISE, {}, FLOOR)["y"] is NOISE["y"]


def test_integers_are_compared_as_they_are() -> None:
    exact: Outputs = {"n": np.array([1, 2, 3])}
    given = {"n": np.array([1, 2, 4])}
    assert against_given(given, exact, {"n": np.zeros(())}, floor=FLOOR).status is Status.MEANING
    assert against_given(exact, exact, {"n": np.zeros(())}, floor=FLOOR).status is Status.PASS
    narrow = {"n": np.array([1, 2, 3], np.int32)}
    assert against_given(narrow, exact, {"n": np.zeros(())}, floor=FLOOR).status is Status.STRUCTURE


def test_what_does_not_fit_is_named() -> None:
    given = stored(HALF)
    assert misfit(given, {"y": given["y"]}) is None
    for got, why in (
        ({"z": given["y"]}, "missing"),
        ({"y": given["y"], "z": given["y"]}, "unexpected"),
        ({"y": given["y"].astype(np.float32)}, "float32"),
        ({"y": given["y"][None]}, "(1, 5, 7)"),
    ):
        found = misfit(given, got)
        assert found is not None and found.status is Status.STRUCTURE and why in found.message


def test_nan_in_eight_bits_equals_itself_and_nothing_else() -> None:
    value = np.array([[1, np.nan]], ml_dtypes.float8_e4m3fn)
    other = np.array([[1, 2]], ml_dtypes.float8_e4m3fn)
    room: Outputs = {"y": np.zeros(1)}
    assert compare({"y": value}, {"y": value}, room, floor=0, failure=Status.MEANING).status is Status.PASS
    assert compare({"y": value}, {"y": other}, room, floor=0, failure=Status.MEANING).status is Status.MEANING
