"""Real inputs are taken exactly as they are, or refused with all that helps; never mended, never half read."""

from __future__ import annotations

import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from onnxparity.case import Axis, Subject, TensorSpec
from onnxparity.errors import UsageError
from onnxparity.feeding.given_inputs import InputSet, by_regime, read_npz, set_name, take
from onnxparity.protocols import Array
from tests.unit.hub.subjects import BATCH, PAST, SEQUENCE, mask, subject

X = np.arange(30, dtype=np.float32).reshape(2, 5, 3)
IDS = TensorSpec("ids", ("batch", "sequence"), "int64", "tokens", 0, 9)
DECODER = subject(
    (
        IDS,
        TensorSpec("past", ("batch", "past", 3), role="past"),
        mask("additive", "float", ("batch", "past+sequence")),
    ),
    axes=(BATCH, SEQUENCE, Axis("past", "p", "past", low=0, high=8)),
)


def given(**arrays: Array) -> InputSet:
    """A set with these arrays."""
    return InputSet("given-it", "it.npz", arrays)


def decoding(**changed: Array) -> InputSet:
    """A set that fits DECODER, but for what is changed."""
    fine: dict[str, Array] = {
        "ids": np.zeros((2, 4), np.int64),
        "past": np.zeros((2, 3, 3), np.float32),
        "mask": np.zeros((2, 7), np.float32),
    }
    return given(**{**fine, **changed})


def refusal(call: Callable[[], object]) -> UsageError:
    """The error, which must have all four parts."""
    with pytest.raises(UsageError) as raised:
        call()
    error = raised.value
    assert error.what and error.expected and error.got and error.remedy
    return error


def test_arrays_are_taken_by_name_in_the_order_of_the_inputs() -> None:
    two = subject((TensorSpec("x", ("batch", "sequence", 3)), TensorSpec("z", ("batch",))))
    feeds, outputs = take(given(z=np.ones(2, np.float32), x=X), two)
    assert list(feeds) == ["x", "z"] and outputs == {}
    assert feeds["x"].dtype == np.float32 and np.array_equal(feeds["x"], X)


def test_values_keep_their_value_in_another_byte_order_and_layout() -> None:
    foreign = np.asfortranarray(X.astype(">f4"))
    feeds, _ = take(given(x=foreign), subject())
    assert feeds["x"].dtype.isnative and feeds["x"].flags.c_contiguous
    assert np.array_equal(feeds["x"], X)
    scalar = subject((TensorSpec("x", ()),), (), ())
    assert take(given(x=np.array(2.5, np.float32)), scalar)[0]["x"].shape == ()


def test_a_set_that_fits_a_decoder_is_taken_and_its_past_may_be_empty() -> None:
    assert take(decoding(), DECODER)[0]["mask"].shape == (2, 7)
    empty = decoding(past=np.zeros((2, 0, 3), np.float32), mask=np.zeros((2, 4), np.float32))
    assert take(empty, DECODER)[0]["past"].size == 0


@pytest.mark.parametrize(
    ("arrays", "words"),
    [
        ({}, "no 'x'"),
        ({"x": X, "y": X}, "unknown 'y'"),
        ({"X": X}, "no 'x' and unknown 'X'"),
    ],
)
def test_missing_and_unknown_names_are_told(arrays: dict[str, Array], words: str) -> None:
    error = refusal(lambda: take(given(**arrays), subject()))
    assert words in error.what and error.expected == "x"


@pytest.mark.parametrize(
    ("x", "what", "got"),
    [
        (X.astype(np.float64), "wrong dtype", "float64"),
        (X.astype(np.int64), "wrong dtype", "int64"),
        (X > 1, "wrong dtype", "bool"),
        (X[0], "wrong rank", "rank 2: (5, 3)"),
        (X[..., :2], "wrong shape", "(2, 5, 2)"),
        (X[:0], "batch is out of range", "0"),
        (np.where(X == 7, np.nan, X).astype(np.float32), "NaN or infinity", "first at (0, 2, 1): nan"),
        (np.where(X == 0, np.inf, X).astype(np.float32), "NaN or infinity", "1 of 30 elements"),
    ],
    ids=["float64", "integers", "booleans", "rank", "fixed dim", "no batch", "nan", "infinity"],
)
def test_an_array_that_does_not_fit_is_refused(x: Array, what: str, got: str) -> None:
    error = refusal(lambda: take(given(x=x), subject()))
    assert what in error.what and error.got is not None and got in error.got


