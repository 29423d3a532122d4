"""From verdicts to a conclusion and an exit code: 0 conforms, 1 does not, 3 the evidence is incomplete."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from onnxparity.outcome import GREEN, Status, Verdict

__all__ = ["CONFORMS", "DOES_NOT", "INCOMPLETE", "INTERNAL", "NO_EVIDENCE", "WRONG_USAGE", "Conclusion", "conclude"]

CONFORMS, DOES_NOT, WRONG_USAGE, INCOMPLETE, INTERNAL = 0, 1, 2, 3, 70

NO_EVIDENCE = frozenset({Status.UNAVAILABLE, Status.FALLBACK, Status.SKIP, Status.MISSING})
"""Statuses that say nothing about the model, and so can neither pass nor fail it."""


@dataclass(frozen=True)
class Conclusion:
    """The one sentence and the exit code of a run."""

    conforms: bool
    exit_code: int
    sentence: str


def conclude(verdicts: Sequence[Verdict]) -> Conclusion:
    """A fault outweighs missing evidence, and missing evidence outweighs every pass."""
    counts = Counter(v.status for v in verdicts)
    total = len(verdicts)
    red = [s for s in Status if counts[s] and s not in GREEN and s not in NO_EVIDENCE]
    if red:
        number = sum(counts[s] for s in red)
        return Conclusion(
            False, DOES_NOT, f"Does not conform: {number} of {total} cells failed ({_listed(counts, red)})."
        )
    absent = [s for s in Status if counts[s] and s in NO_EVIDENCE]
    if absent:
        number = sum(counts[s] for s in absent)
        sentence = f"Evidence incomplete: {number} of {total} cells say nothing ({_listed(counts, absent)})."
        return Conclusion(False, INCOMPLETE, sentence)
    if counts[Status.PASS] == 0:
        return Conclusion(False, INCOMPLETE, "Evidence incomplete: no cell passed, so nothing was shown.")
    if counts[Status.XFAIL]:
        known = (
            f"{counts[Status.PASS]} of {total} cells pass, {counts[Status.XFAIL]} fail as expected, for stated causes"
        )
        return Conclusion(True, CONFORMS, f"Conforms: {known}.")
    return Conclusion(True, CONFORMS, f"Conforms: all {total} cells pass.")


def _listed(counts: Counter[Status], statuses: Sequence[Status]) -> str:
    return ", ".join(f"{s} {counts[s]}" for s in statuses)
