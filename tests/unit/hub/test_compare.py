"""The comparison that decides must be able to say no: on names, shapes, dtypes, finiteness and values."""

from __future__ import annotations

from collections.abc import Mapping

import ml_dtypes
import numpy as np
import pytest

from onnxparity.numerics.compare import Comparison, compare, further_apart, no_noise, worst_vector
from onnxparity.outcome import Status
from onnxparity.protocols import Array

FLOOR = 2.0**-24


def judge(
    want: Mapping[str, Array],
    got: Mapping[str, Array],
    noise: Mapping[str, Array] | None = None,
    *,
    floor: float = FLOOR,
    dtypes: Mapping[str, str] | None = None,
) -> Comparison:
    """Compares as an arithmetic cell does, without noise unless some is given."""
    silent = {name: np.zeros(np.atleast_1d(v).shape[:-1]) for name, v in want.items()}
    return compare(want, got, silent if noise is None else noise, floor=floor, failure=Status.ARITHMETIC, dtypes=dtypes)


def one(want: object, got: object, noise: object = 0.0, *, floor: float = FLOOR) -> Comparison:
    """Compares one output named y."""
    return judge({"y": np.asarray(want)}, {"y": np.asarray(got)}, {"y": np.asarray(noise)}, floor=floor)


X = np.linspace(-1.0, 1.0, 24).reshape(2, 3, 4)


def test_equal_outputs_pass_with_ratio_zero() -> None:
    found = one(X, X)
    assert (found.status, found.ratio) == (Status.PASS, 0.0)


def test_nothing_on_either_side_fails() -> None:
    assert judge({}, {}).status is Status.STRUCTURE
    assert "nothing was compared" in judge({}, {}).message


@pytest.mark.parametrize("got", [{}, {"z": X}, {"y": X, "z": X}])
def test_names_are_compared_as_sets(got: dict[str, Array]) -> None:
    found = judge({"y": X}, got)
    assert found.status is Status.STRUCTURE
    assert found.ratio is None


def test_wanted_nothing_and_got_something_fails() -> None:
    assert judge({}, {"y": X}).status is Status.STRUCTURE


def test_outputs_are_matched_by_name_and_not_by_order() -> None:
    assert judge({"a": X, "b": 2 * X}, {"b": 2 * X, "a": X}).status is Status.PASS
    assert judge({"a": X, "b": 2 * X}, {"a": 2 * X, "b": X}).status is Status.ARITHMETIC


@pytest.mark.parametrize("shape", [(3, 2, 4), (6, 4), (2, 3, 4, 1), (1, 2, 3, 4), (24,)])
def test_another_shape_with_the_same_values_fails(shape: tuple[int, ...]) -> None:
    found = one(X, X.reshape(shape))
    assert found.status is Status.STRUCTURE
    assert "2x3x4" in found.message


def test_a_shape_that_would_broadcast_fails() -> None:
    assert one(np.ones((2, 3)), np.ones((1, 3))).status is Status.STRUCTURE
    assert one(np.ones((2, 3)), np.ones(())).status is Status.STRUCTURE


@pytest.mark.parametrize("shape", [(0,), (2, 0), (0, 3), (2, 0, 3)])
def test_an_output_without_elements_fails(shape: tuple[int, ...]) -> None:
    found = one(np.ones(shape), np.ones(shape), np.zeros(shape[:-1]))
    assert found.status is Status.STRUCTURE
    assert "nothing was compared" in found.message


def test_one_empty_output_fails_beside_a_good_one() -> None:
    empty = np.ones((0, 3))
    assert judge({"y": X, "z": empty}, {"y": X, "z": empty}).status is Status.STRUCTURE


def test_another_dtype_than_promised_fails_though_the_values_agree() -> None:
    got = {"y": np.ones((2, 3), np.float32)}
    want = {"y": np.ones((2, 3))}
    assert judge(want, got, dtypes={"y": "float32"}).status is Status.PASS
    found = judge(want, got, dtypes={"y": "float16"})
    assert found.status is Status.STRUCTURE
    assert "float32" in found.message and "float16" in found.message


def test_an_output_whose_dtype_nobody_promised_fails_where_dtypes_are_compared() -> None:
    found = judge({"y": X, "z": X}, {"y": X, "z": X}, dtypes={"y": "float64"})
    assert found.status is Status.STRUCTURE
    assert "z" in found.message


def test_integers_for_floats_fail_though_the_values_agree() -> None:
    assert one(np.ones((2, 3)), np.ones((2, 3), np.int64)).status is Status.STRUCTURE
    assert one(np.ones((2, 3), np.int64), np.ones((2, 3))).status is Status.STRUCTURE


def test_every_structural_fault_is_told() -> None:
    found = judge({"a": X, "b": X}, {"a": X.reshape(6, 4), "b": X.reshape(24)})
    assert "a:" in found.message
    assert any("b:" in line for line in found.evidence)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_a_value_that_is_not_finite_on_one_side_fails(value: float) -> None:
    broken = X.copy()
    broken[1, 2, 3] = value
    for want, got in ((X, broken), (broken, X)):
        found = one(want, got)
        assert found.status is Status.NONFINITE
        assert found.worst is not None and found.worst.index == (1, 2, 3)
        assert found.ratio == np.inf
        assert "[1, 2, 3]" in found.message


