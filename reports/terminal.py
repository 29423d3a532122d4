"""The report on a terminal of 80 columns: a table by subject, where it goes wrong, what is not green, the limits, the
conclusion last."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from onnxparity.location import Location
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
from onnxparity.reports.where import FIXED, by_cell

__all__ = ["MAX_FAILURES", "MAX_LOCATIONS", "Pen", "print_report"]

MAX_FAILURES = 20
MAX_LOCATIONS = 10
MAX_EVIDENCE = 2
"""Lines of evidence for each failure; a remedy is always among them."""
MAX_MESSAGE = 600
"""Characters of one message or line of evidence; the JSON report has all of it."""
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
MAX_ALIKE = 2
"""Red cells that are told one by one where a location explains them all."""
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
    _print_locations(report, console, pen)
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


def _print_locations(report: Report, console: Console, pen: Pen) -> None:
    if not report.locations:
        return
    console.print()
    console.print(pen.text("Where it goes wrong", "bold"))
    for place, location in enumerate(report.locations[:MAX_LOCATIONS], 1):
        cell, count = location.cell, len(location.explains)
        of = f"{count} cell{'s' if count != 1 else ''} of {cell.artifact.id}/{cell.runtime}"
        console.print(pen.text(f"[{place}] {location.status}: {of}", "bold"), soft_wrap=True)
        for line in _location(location):
            console.print(Padding(pen.text(_cut(line)), (0, 0, 0, 4), expand=False))
        if location.reproduction:
            console.print(pen.text(f"    {location.reproduction}", "cyan"), soft_wrap=True)
    if (left := len(report.locations) - MAX_LOCATIONS) > 0:
        console.print(pen.text(f"{left} more are in the JSON report", "bold"))


def _location(location: Location) -> list[str]:
    """One to three lines: what and where, the user's own line, what kind of fault and the smallest shape."""
    source = "" if location.node is None or location.node.source in location.message else location.node.source
    kind = "" if location.origin == "unknown" else f"{location.origin} {location.optimizer}".strip()
    smallest = "" if location.smallest_shape == FIXED else f"smallest shape that fails: {location.smallest_shape}"
    return [line for line in (location.message, source, "; ".join(filter(None, (kind, smallest)))) if line]


def _cut(text: str) -> str:
    return text if len(text) <= MAX_MESSAGE else f"{text[:MAX_MESSAGE]} … (cut)"


def _print_failures(report: Report, console: Console, pen: Pen) -> None:
    located = by_cell(report)
    red = failures(report)
    shown, _ = fair_share(_few_of_each(red, located), MAX_FAILURES)
    for verdict in shown:
        console.print()
        _print_failure(verdict, console, pen)
        if verdict.cell.id in located:
            console.print(pen.text(f"  led back to [{located[verdict.cell.id][0]}]", "dim"))
        if verdict.command:
            console.print(pen.text(f"  {verdict.command}", "cyan"), soft_wrap=True)
    if len(red) > len(shown):
        console.print()
        console.print(pen.text(f"{len(red) - len(shown)} more cells are not green: see the JSON report", "bold"))


def _few_of_each(red: Sequence[Verdict], located: Mapping[str, tuple[int, Location]]) -> list[Verdict]:
    """No more than a few of those that one location explains."""
    taken: Counter[int] = Counter()
    kept = []
    for verdict in red:
        place = located.get(verdict.cell.id, (0,))[0]
        taken[place] += 1
        if not place or taken[place] <= MAX_ALIKE:
            kept.append(verdict)
    return kept


def _print_failure(verdict: Verdict, console: Console, pen: Pen) -> None:
    title = pen.toned(tone(verdict.status), f" {verdict.status} ")
    console.print(Text.assemble(title, pen.text(verdict.cell.id, "bold")), soft_wrap=True)
    message = _cut(verdict.message)
    if verdict.ratio is not None:
        message += f" (error/budget {ratio(verdict.ratio)})"
    console.print(Padding(pen.text(message), (0, 0, 0, 2), expand=False))
    remedies = [line for line in verdict.evidence if line.startswith("remedy:")]
    others = [line for line in verdict.evidence if line not in remedies]
    for line in (*others[: MAX_EVIDENCE - bool(remedies)], *remedies[:1]):
        console.print(Padding(pen.text(_cut(line), "dim"), (0, 0, 0, 2), expand=False))


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
