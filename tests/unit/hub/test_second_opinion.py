"""Where PyTorch's own arithmetic is out of budget too, the runtime's verdict says so, and stays what it is."""

from __future__ import annotations

from dataclasses import replace

import pytest

from onnxparity.judging.second_opinion import with_eager
from onnxparity.outcome import Status, Verdict
from onnxparity.plan import ArtifactKey
from tests.unit.hub.subjects import EXPECTED, cell, verdict

EAGER = ArtifactKey("subject", "torch", None, "float32")


def eager(status: Status, ratio: float | None, shape: str = "b2-t17") -> Verdict:
    return replace(verdict(status, cell(key=EAGER, runtime="torch-eager", shape=shape)), ratio=ratio)


def lines(of: Verdict, *others: Verdict) -> tuple[str, ...]:
    """The evidence of the first, beside the others; nothing else about it may change."""
    first, *rest = with_eager([of, *others])
    assert replace(first, evidence=of.evidence) == of
    assert tuple(rest) == others
    return first.evidence


@pytest.mark.parametrize("status", [Status.ARITHMETIC, Status.NONFINITE])
def test_a_failing_runtime_beside_failing_eager_says_so(status: Status) -> None:
    told = lines(verdict(status), eager(Status.ARITHMETIC, 4.25))
    assert told == ("ill-conditioned in float32: torch eager itself is at 4.25 times its budget",)


def test_eager_elsewhere_is_named_with_its_place_the_worst_first() -> None:
    told = lines(
        verdict(Status.ARITHMETIC),
        eager(Status.ARITHMETIC, 2.0, "b1-t1"),
        eager(Status.ARITHMETIC, 9.0, "b3-t7"),
        eager(Status.PASS, 0.5, "b1-t9"),
    )
    assert told == ("ill-conditioned in float32: torch eager itself is at 9 times its budget, at b3-t7/normal",)


def test_eager_that_passes_at_the_same_place_says_nothing() -> None:
    assert lines(verdict(Status.ARITHMETIC), eager(Status.PASS, 0.5), eager(Status.ARITHMETIC, 9.0, "b1-t1")) == ()


@pytest.mark.parametrize("ratio", [None, float("nan"), float("inf")])
def test_eager_that_is_not_finite_is_told_in_words(ratio: float | None) -> None:
    told = lines(verdict(Status.NONFINITE), eager(Status.NONFINITE, ratio))
    assert told == ("ill-conditioned in float32: torch eager itself gives values that are not finite",)


def test_what_passes_or_asks_another_question_is_left_alone() -> None:
    other = eager(Status.ARITHMETIC, 4.0)
    assert lines(verdict(Status.PASS), other) == ()
    assert lines(verdict(Status.MEANING, question="meaning"), other) == ()
    assert lines(verdict(Status.RUN_ERROR), other) == ()


def test_another_dtype_or_subject_says_nothing() -> None:
    other = eager(Status.ARITHMETIC, 4.0)
    for key in (replace(EAGER, dtype="float16"), replace(EAGER, subject="another")):
        assert lines(verdict(Status.ARITHMETIC), replace(other, cell=replace(other.cell, artifact=key))) == ()


def test_expected_failures_count_on_both_sides() -> None:
    known = replace(eager(Status.XFAIL, 5.0), found=Status.ARITHMETIC, expectation=EXPECTED)
    assert lines(verdict(Status.XFAIL), known) == (
        "ill-conditioned in float32: torch eager itself is at 5 times its budget",
    )


def test_evidence_that_was_there_stays_behind_it() -> None:
    told = lines(replace(verdict(Status.ARITHMETIC), evidence=("seen",)), eager(Status.ARITHMETIC, 4.0))
    assert told[1:] == ("seen",)
