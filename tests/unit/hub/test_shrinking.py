"""A failure is shrunk to the smallest shape that still fails, with few questions."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onnxparity.case import Axis, Subject, TensorSpec, parse_shape, shape_id
from onnxparity.locating.shrinking import TRIES, Shrunk, shrink, size_of
from tests.unit.hub.subjects import BATCH, SEQUENCE, subject

WITH_PAST = subject(
    (TensorSpec("x", ("batch", "sequence", "past")),), axes=(BATCH, SEQUENCE, Axis("past", "p", "past", low=0))
)
LATE = subject(axes=(BATCH, Axis("sequence", "t", "sequence", low=4, high=64)))


class Asked:
    """Answers by a rule, and remembers every question."""

    def __init__(self, of: Subject, rule: Callable[[Mapping[str, int]], bool]) -> None:
        self.subject = of
        self.rule = rule
        self.shapes: list[str] = []
        self.rounds = 0

    def __call__(self, shapes: tuple[str, ...]) -> set[str]:
        self.rounds += 1
        self.shapes += shapes
        return {s for s in shapes if self.rule(parse_shape(self.subject, s))}


def walk(of: Subject, start: str, rule: Callable[[Mapping[str, int]], bool], **how: int) -> tuple[Shrunk, Asked]:
    """The end of a walk in which every shape tells something."""
    asked = Asked(of, rule)
    return shrink(of, start, tells=lambda _: True, fails=asked, **how), asked


def test_what_always_fails_shrinks_to_the_lowest_sizes_in_one_question() -> None:
    found, asked = walk(subject(), "b3-t127", lambda _: True)
    assert (found.shape, asked.shapes, found.complete) == ("b1-t1", ["b1-t1"], True)


def test_sizes_stay_inside_the_axes_bounds() -> None:
    assert walk(LATE, "b3-t63", lambda _: True)[0].shape == "b1-t4"
    assert walk(WITH_PAST, "b3-t9-p8", lambda _: True)[0].shape == "b1-t1-p0"


@pytest.mark.parametrize("threshold", [2, 3, 7, 16, 17, 65, 100, 126, 127])
def test_a_threshold_on_one_axis_is_found_exactly(threshold: int) -> None:
    found, asked = walk(subject(), "b3-t127", lambda sizes: sizes["sequence"] >= threshold)
    assert found.shape == f"b1-t{threshold}" and found.complete
    assert len(asked.shapes) <= TRIES


def test_conditions_on_several_axes_are_met_together() -> None:
    found, _ = walk(WITH_PAST, "b3-t17-p11", lambda s: s["batch"] >= 2 and s["sequence"] + s["past"] >= 9)
    sizes = parse_shape(WITH_PAST, found.shape)
    assert sizes["batch"] == 2 and sizes["sequence"] + sizes["past"] == 9


@given(st.integers(1, 5), st.integers(1, 80), st.integers(0, 20), st.integers(0, 30))
def test_the_end_fails_and_nothing_one_smaller_does(b: int, t: int, p: int, least: int) -> None:
    start = {"batch": b, "sequence": t, "past": p}

    def rule(sizes: Mapping[str, int]) -> bool:
        return sizes["sequence"] * 2 + sizes["past"] >= min(least, 2 * t + p) and sizes["batch"] >= min(2, b)

    found, _ = walk(WITH_PAST, shape_id(WITH_PAST, start), rule, tries=1000)
    sizes = parse_shape(WITH_PAST, found.shape)
    assert rule(sizes) and all(sizes[k] <= start[k] for k in sizes)
    for axis in WITH_PAST.axes:
        smaller = {**sizes, axis.symbol: sizes[axis.symbol] - 1}
        assert smaller[axis.symbol] < axis.low or not rule(smaller)


def test_no_shape_is_asked_twice_and_the_start_never() -> None:
    _, asked = walk(WITH_PAST, "b3-t65-p16", lambda s: s["sequence"] >= 40 and s["past"] >= 3)
    assert len(set(asked.shapes)) == len(asked.shapes)
    assert "b3-t65-p16" not in asked.shapes


def test_shapes_that_tell_nothing_are_not_asked() -> None:
    asked = Asked(subject(), lambda _: True)
    found = shrink(subject(), "b2-t17", tells=lambda sizes: sizes["sequence"] >= 3, fails=asked)
    assert found.shape == "b1-t3"
    assert all(parse_shape(subject(), s)["sequence"] >= 3 for s in asked.shapes)


def test_tries_that_run_out_end_the_walk_and_are_told_of() -> None:
    found, asked = walk(subject(), "b3-t127", lambda s: s["sequence"] >= 100, tries=6)
    assert not found.complete and found.tries == len(asked.shapes) == 6
    assert parse_shape(subject(), found.shape)["sequence"] >= 100


def test_what_fails_nowhere_smaller_stays() -> None:
    assert walk(subject(), "b3-t17", lambda _: False)[0].shape == "b3-t17"


def test_a_subject_without_axes_has_nothing_to_shrink() -> None:
    fixed = subject((TensorSpec("x", (2, 3)),), (), axes=())
    found, asked = walk(fixed, "fixed", lambda _: True)
    assert (found.shape, asked.shapes) == ("fixed", [])


def test_several_shapes_are_asked_at_a_time() -> None:
    _, asked = walk(subject(), "b1-t1024", lambda s: s["sequence"] >= 1000)
    assert asked.rounds <= math.log2(1024) + 8


def test_volume_comes_before_the_sum_of_sizes() -> None:
    shapes = ["b2-t17", "b1-t35", "b1-t34", "b1-t1"]
    assert sorted(shapes, key=lambda s: size_of(subject(), s)) == ["b1-t1", "b2-t17", "b1-t34", "b1-t35"]


def test_a_shape_of_another_subject_is_refused() -> None:
    with pytest.raises(ValueError, match="does not fit"):
        walk(subject(), "fixed", lambda _: True)
