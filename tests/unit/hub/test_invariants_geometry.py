"""Weights on the simplex, outputs in the hull of the values, scores of variance 1: each held, and each broken."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np
import pytest

from onnxparity.case import Axis, OutputSpec, Subject, TensorSpec
from onnxparity.errors import SubjectError
from onnxparity.invariants import check, plannable
from onnxparity.outcome import Status
from onnxparity.protocols import Array, Feeds, Outputs
from tests.unit.hub.models import CAUSAL, Run, look, running_mean, setting, softmax, wide
from tests.unit.hub.subjects import BATCH, SEQUENCE, SOURCE, WIDTH, mask, subject

SIZES = {"batch": 2, "sequence": 4, "source": 7}
DTYPES = pytest.mark.parametrize("dtype", ["float64", "float32", "float16"])
Change = Callable[[Array], Array]

READS = dataclasses.replace(
    subject(
        (
            TensorSpec("query", ("batch", "sequence", 5)),
            TensorSpec("key", ("batch", "source", 5)),
            TensorSpec("value", ("batch", "source", WIDTH)),
            mask("additive", "float", ("batch", "sequence", "source")),
        ),
        (OutputSpec("y", ("batch", "sequence", WIDTH)), OutputSpec("a", ("batch", "sequence", "source"), "weights")),
        (BATCH, SEQUENCE, SOURCE),
    ),
    reads={"y": "value"},
)
HIDDEN = dataclasses.replace(READS, outputs=READS.outputs[:1])
"""As READS, without the weights."""


def same(value: Array) -> Array:
    """No change."""
    return value


def attention(*, scores: Change = same, weights: Change = same, output: Change = same, shown: Change = same) -> Run:
    """softmax(q kᵀ + mask) v and its weights, with something done to any of its parts."""

    def run(feeds: Feeds) -> Outputs:
        raw = wide(feeds["query"]) @ wide(feeds["key"]).transpose(0, 2, 1) / np.sqrt(5) + wide(feeds["mask"])
        a = weights(softmax(scores(raw)))  # (B, T, S)
        return {"y": output(a @ wide(feeds["value"])), "a": shown(a)}

    return run


def unshown(run: Run) -> Run:
    """The same without the weights."""
    return lambda feeds: {"y": run(feeds)["y"]}


@DTYPES
def test_means_of_values_are_in_their_hull(dtype: str) -> None:
    assert look("convex-hull", READS, SIZES, attention(), dtype=dtype).status is Status.PASS
    assert look("convex-hull", HIDDEN, SIZES, unshown(attention()), dtype=dtype).status is Status.PASS


@DTYPES
@pytest.mark.parametrize("size", [{"source": 1}, {"source": 3}, {"source": 64}])
def test_the_hull_is_read_off_for_any_number_of_keys(dtype: str, size: dict[str, int]) -> None:
    assert look("convex-hull", READS, {**SIZES, **size}, attention(), dtype=dtype).status is Status.PASS


BROKEN: dict[str, Run] = {
    "weights too large": attention(weights=lambda a: a * 1.05, shown=lambda a: a / 1.05),
    "weights too small": attention(weights=lambda a: a * 0.95, shown=lambda a: a / 0.95),
    "a bias on the output": attention(output=lambda y: y + 0.05),
    "an output that is squared": attention(output=lambda y: y + 0.05 * y * y),
    "weights below 0": attention(weights=lambda a: a - 0.2 * np.eye(a.shape[-1])[1] + 0.2 * np.eye(a.shape[-1])[2]),
}


@DTYPES
@pytest.mark.parametrize("name", BROKEN)
def test_outputs_that_leave_the_hull_are_found(name: str, dtype: str) -> None:
    assert look("convex-hull", HIDDEN, SIZES, unshown(BROKEN[name]), dtype=dtype).status is Status.PROPERTY


def test_weights_that_are_not_those_of_the_output_are_found() -> None:
    other = attention(shown=lambda a: np.roll(a, 1, axis=-1))
    assert look("convex-hull", READS, SIZES, other).status is Status.PROPERTY
    assert look("convex-hull", HIDDEN, SIZES, unshown(other)).status is Status.PASS


def test_a_hull_without_values_is_an_error() -> None:
    for name in ("convex-hull", "kernel-regression", "weights-not-enough"):
        with pytest.raises(SubjectError, match="mean of an input's rows"):
            look(name, CAUSAL, {"batch": 2, "sequence": 4}, running_mean)


@DTYPES
def test_attention_is_a_regression_with_a_kernel(dtype: str) -> None:
    assert look("kernel-regression", READS, SIZES, attention(), dtype=dtype).status is Status.PASS
    assert look("kernel-regression", READS, {**SIZES, "source": 2}, attention(), dtype=dtype).status is Status.PASS


@DTYPES
@pytest.mark.parametrize(
    "model",
    [
        attention(
            scores=lambda s: (
                s.transpose(0, 2, 1) if s.shape[1] == s.shape[2] else s - 0.1 * s.sum(-1, keepdims=True) * s
            )
        ),
        attention(scores=lambda s: s * np.log(s.shape[-1])),
        attention(weights=lambda a: a * a.shape[-1] / 7),
        attention(scores=lambda s: s + np.roll(s, 1, axis=-1)),
    ],
)
def test_a_kernel_that_looks_at_other_keys_is_found(model: Run, dtype: str) -> None:
    assert look("kernel-regression", READS, SIZES, model, dtype=dtype).status is Status.PROPERTY


def test_a_regression_on_one_key_or_a_fixed_number_is_no_check() -> None:
    assert not plannable("kernel-regression", READS, {**SIZES, "source": 1})
    fixed = dataclasses.replace(READS, inputs=(TensorSpec("value", ("batch", 4, WIDTH)),))
    with pytest.raises(SubjectError, match="fixed number"):
        look("kernel-regression", fixed, SIZES, lambda f: {"y": wide(f["value"]), "a": wide(f["value"])})


@DTYPES
def test_a_softmax_does_not_feel_a_shift(dtype: str) -> None:
    assert look("shift-invariance", READS, SIZES, attention(), dtype=dtype).status is Status.PASS


@DTYPES
@pytest.mark.parametrize("scores", [lambda s: s * np.abs(s), lambda s: np.tanh(s / 5) * 5, lambda s: np.maximum(s, 0)])
def test_a_shift_that_is_felt_is_found(scores: Change, dtype: str) -> None:
    assert look("shift-invariance", READS, SIZES, attention(scores=scores), dtype=dtype).status is Status.PROPERTY


def test_a_shift_without_an_additive_mask_is_an_error() -> None:
    kept = subject((TensorSpec("x", ("batch", "sequence", WIDTH)), mask("keep", "bool")))
    with pytest.raises(SubjectError, match="added to the scores"):
        look("shift-invariance", kept, {"batch": 2, "sequence": 4}, running_mean)


@DTYPES
def test_equal_weights_read_other_values(dtype: str) -> None:
    assert look("weights-not-enough", READS, SIZES, attention(), dtype=dtype).status is Status.PASS


def test_weights_that_feel_the_values_or_outputs_that_do_not_are_found() -> None:
    def felt(feeds: Feeds) -> Outputs:
        found = attention()(feeds)
        return {**found, "a": found["a"] * (1 + 1e-3 * wide(feeds["value"]).mean())}

    assert look("weights-not-enough", READS, SIZES, felt).status is Status.PROPERTY
    deaf = attention(output=lambda y: y * 0 + 1)
    assert look("weights-not-enough", READS, SIZES, deaf).status is Status.PROPERTY
    with pytest.raises(SubjectError, match="weights"):
        look("weights-not-enough", HIDDEN, SIZES, unshown(attention()))


COMPONENTS = 32
SCORES = subject(
    (TensorSpec("query", ("batch", "sequence", COMPONENTS)), TensorSpec("key", ("batch", "source", COMPONENTS))),
    (
        OutputSpec("s", ("batch", "sequence", "source"), "scores"),
        OutputSpec("a", ("batch", "sequence", "source"), "weights"),
    ),
    (BATCH, SEQUENCE, SOURCE),
)


def scored(factor: float) -> Run:
    """Scores times a factor, and their softmax."""

    def run(feeds: Feeds) -> Outputs:
        s = wide(feeds["query"]) @ wide(feeds["key"]).transpose(0, 2, 1) * factor
        return {"s": s, "a": softmax(s)}

    return run


@DTYPES
def test_the_scale_gives_variance_one_and_its_loss_saturates(dtype: str) -> None:
    assert look("unit-variance", SCORES, SIZES, scored(COMPONENTS**-0.5), dtype=dtype).status is Status.PASS
    assert look("saturation", SCORES, SIZES, scored(1.0), dtype=dtype).status is Status.PASS


@DTYPES
@pytest.mark.parametrize("factor", [0.95, 1.05, 0.5, 2.0, COMPONENTS**0.5])
def test_another_scale_has_another_variance(factor: float, dtype: str) -> None:
    scaled = scored(COMPONENTS**-0.5 * factor)
    assert look("unit-variance", SCORES, SIZES, scaled, dtype=dtype).status is Status.PROPERTY
    assert look("saturation", SCORES, SIZES, scaled if factor > 4 else scored(factor), dtype=dtype).status is (
        Status.PASS if factor == COMPONENTS**0.5 else Status.PROPERTY
    )


@pytest.mark.parametrize("seed", range(40))
def test_the_variance_of_right_scores_is_inside_its_limit_whatever_is_drawn(seed: int) -> None:
    chosen = dataclasses.replace(SCORES, name=f"subject-{seed}")
    found = look("unit-variance", chosen, SIZES, scored(COMPONENTS**-0.5))
    assert found.status is Status.PASS and found.ratio is not None
    assert found.ratio < 0.9, "3.5 of 5 standard deviations are met once in 2000 draws"


def test_weights_that_are_not_saturated_by_unscaled_scores_are_found() -> None:
    def flat(feeds: Feeds) -> Outputs:
        found = scored(1.0)(feeds)
        return {**found, "a": np.full_like(found["a"], 1 / found["a"].shape[-1])}

    assert look("saturation", SCORES, SIZES, flat).status is Status.PROPERTY


def test_variance_without_scores_is_an_error() -> None:
    for name in ("unit-variance", "saturation"):
        with pytest.raises(SubjectError, match="scores"):
            look(name, CAUSAL, {"batch": 2, "sequence": 4}, running_mean)


IMAGES = subject(
    (TensorSpec("x", ("batch", 2, "height", "width")),),
    (OutputSpec("y", ("batch", 3, "height", "width")),),
    (BATCH, Axis("height", "h", "other"), Axis("width", "w", "other")),
)
KERNEL = np.random.default_rng(7).standard_normal((3, 2, 3, 3))


def filtered(*, mode: str = "constant", place: float = 0.0, square: float = 0.0) -> Run:
    """A 3 x 3 convolution with a bias; `place` of the row is added to its factor, `square` of its own square."""

    def run(feeds: Feeds) -> Outputs:
        x = wide(feeds["x"])
        height, width = x.shape[2:]
        padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)), mode=mode)  # type: ignore[call-overload]  # a literal
        y = sum(
            np.einsum("bchw,mc->bmhw", padded[:, :, r : r + height, c : c + width], KERNEL[:, :, r, c])
            for r in range(3)
            for c in range(3)
        )
        y = np.asarray(y) * (1 + place * np.arange(height))[:, None] + 0.5
        return {"y": y + square * y * y}

    return run


@DTYPES
@pytest.mark.parametrize(("height", "width"), [(5, 5), (4, 7), (9, 3)])
def test_a_convolution_is_what_its_taps_say(dtype: str, height: int, width: int) -> None:
    sizes = {"batch": 2, "height": height, "width": width}
    found = look("convolution", IMAGES, sizes, filtered(), dtype=dtype)
    assert found.status is Status.PASS
    assert "the kernel is at most 3 x 3" in found.evidence


@DTYPES
@pytest.mark.parametrize("model", [filtered(mode="edge"), filtered(place=0.1), filtered(square=0.1)])
def test_what_is_no_convolution_is_found(model: Run, dtype: str) -> None:
    sizes = {"batch": 2, "height": 5, "width": 6}
    assert look("convolution", IMAGES, sizes, model, dtype=dtype).status is Status.PROPERTY


def test_a_convolution_without_images_is_an_error() -> None:
    with pytest.raises(SubjectError, match="images"):
        look("convolution", CAUSAL, {"batch": 2, "sequence": 4}, running_mean)


def test_the_names_of_the_subject_are_followed() -> None:
    other: Subject = dataclasses.replace(HIDDEN, reads={"nothing": "nowhere"})
    with pytest.raises(SubjectError, match="mean of an input's rows"):
        check("convex-hull", setting(other, SIZES, unshown(attention())))
