"""Answers that must be the same: bit for bit, at every level, in other parameters; and each found where it is not."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np
import pytest

from onnxparity.case import Axis, OutputSpec, TensorSpec
from onnxparity.errors import SubjectError
from onnxparity.invariants import check
from onnxparity.outcome import Status
from onnxparity.protocols import Array, Feeds, Outputs
from tests.unit.hub.models import CAUSAL, TABLE, Run, decode, running_mean, setting, wide
from tests.unit.hub.subjects import BATCH, SEQUENCE, WIDTH, subject

SIZES = {"batch": 2, "sequence": 7}
DTYPES = pytest.mark.parametrize("dtype", ["float64", "float32", "float16"])


def repeated(first: Run, later: Run, again: Run | None, *, dtype: str = "float32") -> Status:
    """Determinism of a session that answers by `first` once and then by `later`; `again` is the other session."""
    calls = iter([first])
    chosen = setting(CAUSAL, SIZES, lambda feeds: next(calls, later)(feeds), dtype=dtype)
    other = None if again is None else setting(CAUSAL, SIZES, again, dtype=dtype).run
    return check("determinism", dataclasses.replace(chosen, again=lambda: other or running_mean)).status


def changed(change: Callable[[Array], Array]) -> Run:
    """`running_mean` with something done to it."""
    return lambda feeds: {"y": change(running_mean(feeds)["y"])}


@DTYPES
def test_the_same_bits_are_the_same(dtype: str) -> None:
    assert repeated(running_mean, running_mean, running_mean, dtype=dtype) is Status.PASS


def one_ulp(y: Array) -> Array:
    """The last element, one unit further on in float32."""
    y = y.astype(np.float32)
    y[-1, -1, -1] = np.nextafter(y[-1, -1, -1], np.float32(9))
    return y


def test_one_bit_is_found_in_the_next_run_and_in_the_next_session() -> None:
    assert repeated(running_mean, changed(one_ulp), running_mean) is Status.PROPERTY
    assert repeated(running_mean, running_mean, changed(one_ulp)) is Status.PROPERTY


def test_a_zero_of_another_sign_is_another_bit() -> None:
    still: Run = lambda feeds: {"y": np.zeros(feeds["x"].shape)}  # noqa: E731 - a model in a line
    assert repeated(still, still, still) is Status.PASS
    assert repeated(still, lambda f: {"y": -np.zeros(f["x"].shape)}, still) is Status.PROPERTY


def test_nan_once_is_found() -> None:
    assert repeated(running_mean, changed(lambda y: np.where(y > 0.5, np.nan, y)), running_mean) is Status.NONFINITE


def test_determinism_without_a_second_session_is_an_error() -> None:
    with pytest.raises(SubjectError, match="second session"):
        check("determinism", setting(CAUSAL, SIZES, running_mean))


def at_levels(*models: Run, noise: float = 0.0) -> Status:
    """Level equality of `running_mean` with these models at the other levels."""
    chosen = setting(CAUSAL, SIZES, running_mean, noise=lambda f: {"y": np.full(f["x"].shape[:-1], noise)})
    levels = {f"level-{place}": setting(CAUSAL, SIZES, model).run for place, model in enumerate(models)}
    return check("level-equality", dataclasses.replace(chosen, levels=levels)).status


def test_levels_that_agree_to_rounding_pass_and_one_that_does_not_is_found() -> None:
    off = changed(lambda y: y * (1 + 1e-5))
    assert at_levels(running_mean, running_mean) is Status.PASS
    assert at_levels(running_mean, off) is Status.PROPERTY
    assert at_levels(running_mean, off, noise=1e-5) is Status.PASS
    assert at_levels(changed(lambda y: y[..., :2]), running_mean) is Status.STRUCTURE


def test_no_other_level_is_an_error_and_no_pass() -> None:
    with pytest.raises(SubjectError, match="optimisation level"):
        at_levels()


PAIRED = subject(
    outputs=(OutputSpec("y", ("batch", "sequence", WIDTH)), OutputSpec("a", ("batch", 2, "sequence"), "weights")),
)


def heads(order: tuple[int, int], factor: float = 1.0) -> Run:
    """A mean weighted by two heads that come out in an order."""

    def run(feeds: Feeds) -> Outputs:
        x = wide(feeds["x"])  # (B, T, D)
        a = np.stack([np.exp(x[..., 0]), np.exp(-x[..., 1])], axis=1)  # (B, 2, T)
        a = a / a.sum(axis=-1, keepdims=True)
        read = sum(a[:, head, :, None] * x for head in (0, 1))
        return {"y": np.asarray(read) * factor, "a": a[:, order, :]}

    return run


def held_against(name: str, role: str, other: Run, dtype: str = "float32") -> Status:
    """A property of the first order of heads, with this companion."""
    return check(name, setting(PAIRED, SIZES, heads((0, 1)), dtype=dtype, companions={role: other})).status


@DTYPES
def test_other_parameters_leave_the_outputs_alone_and_not_the_weights(dtype: str) -> None:
    assert held_against("reparametrisation", "reparametrised", heads((1, 0)), dtype) is Status.PASS


@DTYPES
def test_parameters_that_compute_something_else_or_nothing_else_are_found(dtype: str) -> None:
    for other in (heads((1, 0), 1.01), heads((0, 1))):
        assert held_against("reparametrisation", "reparametrised", other, dtype) is Status.PROPERTY


def test_two_forms_of_one_sum_agree_or_are_found() -> None:
    assert held_against("associativity", "quadratic", heads((0, 1))) is Status.PASS
    assert held_against("associativity", "quadratic", heads((0, 1), 1 + 1e-5)) is Status.PROPERTY


@pytest.mark.parametrize(("name", "role"), [("reparametrisation", "reparametrised"), ("associativity", "quadratic")])
def test_a_companion_that_is_missing_is_an_error(name: str, role: str) -> None:
    with pytest.raises(SubjectError, match=role):
        check(name, setting(PAIRED, SIZES, heads((0, 1))))


STEPS = {"batch": 2, "sequence": 4, "past": 3}
ALONE = subject(
    (
        TensorSpec("ids", ("batch", "sequence"), "int64", "tokens", 0, len(TABLE) - 1),
        TensorSpec("at", ("batch", "sequence"), "int64", "positions", high=99),
        TensorSpec("mask", ("batch", "past+sequence"), "int64", "mask", mask_meaning="keep"),
        TensorSpec("past", ("batch", "past", WIDTH), role="past"),
    ),
    (
        OutputSpec("y", ("batch", "sequence", WIDTH)),
        OutputSpec("present", ("batch", "past+sequence", WIDTH), "present"),
    ),
    (BATCH, SEQUENCE, Axis("past", "p", "past", low=0)),
    roles={"present": "past"},
)
"""A decoder that begins with an empty cache, and takes positions and a mask over past and new tokens."""


def with_positions(*, late: int = 0, past_of: Callable[[Array], Array] = lambda past: past) -> Run:
    """`decode` with its positions added; `late` of them once there is a past."""

    def run(feeds: Feeds) -> Outputs:
        assert feeds["mask"].shape[1] == feeds["past"].shape[1] + feeds["ids"].shape[1]
        found = decode(past_of)(feeds)
        shift = late if feeds["past"].shape[1] else 0
        return {**found, "y": found["y"] + 0.1 * (wide(feeds["at"]) + shift)[..., None]}

    return run


@DTYPES
def test_a_decoder_is_its_own_prefill_with_an_empty_past(dtype: str) -> None:
    assert check("prefill-decode", setting(ALONE, STEPS, with_positions(), dtype=dtype)).status is Status.PASS


def test_a_cache_that_is_misread_is_found_without_a_companion() -> None:
    def forgets(past: Array) -> Array:
        return past[:, 1:] if past.shape[1] else past

    for model in (with_positions(past_of=forgets), with_positions(late=1)):
        assert check("prefill-decode", setting(ALONE, STEPS, model)).status is Status.PROPERTY


def test_a_past_that_cannot_be_empty_needs_a_companion() -> None:
    full = dataclasses.replace(ALONE, axes=(BATCH, SEQUENCE, Axis("past", "p", "past")))
    with pytest.raises(SubjectError, match="prefill companion"):
        check("prefill-decode", setting(full, STEPS, with_positions()))
