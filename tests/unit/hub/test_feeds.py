"""Feeds are the same for every opset, runtime and process, and each regime does what its name says."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from onnxparity.case import Axis, AxisRole, MaskMeaning, Subject, TensorSpec
from onnxparity.errors import SubjectError
from onnxparity.feeding.feeds import (
    BEYOND,
    EXAMPLE_SIZES,
    LATE,
    OVERFLOW,
    draw,
    example,
    export_sizes,
    generator,
    regimes,
    resolve,
    stays_finite,
    tells,
)
from onnxparity.protocols import Array
from tests.unit.hub.subjects import BATCH, PAST, SEQUENCE, SOURCE, mask, masked, subject

SIZES = {"batch": 2, "sequence": 17}
FEATURES = TensorSpec("x", ("batch", "sequence", 8))
PATTERNS = ("right", "left", "holes", "empty")
FILLS = {"": -np.inf, "-min": None, "-1e4": -1e4}

DIGEST = """
import sys
sys.path.insert(0, {root!r})
from tests.unit.hub.test_feeds import digest
print(digest())
"""


def everything() -> Subject:
    """A subject with an input of every kind."""
    return subject(
        (
            FEATURES,
            TensorSpec("tokens", ("batch", "sequence"), "int64", "tokens", 3, 9),
            TensorSpec("past", ("batch", 2, "past", 4), role="past"),
            mask("keep", "bool", ("batch", "sequence"), "keep"),
            mask("additive", "float", ("batch", 1, "sequence", "source"), "added"),
        ),
        axes=(BATCH, SEQUENCE, SOURCE, PAST),
    )


def digest() -> str:
    """A hash of every feed of every regime in both dtypes."""
    found, sizes = hashlib.sha256(), {"batch": 2, "sequence": 5, "source": 7, "past": 3}
    for dtype in ("float32", "float16"):
        for regime in regimes(everything()):
            for name, value in draw(everything(), sizes, regime, dtype).items():
                found.update(f"{name} {value.dtype} {value.shape}".encode() + value.tobytes())
    return found.hexdigest()


def drawn(spec: TensorSpec, sizes: dict[str, int], regime: str, dtype: str = "float32") -> Array:
    """One input's values."""
    axes = tuple(Axis(s, s[0], "other") for s in sizes)
    return draw(subject((spec,), (), axes), sizes, regime, dtype)[spec.name]


def kept(spec: TensorSpec, value: Array) -> Array:
    """Which positions a mask keeps, read back from its encoding."""
    if spec.mask_meaning == "additive":
        return np.asarray(value == 0)
    return np.asarray(value == (1 if spec.mask_meaning == "keep" else 0))


