"""Verdicts: one status per cell, with every metric, the worst element and the command that repeats it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

from onnxparity.plan import Cell

__all__ = ["GREEN", "SEVERITY", "Expectation", "OutputMetrics", "Question", "Status", "Verdict", "Worst"]

Question = Literal["oracle", "meaning", "arithmetic", "property"]
"""Which question the cell asks: torch against its NumPy oracle, the artifact against torch in float64,
a runtime against its own artifact's float64 value, or a property of the runtime's own outputs."""


class Status(StrEnum):
    """How a cell ended."""

    PASS = "PASS"
    MEANING = "MEANING"
    ARITHMETIC = "ARITHMETIC"
    PROPERTY = "PROPERTY"
    STRUCTURE = "STRUCTURE"
    NONFINITE = "NONFINITE"
    EXPORT_ERROR = "EXPORT_ERROR"
    LINT_ERROR = "LINT_ERROR"
    LOAD_ERROR = "LOAD_ERROR"
    RUN_ERROR = "RUN_ERROR"
    TIMEOUT = "TIMEOUT"
    CRASH = "CRASH"
    FALLBACK = "FALLBACK"
    UNAVAILABLE = "UNAVAILABLE"
    SKIP = "SKIP"
    XFAIL = "XFAIL"
    XPASS = "XPASS"
    MISSING = "MISSING"


GREEN = frozenset({Status.PASS, Status.XFAIL})
"""The statuses that conform. SKIP, UNAVAILABLE, FALLBACK and MISSING are not green: nothing was shown."""


SEVERITY = (
    Status.CRASH,
    Status.TIMEOUT,
    Status.EXPORT_ERROR,
    Status.LINT_ERROR,
    Status.LOAD_ERROR,
    Status.RUN_ERROR,
    Status.STRUCTURE,
    Status.NONFINITE,
    Status.MEANING,
    Status.ARITHMETIC,
    Status.PROPERTY,
    Status.XPASS,
    Status.MISSING,
    Status.FALLBACK,
    Status.UNAVAILABLE,
    Status.SKIP,
)
"""The statuses that are not green, the one to be told first at the head."""


@dataclass(frozen=True)
class Worst:
    """The element that is furthest off, measured against its own vector's budget."""

    output: str
    index: tuple[int, ...]
    got: float
    want: float


@dataclass(frozen=True)
class OutputMetrics:
    """How far one output is from what was wanted. Not measured is None, never 0."""

    output: str
    dtype: str
    shape: tuple[int, ...]
    elements: int
    ratio: float
    """Error over budget of the worst vector; at most 1 passes."""
    budget: float
    """The budget of that vector, relative to the vector's largest value."""
    over_noise: float | None
    """Error of that vector over its honest rounding, before `budget.KAPPA`; None where nothing was allowed to round."""
    max_abs: float | None
    max_rel: float | None
    """Largest difference relative to the largest value of its vector (last axis)."""
    max_ulp: float | None
    """Largest difference in units in the last place of the output's dtype."""
    rms: float | None
    cosine: float | None
    snr_db: float | None
    p50_abs: float | None
    p99_abs: float | None
    nonfinite_got: int
    nonfinite_want: int
    top1_agreement: float | None = None
    """Share of vectors with the same argmax, where the output is logits."""
    kl_divergence: float | None = None
    """Largest KL divergence (nats) between the two softmax distributions, where the output is logits."""


@dataclass(frozen=True)
class Expectation:
    """A failure that is known, with its cause."""

    cells: str
    """A glob over cell ids."""
    status: Status
    reason: str
    link: str
    unless: tuple[str, ...] = ()
    """Globs over cell ids that it does not hold for."""


@dataclass(frozen=True)
class Verdict:
    """What was found in one cell."""

    cell: Cell
    status: Status
    question: Question
    message: str
    """One line: what was found, in words."""
    ratio: float | None = None
    """Error over budget, the worst of all outputs; None where nothing was compared."""
    outputs: tuple[OutputMetrics, ...] = ()
    worst: Worst | None = None
    evidence: tuple[str, ...] = ()
    """Further lines: an error's text, what a property compared, a remedy."""
    found: Status | None = None
    """The status behind an XFAIL or XPASS."""
    expectation: Expectation | None = None
    seconds: float | None = None
    command: str = ""
    """The one command that repeats this cell."""

    def __post_init__(self) -> None:
        if self.status is Status.PASS and self.ratio is None:
            raise ValueError(f"{self.cell.id}: a PASS needs a ratio; nothing compared is never a pass")
        if self.status is Status.PASS and not (self.ratio is not None and self.ratio <= 1):
            raise ValueError(f"{self.cell.id}: a PASS needs a ratio of at most 1, got {self.ratio}")
        if self.status in (Status.XFAIL, Status.XPASS) and self.expectation is None:
            raise ValueError(f"{self.cell.id}: {self.status} needs its expectation")
