"""Each property: a model that keeps it passes, and one that breaks it in one place is found out."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from onnxparity.case import Axis, OutputSpec, Subject, TensorSpec
from onnxparity.errors import SubjectError
from onnxparity.invariants import PROPERTIES, check, plannable
from onnxparity.outcome import Status
from onnxparity.protocols import Feeds, Outputs
from tests.unit.hub.models import (
    CAUSAL,
    FEATURES,
    TABLE,
    WEIGHTS,
    Run,
    causal_weights,
    look,
    peeking,
    running_mean,
    setting,
    wide,
)
from tests.unit.hub.subjects import BATCH, SEQUENCE, SOURCE, WIDTH, mask, subject

SIZES = {"batch": 2, "sequence": 7}
DTYPES = pytest.mark.parametrize("dtype", ["float64", "float32", "float16"])


@DTYPES
def test_a_causal_model_is_causal(dtype: str) -> None:
    found = look("causality", CAUSAL, SIZES, running_mean, dtype=dtype)
    assert (found.status, found.ratio) == (Status.PASS, 0.0)
    assert look("causality", WEIGHTS, SIZES, causal_weights, dtype=dtype).status is Status.PASS


@DTYPES
@pytest.mark.parametrize("reach", [1, 2, -1])
def test_a_model_that_looks_ahead_is_found(dtype: str, reach: int) -> None:
    leak = {"float64": 1e-8, "float32": 1e-4, "float16": 0.1}[dtype]
    assert look("causality", CAUSAL, SIZES, peeking(leak, reach), dtype=dtype).status is Status.PROPERTY


@pytest.mark.parametrize("length", [2, 3, 17])
def test_one_step_ahead_is_found_at_every_length(length: int) -> None:
    found = look("causality", CAUSAL, {"batch": 1, "sequence": length}, peeking(1e-3, 1))
    assert found.status is Status.PROPERTY


def test_weights_on_later_positions_are_not_causal() -> None:
    def everywhere(feeds: Feeds) -> Outputs:
        x = wide(feeds["x"])
        scores = np.exp(x @ x.transpose(0, 2, 1))
        return {"a": scores / scores.sum(axis=-1, keepdims=True)}

    assert look("causality", WEIGHTS, SIZES, everywhere).status is Status.PROPERTY


def tokens(low: int, high: int) -> Subject:
    """A subject that takes token ids."""
    return subject((TensorSpec("ids", ("batch", "sequence"), "int64", "tokens", low, high),))


def embedded(feeds: Feeds) -> Outputs:
    """Causal in its tokens."""
    return {"y": np.cumsum(TABLE[feeds["ids"] % len(TABLE)], axis=1)}


@pytest.mark.parametrize(("low", "high"), [(0, 9), (0, 1), (5, 7), (-3, -2)])
def test_causality_changes_every_later_token_and_no_earlier_one(low: int, high: int) -> None:
    seen: list[Feeds] = []

    def watched(feeds: Feeds) -> Outputs:
        seen.append(feeds)
        return embedded(feeds)

    chosen = dataclasses.replace(setting(tokens(low, high), SIZES, embedded), run=watched)
    assert check("causality", chosen).status is Status.PASS
    before, after = (feeds["ids"] for feeds in seen)
    assert np.array_equal(before[:, :4], after[:, :4])
    assert np.all(before[:, 4:] != after[:, 4:])
    assert after.min() >= low and after.max() <= high and after.dtype == before.dtype


def test_tokens_that_look_ahead_are_found() -> None:
    def ahead(feeds: Feeds) -> Outputs:
        return {"y": np.flip(np.cumsum(np.flip(TABLE[feeds["ids"]], axis=1), axis=1), axis=1)}

    assert look("causality", tokens(0, 9), SIZES, ahead).status is Status.PROPERTY


def test_causality_with_nothing_to_change_is_an_error_and_no_pass() -> None:
    with pytest.raises(SubjectError):
        look("causality", CAUSAL, {"batch": 2, "sequence": 1}, running_mean)
    with pytest.raises(SubjectError, match="ids"):
        look("causality", tokens(4, 4), SIZES, embedded)


def test_causality_without_a_sequence_an_input_or_an_output_along_it_is_an_error() -> None:
    still = subject((TensorSpec("x", ("batch", 4, WIDTH)),), (OutputSpec("y", ("batch", WIDTH)),), (BATCH,))
    with pytest.raises(SubjectError, match="sequence"):
        look("causality", still, {"batch": 2}, running_mean)
    unread = subject((mask("keep", "bool"),))
    with pytest.raises(SubjectError):
        look("causality", unread, SIZES, lambda feeds: {"y": wide(feeds["mask"])})
    pooled = subject((FEATURES,), (OutputSpec("y", ("batch", WIDTH)),))
    with pytest.raises(SubjectError, match="output"):
        look("causality", pooled, SIZES, lambda feeds: {"y": wide(feeds["x"]).mean(axis=1)})


def test_a_model_that_gives_nothing_but_nan_keeps_no_property() -> None:
    def lost(feeds: Feeds) -> Outputs:
        return {"y": np.full(feeds["x"].shape, np.nan)}

    for name in ("causality", "batch-invariance"):
        assert look(name, CAUSAL, SIZES, lost).status is Status.NONFINITE


@DTYPES
def test_samples_that_keep_to_themselves_are_batch_invariant(dtype: str) -> None:
    for model in (running_mean, peeking(1.0, -1)):
        assert look("batch-invariance", CAUSAL, SIZES, model, dtype=dtype).status is Status.PASS


@DTYPES
def test_a_model_that_mixes_the_batch_is_found(dtype: str) -> None:
    def mixing(feeds: Feeds) -> Outputs:
        x = wide(feeds["x"])
        leak = {"float64": 1e-8, "float32": 1e-4, "float16": 0.1}[dtype]
        return {"y": x - leak * x.mean(axis=0, keepdims=True)}

    assert look("batch-invariance", CAUSAL, SIZES, mixing, dtype=dtype).status is Status.PROPERTY


def test_a_model_that_answers_by_place_in_the_batch_is_found() -> None:
    def placed(feeds: Feeds) -> Outputs:
        return {"y": wide(feeds["x"]) + np.arange(feeds["x"].shape[0])[:, None, None] * 1e-3}

    def swapped(feeds: Feeds) -> Outputs:
        return {"y": wide(feeds["x"])[::-1]}

    for model in (placed, swapped):
        assert look("batch-invariance", CAUSAL, SIZES, model).status is Status.PROPERTY


def test_a_batch_that_is_not_the_first_dim_is_followed() -> None:
    turned = subject(
        (TensorSpec("x", ("sequence", "batch", WIDTH)), TensorSpec("shared", (WIDTH,))),
        (OutputSpec("y", ("sequence", "batch", WIDTH)),),
    )
    assert look("batch-invariance", turned, SIZES, lambda f: {"y": f["x"] + f["shared"]}).status is Status.PASS
    mixed = look("batch-invariance", turned, SIZES, lambda f: {"y": f["x"] - f["x"].mean(axis=1, keepdims=True)})
    assert mixed.status is Status.PROPERTY


def test_batch_invariance_that_cannot_be_checked_is_an_error_and_no_pass() -> None:
    with pytest.raises(SubjectError):
        look("batch-invariance", CAUSAL, {"batch": 1, "sequence": 7}, running_mean)
    pairs = subject((FEATURES,), axes=(Axis("batch", "b", "batch", low=2), SEQUENCE))
    with pytest.raises(SubjectError):
        look("batch-invariance", pairs, SIZES, running_mean)
    still = subject((TensorSpec("x", (2, "sequence", WIDTH)),), (), (SEQUENCE,))
    with pytest.raises(SubjectError, match="batch"):
        look("batch-invariance", still, {"sequence": 7}, running_mean)


def test_an_output_that_does_not_run_along_the_batch_is_no_evidence() -> None:
    pooled = subject((FEATURES,), (OutputSpec("y", (WIDTH,)),))
    found = look("batch-invariance", pooled, SIZES, lambda feeds: {"y": wide(feeds["x"]).mean(axis=(0, 1))})
    assert found.status is Status.STRUCTURE


def windowed(size: int) -> Subject:
    """A subject that promises to look at the last positions only."""
    return dataclasses.replace(CAUSAL, window=size, properties=("window",))


def windowed_mean(size: int) -> Run:
    """Each position sees the last `size` positions, its own included."""

    def run(feeds: Feeds) -> Outputs:
        x = wide(feeds["x"])  # (B, T, D)
        return {"y": np.stack([x[:, max(0, i - size + 1) : i + 1].mean(axis=1) for i in range(x.shape[1])], axis=1)}

    return run


@DTYPES
@pytest.mark.parametrize(("size", "length"), [(1, 2), (3, 4), (3, 7), (4, 17)])
def test_a_window_ends_where_it_says(dtype: str, size: int, length: int) -> None:
    sizes = {"batch": 2, "sequence": length}
    assert look("window", windowed(size), sizes, windowed_mean(size), dtype=dtype).status is Status.PASS
    for wrong in (windowed_mean(size + 1), running_mean):
        assert look("window", windowed(size), sizes, wrong, dtype=dtype).status is Status.PROPERTY


def test_a_window_of_unknown_size_is_an_error() -> None:
    with pytest.raises(SubjectError, match="names no window"):
        look("window", CAUSAL, SIZES, running_mean)


@pytest.mark.parametrize("name", ["", "Causality", "normal", "permutation"])
def test_an_unknown_property_is_an_error(name: str) -> None:
    with pytest.raises(SubjectError, match="unknown property"):
        look(name, CAUSAL, SIZES, running_mean)


@pytest.mark.parametrize("noise", [np.nan, np.inf])
@pytest.mark.parametrize("name", ["causality", "batch-invariance"])
def test_noise_that_is_not_finite_never_lets_a_property_pass(name: str, noise: float) -> None:
    chosen = setting(CAUSAL, SIZES, running_mean)
    with pytest.raises(ValueError, match="not finite"):
        check(name, dataclasses.replace(chosen, noise=lambda f: {"y": np.full(f["x"].shape[:-1], noise)}))


def test_honest_noise_is_allowed_for_and_no_more() -> None:
    chosen = setting(CAUSAL, SIZES, peeking(1e-3, 1))

    def judged(noise: float) -> Status:
        louder = dataclasses.replace(chosen, noise=lambda f: {"y": np.full(f["x"].shape[:-1], noise)})
        return check("causality", louder).status

    assert judged(1e-2) is Status.PASS
    assert judged(1e-6) is Status.PROPERTY


def test_what_can_be_planned_depends_on_sizes_and_a_promise_that_cannot_be_kept_is_planned_to_be_seen() -> None:
    assert plannable("causality", CAUSAL, {"batch": 1, "sequence": 2})
    assert not plannable("causality", CAUSAL, {"batch": 1, "sequence": 1})
    assert plannable("batch-invariance", CAUSAL, {"batch": 2, "sequence": 1})
    assert not plannable("batch-invariance", CAUSAL, {"batch": 1, "sequence": 1})
    assert plannable("window", windowed(3), {"batch": 1, "sequence": 4})
    assert not plannable("window", windowed(3), {"batch": 1, "sequence": 3})
    still = subject((TensorSpec("x", (2, WIDTH)),), (), (SOURCE,))
    for name in PROPERTIES:
        assert plannable(name, still, {"source": 1}), name
        with pytest.raises(SubjectError):
            look(name, still, {"source": 1}, running_mean)
