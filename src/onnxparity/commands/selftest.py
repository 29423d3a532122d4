"""`onnxparity selftest`: the score on stdout, progress on stderr; exit 0 only for a perfect one."""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from onnxparity import expectations
from onnxparity.api import KNOWN_FAILURES
from onnxparity.commands.progress import Progress
from onnxparity.errors import UsageError
from onnxparity.selftesting.scoring import EXPECTED_RANGE, Histogram, Score
from onnxparity.selftesting.selftest import Settings
from onnxparity.selftesting.selftest import selftest as run

__all__ = ["print_score", "selftest"]

KNOWN_BEYOND = KNOWN_FAILURES.with_name("selftest.toml")
"""Known failures in cells that `verify` does not plan by default."""
BAR = 40
"""Columns of the longest bar of the histogram."""
LISTED = 20
"""Cells or faults that are listed one by one; the document has them all."""


def selftest(options: argparse.Namespace) -> int:
    """Plants, judges, prints the score; exits 0 where it is perfect, 1 where not, 3 where something did not run."""
    if options.jobs is not None and options.jobs < 1:
        raise UsageError("--jobs is too small", expected="at least 1", got=str(options.jobs))
    settings = Settings(
        kinds=tuple(options.kinds),
        quick=options.quick,
        slots=options.jobs or os.cpu_count() or 1,
        out=options.out,
        limit=options.limit,
        use_cache=not options.no_cache,
        expectations=(*expectations.load(KNOWN_FAILURES), *expectations.load(KNOWN_BEYOND)),
    )
    with Progress() as listener:
        score = run(settings, listener)
    document = json.dumps(score.to_json(), allow_nan=False)
    if options.json == "-":
        print(document)
        return score.exit_code
    if options.json is not None:
        _write(Path(options.json), document)
    print_score(score, Console())
    return score.exit_code


def _write(path: Path, document: str) -> None:
    try:
        path.write_text(document + "\n", encoding="utf-8")
    except OSError as error:
        raise UsageError(f"cannot write {path}", got=error.strerror, remedy="name another file with --json") from error


def print_score(score: Score, console: Console) -> None:
    """The table of kinds, what went wrong, the margin, the histogram, and one sentence at the end."""
    table = Table("kind", box=None, pad_edge=False)
    for name in ("found", "located"):
        table.add_column(name, justify="right")
    for row in score.kinds:
        short = row.found < row.planted
        table.add_row(
            row.kind, f"{row.found}/{row.planted}", f"{row.located}/{row.found}", style="red" if short else ""
        )
    console.print(table)
    lines = [
        *(f"missed: {fault.name}: {fault.why} ({fault.status})" for fault in score.missed),
        *(f"false alarm: {alarm}" for alarm in score.clean.alarms),
        *(f"did not run: {line}" for line in score.incomplete),
    ]
    shown = lines if len(lines) <= LISTED else [*lines[:LISTED], f"and {len(lines) - LISTED} more, see --json"]
    for line in ["", *shown, *_margin(score), "", *_bars(score.clean.over_noise), "", *_summary(score)]:
        console.print(Text(line), soft_wrap=True)


def _margin(score: Score) -> list[str]:
    lines = []
    if score.clean.nearest is not None:
        lines.append(f"clean cell nearest to its limit: {score.clean.nearest.ratio:.2f} {score.clean.nearest.cell}")
    if score.nearest is not None:
        lines.append(f"fault nearest to its limit: {score.nearest[1].ratio:.3g} {score.nearest[0].name}")
    return lines


def _bars(histogram: Histogram) -> list[str]:
    """One line a bin that holds something."""
    if not histogram.cells:
        return []
    low, high = EXPECTED_RANGE
    share = f"{histogram.below} below {low:g}, {histogram.above} above {high:g}"
    lines = [f"error over honest rounding in {histogram.cells} clean cells ({share}):"]
    names = [f"below {histogram.edges[0]:.3g}", *(f"{edge:.3g}" for edge in histogram.edges)]
    top = max(histogram.counts)
    for name, count in zip(names, histogram.counts, strict=True):
        if count:
            lines.append(f"{name:>12} {'#' * max(1, round(BAR * count / top))} {count}")
    return lines


def _summary(score: Score) -> list[str]:
    located = sum(fault.located for fault in score.faults)
    lines = [f"located: {located} of {score.found} ({located / score.found:.1%})"] if score.found else []
    if score.clean.expected:
        lines.append(f"known failures, counted apart: {score.clean.expected} cells")
    return [*lines, f"{score.conclusion}, in {score.seconds:.0f} s"]
