"""What the order of tokens and of what they read does, for models that know of places and models that do not."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from onnxparity.case import OutputSpec, Subject, TensorSpec
from onnxparity.errors import SubjectError
from onnxparity.invariants import check, plannable
from onnxparity.outcome import Status
from onnxparity.protocols import Array, Feeds, Outputs
from tests.unit.hub.models import (
    CAUSAL,
    FEATURES,
    PADDED,
    TABLE,
    WEIGHTS,
    Run,
    look,
    masked_mean,
    running_mean,
    setting,
    softmax,
    wide,
)
from tests.unit.hub.subjects import BATCH, SEQUENCE, SOURCE, WIDTH, mask, subject

SIZES = {"batch": 2, "sequence": 7}
DTYPES = pytest.mark.parametrize("dtype", ["float64", "float32", "float16"])
READS = subject(
    (FEATURES, TensorSpec("memory", ("batch", "source", WIDTH)), mask("keep", "bool", ("batch", "source"))),
    (OutputSpec("y", ("batch", "sequence", WIDTH)), OutputSpec("a", ("batch", "sequence", "source"), "weights")),
    (BATCH, SEQUENCE, SOURCE),
)
POOLED = subject((FEATURES,), (OutputSpec("y", ("batch", WIDTH)),))


def attention(*, places: float = 0.0, relative: float = 0.0, causal: bool = False) -> Run:
    """Self-attention of x on itself; `places` of each index is added to x, `relative` of distances to the scores."""

    def run(feeds: Feeds) -> Outputs:
        x = wide(feeds["x"])  # (B, T, D)
        index = np.arange(x.shape[1], dtype=float)
        x = x + places * index[:, None]
        scores = x @ x.transpose(0, 2, 1) - relative * np.abs(index[:, None] - index)  # (B, T, T)
        if causal:
            scores = np.where(index[:, None] >= index, scores, -np.inf)
        return {"y": softmax(scores) @ x}

    return run


@DTYPES
def test_attention_without_positions_follows_its_tokens(dtype: str) -> None:
    assert look("permutation-equivariance", CAUSAL, SIZES, attention(), dtype=dtype).status is Status.PASS


@DTYPES
def test_a_trace_of_position_is_found(dtype: str) -> None:
    trace = {"float64": 1e-8, "float32": 1e-4, "float16": 0.3}[dtype]
    for model in (attention(places=trace), attention(relative=trace), running_mean):
        assert look("permutation-equivariance", CAUSAL, SIZES, model, dtype=dtype).status is Status.PROPERTY


def test_masks_and_weights_are_permuted_with_their_tokens() -> None:
    assert look("permutation-equivariance", PADDED, SIZES, masked_mean()).status is Status.PASS

    def weights(feeds: Feeds) -> Outputs:
        x = wide(feeds["x"])
        return {"a": softmax(x @ x.transpose(0, 2, 1))}

    assert look("permutation-equivariance", WEIGHTS, SIZES, weights).status is Status.PASS
    shifted = look("permutation-equivariance", WEIGHTS, SIZES, lambda f: {"a": np.roll(weights(f)["a"], 1, axis=2)})
    assert shifted.status is Status.PROPERTY


def test_one_token_too_loud_does_not_excuse_the_others() -> None:
    def noisy(feeds: Feeds) -> Outputs:
        noise = np.zeros(feeds["x"].shape[:-1])
        noise[0, 0] = 1.0
        return {"y": noise}

    chosen = setting(CAUSAL, SIZES, attention(places=1e-3), noise=noisy)
    assert check("permutation-equivariance", chosen).status is Status.PROPERTY


@DTYPES
def test_the_order_of_a_source_and_of_a_pooled_set_does_not_matter(dtype: str) -> None:
    sizes = {"batch": 2, "sequence": 3, "source": 6}
    assert look("permutation-invariance", READS, sizes, reading(0.0), dtype=dtype).status is Status.PASS
    mean: Run = lambda feeds: {"y": wide(feeds["x"]).mean(axis=1)}  # noqa: E731 - a model in a line
    assert look("permutation-invariance", POOLED, SIZES, mean, dtype=dtype).status is Status.PASS


@DTYPES
def test_a_source_or_a_set_that_is_read_in_order_is_found(dtype: str) -> None:
    trace = {"float64": 1e-8, "float32": 1e-4, "float16": 0.3}[dtype]
    sizes = {"batch": 2, "sequence": 3, "source": 6}
    assert look("permutation-invariance", READS, sizes, reading(trace), dtype=dtype).status is Status.PROPERTY

    def tilted(feeds: Feeds) -> Outputs:
        x = wide(feeds["x"])
        return {"y": (x * (1 + trace * np.arange(x.shape[1]))[:, None]).mean(axis=1)}

    assert look("permutation-invariance", POOLED, SIZES, tilted, dtype=dtype).status is Status.PROPERTY


def reading(trace: float) -> Run:
    """x reads what is kept of a memory; `trace` of the place of each key gets into its score."""

    def run(feeds: Feeds) -> Outputs:
        x, memory = wide(feeds["x"]), wide(feeds["memory"])
        scores = x @ memory.transpose(0, 2, 1) + trace * np.arange(memory.shape[1])
        weights = softmax(np.where(feeds["mask"][:, None], scores, -np.inf))
        return {"y": weights @ memory, "a": weights}

    return run


@DTYPES
@pytest.mark.parametrize(
    "model", [attention(places=0.3), attention(relative=0.3), attention(relative=0.3, causal=True)]
)
def test_positions_are_felt_whether_absolute_or_relative(dtype: str, model: Run) -> None:
    found = look("position-sensitivity", CAUSAL, SIZES, model, dtype=dtype)
    assert found.status is Status.PASS
    assert found.ratio is not None and found.ratio < 1


@DTYPES
@pytest.mark.parametrize("causal", [False, True])
def test_positions_that_were_lost_are_missed(dtype: str, causal: bool) -> None:
    found = look("position-sensitivity", CAUSAL, SIZES, attention(causal=causal), dtype=dtype)
    assert found.status is Status.PROPERTY
    assert found.ratio is not None and found.ratio > 1


def test_positions_added_to_each_token_alone_are_felt() -> None:
    def added(feeds: Feeds) -> Outputs:
        x = wide(feeds["x"])
        return {"y": x + np.sin(np.arange(x.shape[1]))[:, None]}

    assert look("position-sensitivity", CAUSAL, SIZES, added).status is Status.PASS
    assert look("position-sensitivity", CAUSAL, SIZES, lambda f: {"y": wide(f["x"])}).status is Status.PROPERTY


def test_a_movement_within_rounding_is_no_sensitivity() -> None:
    loud = setting(CAUSAL, SIZES, attention(places=1e-3), noise=lambda f: {"y": np.full(f["x"].shape[:-1], 1.0)})
    assert check("position-sensitivity", loud).status is Status.PROPERTY


def test_an_answer_of_nan_is_no_sensitivity() -> None:
    lost: Run = lambda feeds: {"y": np.full(feeds["x"].shape, np.nan)}  # noqa: E731 - a model in a line
    assert look("position-sensitivity", CAUSAL, SIZES, lost).status is Status.NONFINITE


def test_token_ids_are_permuted_like_features() -> None:
    ids = subject((TensorSpec("ids", ("batch", "sequence"), "int64", "tokens", 0, len(TABLE) - 1),))

    def embedded(trace: float) -> Run:
        return lambda f: {"y": TABLE[f["ids"]] + trace * np.arange(f["ids"].shape[1])[:, None]}

    assert look("permutation-equivariance", ids, SIZES, embedded(0.0)).status is Status.PASS
    assert look("position-sensitivity", ids, SIZES, embedded(0.0)).status is Status.PROPERTY
    assert look("position-sensitivity", ids, SIZES, embedded(0.1)).status is Status.PASS


def test_positions_that_are_an_input_stay_in_their_places() -> None:
    at = TensorSpec("at", ("batch", "sequence"), "int64", "positions", high=99)
    chosen: Subject = dataclasses.replace(CAUSAL, inputs=(FEATURES, at))

    def added(feeds: Feeds) -> Outputs:
        at: Array = wide(feeds["at"])
        return {"y": wide(feeds["x"]) + at[..., None]}

    assert look("position-sensitivity", chosen, SIZES, added).status is Status.PASS
    assert look("permutation-equivariance", chosen, SIZES, added).status is Status.PROPERTY


def test_an_order_of_nothing_is_an_error_and_not_planned() -> None:
    for name, chosen in (("permutation-equivariance", POOLED), ("permutation-invariance", CAUSAL)):
        with pytest.raises(SubjectError):
            look(name, chosen, SIZES, running_mean)
    one = {"batch": 2, "sequence": 1}
    assert not plannable("permutation-equivariance", CAUSAL, one)
    assert not plannable("permutation-invariance", POOLED, one)
    assert not plannable("position-sensitivity", CAUSAL, {"batch": 2, "sequence": 2})
    assert plannable("permutation-invariance", READS, {"batch": 1, "sequence": 1, "source": 2})
