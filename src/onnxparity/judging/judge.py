"""From a comparison, or an error, to the verdict of a cell."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable

from onnxparity.errors import (
    ExportError,
    LintError,
    LoadError,
    OnnxParityError,
    RunError,
    SubjectError,
    UnavailableError,
)
from onnxparity.feeding.feeds import stays_finite
from onnxparity.numerics.compare import Comparison
from onnxparity.outcome import Question, Status, Verdict
from onnxparity.plan import Cell

__all__ = ["STATUS_OF", "failed", "judged", "verdict_of"]

STATUS_OF: tuple[tuple[type[OnnxParityError], Status], ...] = (
    (ExportError, Status.EXPORT_ERROR),
    (LintError, Status.LINT_ERROR),
    (LoadError, Status.LOAD_ERROR),
    (RunError, Status.RUN_ERROR),
    (UnavailableError, Status.UNAVAILABLE),
    (SubjectError, Status.RUN_ERROR),
)

ALWAYS_PLANNED = ("torch-float64", "onnx-float64")
"""Runtimes that need not be asked for."""


def verdict_of(cell: Cell, question: Question, origin: str, comparison: Comparison, seconds: float | None) -> Verdict:
    """The verdict behind a comparison."""
    return Verdict(
        cell=cell,
        status=comparison.status,
        question=question,
        message=comparison.message,
        ratio=comparison.ratio,
        outputs=comparison.outputs,
        worst=comparison.worst,
        evidence=comparison.evidence,
        seconds=seconds,
        command=command(cell, origin),
    )


def failed(cell: Cell, question: Question, origin: str, status: Status, error: OnnxParityError) -> Verdict:
    """The verdict of a cell that came to nothing, with the error's own words."""
    labelled = (("expected", error.expected), ("got", error.got), ("remedy", error.remedy))
    evidence = tuple(f"{label}: {text}" for label, text in labelled if text)
    first = error.what.splitlines()[0] if error.what else type(error).__name__
    return Verdict(cell, status, question, first, evidence=evidence, command=command(cell, origin))


def judged(cell: Cell, question: Question, origin: str, work: Callable[[], Comparison]) -> Verdict:
    """Runs a cell's work. Here, and nowhere else, any exception becomes a verdict."""
    started = time.perf_counter()
    try:
        return verdict_of(cell, question, origin, work(), time.perf_counter() - started)
    except OnnxParityError as error:
        status = next((s for kind, s in STATUS_OF if isinstance(error, kind)), Status.RUN_ERROR)
        return failed(cell, question, origin, status, error)
    except Exception as error:  # the cell's boundary: whatever a library raises is this cell's result
        what = f"{type(error).__name__}: {error}"
        return failed(cell, question, origin, Status.RUN_ERROR, RunError(what.splitlines()[0], got=what))


def command(cell: Cell, origin: str) -> str:
    """The one command that repeats a cell, whatever flags the run had: it asks for all that the cell is made of."""
    flags = [("--shape", cell.shape), ("--cell", cell.id)]
    if cell.runtime not in ALWAYS_PLANNED:
        flags.insert(0, ("--runtime", cell.runtime))
    if cell.artifact.exporter == "dynamo":
        flags.insert(0, ("--opset", str(cell.artifact.opset)))
    if not stays_finite(cell.regime, cell.artifact.dtype):
        flags.append(("--regime", cell.regime))
    return f"onnxparity verify {origin} {' '.join(f'{flag} {shlex.quote(value)}' for flag, value in flags)}"
