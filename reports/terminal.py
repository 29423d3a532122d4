"""The report on a terminal of 80 columns: a table by subject, what is not green, the limits, the conclusion last."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from onnxparity.outcome import Status, Verdict
from onnxparity.record import ArtifactSummary, Report
from onnxparity.reports.layout import (
    Tone,
    by_status,
    check,
    failures,
    fair_share,
    headline,
    milliseconds,
    number,
    printable,
    ratio,
    tone,
    withheld,
)

__all__ = ["MAX_FAILURES", "print_report"]

MAX_FAILURES = 20
MAX_MESSAGE = 600
"""Characters of one message; the JSON report has all of it."""
GLYPHS: dict[Tone, str] = {"bad": "✗", "unknown": "?", "known": "~", "good": "✓"}
ASCII: dict[Tone, str] = {"bad": "x", "unknown": "?", "known": "~", "good": "+"}
STYLES: dict[Tone, str] = {"bad": "bold red", "unknown": "yellow", "known": "magenta", "good": "green"}
LEGEND: dict[Tone, str] = {
    "good": "passes (worst error/budget)",
    "known": "expected failure",
    "unknown": "nothing shown",
    "bad": "fails",
}
SHORT = {
    Status.MEANING: "MEAN",
    Status.ARITHMETIC: "ARITH",
    Status.PROPERTY: "PROP",
    Status.STRUCTURE: "STRUC",
    Status.NONFINITE: "NONFI",
    Status.EXPORT_ERROR: "EXPRT",
    Status.LINT_ERROR: "LINT",
    Status.LOAD_ERROR: "LOAD",
    Status.RUN_ERROR: "RUN",
    Status.TIMEOUT: "TIME",
    Status.FALLBACK: "FALLB",
    Status.UNAVAILABLE: "UNAV",
    Status.MISSING: "MISS",
}
"""At most five letters, so that seven opsets fit beside a subject; the other statuses are short enough."""
ENTRY, DTYPE, WIDEST_SUBJECT = 6, 4, 26
PLAIN = str.maketrans({"–": "-", "∞": "inf", "…": "...", "·": "-", "×": "x", "→": "->"})


@dataclass(frozen=True)
class Pen:
    """How things are written on one console."""

    plain: bool
    """Only ASCII, where the console's encoding has nothing else."""

    def text(self, words: str, style: str = "") -> Text:
        """No markup, no escape sequences, nothing the console cannot encode."""
        words = printable(words)
        if self.plain:
            words = words.translate(PLAIN).encode("ascii", "backslashreplace").decode()
        return Text(words, style=style)

    def toned(self, kind: Tone, words: str) -> Text:
        """With the sign and the colour of its kind."""
        return self.text(f"{(ASCII if self.plain else GLYPHS)[kind]}{words}", STYLES[kind])


def print_report(report: Report, console: Console) -> None:
    """Prints the report, in ASCII where the console's encoding is not UTF. Commands are never broken over lines.

    Raises UsageError for a damaged document.
    """
    check(report)
    pen = Pen(console.options.ascii_only)
    for table in _tables(report.summary, console.width, pen):
        console.print(table)
        console.print()
    if report.summary:
        signs = [f"{pen.toned(kind, ' ')}{words}" for kind, words in LEGEND.items()]
        console.print(pen.text(", ".join(signs), "dim"))
    _print_failures(report, console, pen)
    _print_latency(report, console, pen)
    _print_limits(report, console, pen)
    _print_conclusion(report, console, pen)


