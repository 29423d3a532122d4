"""Impossible descriptions raise when they are made, and say what is wrong."""

from __future__ import annotations

import pytest

from onnxparity.case import Axis, OutputSpec, TensorSpec, parse_shape, shape_id
from tests.unit.hub.subjects import BATCH, SEQUENCE, SOURCE, mask, subject


@pytest.mark.parametrize("letter", ["", "ab", "1", "-"])
def test_an_axis_needs_a_single_letter(letter: str) -> None:
    with pytest.raises(ValueError, match="single letter"):
        Axis("batch", letter, "batch")


@pytest.mark.parametrize(("low", "high"), [(-1, None), (3, 2)])
def test_an_axis_needs_bounds_in_order(low: int, high: int | None) -> None:
    with pytest.raises(ValueError, match=f"{low} and {high}"):
        Axis("batch", "b", "batch", low, high)


def test_a_mask_needs_its_meaning_and_only_a_mask_has_one() -> None:
    with pytest.raises(ValueError, match="mask_meaning"):
        TensorSpec("m", ("batch",), role="mask")
    with pytest.raises(ValueError, match="mask_meaning"):
        TensorSpec("x", ("batch",), mask_meaning="keep")


def test_a_range_needs_its_ends_in_order() -> None:
    with pytest.raises(ValueError, match="low 3 is above high 2"):
        TensorSpec("ids", ("batch",), "int64", "tokens", 3, 2)


def test_a_dim_that_no_axis_declares_is_an_error() -> None:
    with pytest.raises(ValueError, match="source"):
        subject((TensorSpec("x", ("batch", "source")),))


def test_a_name_that_is_there_twice_is_an_error() -> None:
    x, y = TensorSpec("x", ("batch",)), OutputSpec("y", ("batch",))
    with pytest.raises(ValueError, match="input"):
        subject((x, x))
    with pytest.raises(ValueError, match="output"):
        subject((x,), (y, y))
    with pytest.raises(ValueError, match="axis"):
        subject((x,), (y,), (BATCH, Axis("batch", "c", "other")))


def test_axes_and_inputs_are_found_by_role() -> None:
    chosen = subject((TensorSpec("x", ("batch", "sequence")), mask("keep", "bool")))
    assert chosen.axis("sequence") == SEQUENCE
    assert chosen.axis("past") is None
    found = chosen.input("mask")
    assert found is not None and found.name == "mask"
    assert chosen.input("tokens") is None


def test_shape_ids_are_read_in_the_order_of_the_axes() -> None:
    chosen = subject((TensorSpec("x", ("batch", "source")),), axes=(BATCH, SOURCE))
    assert shape_id(chosen, {"source": 3, "batch": 2}) == "b2-s3"
    assert parse_shape(chosen, "b2-s3") == {"batch": 2, "source": 3}
    for wrong in ("s3-b2", "b2", "b2-s3-t1", "b2-s", "b-s3", "b2-s³", "b+2-s3", "B2-s3", "fixed", ""):
        with pytest.raises(ValueError, match="write bN-sN"):
            parse_shape(chosen, wrong)
