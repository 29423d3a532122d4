"""Every catalogue module agrees with its own NumPy oracle, and a wrong oracle does not pass."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
import torch

from onnxparity.feeding import feeds
from onnxparity.models import oracles, oracles_attention
from onnxparity.models.catalogue import find
from onnxparity.models.entry import Weights
from tests.unit.models.feeding import (
    DRAWN,
    LIMIT,
    SATURATED_LIMIT,
    dims_of,
    distance,
    float64_weights,
    oracle_outputs,
    run,
    shapes,
)

WITH_ORACLE = [name for name in DRAWN if find(name).oracle is not None]
WITH_WEIGHTS = [name for name in WITH_ORACLE if any(True for _ in find(name).build().parameters())]

HARD = ("saturated", "zero-rows")
"""Twelve layers of saturated attention amplify the rounding of float64 too: keys of zeros all score alike."""
NO_EFFECT = ("key.bias",)
"""A constant added to every key moves all scores of a query alike, and a softmax takes that off again."""


@pytest.mark.parametrize("name", WITH_ORACLE)
def test_module_agrees_with_its_oracle(name: str) -> None:
    entry = find(name)
    module = entry.build().double()
    weights = float64_weights(module)
    compared = 0
    for sizes in shapes(entry.subject):
        for regime in feeds.regimes(entry.subject):
            fed = feeds.draw(entry.subject, sizes, regime, "float64")
            apart = distance(run(module, entry.subject, fed), oracle_outputs(entry, weights, fed))
            assert apart <= (SATURATED_LIMIT if regime in HARD else LIMIT), f"{sizes} {regime}: {apart:.1e}"
            compared += 1
    assert compared >= 5


@pytest.mark.parametrize("name", WITH_ORACLE)
def test_outputs_have_the_described_dims(name: str) -> None:
    entry = find(name)
    for sizes in shapes(entry.subject):
        got = run(entry.build(), entry.subject, feeds.draw(entry.subject, sizes, "normal", "float32"))
        assert len(got) == len(entry.subject.outputs)
        for tensor, spec in zip(got, entry.subject.outputs, strict=True):
            described = dims_of(spec, sizes)
            assert len(described) == tensor.dim(), spec.name
            assert all(d in (None, n) for d, n in zip(described, tensor.shape, strict=True)), spec.name


@pytest.mark.parametrize("name", WITH_WEIGHTS)
def test_oracle_with_any_one_weight_slightly_off_is_caught(name: str) -> None:
    entry = find(name)
    module = entry.build().double()
    weights = float64_weights(module)
    fed = feeds.draw(entry.subject, shapes(entry.subject)[2], "normal", "float64")
    got = run(module, entry.subject, fed)
    for key in (n for n, _ in module.named_parameters() if not n.endswith(NO_EFFECT)):
        assert distance(got, oracle_outputs(entry, _nudged(weights, key), fed)) > LIMIT, key


def _nudged(weights: Weights, key: str) -> Weights:
    factor = 1 + 1e-7 * np.random.default_rng(0).standard_normal(weights[key].shape)
    return {**weights, key: weights[key] * factor}


def test_oracle_with_another_scale_is_caught() -> None:
    entry = find("scaled-dot-product-bool")
    fed = feeds.draw(entry.subject, {"batch": 2, "sequence": 5, "source": 7}, "normal", "float64")
    got = run(entry.build(), entry.subject, fed)
    q, k, v, keep = (fed[name] for name in ("query", "key", "value", "mask"))
    right, wrong = (oracles.attention(q, k, v, keep=keep, scale=8**-0.5 * f)[:1] for f in (1.0, 1.0 + 1e-9))
    assert distance(got, right) <= LIMIT < distance(got, wrong)


def test_oracle_with_other_heads_is_caught() -> None:
    entry = find("pure-self-attention")
    module = entry.build().double()
    fed = feeds.draw(entry.subject, {"batch": 2, "sequence": 5}, "normal", "float64")
    wrong = partial(oracles_attention.fused_self_attention, num_heads=3)
    got = run(module, entry.subject, fed)[:1]
    assert distance(got, wrong(float64_weights(module), fed)) > 0.01


@pytest.mark.parametrize(
    "want",
    [
        (),
        (np.ones((2, 3)), np.ones((2, 3))),
        (np.ones((3, 2)),),
        (np.ones((2, 3), np.float32),),
        (np.array([[1.0, 1.0, np.nan], [1.0, 1.0, 1.0]]),),
        (np.array([[1.0, 1.0, 1.0], [0.0, 0.0, 0.0]]),),
        (np.array([[1.0, 1.0, 1.0], [1.0, 1.0, 1.0 + 2e-12]]),),
    ],
    ids=["nothing", "one more", "shape", "dtype", "nan", "zero", "one element"],
)
def test_distance_does_not_pass_over_a_difference(
    want: tuple[np.ndarray[tuple[int, ...], np.dtype[np.float64]], ...],
) -> None:
    assert distance((torch.ones(2, 3, dtype=torch.float64),), want) > LIMIT


def test_distance_of_equal_vectors_is_zero_also_where_they_are_zero() -> None:
    assert distance((torch.zeros(2, 3, dtype=torch.float64),), (np.zeros((2, 3)),)) == 0.0


@pytest.mark.parametrize("name", ["scaled-dot-product-bool", "scaled-dot-product-additive"])
def test_row_that_is_masked_entirely_reads_zero_on_both_sides(name: str) -> None:
    entry = find(name)
    module = entry.build()
    fed = feeds.draw(entry.subject, {"batch": 2, "sequence": 5, "source": 7}, "mask-empty", "float64")
    (got,), (want,) = run(module, entry.subject, fed), oracle_outputs(entry, {}, fed)
    empty = ~fed["mask"].any(-1) if fed["mask"].dtype == bool else np.isneginf(fed["mask"]).all(-1)
    assert empty.sum() == 1
    rows = np.broadcast_to(empty, want.shape[:-1])
    assert not want[rows].any() and not got.numpy()[rows].any()


def test_additive_mask_of_one_finite_number_masks_nothing() -> None:
    entry = find("scaled-dot-product-additive")
    fed = dict(feeds.draw(entry.subject, {"batch": 1, "sequence": 3, "source": 4}, "normal", "float64"))
    (plain,) = oracle_outputs(entry, {}, fed)
    fed["mask"] = np.full_like(fed["mask"], -1e4)
    assert distance(run(entry.build(), entry.subject, fed), (plain,)) <= 1e-11  # 1e4 takes four digits of the scores


def test_sample_without_a_kept_position_reads_the_output_bias() -> None:
    entry = find("multi-head-attention-padded")
    module = entry.build().double()
    fed = feeds.draw(entry.subject, {"batch": 2, "sequence": 4}, "mask-empty", "float64")
    assert not fed["mask"][-1].any()
    (got,) = run(module, entry.subject, fed)
    assert torch.equal(got[-1], module.get_parameter("attention.out.bias").expand(4, -1))


def test_softmax_of_minus_infinity_alone_is_zero_and_otherwise_sums_to_one() -> None:
    scores = np.array([[-np.inf, -np.inf], [-np.inf, 3.0], [1000.0, 1000.0]])
    assert oracles.softmax(scores).tolist() == [[0.0, 0.0], [0.0, 1.0], [0.5, 0.5]]


def test_causal_keep_lets_the_last_query_see_every_key() -> None:
    assert oracles.causal_keep(2, 4).tolist() == [[True, True, True, False], [True, True, True, True]]
    assert oracles.causal_keep(3).tolist() == np.tri(3, dtype=bool).tolist()
