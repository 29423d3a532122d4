"""What must hold for every array: equal passes, and no element anywhere can move further than its budget."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from onnxparity.numerics.budget import allowance, vector_size
from onnxparity.numerics.compare import compare
from onnxparity.outcome import Status

Float64 = npt.NDArray[np.float64]
FLOOR = 2.0**-24
NUMBERS = st.floats(-1e6, 1e6).map(lambda number: number if abs(number) > 1e-100 else 0.0)
"""No denormals: a share of them rounds to nothing, and moves nothing."""
VALUES = hnp.arrays(np.float64, hnp.array_shapes(min_dims=0, max_dims=3, max_side=5), elements=NUMBERS)
INTEGERS = hnp.arrays(np.int64, hnp.array_shapes(min_dims=0, max_dims=3, max_side=5), elements=st.integers(-9, 9))


def place_in(shape: tuple[int, ...], data: st.DataObject) -> tuple[int, ...]:
    """Any index of an array of this shape."""
    return tuple(data.draw(st.integers(0, n - 1)) for n in shape)


def noise_of(value: Float64, data: st.DataObject) -> Float64:
    """Any noise for it, one number a vector."""
    shape = np.atleast_1d(value).shape[:-1]
    return np.asarray(data.draw(hnp.arrays(np.float64, shape, elements=st.floats(0, 1))))


@given(VALUES, st.data())
def test_equal_passes(x: Float64, data: st.DataObject) -> None:
    found = compare({"y": x}, {"y": x.copy()}, {"y": noise_of(x, data)}, floor=FLOOR, failure=Status.ARITHMETIC)
    assert (found.status, found.ratio) == (Status.PASS, 0.0)


@given(VALUES, st.data(), st.sampled_from([-1.0, 1.0]), st.floats(1.001, 1e3))
def test_any_element_beyond_its_budget_fails(x: Float64, data: st.DataObject, sign: float, beyond: float) -> None:
    place, noise = place_in(x.shape, data), noise_of(x, data)
    vector = place[:-1]
    reach = float(allowance(noise, FLOOR)[vector] * vector_size(x)[vector])
    got = x.copy()
    got[place] += sign * reach * beyond
    found = compare({"y": x}, {"y": got}, {"y": noise}, floor=FLOOR, failure=Status.ARITHMETIC)
    assert found.status is Status.ARITHMETIC
    assert found.worst is not None and found.worst.index == place


@given(VALUES, st.data(), st.sampled_from([-1.0, 1.0]), st.floats(0.0, 0.99))
def test_an_element_inside_its_budget_passes(x: Float64, data: st.DataObject, sign: float, share: float) -> None:
    place, noise = place_in(x.shape, data), noise_of(x, data)
    vector = place[:-1]
    got = x.copy()
    got[place] += sign * share * float(allowance(noise, FLOOR)[vector] * vector_size(x)[vector])
    assert compare({"y": x}, {"y": got}, {"y": noise}, floor=FLOOR, failure=Status.MEANING).status is Status.PASS


@given(VALUES, st.data(), st.sampled_from([np.nan, np.inf, -np.inf]))
def test_any_element_that_is_not_finite_fails(x: Float64, data: st.DataObject, value: float) -> None:
    got = x.copy()
    got[place_in(x.shape, data)] = value
    noise = {"y": noise_of(x, data)}
    for pair in ((x, got), (got, x)):
        found = compare({"y": pair[0]}, {"y": pair[1]}, noise, floor=FLOOR, failure=Status.ARITHMETIC)
        assert found.status is Status.NONFINITE


@given(INTEGERS, st.data(), st.integers(1, 9))
def test_any_other_integer_fails(x: npt.NDArray[np.int64], data: st.DataObject, step: int) -> None:
    got = x.copy()
    got[place_in(x.shape, data)] += step
    assert compare({"y": x}, {"y": x}, {}, floor=FLOOR, failure=Status.ARITHMETIC).status is Status.PASS
    assert compare({"y": x}, {"y": got}, {}, floor=FLOOR, failure=Status.ARITHMETIC).status is Status.ARITHMETIC
