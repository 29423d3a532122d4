"""One cell on a terminal of 80 columns: its verdict, why it failed, and the node that it leads back to."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from onnxparity.gate import NO_EVIDENCE
from onnxparity.location import Location, TensorStatistics
from onnxparity.outcome import Status, Verdict
from onnxparity.reports.layout import exact, number, ratio, tone
from onnxparity.reports.terminal import Pen
from onnxparity.reports.where import STATISTICS, evidence, facts

__all__ = ["print_explanation"]


def print_explanation(
    verdict: Verdict, location: Location | None, console: Console, *, out: str, notes: Sequence[str] = ()
) -> None:
    """Prints what is known of one cell, in ASCII where the console's encoding is not UTF.

    Args:
        out: the folder that the location's reproduction lies in.
        notes: why there is no location.
    """
    pen = Pen(console.options.ascii_only)
    _print_verdict(verdict, console, pen)
    if location is not None:
        _print_location(location, console, pen, out)
    else:
        console.print()
        for line in _nothing(verdict, notes):
            console.print(pen.text(line))
    if verdict.command:
        console.print(pen.text("\nrepeat the verdict:", "dim"))
        console.print(pen.text(f"  {verdict.command}", "cyan"), soft_wrap=True)


def _print_verdict(verdict: Verdict, console: Console, pen: Pen) -> None:
    title = pen.toned(tone(verdict.status), f" {verdict.status} ")
    console.print(Text.assemble(title, pen.text(verdict.cell.id, "bold")), soft_wrap=True)
    lines = [verdict.message, *_measured(verdict), *verdict.evidence]
    if verdict.expectation is not None:
        lines.append(
            f"expected {verdict.expectation.status}: {verdict.expectation.reason} ({verdict.expectation.link})"
        )
    for line in lines:
        console.print(Padding(pen.text(line), (0, 0, 0, 2), expand=False))


def _measured(verdict: Verdict) -> list[str]:
    """Error over budget, and the worst element."""
    lines = [] if verdict.ratio is None else [f"error/budget {ratio(verdict.ratio)}; at most 1 passes"]
    if verdict.worst is not None:
        where = f"{verdict.worst.output}[{', '.join(map(str, verdict.worst.index))}]"
        lines.append(f"worst element {where}: got {exact(verdict.worst.got)}, want {exact(verdict.worst.want)}")
    return lines


def _nothing(verdict: Verdict, notes: Sequence[str]) -> list[str]:
    """What to say where there is no location."""
    if verdict.status in NO_EVIDENCE:
        return ["Nothing was shown, so there is nothing to lead back."]
    if verdict.status not in (Status.PASS, Status.XPASS):
        return list(notes) or ["This failure is not led back to a node: the lines above are all that is known."]
    lines = ["It passes, so there is nothing to explain."]
    for output in verdict.outputs:
        noise = "" if output.over_noise is None else f", {number(output.over_noise)} times honest rounding"
        lines.append(f"  {output.output}: {ratio(output.ratio)} of its budget{noise}")
    if verdict.ratio:
        lines.append(f"The error could be {number(1 / verdict.ratio)} times as large before it failed.")
    return lines


def _print_location(location: Location, console: Console, pen: Pen, out: str) -> None:
    console.print(pen.text("\nWhere it goes wrong", "bold"))
    console.print(Padding(pen.text(location.message), (0, 0, 0, 2), expand=False))
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(no_wrap=True)
    grid.add_column(overflow="fold")
    for label, text in facts(location):
        if label not in ("explains", "reproduction"):
            grid.add_row(pen.text(f"  {label}", "dim"), pen.text(text))
    for place, line in enumerate(evidence(location)):
        grid.add_row(pen.text("  evidence" if place == 0 else "", "dim"), pen.text(line))
    console.print(grid)
    if location.statistics:
        console.print()
        console.print(_tensors(location.statistics, pen))
    if location.reproduction:
        console.print(pen.text("\nreproduce it with onnxruntime and numpy alone:", "dim"))
        script = shlex.quote(f"{out}/{location.reproduction}/reproduce.py")
        console.print(pen.text(f"  python {script}", "cyan"), soft_wrap=True)


def _tensors(rows: Sequence[TensorStatistics], pen: Pen) -> Table:
    table = Table(box=None, padding=(0, 1, 0, 0), pad_edge=False, header_style="bold")
    for place, title in enumerate(STATISTICS):
        table.add_column(title, overflow="fold", justify="right" if place > 3 else "left")
    for row in rows:
        dtype = row.dtype.replace("bfloat", "bf").replace("float", "f")
        shape = "x".join(map(str, row.shape)) or "scalar"
        values = [number(value) for value in (row.smallest, row.largest, row.mean, row.rms)]
        table.add_row(*map(pen.text, (row.name, row.side, dtype, shape, *values, str(row.nonfinite))))
    return table
