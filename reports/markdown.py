"""GitHub-flavoured Markdown for a CI job summary."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from onnxparity.location import Location, TensorStatistics
from onnxparity.outcome import Status, Verdict
from onnxparity.record import ArtifactSummary, Latency, Report
from onnxparity.reports.layout import (
    RATIO_MEANING,
    Tone,
    by_status,
    check,
    exact,
    expected,
    failures,
    fair_share,
    form,
    headline,
    milliseconds,
    number,
    printable,
    ratio,
    table_order,
    tone,
    withheld,
)
from onnxparity.reports.where import STATISTICS, by_cell, evidence, facts, headed

__all__ = ["render_markdown"]

SIGNS: dict[Tone, str] = {"bad": "❌", "unknown": "⚠️", "known": "☑️", "good": "✅"}
MAX_ARTIFACTS = 100
MAX_FAILURES = 50
MAX_EXPECTED = 50
MAX_LOCATIONS = 20
MAX_LATENCY = 100
MAX_EVIDENCE = 10
"""Lines of evidence for each failure: GitHub drops a job summary above 1 MiB as a whole."""
MAX_LINE = 500
"""Characters of one line, for the same reason."""


def render_markdown(report: Report) -> str:
    """The report as a job summary. What is cut says so and stays in the JSON document.

    Raises UsageError for a damaged document.
    """
    check(report)
    sections = (_head, _limits, _artifacts, _locations, _failures, _expected, _latency, _foot)
    return "\n\n".join(part for section in sections for part in section(report)) + "\n"


def _head(report: Report) -> list[str]:
    head = headline(report)
    counts = [f"{SIGNS[tone(status)]} {number} {_text(status)}" for status, number in by_status(report)]
    return [
        f"# {SIGNS[head.tone]} {head.words}",
        f"**{_text(head.sentence)}** Exit code {report.exit_code}.",
        "Cells by status: " + (" · ".join(counts) or "none, nothing was planned."),
    ]


def _limits(report: Report) -> list[str]:
    if not report.limits:
        return []
    return ["## What this run cannot say", "\n".join(f"- {_start(limit)}" for limit in report.limits)]


def _artifacts(report: Report) -> list[str]:
    rows = table_order(report)
    if not rows:
        return []
    header = ("", "Subject", "Artifact", "dtype", "Status", "Green", "Meaning", "Arithmetic", "Property", "Found")
    table = _table(header, [_artifact(row) for row in rows[:MAX_ARTIFACTS]])
    return ["## Artifacts", RATIO_MEANING, table, *_rest(len(rows) - MAX_ARTIFACTS, "artifacts")]


def _artifact(row: ArtifactSummary) -> list[str]:
    found = "" if row.status is Status.PASS else _text(row.message)
    ratios = (row.meaning_ratio, row.arithmetic_ratio, row.property_ratio)
    return [
        SIGNS[tone(row.status)],
        _text(row.artifact.subject),
        _text(form(row.artifact)),
        _text(row.artifact.dtype),
        _text(row.status),
        f"{row.green}/{row.cells}",
        *(ratio(r) for r in ratios),
        found,
    ]


def _locations(report: Report) -> list[str]:
    if not report.locations:
        return []
    shown = [part for n, found in enumerate(report.locations[:MAX_LOCATIONS], 1) for part in _location(n, found)]
    return ["## Where it goes wrong", *shown, *_rest(len(report.locations) - MAX_LOCATIONS, "causes")]


def _location(place: int, location: Location) -> list[str]:
    """A title, what is wrong, a list of what is known, and the tensors as a table."""
    seen = evidence(location)
    kept = seen[:MAX_EVIDENCE]
    lines = [f"- {label}: {_code(text) if label == 'source' else _text(text)}" for label, text in facts(location)]
    lines += [f"- {_text(line)}" for line in kept]
    if len(seen) > len(kept):
        lines.append(f"- {len(seen) - len(kept)} more lines of evidence are in the JSON report")
    title = f"### {place}. {_text(location.status)}: {_text(headed(location))}"
    rows = [_tensor(s) for s in location.statistics[:MAX_EVIDENCE]]
    return [title, f"**{_start(location.message)}**", "\n".join(lines), *([_table(STATISTICS, rows)] if rows else [])]


def _tensor(tensor: TensorStatistics) -> list[str]:
    values = [number(x) for x in (tensor.smallest, tensor.largest, tensor.mean, tensor.rms)]
    return [
        _code(tensor.name),
        tensor.side,
        _text(tensor.dtype),
        str(list(tensor.shape)),
        *values,
        str(tensor.nonfinite),
    ]


def _failures(report: Report) -> list[str]:
    red = failures(report)
    if not red:
        return []
    shown, _ = fair_share(red, MAX_FAILURES)
    located = {cell: place for cell, (place, _) in by_cell(report).items()}
    return [
        "## Not green",
        *(_failure(v, located.get(v.cell.id)) for v in shown),
        *_rest(len(red) - len(shown), "cells that are not green"),
    ]


def _failure(verdict: Verdict, place: int | None) -> str:
    lines = [f"- {SIGNS[tone(verdict.status)]} **{_text(verdict.status)}** {_code(verdict.cell.id)}"]
    measured = "" if verdict.ratio is None else f" (error/budget {ratio(verdict.ratio)})"
    lines.append(f"  <br>{_text(verdict.message)}{measured}")
    if verdict.worst is not None:
        worst = verdict.worst
        where = f"{worst.output}{list(worst.index)}"
        lines.append(f"  <br>worst element {_code(where)}: got {exact(worst.got)}, want {exact(worst.want)}")
    kept = verdict.evidence[:MAX_EVIDENCE]
    lines += [f"  <br>{_text(line)}" for line in kept]
    if len(verdict.evidence) > len(kept):
        lines.append(f"  <br>{len(verdict.evidence) - len(kept)} more lines of evidence are in the JSON report")
    if place is not None:
        lines.append(f"  <br>led back to {place} under “Where it goes wrong”")
    return "\n".join([*lines, _block(verdict.command, indent="  ")] if verdict.command else lines)


def _expected(report: Report) -> list[str]:
    known = expected(report)
    if not known:
        return []
    lines = []
    for verdict in known[:MAX_EXPECTED]:
        cause = verdict.expectation
        reason = "" if cause is None else f": {_text(cause.reason)} {_link(cause.link)}"
        lines.append(f"- {_code(verdict.cell.id)} {_text(verdict.found or '')}{reason}")
    return ["## Expected failures", "\n".join(lines), *_rest(len(known) - MAX_EXPECTED, "expected failures")]


def _latency(report: Report) -> list[str]:
    if not report.latency:
        return []
    header = ("Subject", "Artifact", "dtype", "Runtime", "Shape", "p50 ms", "p90 ms", "p99 ms", "Samples", "Note")
    table = _table(header, [_timing(x) for x in report.latency[:MAX_LATENCY]])
    return ["## Latency", table, *_rest(len(report.latency) - MAX_LATENCY, "series")]


def _timing(series: Latency) -> list[str]:
    key, hidden = series.artifact, withheld(series)
    numbers = ["withheld"] * 3 if hidden else [milliseconds(x) for x in (series.p50_ms, series.p90_ms, series.p99_ms)]
    names = (key.subject, form(key), key.dtype, series.runtime, series.shape)
    return [*(_text(n) for n in names), *numbers, str(len(series.samples_ms)), _text(hidden or series.note)]


def _foot(report: Report) -> list[str]:
    made = f"onnxparity {_text(report.tool_version)}, {_text(report.created)}, {number(report.seconds)} s"
    return ["## How this was made", made, _block(report.command)]


def _rest(left: int, what: str) -> list[str]:
    return [f"**{left} more {what}** are in the JSON report."] if left > 0 else []


def _table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _text(value: str) -> str:
    """One line in which nothing is Markdown or HTML."""
    line = " ".join(printable(value).split())
    line = line if len(line) <= MAX_LINE else f"{line[:MAX_LINE]}… (cut, whole in the JSON report)"
    line = line.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return re.sub(r"([\\`*_\[\]|~#!])", r"\\\1", line)


def _start(value: str) -> str:
    """As `_text`, at the start of a line, where a dash or a number would begin a list."""
    return re.sub(r"^([-+=]|\d+[.)])", lambda m: f"{m[0][:-1]}\\{m[0][-1]}", _text(value))


def _link(url: str) -> str:
    """A link where the text is a plain web address, else the text."""
    return f"<{url}>" if re.fullmatch(r"https?://[^\s<>()\[\]\\`|]+", url) else _text(url)


def _code(value: str) -> str:
    """An inline code span, also inside a table."""
    line = " ".join(printable(value).split()).replace("|", "\\|")
    fence = "`" * (1 + _longest_run(line))
    pad = " " if line.startswith("`") or line.endswith("`") else ""
    return f"{fence}{pad}{line}{pad}{fence}"


def _block(value: str, indent: str = "") -> str:
    """A code block that no content can end."""
    content = printable(value)
    fence = "`" * max(3, 1 + _longest_run(content))
    lines = ["", f"{fence}sh", *content.splitlines(), fence]
    return "\n".join(f"{indent}{line}".rstrip() for line in lines)


def _longest_run(text: str) -> int:
    return max((len(run) for run in re.findall("`+", text)), default=0)