def _tables(rows: Sequence[ArtifactSummary], width: int, pen: Pen) -> Iterable[Table]:
    """Subjects and dtypes down, exporters and opsets across; as many tables as the columns need."""
    subjects = list(dict.fromkeys(r.artifact.subject for r in rows))
    dtypes = list(dict.fromkeys(r.artifact.dtype for r in rows))
    forms = sorted({(r.artifact.exporter, r.artifact.opset or 0) for r in rows}, key=lambda f: (f[1] > 0, f))
    cells = {(r.artifact.subject, r.artifact.dtype, r.artifact.exporter, r.artifact.opset or 0): r for r in rows}
    first = min(max((len(pen.text(s)) for s in subjects), default=0), WIDEST_SUBJECT)
    room = max(1, (width - first - DTYPE - 2) // (ENTRY + 1))
    for start in range(0, len(forms), room):
        part = forms[start : start + room]
        table = Table(box=None, padding=(0, 1, 0, 0), pad_edge=False, header_style="bold")
        table.add_column(width=first, overflow="fold")
        table.add_column(width=DTYPE, overflow="fold")
        for exporter, opset in part:
            table.add_column(pen.text(f"{exporter}\n{opset or ''}"), width=ENTRY, overflow="fold")
        for subject in subjects:
            lines = [(d, [cells.get((subject, d, *form)) for form in part]) for d in dtypes]
            for n, (dtype, entries) in enumerate([line for line in lines if any(line[1])]):
                short = dtype.replace("bfloat", "bf").replace("float", "f")
                name = subject if n == 0 else ""
                table.add_row(pen.text(name), pen.text(short), *(_entry(row, pen) for row in entries))
        yield table


def _entry(row: ArtifactSummary | None, pen: Pen) -> Text:
    """The worst ratio where it passes, else the status."""
    if row is None:
        return Text()
    kind = tone(row.status)
    if kind != "good":
        return pen.toned(kind, SHORT.get(row.status, str(row.status)))
    ratios = [r for r in (row.meaning_ratio, row.arithmetic_ratio, row.property_ratio) if r is not None]
    return pen.toned(kind, _brief(max(ratios, key=lambda r: math.inf if math.isnan(r) else r)) if ratios else "")


def _brief(value: float) -> str:
    """A ratio in at most five characters."""
    if 0 < value < 0.01:
        mantissa, exponent = f"{value:.0e}".split("e")
        return f"{mantissa}e{int(exponent)}"
    text = f"{value:.2f}"
    return ratio(value) if value == 0 or value > 1 else "<1" if text == "1.00" and value < 1 else text


def _print_failures(report: Report, console: Console, pen: Pen) -> None:
    red = failures(report)
    shown, _ = fair_share(red, MAX_FAILURES)
    for verdict in shown:
        console.print()
        _print_failure(verdict, console, pen)
    if len(red) > len(shown):
        console.print()
        console.print(pen.text(f"{len(red) - len(shown)} more cells are not green: see the JSON report", "bold"))


def _print_failure(verdict: Verdict, console: Console, pen: Pen) -> None:
    title = pen.toned(tone(verdict.status), f" {verdict.status} ")
    console.print(Text.assemble(title, pen.text(verdict.cell.id, "bold")), soft_wrap=True)
    message = verdict.message if len(verdict.message) <= MAX_MESSAGE else f"{verdict.message[:MAX_MESSAGE]} … (cut)"
    if verdict.ratio is not None:
        message += f" (error/budget {ratio(verdict.ratio)})"
    console.print(Padding(pen.text(message), (0, 0, 0, 2), expand=False))
    if verdict.command:
        console.print(pen.text(f"  {verdict.command}", "cyan"), soft_wrap=True)


def _print_latency(report: Report, console: Console, pen: Pen) -> None:
    """Milliseconds by subject, shape and runtime; where there is no number, why."""
    if not report.latency:
        return
    table = Table(box=None, padding=(0, 1, 0, 0), pad_edge=False, header_style="bold")
    table.add_column(pen.text("latency, ms"), overflow="fold", max_width=WIDEST_SUBJECT)
    for title in ("shape", "runtime"):
        table.add_column(title, overflow="fold")
    for title in ("p50", "p90", "p99", "samples"):
        table.add_column(title, justify="right", no_wrap=True)
    why = []
    for row in report.latency:
        values = [pen.text(milliseconds(value)) for value in (row.p50_ms, row.p90_ms, row.p99_ms)]
        if withheld(row):
            values = [pen.text("-")] * 3
            why.append(f"{row.artifact.id}/{row.runtime} {row.shape}: {withheld(row)}")
        names = (row.artifact.subject, row.shape, row.runtime)
        table.add_row(*map(pen.text, names), *values, str(len(row.samples_ms)))
    console.print()
    console.print(table)
    for line in dict.fromkeys(why):
        console.print(pen.text(f"  no number for {line}", "dim"))


def _print_limits(report: Report, console: Console, pen: Pen) -> None:
    if not report.limits:
        return
    console.print()
    console.print(pen.text("What this run cannot say", "bold"))
    for limit in report.limits:
        line = Table.grid(padding=(0, 1))
        line.add_row("  -", pen.text(limit))
        console.print(line)


def _print_conclusion(report: Report, console: Console, pen: Pen) -> None:
    head = headline(report)
    counts = ", ".join(f"{status}={count}" for status, count in by_status(report))
    console.print()
    console.print(pen.text(f"{counts or 'no cell was planned'} ({number(report.seconds)} s)"))
    console.print(pen.toned(head.tone, f" {head.sentence}"))
    console.print(pen.text(f"  {head.words}, exit code {report.exit_code}", STYLES[head.tone]))
