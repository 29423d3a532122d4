"""What is masked moves nothing else: padding on either side, in every encoding, and a hole in the middle."""

from __future__ import annotations

import numpy as np
import pytest

from onnxparity.case import MaskMeaning, TensorSpec
from onnxparity.errors import SubjectError
from onnxparity.invariants import plannable
from onnxparity.outcome import Status
from onnxparity.protocols import Feeds, Outputs
from tests.unit.hub.models import (
    CAUSAL,
    CROSS,
    FEATURES,
    GROWN,
    PADDED,
    SHORT,
    Run,
    look,
    masked_mean,
    running_mean,
    wide,
)
from tests.unit.hub.subjects import BATCH, PAST, SEQUENCE, WIDTH, mask, subject

SIZES = {"batch": 2, "sequence": 7}
DTYPES = pytest.mark.parametrize("dtype", ["float64", "float32", "float16"])


@DTYPES
@pytest.mark.parametrize("name", ["padding-invariance", "left-padding-invariance"])
def test_masked_padding_does_not_move_a_model_that_masks(name: str, dtype: str) -> None:
    found = look(name, PADDED, SIZES, masked_mean(), dtype=dtype)
    assert found.status is Status.PASS
    assert found.outputs[0].shape == (2, 7, WIDTH)


@DTYPES
@pytest.mark.parametrize("name", ["padding-invariance", "left-padding-invariance"])
def test_padding_that_leaks_is_found(name: str, dtype: str) -> None:
    leak = {"float64": 1e-8, "float32": 1e-4, "float16": 0.1}[dtype]
    assert look(name, PADDED, SIZES, masked_mean(leak), dtype=dtype).status is Status.PROPERTY


def test_absolute_positions_bear_padding_on_the_right_only() -> None:
    model = masked_mean(positions=0.01)
    assert look("padding-invariance", PADDED, SIZES, model).status is Status.PASS
    assert look("left-padding-invariance", PADDED, SIZES, model).status is Status.PROPERTY


@pytest.mark.parametrize("length", [1, 2, 7])
def test_padding_is_found_at_every_length(length: int) -> None:
    sizes = {"batch": 1, "sequence": length}
    assert look("padding-invariance", PADDED, sizes, masked_mean()).status is Status.PASS
    assert look("padding-invariance", PADDED, sizes, masked_mean(1e-3)).status is Status.PROPERTY


@DTYPES
def test_what_is_masked_moves_nothing_else(dtype: str) -> None:
    leak = {"float64": 1e-8, "float32": 1e-4, "float16": 0.1}[dtype]
    for length in (3, 4, 7):
        sizes = {"batch": 2, "sequence": length}
        assert look("masked-content", PADDED, sizes, masked_mean(), dtype=dtype).status is Status.PASS
        assert look("masked-content", PADDED, sizes, masked_mean(leak), dtype=dtype).status is Status.PROPERTY


def test_a_causal_model_that_does_not_read_its_mask_is_found_by_what_is_masked_alone() -> None:
    assert look("padding-invariance", PADDED, SIZES, running_mean).status is Status.PASS
    assert look("masked-content", PADDED, SIZES, running_mean).status is Status.PROPERTY


def test_a_masked_source_moves_no_target() -> None:
    def attend(leak: float) -> Run:
        def run(feeds: Feeds) -> Outputs:
            keep = feeds["mask"][:, 0, 0].astype(float)  # (B, S)
            return {
                "y": wide(feeds["x"])
                + np.einsum("bs,bsd->bd", keep + leak * (1 - keep), wide(feeds["memory"]))[:, None]
            }

        return run

    sizes = {"batch": 2, "sequence": 4, "source": 6}
    assert look("masked-content", CROSS, sizes, attend(0.0)).status is Status.PASS
    assert look("masked-content", CROSS, sizes, attend(1e-3)).status is Status.PROPERTY
    with pytest.raises(SubjectError, match="no mask"):
        look("masked-content", CAUSAL, SIZES, running_mean)
    assert not plannable("masked-content", PADDED, {"batch": 2, "sequence": 2})


def test_a_mask_over_past_and_new_keys_is_padded_on_the_right_alone() -> None:
    after = subject(
        (FEATURES, TensorSpec("past", ("batch", "past", WIDTH), role="past"), GROWN),
        axes=(BATCH, SEQUENCE, PAST),
    )
    sizes = {"batch": 2, "sequence": 4, "past": 3}

    def attend(leak: float) -> Run:
        def run(feeds: Feeds) -> Outputs:
            keys, keep = np.concatenate([wide(feeds["past"]), wide(feeds["x"])], axis=1), wide(feeds["mask"])[..., None]
            assert keys.shape[1] == keep.shape[1]
            return {"y": wide(feeds["x"]) + ((keep + leak * (1 - keep)) * keys).sum(axis=1, keepdims=True)}

        return run

    for name in ("padding-invariance", "masked-content"):
        assert look(name, after, sizes, attend(0.0)).status is Status.PASS
        assert look(name, after, sizes, attend(1e-3)).status is Status.PROPERTY
    with pytest.raises(SubjectError, match="past on its left"):
        look("left-padding-invariance", after, sizes, attend(0.0))


