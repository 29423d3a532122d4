"""PyTorch's own arithmetic beside a runtime's: where both are out of budget, the model is ill-conditioned."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from onnxparity.outcome import Status, Verdict

__all__ = ["with_eager"]

EAGER = "torch-eager"
NUMERIC = (Status.ARITHMETIC, Status.NONFINITE)


def with_eager(verdicts: Sequence[Verdict]) -> tuple[Verdict, ...]:
    """The same verdicts; those on arithmetic that fail say so where eager PyTorch fails as well.

    Eager PyTorch of the same subject and dtype counts at the same shape and regime; where it was not run there, at
    the place where it is furthest out of its budget.
    """
    eager = [v for v in verdicts if v.cell.runtime == EAGER]
    return tuple(_beside(v, eager) if _fails(v) and v.cell.runtime != EAGER else v for v in verdicts)


def _fails(verdict: Verdict) -> bool:
    """Also where the failure is expected."""
    return verdict.question == "arithmetic" and (verdict.found or verdict.status) in NUMERIC


def _beside(verdict: Verdict, eager: Sequence[Verdict]) -> Verdict:
    cell = verdict.cell
    alike = [
        v
        for v in eager
        if (v.cell.artifact.subject, v.cell.artifact.dtype) == (cell.artifact.subject, cell.artifact.dtype)
    ]
    here = [v for v in alike if (v.cell.shape, v.cell.regime) == (cell.shape, cell.regime)]
    out = [v for v in here or alike if _fails(v)]
    if not out:
        return verdict
    worst = max(out, key=_badness)
    where = "" if here else f", at {worst.cell.shape}/{worst.cell.regime}"
    finite = worst.ratio is not None and math.isfinite(worst.ratio)
    how = f"is at {worst.ratio:.3g} times its budget" if finite else "gives values that are not finite"
    words = f"ill-conditioned in {cell.artifact.dtype}: torch eager itself {how}{where}"
    return replace(verdict, evidence=(words, *verdict.evidence))


def _badness(verdict: Verdict) -> float:
    return verdict.ratio if verdict.ratio is not None and not math.isnan(verdict.ratio) else math.inf
