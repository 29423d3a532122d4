"""Floating dtypes by name: bfloat16 is one of them, whatever NumPy thinks."""

from __future__ import annotations

import numpy as np
import pytest

from onnxparity.case import Subject, TensorSpec
from onnxparity.feeding.feeds import draw
from onnxparity.numerics.floats import DIGITS, cast, is_float, lowest, named


@pytest.mark.parametrize("name", DIGITS)
def test_every_dtype_is_found_by_its_name_and_counts_as_a_float(name: str) -> None:
    assert (named(name).name, is_float(named(name))) == (name, True)


@pytest.mark.parametrize("name", [name for name in DIGITS if name != "float64"])
def test_a_dtype_holds_as_many_digits_as_it_says(name: str) -> None:
    dtype = named(name)
    above, beside = 1 + 2.0 ** -(DIGITS[name] - 1), 1 + 2.0 ** -DIGITS[name]
    assert np.asarray(above).astype(dtype).astype(np.float64) == above
    assert np.asarray(beside).astype(dtype).astype(np.float64) != beside


@pytest.mark.parametrize(("name", "least"), [("float16", -65504.0), ("bfloat16", -(2.0 - 2.0**-7) * 2.0**127)])
def test_the_lowest_number_is_finite_and_nothing_lies_below_it(name: str, least: float) -> None:
    assert lowest(named(name)) == least
    assert np.isneginf(cast(np.asarray(least * (1 + 2.0**-7)), name))


def test_a_cast_changes_floats_alone_and_to_floats_alone() -> None:
    x, n = np.array([1.0, 1e300]), np.array([1, 2])
    assert cast(x, "bfloat16").dtype == named("bfloat16")
    assert cast(x, "bfloat16").astype(np.float64).tolist() == [1.0, np.inf]
    assert cast(n, "float16") is n
    assert cast(x, None) is x and cast(x, "int64") is x


def test_feeds_are_drawn_in_bfloat16_masks_of_its_lowest_number_included() -> None:
    subject = Subject(
        name="masked",
        kind="catalogue",
        origin="masked",
        source="a test",
        summary="",
        inputs=(
            TensorSpec("x", (2, 3, 4)),
            TensorSpec("mask", (2, 1, 3, 3), role="mask", mask_meaning="additive"),
        ),
        outputs=(),
    )
    feeds = draw(subject, {}, "mask-right-min", "bfloat16")
    assert {value.dtype.name for value in feeds.values()} == {"bfloat16"}
    assert float(feeds["mask"].min()) == lowest(named("bfloat16"))
    single = draw(subject, {}, "mask-right-min", "float32")
    assert np.array_equal(feeds["x"], single["x"].astype(named("bfloat16")))