def test_another_process_draws_the_same_feeds() -> None:
    root = str(Path(__file__).resolve().parents[3])
    done = subprocess.run(
        [sys.executable, "-c", DIGEST.format(root=root)],
        env={**os.environ, "PYTHONHASHSEED": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == digest()


def test_float16_feeds_are_the_float32_feeds_rounded() -> None:
    wide, narrow = (draw(subject((FEATURES,)), SIZES, "normal", d)["x"] for d in ("float32", "float16"))
    assert wide.dtype == np.float32
    assert np.array_equal(narrow, wide.astype(np.float16))


def test_another_name_shape_regime_or_input_draws_other_values() -> None:
    base = draw(subject((FEATURES,)), SIZES, "normal", "float32")["x"]
    renamed = draw(subject((FEATURES,), name="other"), SIZES, "normal", "float32")["x"]
    tiny = draw(subject((FEATURES,)), SIZES, "tiny", "float32")["x"]
    longer = draw(subject((FEATURES,)), {**SIZES, "sequence": 18}, "normal", "float32")["x"]
    two = draw(subject((FEATURES, TensorSpec("z", FEATURES.dims))), SIZES, "normal", "float32")
    assert not np.array_equal(base, renamed)
    assert not np.allclose(base, tiny * 100)
    assert not np.array_equal(base, longer[:, :17])
    assert not np.array_equal(two["x"], two["z"])
    assert np.array_equal(two["x"], base)


def test_the_seed_depends_on_the_words_alone() -> None:
    assert generator("a", 1).integers(1 << 40) == generator("a", "1").integers(1 << 40)
    assert generator("a").integers(1 << 40) != generator("b").integers(1 << 40)


def test_sizes_in_another_order_draw_the_same() -> None:
    turned = dict(reversed(list(SIZES.items())))
    a, b = (draw(subject((FEATURES,)), s, "normal", "float32")["x"] for s in (SIZES, turned))
    assert np.array_equal(a, b)


def test_regimes_are_those_that_change_something() -> None:
    tokens = TensorSpec("ids", ("batch", "sequence"), "int64", "tokens", 0, 9)
    scales = ("normal", "tiny", "saturated", "outlier", "zero-rows", "score-overflow")
    assert regimes(subject((tokens,))) == ("normal", "tokens-same", "tokens-last", "tokens-ends")
    assert regimes(subject((TensorSpec("flag", ("batch",), "int64", "other"),))) == ("normal",)
    assert regimes(subject((FEATURES,))) == scales
    assert regimes(subject((TensorSpec("p", ("batch", 4), role="past"),))) == scales
    plain = ("mask-full", *(f"mask-{p}" for p in PATTERNS))
    assert regimes(masked(mask("keep", "bool"))) == ("normal", *plain)
    assert regimes(masked(mask("drop", "int64"))) == ("normal", *plain)
    assert regimes(masked(mask("additive"))) == (
        "normal",
        "mask-full",
        *(f"mask-{p}{f}" for p in PATTERNS for f in FILLS),
    )
    assert len(set(regimes(everything()))) == len(regimes(everything()))


@pytest.mark.parametrize("regime", ["", "Normal", "mask-right", "causality", "huge"])
def test_an_unknown_regime_is_an_error(regime: str) -> None:
    with pytest.raises(SubjectError, match="unknown regime"):
        draw(subject((FEATURES,)), SIZES, regime, "float32")


def test_an_axis_without_a_size_is_an_error() -> None:
    with pytest.raises(SubjectError, match="sequence"):
        draw(subject((FEATURES,)), {"batch": 2}, "normal", "float32")
    assert resolve(FEATURES, SIZES) == (2, 17, 8)


def test_scales_are_those_of_their_regime() -> None:
    spread = {r: float(np.std(draw(subject((FEATURES,)), SIZES, r, "float32")["x"])) for r in regimes(subject())}
    assert 0.8 < spread["normal"] < 1.2
    assert 0.008 < spread["tiny"] < 0.012
    assert 24 < spread["saturated"] < 36


def test_outliers_stand_in_two_channels() -> None:
    largest = np.abs(draw(subject((FEATURES,)), SIZES, "outlier", "float32")["x"]).max(axis=(0, 1))
    assert np.count_nonzero(largest > 50) == 2
    assert np.count_nonzero(largest < 10) == 6


def test_scores_of_plain_attention_pass_the_largest_half_but_the_inputs_do_not() -> None:
    heads = subject(tuple(TensorSpec(name, ("batch", 4, "sequence", 8)) for name in ("query", "key")))
    fed = draw(heads, SIZES, OVERFLOW, "float16")
    assert all(np.isfinite(value).all() for value in fed.values())
    scores = fed["query"].astype(np.float64) @ np.swapaxes(fed["key"], -1, -2)
    assert np.abs(scores).max() > 65504
    assert not stays_finite(OVERFLOW, "float16")
    assert not stays_finite(OVERFLOW, "bfloat16"), "scores there round by hundreds"
    assert stays_finite(OVERFLOW, "float32") and stays_finite(OVERFLOW, "float64")
    assert stays_finite("saturated", "float16")


def test_some_vectors_are_nothing_but_zeros_and_some_are_not() -> None:
    x = draw(subject((FEATURES,)), SIZES, "zero-rows", "float32")["x"]
    empty = ~x.any(axis=-1)
    assert empty.any() and not empty.all()
    assert np.count_nonzero(x) == np.count_nonzero(~empty) * 8
    assert not drawn(TensorSpec("x", ("batch", 1)), {"batch": 1}, "zero-rows").any(), "the only vector there is"
    assert drawn(TensorSpec("x", ("batch", 4)), {"batch": 0}, "zero-rows").shape == (0, 4)


def test_tokens_are_one_the_last_or_both_ends() -> None:
    spec = TensorSpec("ids", ("batch",), "int64", "tokens", 3, 90)
    found = {r: set(drawn(spec, {"batch": 200}, f"tokens-{r}").tolist()) for r in ("same", "last", "ends")}
    assert len(found["same"]) == 1
    assert found["last"] == {90}
    assert found["ends"] == {3, 90}


def test_late_positions_end_with_their_table_or_are_far_out() -> None:
    def late(high: int) -> list[int]:
        spec = TensorSpec("position_ids", ("sequence",), "int64", "positions", high=high)
        assert LATE in regimes(subject((spec,)))
        return list(drawn(spec, {"sequence": 5}, LATE).tolist())

    assert late(511) == [507, 508, 509, 510, 511]
    assert late(10**9)[0] > 2048 and late(10**9)[-1] - late(10**9)[0] == 4
    assert late(4) == [0, 1, 2, 3, 4]


def test_a_size_too_many_is_fed_normal_values() -> None:
    x = draw(subject((FEATURES,)), {"batch": 2, "sequence": 257}, BEYOND, "float32")["x"]
    assert x.shape == (2, 257, 8)
    assert 0.8 < np.std(x) < 1.2


def test_holes_differ_from_head_to_head_and_query_to_query() -> None:
    keep = drawn(mask("keep", "bool", ("batch", 4, "sequence", "source")), MASK_SIZES, "mask-holes")
    assert not np.array_equal(keep[:, 0], keep[:, 1])
    assert not np.array_equal(keep[:, :, 0], keep[:, :, 1])
    assert not np.array_equal(keep[0], keep[1])


def test_a_full_mask_keeps_everything_and_tells_something_at_every_size() -> None:
    for meaning, dtype, cell_dtype in ENCODINGS:
        spec = mask(meaning, dtype)
        assert kept(spec, drawn(spec, {"batch": 2, "sequence": 5}, "mask-full", cell_dtype)).all()
    assert tells(masked(mask("keep", "bool")), {"batch": 1, "sequence": 1}, "mask-full")


def test_outliers_of_queries_and_keys_stand_in_channels_of_their_own() -> None:
    heads = subject(tuple(TensorSpec(name, ("batch", "sequence", 8)) for name in ("query", "key", "value")))
    fed = draw(heads, SIZES, "outlier", "float32")
    found = [set(np.flatnonzero(np.abs(value).max(axis=(0, 1)) > 50).tolist()) for value in fed.values()]
    assert [len(channels) for channels in found] == [2, 2, 2]
    assert not found[0] & found[1] and not found[1] & found[2] and not found[0] & found[2]
    longer = draw(heads, {**SIZES, "sequence": 30}, "outlier", "float32")["query"]
    assert set(np.flatnonzero(np.abs(longer).max(axis=(0, 1)) > 50).tolist()) == found[0]


@pytest.mark.parametrize(("dtype", "roundoff"), [("float16", 2.0**-11), ("bfloat16", 2.0**-8), ("float32", 2.0**-24)])
def test_no_score_rounds_by_as_much_as_a_softmax_feels(dtype: str, roundoff: float) -> None:
    heads = subject(tuple(TensorSpec(name, ("batch", 4, "sequence", 8)) for name in ("query", "key")))
    for regime in ("saturated", "outlier"):
        query, key = (value.astype(np.float64) for value in draw(heads, SIZES, regime, dtype).values())
        scores = query @ np.swapaxes(key, -1, -2) / 8**0.5
        assert np.abs(scores).max() * roundoff < 0.5, regime
        assert np.abs(scores).max() > 15, "near saturation all the same"


def test_outliers_in_a_single_channel() -> None:
    narrow = TensorSpec("x", ("batch", 1))
    assert np.abs(drawn(narrow, {"batch": 9}, "outlier")).max() > 50


@given(st.integers(-5, 5), st.integers(0, 3))
def test_integers_reach_both_ends_of_their_range(low: int, span: int) -> None:
    spec = TensorSpec("ids", ("batch",), "int32", "tokens", low, low + span)
    values = drawn(spec, {"batch": 400}, "normal")
    assert values.dtype == np.int32
    assert set(values.tolist()) == set(range(low, low + span + 1))


def test_a_fixed_dtype_is_kept_in_every_cell_dtype() -> None:
    spec = TensorSpec("x", ("batch", 4), "float32")
    assert drawn(spec, {"batch": 2}, "normal", "float16").dtype == np.float32


ENCODINGS: tuple[tuple[MaskMeaning, str, str], ...] = (
    ("keep", "bool", "float32"),
    ("drop", "bool", "float32"),
    ("keep", "int64", "float32"),
    ("drop", "int64", "float32"),
    ("keep", "float", "float16"),
    ("additive", "float", "float32"),
    ("additive", "float", "float16"),
    ("additive", "float32", "float16"),
)
MASK_SHAPES: tuple[tuple[int | str, ...], ...] = (
    ("batch", "sequence"),
    ("batch", 1, 1, "sequence"),
    ("batch", "sequence", "source"),
    ("batch", 1, "sequence", "source"),
    ("batch", 4, "sequence", "source"),
)
MASK_SIZES = {"batch": 2, "sequence": 17, "source": 13}


@pytest.mark.parametrize(("meaning", "dtype", "cell_dtype"), ENCODINGS)
@pytest.mark.parametrize("dims", MASK_SHAPES)
@pytest.mark.parametrize("pattern", PATTERNS)
def test_every_pattern_in_every_encoding(
    meaning: MaskMeaning, dtype: str, cell_dtype: str, dims: tuple[int | str, ...], pattern: str
) -> None:
    spec = mask(meaning, dtype, dims)
    expected = np.dtype(cell_dtype if dtype == "float" else dtype)
    plain = kept(mask("keep", "bool", dims), drawn(mask("keep", "bool", dims), MASK_SIZES, f"mask-{pattern}"))
    for suffix, fill in FILLS.items() if meaning == "additive" else (("", None),):
        value = drawn(spec, MASK_SIZES, f"mask-{pattern}{suffix}", cell_dtype)
        assert value.dtype == expected
        assert np.array_equal(kept(spec, value), plain), "each encoding must keep the same positions"
        if meaning == "additive":
            lowest = np.finfo(expected).min if fill is None else fill
            assert set(value[~plain].tolist()) == {expected.type(lowest)}
        else:
            assert set(np.unique(value).tolist()) == {0, 1}


@pytest.mark.parametrize("dims", MASK_SHAPES)
def test_right_left_and_holes_keep_a_key_in_every_row_and_drop_one_in_every_sample(dims: tuple[int | str, ...]) -> None:
    for pattern in ("right", "left", "holes"):
        keep = drawn(mask("keep", "bool", dims), MASK_SIZES, f"mask-{pattern}")
        assert keep.any(axis=-1).all(), pattern
        assert not keep.reshape(2, -1).all(axis=-1).any(), pattern
    right, left = (drawn(mask("keep", "bool", dims), MASK_SIZES, f"mask-{p}") for p in ("right", "left"))
    assert right[..., 0].all() and not right[..., -1].any()
    assert left[..., -1].all() and not left[..., 0].any()
    assert np.count_nonzero(right[0]) != np.count_nonzero(right[1]), "samples must be padded by different amounts"


@pytest.mark.parametrize("dims", MASK_SHAPES)
def test_exactly_one_row_is_empty(dims: tuple[int | str, ...]) -> None:
    keep = drawn(mask("keep", "bool", dims), MASK_SIZES, "mask-empty")
    assert keep.all(axis=-1).any(), "the other rows keep their keys"
    empty = ~keep.any(axis=-1)
    assert np.array_equal(empty, ~keep.all(axis=-1)), "a row is empty or whole"
    heads = 4 if 4 in dims else 1
    assert np.count_nonzero(empty) == heads, "the same row in every head, and no other"


@pytest.mark.parametrize("pattern", ["right", "left", "holes"])
@pytest.mark.parametrize("dims", MASK_SHAPES)
def test_at_size_one_a_key_is_still_kept(pattern: str, dims: tuple[int | str, ...]) -> None:
    ones = dict.fromkeys(MASK_SIZES, 1)
    assert drawn(mask("keep", "bool", dims), ones, f"mask-{pattern}").all()


def test_without_a_mask_regime_every_position_is_kept() -> None:
    for meaning, dtype, cell_dtype in ENCODINGS:
        spec = mask(meaning, dtype)
        value = drawn(spec, {"batch": 2, "sequence": 5}, "normal", cell_dtype)
        assert kept(spec, value).all()


@pytest.mark.parametrize("pattern", PATTERNS)
def test_a_mask_without_a_batch_is_one_sample(pattern: str) -> None:
    keep = drawn(mask("keep", "bool", ("source",)), {"source": 13}, f"mask-{pattern}")
    assert keep.shape == (13,)
    assert not keep.all()
    assert keep.any() == (pattern != "empty")


def test_a_mask_regime_tells_nothing_where_it_masks_nothing_or_everything() -> None:
    padding = masked(mask("keep", "bool"))
    assert all(tells(padding, {"batch": 2, "sequence": 5}, r) for r in regimes(padding))
    assert not tells(padding, {"batch": 2, "sequence": 1}, "mask-right")
    assert not tells(padding, {"batch": 1, "sequence": 5}, "mask-empty")
    assert tells(padding, {"batch": 1, "sequence": 5}, "mask-right")
    assert tells(padding, {"batch": 1, "sequence": 1}, "normal")
    queries = masked(mask("additive", "float", ("batch", 1, "sequence", "sequence")))
    assert tells(queries, {"batch": 1, "sequence": 5}, "mask-empty-min")


ROLES: tuple[AxisRole, ...] = ("batch", "sequence", "source", "past", "other")


def axes_of(*bounds: tuple[AxisRole, int, int | None]) -> Subject:
    """A subject with these axes."""
    axes = tuple(Axis(f"a{n}", "abcdef"[n], role, low, high) for n, (role, low, high) in enumerate(bounds))
    return subject((TensorSpec("x", tuple(a.symbol for a in axes)),), (), axes)


def test_export_sizes_are_those_of_their_roles() -> None:
    assert export_sizes(everything()) == {r: EXAMPLE_SIZES[r] for r in ("batch", "sequence", "source", "past")}


@given(
    st.lists(st.tuples(st.sampled_from(ROLES), st.integers(0, 6), st.integers(0, 9) | st.none()), max_size=4).map(
        lambda found: [(r, low, None if span is None else low + span) for r, low, span in found]
    )
)
def test_export_sizes_are_distinct_at_least_two_and_in_bounds_or_an_error(
    bounds: list[tuple[AxisRole, int, int | None]],
) -> None:
    chosen = axes_of(*bounds)
    try:
        sizes = export_sizes(chosen)
    except SubjectError:
        assert any(high is not None for _, _, high in bounds)
        return
    assert list(sizes) == [a.symbol for a in chosen.axes]
    assert len(set(sizes.values())) == len(sizes)
    for axis in chosen.axes:
        assert max(2, axis.low) <= sizes[axis.symbol] <= (axis.high or 99)


def test_two_axes_that_can_only_be_two_cannot_be_told_apart() -> None:
    with pytest.raises(SubjectError, match="a1"):
        export_sizes(axes_of(("batch", 1, 2), ("sequence", 1, 2)))


def test_an_axis_that_can_only_be_one_is_no_axis() -> None:
    with pytest.raises(SubjectError, match="a0"):
        export_sizes(axes_of(("batch", 1, 1)))


def test_an_axis_with_room_makes_way_for_one_without() -> None:
    assert export_sizes(axes_of(("batch", 1, None), ("sequence", 1, 2))) == {"a0": 3, "a1": 2}


def test_a_taken_size_is_passed_by_downwards_where_the_bound_is_reached() -> None:
    sizes = export_sizes(axes_of(("source", 1, 7), ("source", 1, 7)))
    assert sorted(sizes.values()) == [2, 7]


def test_the_example_is_normal_values_at_the_export_sizes() -> None:
    found = example(everything(), "float16")
    assert found["x"].shape == (2, 5, 8)
    assert found["past"].shape == (2, 2, 3, 4)
    assert np.array_equal(found["x"], draw(everything(), export_sizes(everything()), "normal", "float16")["x"])
