"""The grid stays inside what a subject promises, and holds the sizes at which kernels break."""

from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onnxparity.case import Axis, AxisRole, Subject, TensorSpec, parse_shape, shape_id
from onnxparity.errors import UsageError
from onnxparity.feeding.feeds import BEYOND, regimes, stays_finite, tells
from onnxparity.planning import grid
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
    shares = [p for part in range(3) for p in grid.share(chosen, part, 3)]
    for point in (p for p in (*grid.full(chosen), *grid.core(chosen), *shares) if p.regime != BEYOND):
        for axis in chosen.axes:
            size = parse_shape(chosen, point.shape)[axis.symbol]
            assert axis.low <= size <= (axis.high if axis.high is not None else 10**9)


@pytest.mark.parametrize("role", ["batch", "sequence", "source", "past"])
def test_size_one_is_tried_on_every_axis(role: str) -> None:
    assert 1 in sizes_of(role)


@pytest.mark.parametrize("role", ["sequence", "source", "past"])
def test_sizes_around_the_blocks_of_kernels_are_tried(role: str) -> None:
    assert {7, 8, 9, 15, 16, 17, 63, 64, 65, 127, 128, 129} <= sizes_of(role)


def class_of(size: int) -> str:
    """Which size class a size is of, by the kernel block it stands beside."""
    block = next((b for b in (8, 16, 64, 128) if abs(size - b) <= 1), None)
    return f"about {block}" if block else "one" if size == 1 else "other"


def pairs_of_classes(first: str, second: str) -> set[tuple[str, str]]:
    """Which size classes of two axes of ALL meet in the grid."""
    shapes = [parse_shape(ALL, p.shape) for p in grid.full(ALL)]
    return {(class_of(s[first]), class_of(s[second])) for s in shapes}


SHORT = ("one", "other", "about 8", "about 16", "about 64")


@pytest.mark.parametrize("pair", list(combinations(("sequence", "source", "past"), 2)), ids="-".join)
def test_every_two_size_classes_of_two_axes_meet(pair: tuple[str, str]) -> None:
    met = pairs_of_classes(*pair)
    assert {(a, b) for a in SHORT for b in SHORT} <= met
    assert {(a, "about 128") for a in ("one", "other")} <= met
    assert {("about 128", b) for b in ("one", "other")} <= met


def test_every_batch_meets_every_length_but_long_ones_come_alone() -> None:
    met = pairs_of_classes("batch", "sequence")
    assert {(a, b) for a in ("one", "other", "about 8") for b in SHORT} <= met
    assert {a for a, b in met if b == "about 128"} == {"one"}
    for sizes in (parse_shape(ALL, p.shape) for p in grid.full(ALL)):
        assert sum(size > 100 for size in sizes.values()) <= 1


def test_a_pair_of_classes_that_is_missing_is_seen() -> None:
    assert ("about 128", "about 128") not in pairs_of_classes("sequence", "source")


def test_a_plain_encoder_has_at_least_24_points_in_each_dtype() -> None:
    tokens = subject((TensorSpec("ids", ("batch", "sequence"), "int64", "tokens", 0, 99),))
    for chosen in (subject(), tokens):
        for dtype in ("float32", "float16"):
            assert sum(stays_finite(p.regime, dtype) for p in grid.full(chosen)) >= 24


def test_another_name_draws_another_grid_and_the_same_name_the_same() -> None:
    one, same, other = (subject(name=name) for name in ("one", "one", "other"))
    assert grid.full(one) == grid.full(same)
    assert set(grid.full(one)) != set(grid.full(other))


def test_a_past_of_nothing_is_tried_where_the_axis_allows_it() -> None:
    empty = bounded([("batch", 1, None), ("sequence", 1, None), ("past", 0, None)])
    met = {(s["a1"], s["a2"]) for s in (parse_shape(empty, p.shape) for p in grid.full(empty))}
    assert len({length for length, past in met if past == 0}) >= 4
    assert all(past for _, past in ((s["sequence"], s["past"]) for s in map_of(ALL)))


def map_of(chosen: Subject) -> list[dict[str, int]]:
    """The sizes of every point of the grid."""
    return [parse_shape(chosen, p.shape) for p in grid.full(chosen)]


def test_the_largest_size_is_tried_and_one_more_is_a_question_of_its_own() -> None:
    table = bounded([("batch", 1, None), ("sequence", 1, 40)])
    assert {s["a1"] for s in map_of(table)} >= {40, 41}
    assert [p for p in grid.full(table) if parse_shape(table, p.shape)["a1"] > 40] == list(grid.beyond(table))
    assert [(p.shape, p.regime) for p in grid.beyond(table)] == [("a2-b41", BEYOND)]
    assert grid.given(table, "a2-b41") == grid.beyond(table)
    assert not grid.beyond(bounded([("batch", 1, 8), ("other", 1, 16)])), "no table ends there"


def test_shares_have_the_core_in_common_and_hold_the_grid_together() -> None:
    shares = [grid.share(ALL, part, 4) for part in range(4)]
    assert set().union(*shares) == set(grid.full(ALL))
    common = set(shares[0]).intersection(*shares[1:])
    assert set(grid.core(ALL)) <= common
    assert {p.regime for p in common} == set(regimes(ALL))
    assert max(map(len, shares)) < len(grid.full(ALL)) // 2
    assert set(grid.share(ALL, 0, 1)) == set(grid.full(ALL))


def test_every_value_regime_is_tried_at_a_second_shape() -> None:
    shapes = {r: {p.shape for p in grid.full(ALL) if p.regime == r} for r in regimes(ALL)}
    assert all(len(found) == 2 for r, found in shapes.items() if r != "normal")


def test_the_core_shape_is_of_unequal_primes() -> None:
    core = parse_shape(ALL, grid.core(ALL)[0].shape)
    assert len(set(core.values())) == len(core)
    assert all(n > 1 and all(n % d for d in range(2, n)) for n in core.values())


def test_source_and_target_differ_except_at_size_one() -> None:
    for point in grid.full(ALL):
        sizes = parse_shape(ALL, point.shape)
        assert sizes["sequence"] != sizes["source"] or sizes["sequence"] == 1, point


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
