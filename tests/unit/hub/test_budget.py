"""The budget: never wider than half a vector, never drawn from noise that is not a number, monotone in the noise."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from onnxparity.numerics.budget import CEILING, KAPPA, NEIGHBOUR, allowance, vector_error, vector_size

Float64 = npt.NDArray[np.float64]
FLOOR = 2.0**-24
NOISES = hnp.arrays(np.float64, hnp.array_shapes(max_dims=3, max_side=6), elements=st.floats(0, 10))


def test_without_noise_the_budget_is_the_floor() -> None:
    assert allowance(np.zeros((2, 3)), FLOOR).tolist() == [[FLOOR] * 3] * 2


def test_a_budget_is_kappa_times_the_noise_and_the_floor() -> None:
    assert allowance(np.array([1e-3]), FLOOR) == pytest.approx([KAPPA * 1e-3 + FLOOR])
    assert allowance(np.array([1e-3]), FLOOR, kappa=2.0) == pytest.approx([2e-3 + FLOOR])


def test_no_budget_is_wider_than_the_ceiling() -> None:
    assert allowance(np.array([0.0, 1.0, 1e300]), FLOOR).max() == CEILING
    assert CEILING < 1, "a result of zeros must be out of every budget"


def test_a_draw_that_missed_is_caught_by_its_neighbours() -> None:
    budgets = allowance(np.array([0.0, 1e-3, 1e-3, 1e-3]), FLOOR)
    assert budgets[0] == pytest.approx(KAPPA * NEIGHBOUR * 1e-3 + FLOOR)


def test_one_ill_conditioned_vector_does_not_widen_the_budget_of_all_others() -> None:
    budgets = allowance(np.array([[1e-7, 1e-7, 1e-7], [1e-7, 1e-7, 0.9]]), FLOOR)
    assert budgets[1, 2] == CEILING
    assert budgets[0].max() < 1e-5


@pytest.mark.parametrize("noise", [np.nan, np.inf, -np.inf])
def test_noise_that_is_not_finite_raises(noise: float) -> None:
    with pytest.raises(ValueError, match="not finite"):
        allowance(np.array([0.0, noise]), FLOOR)


@given(NOISES, st.floats(0, 10), st.data())
def test_more_noise_never_means_less_budget(noise: Float64, more: float, data: st.DataObject) -> None:
    louder = noise.copy()
    place = tuple(data.draw(st.integers(0, n - 1)) for n in noise.shape)
    louder[place] += more
    assert np.all(allowance(louder, FLOOR) >= allowance(noise, FLOOR))


@given(NOISES)
def test_a_budget_lies_between_its_own_noise_and_the_ceiling(noise: Float64) -> None:
    budgets = allowance(noise, FLOOR)
    assert budgets.shape == noise.shape
    assert np.all(budgets <= CEILING)
    assert np.all(budgets >= np.minimum(KAPPA * noise + FLOOR, CEILING))


def test_a_vector_of_zeros_has_size_one_so_that_its_error_is_absolute() -> None:
    assert vector_size(np.array([[0.0, 0.0], [-4.0, 2.0]])).tolist() == [1.0, 4.0]
    difference, value = np.array([[0.25, 0.0], [2.0, 1.0]]), np.array([[0.0, 0.0], [-4.0, 2.0]])
    assert vector_error(difference, value).tolist() == [0.25, 0.5]


def test_size_leaves_out_what_is_not_finite() -> None:
    assert vector_size(np.array([[np.inf, -3.0], [np.nan, -np.inf]])).tolist() == [3.0, 1.0]


def test_error_of_negative_differences_is_positive() -> None:
    assert vector_error(np.array([[-1.0, 0.5]]), np.array([[-2.0, 0.0]])).tolist() == [0.5]


def test_error_keeps_nan() -> None:
    assert np.isnan(vector_error(np.array([[np.nan, 0.0]]), np.array([[1.0, 1.0]])))[0]


def test_error_and_size_of_a_scalar() -> None:
    assert float(vector_size(np.array(-3.0))) == 3.0
    assert float(vector_error(np.array(0.3), np.array(3.0))) == pytest.approx(0.1)
