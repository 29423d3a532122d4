"""Exact values are found again for the same content only, and a cache that was tampered with is not believed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from onnxparity import environment
from onnxparity.feeding import values
from onnxparity.feeding.values import Values, feeds_digest
from onnxparity.numerics.floats import named
from onnxparity.protocols import Outputs

ARRAYS: Outputs = {"y": np.array([[1.5, np.nan]]), "file": np.array(3), "flag": np.array([True])}


class Counted:
    """Computes the arrays, and counts how often it had to."""

    def __init__(self) -> None:
        self.times = 0

    def __call__(self) -> Outputs:
        self.times += 1
        return ARRAYS


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of this test's own."""
    monkeypatch.setenv("ONNXPARITY_CACHE", str(tmp_path))
    return tmp_path


def same(found: Outputs) -> bool:
    """Whether these are the arrays, exactly."""
    return set(found) == set(ARRAYS) and all(
        found[n].dtype == a.dtype and np.array_equal(found[n], a, equal_nan=a.dtype.kind == "f")
        for n, a in ARRAYS.items()
    )


def test_a_value_is_computed_once_and_found_again_unchanged() -> None:
    compute = Counted()
    for _ in range(3):
        assert same(Values(use_cache=True).known("exact", "sha", compute=compute))
    assert compute.times == 1


@pytest.mark.parametrize(
    "parts", [("noise", "sha"), ("exact", "other"), ("exact",), ("exact", "sha", "more"), ("sha", "exact")]
)
def test_any_other_part_of_the_key_is_another_value(parts: tuple[str, ...]) -> None:
    compute = Counted()
    kept = Values(use_cache=True)
    kept.known("exact", "sha", compute=compute)
    kept.known(*parts, compute=compute)
    assert compute.times == 2


def test_other_code_or_other_versions_are_another_value(monkeypatch: pytest.MonkeyPatch) -> None:
    compute = Counted()
    Values(use_cache=True).known("exact", "sha", compute=compute)
    monkeypatch.setattr(values, "_evaluators", lambda: "of another version")
    Values(use_cache=True).known("exact", "sha", compute=compute)
    assert compute.times == 2


def test_the_key_changes_with_the_versions(monkeypatch: pytest.MonkeyPatch) -> None:
    before = values._evaluators()
    values._evaluators.cache_clear()
    monkeypatch.setattr(environment, "versions", lambda: {"numpy": "0"})
    try:
        assert values._evaluators() != before
    finally:
        values._evaluators.cache_clear()


def test_without_a_cache_it_is_computed_each_time_and_nothing_is_kept(folder: Path) -> None:
    compute = Counted()
    for _ in range(2):
        Values(use_cache=False).known("exact", "sha", compute=compute)
    assert compute.times == 2
    assert list(folder.iterdir()) == []


def test_a_value_that_was_changed_on_disk_is_computed_again(folder: Path) -> None:
    compute = Counted()
    Values(use_cache=True).known("exact", "sha", compute=compute)
    (stored,) = folder.rglob("*.npz")
    stored.write_bytes(stored.read_bytes()[::-1])
    assert same(Values(use_cache=True).known("exact", "sha", compute=compute))
    assert compute.times == 2


@pytest.mark.parametrize("use_cache", [True, False])
def test_the_last_values_are_kept_in_memory(use_cache: bool) -> None:
    compute, kept = Counted(), Values(use_cache=use_cache)
    first = kept.known("exact", "sha", compute=compute)
    first.clear()  # what a caller does to its answer is nobody else's matter
    assert same(kept.known("exact", "sha", compute=compute))
    assert compute.times == 1


def test_memory_holds_no_more_than_its_share(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(values, "KEPT_BYTES", 3 * sum(a.nbytes for a in ARRAYS.values()))
    compute, kept = Counted(), Values(use_cache=False)
    for sha in "abcd":
        kept.known("exact", sha, compute=compute)
    kept.known("exact", "d", compute=compute)
    assert compute.times == 4, "the last is still there"
    kept.known("exact", "a", compute=compute)
    assert compute.times == 5, "the first had to go"


def test_bfloat16_comes_back_from_disk_as_bfloat16() -> None:
    value = np.array([[1.5, -3.0], [np.inf, 2.0**-120]]).astype(named("bfloat16"))
    for compute in (lambda: {"y": value, "n": np.arange(3)}, lambda: pytest.fail("it was not stored")):
        found = Values(use_cache=True).known("spec", "sha", compute=compute)
        assert found["y"].dtype == value.dtype and np.array_equal(found["y"], value)
        assert found["n"].tolist() == [0, 1, 2]


def test_text_is_not_stored_and_not_lost(folder: Path) -> None:
    for _ in range(2):
        found = Values(use_cache=True).known("exact", "sha", compute=lambda: {"t": np.array(["a", "bc"])})
        assert found["t"].tolist() == ["a", "bc"]
    assert list(folder.rglob("*.npz")) == []


def test_what_cannot_be_computed_is_not_kept(folder: Path) -> None:
    def broken() -> Outputs:
        raise ValueError("no value")

    kept, compute = Values(use_cache=True), Counted()
    with pytest.raises(ValueError, match="no value"):
        kept.known("exact", "sha", compute=broken)
    assert same(kept.known("exact", "sha", compute=compute))
    assert compute.times == 1


def test_a_digest_of_feeds_holds_names_dtypes_shapes_and_bytes() -> None:
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    digests = [
        feeds_digest(feeds)
        for feeds in (
            {"x": x},
            {"z": x},
            {"x": x.reshape(3, 2)},
            {"x": x.astype(np.float64)},
            {"x": x.view(np.int32)},
            {"x": x + 1},
            {"x": x, "z": x},
            {},
        )
    ]
    assert len(set(digests)) == len(digests)
    assert feeds_digest({"x": np.asfortranarray(x)}) == digests[0]
    assert feeds_digest({"a": x, "b": x + 1}) == feeds_digest({"b": x + 1, "a": x})