@pytest.mark.parametrize("name", ["padding-invariance", "left-padding-invariance"])
def test_positions_that_come_as_an_input_stay_with_their_tokens(name: str) -> None:
    chosen = subject(
        (FEATURES, mask("keep", "bool"), TensorSpec("at", ("batch", "sequence"), "int64", "positions", high=99))
    )

    def by_input(feeds: Feeds) -> Outputs:
        return {"y": masked_mean()(feeds)["y"] + wide(feeds["at"])[..., None]}

    def by_place(feeds: Feeds) -> Outputs:
        return {"y": masked_mean(positions=1.0)(feeds)["y"] + wide(feeds["at"])[..., None]}

    assert look(name, chosen, SIZES, by_input).status is Status.PASS
    placed = look(name, chosen, SIZES, by_place).status
    assert placed is (Status.PROPERTY if name.startswith("left") else Status.PASS)


ENCODINGS: tuple[tuple[MaskMeaning, str], ...] = (
    ("keep", "bool"),
    ("keep", "int64"),
    ("drop", "bool"),
    ("drop", "int64"),
    ("additive", "float"),
)


@pytest.mark.parametrize(("meaning", "dtype"), ENCODINGS)
@pytest.mark.parametrize("name", ["padding-invariance", "left-padding-invariance"])
def test_padding_is_masked_in_every_encoding(meaning: MaskMeaning, dtype: str, name: str) -> None:
    chosen = subject((FEATURES, mask(meaning, dtype)))

    def decoded(leak: float = 0.0) -> object:
        def run(feeds: Feeds) -> Outputs:
            m = feeds["mask"]
            keep = m == 0 if meaning in ("additive", "drop") else m == 1
            return masked_mean(leak)({"x": feeds["x"], "mask": keep})

        return run

    kept, leaking = decoded(), decoded(1e-3)
    assert callable(kept) and callable(leaking)
    assert look(name, chosen, SIZES, kept).status is Status.PASS
    assert look(name, chosen, SIZES, leaking).status is Status.PROPERTY


@pytest.mark.parametrize("name", ["padding-invariance", "left-padding-invariance"])
@pytest.mark.parametrize("leak", [0.0, 1e-3])
def test_a_mask_with_queries_and_keys_along_one_axis_is_padded_along_both(name: str, leak: float) -> None:
    chosen = subject((FEATURES, mask("keep", "bool", ("batch", 1, "sequence", "sequence"))))

    def attend(feeds: Feeds) -> Outputs:
        x, keep = wide(feeds["x"]), feeds["mask"][:, 0].astype(float)  # (B, T, D), (B, T, T)
        assert keep.shape[1:] == (x.shape[1],) * 2
        assert keep.any(axis=-1).all(), "padding must not leave a query without a key"
        return {"y": (keep + leak * (1 - keep)) @ x / keep.sum(axis=-1, keepdims=True)}

    found = look(name, chosen, SIZES, attend)
    assert found.status is (Status.PROPERTY if leak else Status.PASS)


def test_a_padded_source_leaves_the_target_alone() -> None:
    sizes = {"batch": 2, "sequence": 4, "source": 6}

    def attend(leak: float) -> object:
        def run(feeds: Feeds) -> Outputs:
            keep = feeds["mask"][:, 0, 0].astype(float)  # (B, S)
            share = (keep + leak * (1 - keep)) / keep.sum(axis=-1, keepdims=True)
            return {"y": wide(feeds["x"]) + np.einsum("bs,bsd->bd", share, wide(feeds["memory"]))[:, None]}

        return run

    kept, leaking = attend(0.0), attend(1e-3)
    assert callable(kept) and callable(leaking)
    assert look("padding-invariance", CROSS, sizes, kept).status is Status.PASS
    assert look("padding-invariance", CROSS, sizes, leaking).status is Status.PROPERTY


def test_padding_stays_inside_what_the_subject_serves() -> None:
    chosen = subject((FEATURES, mask("keep", "bool")), axes=(BATCH, SHORT))
    seen: list[int] = []

    def watched(feeds: Feeds) -> Outputs:
        seen.append(feeds["x"].shape[1])
        return masked_mean(1e-3)(feeds)

    for length in (17, 18):
        assert look("padding-invariance", chosen, {"batch": 2, "sequence": length}, watched).status is Status.PROPERTY
    assert max(seen) == 19
    assert not plannable("padding-invariance", chosen, {"batch": 2, "sequence": 19})
    with pytest.raises(SubjectError):
        look("padding-invariance", chosen, {"batch": 2, "sequence": 19}, watched)


def test_padding_without_a_mask_is_an_error() -> None:
    for chosen in (CAUSAL, subject((FEATURES, mask("keep", "bool", ("batch", 7))))):
        with pytest.raises(SubjectError, match="mask"):
            look("padding-invariance", chosen, SIZES, running_mean)