@pytest.mark.parametrize(
    ("changed", "what", "expected"),
    [
        ({"past": np.zeros((3, 3, 3), np.float32)}, "'past' has the wrong shape", "batch = 2 in dim 0, as in 'ids'"),
        ({"mask": np.zeros((2, 6), np.float32)}, "'mask' has the wrong shape", "past+sequence = 7"),
        ({"ids": np.full((2, 4), 10)}, "indexes outside its table", "0 to 9"),
        ({"ids": np.full((2, 4), -1)}, "indexes outside its table", "0 to 9"),
        ({"ids": np.zeros((2, 4), np.int32)}, "'ids' has the wrong dtype", "int64"),
        (
            {"past": np.zeros((2, 9, 3), np.float32), "mask": np.zeros((2, 13), np.float32)},
            "past is out of range",
            "0 to 8",
        ),
    ],
)
def test_sizes_and_indices_are_held_to_the_description(changed: dict[str, Array], what: str, expected: str) -> None:
    error = refusal(lambda: take(decoding(**changed), DECODER))
    assert what in error.what and error.expected is not None and expected in error.expected


def test_an_array_without_elements_would_compare_nothing() -> None:
    loose = subject((TensorSpec("x", ("batch", 0)),), (), (BATCH,))
    assert "no element" in refusal(lambda: take(given(x=np.zeros((2, 0), np.float32)), loose)).what


def test_what_is_not_finite_passes_only_where_it_is_meant() -> None:
    broken = np.where(X == 7, np.nan, X).astype(np.float32)
    assert np.isnan(take(given(x=broken), subject(), allow_nonfinite=True)[0]["x"]).sum() == 1
    masked = np.where(np.arange(7) < 3, -np.inf, 0.0).astype(np.float32) * np.ones((2, 1), np.float32)
    assert np.isneginf(take(decoding(mask=masked), DECODER)[0]["mask"]).any()
    refusal(lambda: take(decoding(mask=-masked), DECODER))
    refusal(lambda: take(decoding(past=np.full((2, 3, 3), -np.inf, np.float32)), DECODER))


def test_a_factory_says_nothing_of_how_far_its_tokens_reach() -> None:
    theirs = replace(subject((IDS,)), kind="factory")
    assert take(given(ids=np.full((2, 4), 500)), theirs)[0]["ids"].max() == 500


def test_recorded_outputs_must_be_all_of_them() -> None:
    feeds, outputs = take(replace(given(x=X), outputs={"y": X}), subject())
    assert list(feeds) == ["x"] and np.array_equal(outputs["y"], X)
    assert "unknown 'z'" in refusal(lambda: take(replace(given(x=X), outputs={"y": X, "z": X}), subject())).what


def written(path: Path, **arrays: Array) -> Path:
    """An .npz file."""
    np.savez(path, allow_pickle=True, **arrays)
    return path


def test_an_archive_is_one_set_or_several(tmp_path: Path) -> None:
    (one,) = read_npz(written(tmp_path / "My Sentences.npz", x=X))
    assert one.name == "given-my-sentences" and np.array_equal(one.feeds["x"], X)
    numbered = {"x#10": X, "x#2": X + 1, "mask": X[0]}
    first, second = read_npz(written(tmp_path / "two.npz", **numbered))
    assert (first.name, second.name) == ("given-two-2", "given-two-10")
    assert np.array_equal(first.feeds["x"], X + 1) and set(first.feeds) == {"x", "mask"}


def test_two_sets_of_one_name_are_an_error() -> None:
    assert "same name" in refusal(lambda: by_regime([given(x=X), given(x=X)])).what
    assert list(by_regime([given(x=X)])) == ["given-it"]
    assert set_name("A b", 3) == "given-a-b-3"


def damaged(path: Path, whole: bytes) -> Path:
    """A file with this content."""
    path.write_bytes(whole)
    return path


def test_what_is_no_archive_of_numbers_is_refused(tmp_path: Path) -> None:
    whole = written(tmp_path / "whole.npz", x=np.zeros((64, 64))).read_bytes()
    np.save(tmp_path / "array.npy", X)
    with zipfile.ZipFile(tmp_path / "text.npz", "w") as archive:
        archive.writestr("x.npy", "no array")
    cases = {
        tmp_path / "nothing.npz": "cannot read",
        damaged(tmp_path / "empty.npz", b""): "is empty",
        damaged(tmp_path / "text.txt", b"x = 3"): "no .npz file",
        tmp_path / "array.npy": "no .npz file",
        damaged(tmp_path / "cut.npz", whole[: len(whole) // 2]): "truncated or damaged",
        damaged(tmp_path / "flipped.npz", whole.replace(b"\0" * 40, b"\1" * 40, 1)): "damaged",
        tmp_path / "text.npz": "something else than arrays",
        written(tmp_path / "none.npz"): "holds no array",
        written(tmp_path / "objects.npz", x=np.array([{"a": 1}])): "pickled objects",
    }
    for path, words in cases.items():
        assert words in refusal(lambda path=path: read_npz(path)).what, path  # type: ignore[misc]  # a default binds the loop's value


def test_a_past_that_shares_its_symbol_is_held_to_it() -> None:
    shared: Subject = subject(
        (TensorSpec("k", ("batch", "past", 3), role="past"), TensorSpec("v", ("batch", "past", 3), role="past")),
        axes=(BATCH, PAST),
    )
    error = refusal(lambda: take(given(k=X, v=X[:, :4]), shared))
    assert error.expected is not None and "past = 5 in dim 1, as in 'k'" in error.expected