def test_infinities_of_opposite_sign_fail() -> None:
    want, got = X.copy(), X.copy()
    want[0, 0, 0], got[0, 0, 0] = np.inf, -np.inf
    assert one(want, got).status is Status.NONFINITE
    assert one(want, want).status is Status.PASS


def test_nan_does_not_match_infinity() -> None:
    want, got = X.copy(), X.copy()
    want[0, 0, 0], got[0, 0, 0] = np.nan, np.inf
    assert one(want, got).status is Status.NONFINITE


def test_nan_on_both_sides_passes_and_is_reported() -> None:
    both = X.copy()
    both[0, 1] = np.nan
    found = one(both, both)
    assert found.status is Status.PASS
    assert any("4 elements" in line and "both sides" in line for line in found.evidence)
    assert found.outputs[0].nonfinite_got == found.outputs[0].nonfinite_want == 4


def test_nan_on_both_sides_does_not_excuse_the_rest_of_its_vector() -> None:
    want = X.copy()
    want[0, 1, 0] = np.nan
    got = want.copy()
    got[0, 1, 3] += 1.0
    assert one(want, got).status is Status.ARITHMETIC


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_an_output_without_a_finite_value_compares_nothing(value: float) -> None:
    broken = np.full((2, 3), value)
    found = judge({"y": X, "z": broken}, {"y": X, "z": broken})
    assert found.status is Status.NONFINITE
    assert "z" in found.message and "nothing was compared" in found.message


def test_one_wrong_vector_among_thousands_decides() -> None:
    want = np.ones((50, 100, 8))
    got = want.copy()
    got[37, 61, 5] = 1.001
    found = one(want, got)
    assert found.status is Status.ARITHMETIC
    assert found.worst is not None
    assert (found.worst.output, found.worst.index, found.worst.got, found.worst.want) == ("y", (37, 61, 5), 1.001, 1.0)


def test_the_worst_output_decides_and_is_named() -> None:
    found = judge({"a": X, "b": X, "c": X}, {"a": X, "b": X + 0.5, "c": X + 1e-4})
    assert found.status is Status.ARITHMETIC
    assert "b is" in found.message
    assert found.worst is not None and found.worst.output == "b"
    assert found.ratio == max(m.ratio for m in found.outputs)


def test_a_small_vector_is_not_hidden_by_a_large_one() -> None:
    want = np.array([[1e6, 1e6], [1e-3, 1e-3]])
    got = want + np.array([[0.0, 0.0], [0.0, 1e-4]])
    assert one(want, got).status is Status.ARITHMETIC


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_negative_values_are_judged_like_positive_ones(sign: float) -> None:
    want = np.full((2, 3), sign)
    assert one(want, want * 1.01).status is Status.ARITHMETIC
    assert one(want, want * 0.99).status is Status.ARITHMETIC
    assert one(want, -want).status is Status.ARITHMETIC
    assert one(want, want * (1 + 2.0**-25)).status is Status.PASS


def test_a_ratio_of_exactly_one_passes_and_the_next_number_fails() -> None:
    want = np.array([[1.0, 0.0]])
    exactly = np.array([[1.0, 2.0**-10]])
    found = one(want, exactly, floor=2.0**-10)
    assert (found.status, found.ratio) == (Status.PASS, 1.0)
    above = np.array([[1.0, np.nextafter(2.0**-10, 1)]])
    assert one(want, above, floor=2.0**-10).status is Status.ARITHMETIC


def test_a_ratio_that_is_not_a_number_never_passes() -> None:
    with np.errstate(invalid="ignore"):
        found = one(X, X, floor=0.0)  # 0 over a budget of 0
    assert found.status is Status.ARITHMETIC
    assert found.ratio is not None and np.isnan(found.ratio)


def test_a_difference_beyond_the_largest_double_fails() -> None:
    found = one([[1e308, 1.0]], [[-1e308, 1.0]])
    assert found.status is Status.ARITHMETIC


