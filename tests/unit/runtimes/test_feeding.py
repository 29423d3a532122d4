"""Feeds: what does not fit is an error that says so, and what fits is never misread."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from onnxparity.artifact import FileInput
from onnxparity.case import Axis, OutputSpec, Subject, TensorSpec
from onnxparity.errors import SubjectError
from onnxparity.protocols import Array
from onnxparity.runtimes.feeding import declared_inputs, prepare

X = FileInput("x", "float32", ("batch", "sequence", 4))
MASK = FileInput("mask", "bool", ("batch", "sequence"))


def x(batch: int = 2, sequence: int = 3, width: int = 4, dtype: str = "float32") -> Array:
    return np.arange(batch * sequence * width).reshape(batch, sequence, width).astype(dtype)


def test_feeds_come_in_the_order_of_the_inputs() -> None:
    prepared = prepare((X, MASK), {"mask": np.ones((2, 3), bool), "x": x()})
    assert list(prepared) == ["x", "mask"]
    np.testing.assert_array_equal(prepared["x"], x())


@pytest.mark.parametrize(
    ("feeds", "words"),
    [
        ({"x": x()}, "no 'mask'"),
        ({"x": x(), "mask": np.ones((2, 3), bool), "y": x()}, "unknown 'y'"),
        ({"x": x(), "msak": np.ones((2, 3), bool)}, "no 'mask' and unknown 'msak'"),
        ({"x": x(dtype="float64"), "mask": np.ones((2, 3), bool)}, "'x' was fed the wrong dtype"),
        ({"x": x(), "mask": np.ones((2, 3), np.int64)}, "'mask' was fed the wrong dtype"),
        ({"x": x()[0], "mask": np.ones((2, 3), bool)}, "expected: (batch, sequence, 4): rank 3"),
        ({"x": x(width=5), "mask": np.ones((2, 3), bool)}, "expected: (batch, sequence, 4): 4 on axis 2"),
        ({"x": x(), "mask": np.ones((2, 7), bool)}, "sequence = 3 on axis 1, as in 'x'"),
    ],
)
def test_what_does_not_fit_is_an_error(feeds: dict[str, Array], words: str) -> None:
    with pytest.raises(SubjectError) as caught:
        prepare((X, MASK), feeds)
    assert words in str(caught.value)
    assert caught.value.remedy and caught.value.expected and caught.value.got


def test_one_symbol_twice_in_one_input_is_one_size() -> None:
    square = FileInput("s", "float32", ("n", "n"))
    prepare((square,), {"s": np.zeros((3, 3), np.float32)})
    with pytest.raises(SubjectError, match="n = 4"):
        prepare((square,), {"s": np.zeros((3, 4), np.float32)})


def test_a_dim_that_the_file_leaves_open_takes_any_size() -> None:
    assert prepare((FileInput("s", "float32", (None,)),), {"s": np.zeros(7, np.float32)})["s"].shape == (7,)


def test_what_is_no_array_is_an_error() -> None:
    feeds: dict[str, Any] = {"x": [[1.0, 2.0]]}  # Any: the mistake under test
    with pytest.raises(SubjectError, match="was fed no array"):
        prepare((X,), feeds)


@given(st.permutations(range(3)), st.sampled_from([1, -1, 2]), st.sampled_from(["<f4", ">f4"]))
def test_layout_and_byte_order_change_no_value(axes: list[int], step: int, order: str) -> None:
    strange = x(3, 4, 5).astype(order).transpose(axes)[::step]
    plain = prepare((FileInput("x", "float32", (None, None, None)),), {"x": strange})["x"]
    assert plain.flags.c_contiguous and plain.flags.aligned and plain.dtype.isnative
    np.testing.assert_array_equal(plain, strange)


def test_a_scalar_stays_a_scalar() -> None:
    assert prepare((FileInput("s", "int64", ()),), {"s": np.array(3)})["s"].shape == ()


def test_bfloat16_is_a_dtype_like_any_other() -> None:
    fed = np.ones((2, 6), ml_dtypes.bfloat16)[:, ::2]
    prepared = prepare((FileInput("x", "bfloat16", ("b", 3)),), {"x": fed})["x"]
    assert prepared.dtype.name == "bfloat16" and prepared.flags.c_contiguous
    with pytest.raises(SubjectError, match="wrong dtype"):
        prepare((FileInput("x", "bfloat16", ("b", 3)),), {"x": fed.astype(np.float16)})


def test_only_inputs_declared_float_take_the_dtype_of_the_cell() -> None:
    subject = Subject(
        name="s",
        kind="factory",
        origin="m:f",
        source="the user",
        summary="two inputs",
        inputs=(TensorSpec("x", ("b",)), TensorSpec("position", ("b",), dtype="float32")),
        outputs=(OutputSpec("y", ("b",)),),
        axes=(Axis("b", "b", "batch"),),
    )
    assert [i.dtype for i in declared_inputs(subject, "float16")] == ["float16", "float32"]
