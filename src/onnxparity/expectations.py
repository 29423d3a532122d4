"""Known failures: each names the cells, the status, the cause and a link, and must come true.

An expected failure that passes is XPASS and fails the run, so that a list of excuses cannot outlive its causes.
"""

from __future__ import annotations

import dataclasses
import tomllib
from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from onnxparity.errors import UsageError
from onnxparity.gate import NO_EVIDENCE
from onnxparity.outcome import Expectation, Status, Verdict

__all__ = ["apply", "load", "unmatched"]

FIELDS = {"cells", "status", "reason", "link"}
NOT_EXPECTABLE = NO_EVIDENCE | {Status.PASS, Status.XFAIL, Status.XPASS}
"""A run that lacks evidence stays incomplete, whoever foresaw it; `--runtime` leaves out what is not wanted."""


def load(path: Path) -> tuple[Expectation, ...]:
    """Reads a TOML file of `[[expect]]` tables. Raises UsageError naming the entry that is wrong."""
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"cannot read expectations {path}", got=error.strerror or str(error)) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} is not TOML", got=str(error)) from error
    if set(document) - {"expect"}:
        raise UsageError(f"{path}: unknown keys {sorted(set(document) - {'expect'})}", expected="[[expect]] tables")
    entries = document.get("expect", [])
    if not isinstance(entries, list):
        raise UsageError(f"{path}: expect is no list", expected="[[expect]] tables", got=repr(entries))
    return tuple(_entry(path, number, entry) for number, entry in enumerate(entries, 1))


def _entry(path: Path, number: int, entry: object) -> Expectation:
    """One table: text for every field, and where wanted `unless`, a list of globs."""
    texts = {k: v for k, v in entry.items() if k != "unless"} if isinstance(entry, dict) else {}
    unless = entry.get("unless", []) if isinstance(entry, dict) else []
    globs = unless if isinstance(unless, list) else [None]
    if set(texts) != FIELDS or not all(isinstance(v, str) and v.strip() for v in (*texts.values(), *globs)):
        wanted = f"text for {sorted(FIELDS)}, and where wanted a list of globs for unless"
        raise UsageError(f"{path}: entry {number} is incomplete", expected=wanted, got=str(entry))
    if texts["status"] not in set(Status) - NOT_EXPECTABLE:
        raise UsageError(
            f"{path}: entry {number} expects {texts['status']!r}",
            expected=", ".join(sorted(set(Status) - NOT_EXPECTABLE)),
        )
    return Expectation(texts["cells"], Status(texts["status"]), texts["reason"], texts["link"], tuple(map(str, globs)))


def _holds(expectation: Expectation, cell: str) -> bool:
    return fnmatchcase(cell, expectation.cells) and not any(fnmatchcase(cell, glob) for glob in expectation.unless)


def apply(verdict: Verdict, expectations: Sequence[Expectation]) -> Verdict:
    """XFAIL where the expected status came, XPASS where the cell passed after all, else the verdict as it is."""
    matching = [e for e in expectations if _holds(e, verdict.cell.id)]
    fulfilled = next((e for e in matching if e.status is verdict.status), None)
    if fulfilled is not None:
        return dataclasses.replace(verdict, status=Status.XFAIL, found=verdict.status, expectation=fulfilled)
    if matching and verdict.status is Status.PASS:
        return dataclasses.replace(
            verdict,
            status=Status.XPASS,
            found=Status.PASS,
            expectation=matching[0],
            message=f"expected {matching[0].status}, but it passes: remove the expectation ({verdict.message})",
        )
    return verdict


def unmatched(ids: Sequence[str], expectations: Sequence[Expectation]) -> tuple[Expectation, ...]:
    """Expectations that fit no planned cell: they name something that no longer exists."""
    return tuple(e for e in expectations if not any(_holds(e, i) for i in ids))