@pytest.mark.parametrize("noise", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("dtype", [np.float64, np.int64])
def test_noise_that_is_not_finite_never_makes_a_budget(noise: float, dtype: type[np.generic]) -> None:
    want = np.array([[1, 2], [3, 4]]).astype(dtype)
    got = np.array([[1, 2], [3, 9]]).astype(dtype)
    with pytest.raises(ValueError, match="not finite"):
        judge({"y": want}, {"y": got}, {"y": np.array([0.0, noise])})


def test_a_floating_output_without_noise_is_an_error() -> None:
    with pytest.raises(KeyError):
        judge({"y": X}, {"y": X}, {})


def test_noise_of_another_shape_is_an_error() -> None:
    with pytest.raises(ValueError):
        judge({"y": X}, {"y": X}, {"y": np.zeros((4, 3))})


def test_noise_is_allowed_for_in_its_own_vector_only() -> None:
    want = np.ones((2, 4))
    noise = np.array([0.01, 1e-6])
    assert one(want, np.add(want, [[0.05], [0.0]]), noise).status is Status.PASS
    assert one(want, np.add(want, [[0.0], [0.05]]), noise).status is Status.ARITHMETIC


def test_one_noise_for_all_vectors_is_broadcast() -> None:
    assert one(np.ones((2, 3, 4)), np.full((2, 3, 4), 1.05), 0.01).status is Status.PASS
    assert one(np.ones((2, 3, 4)), np.full((2, 3, 4), 1.05), [0.01, 0.01, 0.0001]).status is Status.ARITHMETIC


def test_scalars_are_compared() -> None:
    found = one(2.0, 2.0)
    assert (found.status, found.ratio) == (Status.PASS, 0.0)
    assert found.worst is not None and found.worst.index == ()
    failed = one(2.0, 2.001)
    assert failed.status is Status.ARITHMETIC
    assert failed.worst is not None and failed.worst.got == 2.001
    assert one(2.0, np.nan).status is Status.NONFINITE
    assert one(2, 3).status is Status.ARITHMETIC
    assert one(3, 3).status is Status.PASS


def test_an_output_of_rank_one_is_one_vector() -> None:
    assert one([1.0, 2.0, 3.0], [1.0, 2.0, 3.0]).status is Status.PASS
    failed = one([1.0, 2.0, 3.0], [1.0, 2.5, 3.0])
    assert failed.status is Status.ARITHMETIC
    assert failed.worst is not None and failed.worst.index == (1,)


@pytest.mark.parametrize("dtype", [ml_dtypes.bfloat16, np.float16, np.float32])
def test_every_floating_dtype_is_widened_and_judged(dtype: type[np.generic]) -> None:
    want = np.full((2, 3), 1.0)
    assert one(want, want.astype(dtype)).status is Status.PASS
    wrong = want.astype(dtype)
    wrong[1, 2] = 1.5
    assert one(want, wrong).status is Status.ARITHMETIC
    wrong[1, 2] = np.nan
    assert one(want, wrong).status is Status.NONFINITE


def test_a_float16_that_overflowed_is_not_finite() -> None:
    with np.errstate(over="ignore"):
        got = np.array([[1e5, 1.0]]).astype(np.float16)
    assert one([[1e5, 1.0]], got).status is Status.NONFINITE


@pytest.mark.parametrize("dtype", [np.int64, np.int32, np.bool_])
def test_integers_and_booleans_must_be_equal(dtype: type[np.generic]) -> None:
    want = np.array([[0, 1], [1, 0]]).astype(dtype)
    got = np.array([[0, 1], [1, 1]]).astype(dtype)
    assert one(want, want).status is Status.PASS
    found = one(want, got)
    assert (found.status, found.ratio) == (Status.ARITHMETIC, np.inf)
    assert found.worst is not None and found.worst.index == (1, 1)


def test_large_integers_are_compared_as_integers() -> None:
    want = np.array([2**53 + 1])
    assert one(want, want - 1).status is Status.ARITHMETIC


def test_integers_need_no_noise() -> None:
    want = {"y": np.array([[1, 2]])}
    assert judge(want, want, {}).status is Status.PASS
    assert judge(want, {"y": np.array([[1, 3]])}, {}).status is Status.ARITHMETIC


def test_an_integer_that_rounding_decides_is_excused_and_told() -> None:
    want, got = np.array([[1, 2], [3, 4]]), np.array([[1, 9], [3, 4]])
    found = one(want, got, [0.5, 0.0])
    assert found.status is Status.PASS
    assert any("1 of 4" in line and "rounding" in line for line in found.evidence)
    assert one(want, got, [0.0, 0.5]).status is Status.ARITHMETIC


def test_worst_vector_takes_nan_for_the_largest() -> None:
    assert worst_vector(np.array([[1.0, 5.0], [np.nan, 2.0]])) == (1, 0)
    assert worst_vector(np.array([[1.0, 5.0], [3.0, 2.0]])) == (0, 1)


def test_no_noise_leaves_only_the_floor() -> None:
    silent = no_noise({"y": X, "s": np.array(1.0), "n": np.array([1, 2])})
    assert {name: v.shape for name, v in silent.items()} == {"y": (2, 3), "s": (), "n": ()}
    assert not any(v.any() for v in silent.values())


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_budget_is_measured_wherever_a_vector_is_further_apart(value: float) -> None:
    near, far, broken = X + 1e-12, X.copy(), X.copy()
    far[1, 2, 3] += 1e-3
    broken[1, 2, 3] = value
    assert not further_apart({"y": X}, {"y": X}, 1e-9)
    assert not further_apart({"y": X}, {"y": near}, 1e-9)
    assert further_apart({"y": X}, {"y": far}, 1e-9)
    assert further_apart({"y": X}, {"y": broken}, 1e-9)
    assert further_apart({"z": X, "y": X}, {"y": far, "z": X}, 1e-9)


def test_no_budget_is_measured_where_the_structure_differs() -> None:
    assert not further_apart({"y": X}, {"z": X + 1}, 1e-9)
    assert not further_apart({"y": X}, {"y": np.ones(3)}, 1e-9)
