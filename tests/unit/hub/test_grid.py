"""The grid stays inside what a subject promises, and holds the sizes at which kernels break."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onnxparity import grid
from onnxparity.case import Axis, AxisRole, Subject, TensorSpec, parse_shape, shape_id
from onnxparity.errors import UsageError
from onnxparity.feeds import regimes, tells
from tests.unit.hub.subjects import BATCH, PAST, SEQUENCE, SOURCE, mask, subject

ALL = subject(
    (
        TensorSpec("x", ("batch", "sequence", 4)),
        TensorSpec("memory", ("batch", "source", 4)),
        TensorSpec("past", ("batch", "past", 4), role="past"),
        mask("keep", "bool", ("batch", "source")),
    ),
    axes=(BATCH, SEQUENCE, SOURCE, PAST),
)
ROLES: tuple[AxisRole, ...] = ("batch", "sequence", "source", "past", "other")


def bounded(bounds: list[tuple[AxisRole, int, int | None]]) -> Subject:
    """A subject with one float input over these axes."""
    axes = tuple(Axis(f"a{n}", "abcdef"[n], role, low, high) for n, (role, low, high) in enumerate(bounds))
    return subject((TensorSpec("x", tuple(a.symbol for a in axes)),), (), axes)


def sizes_of(role: str) -> set[int]:
    """Every size the grid tries on an axis of ALL."""
    return {parse_shape(ALL, p.shape)[role] for p in grid.full(ALL)}


@given(
    st.lists(st.tuples(st.sampled_from(ROLES), st.integers(1, 90), st.integers(0, 90) | st.none()), max_size=4).map(
        lambda found: [(r, low, None if span is None else low + span) for r, low, span in found]
    )
)
def test_every_shape_is_inside_the_bounds(bounds: list[tuple[AxisRole, int, int | None]]) -> None:
    chosen = bounded(bounds)
    for point in (*grid.full(chosen), *grid.core(chosen)):
        for axis in chosen.axes:
            size = parse_shape(chosen, point.shape)[axis.symbol]
            assert axis.low <= size <= (axis.high if axis.high is not None else 10**9)


@pytest.mark.parametrize("role", ["batch", "sequence", "source", "past"])
def test_size_one_is_tried_on_every_axis(role: str) -> None:
    assert 1 in sizes_of(role)


def test_sizes_around_the_blocks_of_kernels_are_tried() -> None:
    assert {15, 16, 17, 63, 64, 65} <= sizes_of("sequence")
    assert {15, 16, 17, 63, 64} <= sizes_of("source")
    assert {15, 16, 17, 63} <= sizes_of("past")


def test_the_core_shape_is_of_unequal_primes() -> None:
    core = parse_shape(ALL, grid.core(ALL)[0].shape)
    assert len(set(core.values())) == len(core)
    assert all(n > 1 and all(n % d for d in range(2, n)) for n in core.values())


def test_source_and_target_differ_except_at_size_one() -> None:
    for point in grid.full(ALL):
        sizes = parse_shape(ALL, point.shape)
        assert sizes["sequence"] != sizes["source"] or sizes["sequence"] == 1


def test_every_regime_is_tried_at_the_core_shape() -> None:
    core = grid.core(ALL)[0].shape
    assert {p.regime for p in grid.full(ALL) if p.shape == core} == set(regimes(ALL))


def test_core_is_part_of_the_grid_and_holds_hard_values_masks_and_size_one() -> None:
    core = grid.core(ALL)
    assert set(core) <= set(grid.full(ALL))
    assert {p.regime for p in core} == {"normal", "saturated", "mask-right"}
    assert any(set(parse_shape(ALL, p.shape).values()) == {1} for p in core)


def test_no_point_is_listed_twice() -> None:
    fixed = subject((TensorSpec("x", (2, 3)),), (), ())
    for chosen in (ALL, fixed, bounded([("batch", 2, 2)])):
        for points in (grid.full(chosen), grid.core(chosen)):
            assert len(set(points)) == len(points)
    assert {p.shape for p in grid.full(fixed)} == {"fixed"}


def test_mask_regimes_that_can_tell_nothing_are_left_out() -> None:
    one = subject((mask("keep", "bool"),), axes=(Axis("batch", "b", "batch", high=1), SEQUENCE))
    tried = {p.regime for p in grid.full(one)}
    assert "mask-empty" not in tried, "the only sample would be lost, and nothing would be compared"
    assert {"mask-right", "mask-left", "mask-holes"} <= tried
    for point in (*grid.full(one), *grid.core(one), *grid.given(one, "b1-t1")):
        assert tells(one, parse_shape(one, point.shape), point.regime)


def test_a_given_shape_is_tried_in_every_regime() -> None:
    found = grid.given(ALL, "b2-t5-s4-p3")
    assert {p.shape for p in found} == {"b2-t5-s4-p3"}
    assert [p.regime for p in found] == list(regimes(ALL))


def test_a_given_shape_is_put_in_its_one_form() -> None:
    assert {p.shape for p in grid.given(subject(), "b02-t005")} == {"b2-t5"}


@pytest.mark.parametrize("shape", ["", "b2", "t5-b2", "b2-t5-s3", "b2-tx", "b2-t", "b2_t5", "b2-t-5", "fixed", "b2-t²"])
def test_a_shape_that_does_not_fit_the_axes_is_an_error(shape: str) -> None:
    with pytest.raises(UsageError, match="bN-tN"):
        grid.given(subject(), shape)


@pytest.mark.parametrize("shape", ["b0-t5", "b9-t5", "b2-t1"])
def test_a_shape_out_of_range_is_an_error(shape: str) -> None:
    chosen = subject(axes=(Axis("batch", "b", "batch", 1, 8), Axis("sequence", "t", "sequence", 2)))
    with pytest.raises(UsageError, match="out of range") as raised:
        grid.given(chosen, shape)
    assert raised.value.expected is not None


def test_a_subject_without_axes_takes_only_fixed() -> None:
    still = subject((TensorSpec("x", (2, 3)),), (), ())
    assert [p.shape for p in grid.given(still, "fixed")] == ["fixed"] * len(regimes(still))
    with pytest.raises(UsageError):
        grid.given(still, "b2")


@given(st.lists(st.integers(0, 10**6), min_size=4, max_size=4))
def test_shape_ids_read_back(numbers: list[int]) -> None:
    sizes = dict(zip(("batch", "sequence", "source", "past"), numbers, strict=True))
    assert parse_shape(ALL, shape_id(ALL, sizes)) == sizes
