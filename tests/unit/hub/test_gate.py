"""The exit code: the truth table over every status, alone and beside a pass."""

from __future__ import annotations

from itertools import permutations

import pytest

from onnxparity import gate
from onnxparity.gate import CONFORMS, DOES_NOT, INCOMPLETE, NO_EVIDENCE, conclude
from onnxparity.outcome import GREEN, Status
from tests.unit.hub.subjects import verdict

ALONE = {
    Status.PASS: CONFORMS,
    Status.MEANING: DOES_NOT,
    Status.ARITHMETIC: DOES_NOT,
    Status.PROPERTY: DOES_NOT,
    Status.STRUCTURE: DOES_NOT,
    Status.NONFINITE: DOES_NOT,
    Status.EXPORT_ERROR: DOES_NOT,
    Status.LINT_ERROR: DOES_NOT,
    Status.LOAD_ERROR: DOES_NOT,
    Status.RUN_ERROR: DOES_NOT,
    Status.TIMEOUT: DOES_NOT,
    Status.CRASH: DOES_NOT,
    Status.FALLBACK: INCOMPLETE,
    Status.UNAVAILABLE: INCOMPLETE,
    Status.SKIP: INCOMPLETE,
    Status.XFAIL: INCOMPLETE,
    Status.XPASS: DOES_NOT,
    Status.MISSING: INCOMPLETE,
}
BESIDE_A_PASS = {**ALONE, Status.XFAIL: CONFORMS}


def code(*statuses: Status) -> int:
    """The exit code of a run with these statuses."""
    return conclude([verdict(s) for s in statuses]).exit_code


def test_the_table_names_every_status() -> None:
    assert set(ALONE) == set(Status)


@pytest.mark.parametrize("status", Status)
def test_a_status_alone(status: Status) -> None:
    assert code(status) == ALONE[status]


@pytest.mark.parametrize("status", Status)
def test_a_status_beside_passes(status: Status) -> None:
    assert code(Status.PASS, status) == code(status, Status.PASS) == BESIDE_A_PASS[status]
    assert code(*[Status.PASS] * 500, status, *[Status.PASS] * 500) == BESIDE_A_PASS[status]


def test_a_fault_outweighs_missing_evidence_and_that_outweighs_every_pass() -> None:
    for pair in permutations(Status, 2):
        codes = {BESIDE_A_PASS[s] for s in pair}
        expected = DOES_NOT if DOES_NOT in codes else INCOMPLETE if INCOMPLETE in codes else CONFORMS
        assert code(Status.PASS, *pair) == expected, pair


def test_no_verdict_at_all_is_incomplete() -> None:
    found = conclude([])
    assert (found.exit_code, found.conforms) == (INCOMPLETE, False)


def test_known_failures_alone_show_nothing() -> None:
    found = conclude([verdict(Status.XFAIL)] * 3)
    assert (found.exit_code, found.conforms) == (INCOMPLETE, False)


@pytest.mark.parametrize("status", Status)
def test_conforming_and_exit_code_zero_go_together(status: Status) -> None:
    for verdicts in ([verdict(status)], [verdict(Status.PASS), verdict(status)]):
        found = conclude(verdicts)
        assert found.conforms == (found.exit_code == 0)


def test_no_status_is_both_green_and_no_evidence() -> None:
    assert not GREEN & NO_EVIDENCE


def test_the_sentence_counts_what_it_rests_on() -> None:
    red = conclude([verdict(Status.PASS), verdict(Status.MEANING), verdict(Status.CRASH), verdict(Status.MISSING)])
    assert red.sentence == "Does not conform: 2 of 4 cells failed (MEANING 1, CRASH 1)."
    absent = conclude([verdict(Status.PASS), verdict(Status.SKIP), verdict(Status.SKIP)])
    assert absent.sentence == "Evidence incomplete: 2 of 3 cells say nothing (SKIP 2)."
    green = conclude([verdict(Status.PASS), verdict(Status.XFAIL)])
    assert green.sentence == "Conforms: 1 of 2 cells pass, 1 fail as expected, for stated causes."
    assert conclude([verdict(Status.PASS)] * 2).sentence == "Conforms: all 2 cells pass."


def test_exit_codes_are_the_documented_ones() -> None:
    assert (gate.CONFORMS, gate.DOES_NOT, gate.WRONG_USAGE, gate.INCOMPLETE, gate.INTERNAL) == (0, 1, 2, 3, 70)
