"""What the renderings share: which order, which words, which tone."""

from __future__ import annotations

import dataclasses
import math
from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onnxparity.errors import UsageError
from onnxparity.outcome import GREEN, Status
from onnxparity.record import Latency, Report
from onnxparity.reports import layout


def test_only_pass_and_xfail_have_a_calm_tone() -> None:
    assert {s for s in Status if layout.tone(s) in ("good", "known")} == GREEN


def test_missing_evidence_has_its_own_tone() -> None:
    unknown = {s for s in Status if layout.tone(s) == "unknown"}
    assert unknown == {Status.UNAVAILABLE, Status.FALLBACK, Status.SKIP, Status.MISSING}


@pytest.mark.parametrize(
    ("name", "tone", "words"),
    [
        ("green", "good", "Conforms"),
        ("full", "bad", "Does not conform"),
        ("incomplete", "unknown", "Evidence incomplete"),
        ("empty", "unknown", "Evidence incomplete"),
    ],
)
def test_headline_says_what_the_document_says(sample: ModuleType, name: str, tone: str, words: str) -> None:
    head = layout.headline(getattr(sample, name)())
    assert (head.tone, head.words) == (tone, words)


def test_a_document_that_claims_to_conform_against_its_own_verdicts_is_not_green(full: Report) -> None:
    head = layout.headline(dataclasses.replace(full, conforms=True, exit_code=0))
    assert head.tone == "bad"
    assert "does not bear it out (16 cells are not green)" in head.sentence


def test_an_empty_document_that_claims_to_conform_is_not_green(empty: Report) -> None:
    assert layout.headline(dataclasses.replace(empty, conforms=True, exit_code=0)).tone == "bad"


@pytest.mark.parametrize("code", [1, 2, 3, 70])
def test_another_exit_code_than_zero_is_never_green(green: Report, code: int) -> None:
    assert layout.headline(green).tone == "good"
    assert layout.headline(dataclasses.replace(green, exit_code=code)).tone != "good"


def test_red_rows_come_first_and_passes_last(full: Report) -> None:
    tones = [layout.tone(row.status) for row in layout.table_order(full)]
    assert tones == sorted(tones, key=["bad", "unknown", "known", "good"].index)
    assert {tones[0], tones[-1]} == {"bad", "good"}


def test_a_summary_without_an_artifact_is_refused(full: Report) -> None:
    layout.check(full)
    with pytest.raises(UsageError, match="name different artifacts"):
        layout.check(dataclasses.replace(full, summary=full.summary[1:]))


def test_a_summary_with_an_artifact_twice_is_refused(full: Report) -> None:
    with pytest.raises(UsageError, match="name different artifacts"):
        layout.check(dataclasses.replace(full, summary=(*full.summary, full.summary[0])))


def test_the_first_failure_of_every_artifact_is_shown_before_a_second(sample: ModuleType) -> None:
    red = layout.failures(sample.large(20, 30, failing_every=2))
    shown, left = layout.fair_share(red, 20)
    assert len({v.cell.artifact for v in shown}) == 20
    assert sum(left.values()) == len(red) - 20


def test_a_share_that_holds_everything_leaves_nothing(full: Report) -> None:
    red = layout.failures(full)
    assert layout.fair_share(red, len(red)) == (red, {})


@given(st.floats(min_value=0, allow_nan=False))
def test_a_ratio_is_never_shown_on_the_other_side_of_the_limit(value: float) -> None:
    text = layout.ratio(value)
    shown = {"∞": math.inf, ">1": 1.001, "<1": 0.999}.get(text)
    shown = float(text) if shown is None else shown
    assert (shown > 1) == (value > 1)
    assert (shown < 1) == (value < 1)


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "–"), (math.nan, "NaN"), (math.inf, "∞"), (0.0, "0"), (0.30517, "0.305"), (1234.6, "1235"), (3e-7, "3e-7")],
)
def test_numbers_are_short(value: float | None, text: str) -> None:
    assert layout.number(value) == text


@given(st.text())
def test_printable_text_holds_no_control_character(text: str) -> None:
    shown = layout.printable(text)
    assert not [c for c in shown if not (c in "\t\n" or c.isprintable() or c.isspace())]
    assert "\x1b" not in shown and "\u202e" not in shown


def test_printable_keeps_ordinary_text() -> None:
    text = "größer × ∞ – 10⁴\n\tok ✓"
    assert layout.printable(text) == text


def test_a_time_that_did_not_conform_is_withheld_even_where_a_number_is_there(sample: ModuleType) -> None:
    timed: Latency = sample.series(sample.CAUSAL_23, "ort-cpu", {16: 0.2})[0]
    assert layout.withheld(timed) == ""
    assert "do not conform" in layout.withheld(dataclasses.replace(timed, conforms=False))
    assert layout.withheld(dataclasses.replace(timed, p50_ms=None)) == "not measured"
