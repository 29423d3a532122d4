"""The charts of a report: how much of its budget each cell used, and latency over length.

The same report gives the same bytes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import PathPatch
from matplotlib.path import Path
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator
from matplotlib.transforms import IdentityTransform

from onnxparity.case import Axis, Subject, parse_shape
from onnxparity.outcome import Verdict
from onnxparity.record import Latency, Report
from onnxparity.reports.layout import form, milliseconds, tone, withheld
from onnxparity.reports.svg import COLOUR, SERIES, STYLE, embed

__all__ = ["MAX_SERIES", "LatencyChart", "Line", "latency_charts", "ratio_chart"]

DASHES = ("solid", "dashed", "dotted")
MAX_SERIES = len(SERIES) * len(DASHES)
"""More lines than can be told apart are left to the table."""
QUESTIONS = ("oracle", "meaning", "arithmetic", "property")
POINT = 1 / 72
"""Inches; an SVG's own unit is the point."""
PLOT, ROW, LANES, DOT = 610.0, 34.0, 7, 4.0
"""Of the strip chart, in points: width of the plot, height of a row, dots above each other, width of a dot."""
LOWEST, HIGHEST = -5, 4
"""Decades of error/budget that are drawn to scale; what lies outside stands in the margins."""
LEFT, RIGHT = LOWEST - 1.5, HIGHEST + 1.6
STEP = DOT * (RIGHT - LEFT) / PLOT
"""Decades that one dot covers."""


@dataclass(frozen=True)
class Line:
    """One series of a latency chart, as its legend shows it."""

    label: str
    colour: str
    """Name of a CSS variable."""
    dash: str


@dataclass(frozen=True)
class LatencyChart:
    """Latency over length of one subject."""

    subject: str
    svg: str
    lines: tuple[Line, ...]
    left: int
    """Series that are only in the table, because more lines could not be told apart."""


def ratio_chart(report: Report) -> str:
    """One mark for each measured cell, by question and runtime, on a log axis with the limit at 1.

    Empty where nothing was measured.
    """
    rows: dict[tuple[str, str], list[Verdict]] = {}
    for verdict in report.verdicts:
        if verdict.ratio is not None:
            rows.setdefault((verdict.question, verdict.cell.runtime), []).append(verdict)
    if not rows:
        return ""
    names = sorted(rows, key=lambda row: (QUESTIONS.index(row[0]), row[1]))
    margin = max(120.0, 6.4 * max(len(f"{question} · {runtime}") for question, runtime in names) + 16)
    width, height = margin + PLOT + 16, ROW * len(names) + 56
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(width * POINT, height * POINT), dpi=72)
        axes = figure.add_axes((margin / width, 40 / height, PLOT / width, ROW * len(names) / height))
        _strip_frame(axes, names)
        for position, name in enumerate(names):
            _strip(axes, rows[name], position)
        return embed(
            figure,
            name="ratios",
            title="Error over budget of every measured cell, by question and runtime",
            note="Logarithmic axis; the vertical line at 1 is the limit. Dots are cells that passed, crosses others.",
        )


def _strip_frame(axes: Axes, names: Sequence[tuple[str, str]]) -> None:
    digits = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
    labels = {d: f"{10.0**d:g}" if abs(d) < 4 else "10" + str(d).translate(digits) for d in range(LOWEST, HIGHEST + 1)}
    labels |= {LOWEST - 1: "0", HIGHEST + 1: "∞, NaN"}
    axes.set_xlim(LEFT, RIGHT)
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.set_xticks(list(labels), list(labels.values()))
    axes.set_yticks(range(len(names)), [f"{question} · {runtime}" for question, runtime in names])
    axes.tick_params(axis="y", length=0, labelcolor=COLOUR["--ink"])
    axes.spines["left"].set_visible(False)
    for row in range(1, len(names)):
        axes.axhline(row - 0.5, color=COLOUR["--line"], linewidth=0.6)
    for edge in (LOWEST - 0.5, HIGHEST + 0.5):
        axes.axvline(edge, color=COLOUR["--line"], linewidth=0.8, linestyle=(0, (2, 3)))
    axes.axvline(0, color=COLOUR["--bad"], linewidth=1.5)
    axes.text(0, -0.56, "limit", ha="center", va="bottom", color=COLOUR["--bad"])
    axes.set_xlabel("error / budget")


def _strip(axes: Axes, verdicts: Sequence[Verdict], row: int) -> None:
    """Marks stacked around the middle of the row; cells that fall on one spot are drawn once, failures on top."""
    taken: dict[int, int] = {}
    spots: dict[str, set[tuple[float, float]]] = {"good": set(), "known": set(), "bad": set()}
    for verdict in verdicts:
        column = _column(verdict.ratio or 0.0)
        lane = taken.get(column, 0) % LANES
        taken[column] = taken.get(column, 0) + 1
        offset = (lane + 1) // 2 * (1 if lane % 2 else -1) * DOT / ROW
        kind = tone(verdict.status)
        spots[kind if kind in spots else "bad"].add((column * STEP, row + offset))
    reach = 0.42 * DOT
    _marks(axes, sorted(spots["good"]), (0.0,), "--s1", 0.9 * DOT)
    _marks(axes, sorted(spots["known"]), (reach, -reach), "--known", 1.4)
    _marks(axes, sorted(spots["bad"]), (reach, -reach), "--bad", 1.4)


def _column(ratio: float) -> int:
    """Which dot's width along the axis; rounded away from the limit, so that no cell changes sides."""
    if math.isnan(ratio) or ratio > 10.0**HIGHEST * 3:
        return round((HIGHEST + 1) / STEP)
    if ratio < 10.0**LOWEST / 3:
        return round((LOWEST - 1) / STEP)
    place = math.log10(ratio) / STEP
    return math.ceil(place) if ratio > 1 else math.floor(place)


def _marks(
    axes: Axes, spots: Sequence[tuple[float, float]], slopes: Sequence[float], colour: str, width: float
) -> None:
    """All marks of one colour as one path: round dots (lines of no length), or crosses of two strokes each."""
    if not spots:
        return
    ends: list[tuple[float, float]] = []
    for x, y in axes.transData.transform(spots):
        for slope in slopes:
            ends += [(x - abs(slope), y - slope), (x + abs(slope), y + slope)]
    path = Path(ends, [Path.MOVETO, Path.LINETO] * (len(ends) // 2))
    stroke = COLOUR[colour]
    axes.figure.add_artist(
        PathPatch(
            path,
            fill=False,
            capstyle="round",
            linewidth=width,
            edgecolor=stroke,
            transform=IdentityTransform(),
            clip_on=False,
        )
    )


def latency_charts(report: Report) -> list[LatencyChart]:
    """One chart for each subject with a length axis and at least one number to show."""
    subjects = {s.name: s for s in report.subjects}
    charts: dict[str, dict[str, list[tuple[int, Latency]]]] = {}
    for series in report.latency:
        subject = subjects.get(series.artifact.subject)
        axis = None if subject is None else _length_axis(subject)
        if subject is None or axis is None or withheld(series):
            continue
        try:
            length = parse_shape(subject, series.shape)[axis.symbol]
        except ValueError:
            continue
        label = _label(axis, series)
        charts.setdefault(subject.name, {}).setdefault(label, []).append((length, series))
    return [_latency_chart(n, name, lines) for n, (name, lines) in enumerate(charts.items())]


def _length_axis(subject: Subject) -> Axis | None:
    return subject.axis("sequence") or subject.axis("source") or subject.axis("past")


def _label(axis: Axis, series: Latency) -> str:
    """What stays the same along a line: `ort-cpu · dynamo-23 float32 · b1`."""
    rest = [part for part in series.shape.split("-") if not part.startswith(axis.letter)]
    return " · ".join([series.runtime, f"{form(series.artifact)} {series.artifact.dtype}", *rest])


def _latency_chart(position: int, subject: str, series: dict[str, list[tuple[int, Latency]]]) -> LatencyChart:
    shown = list(series.items())[:MAX_SERIES]
    lines = tuple(Line(label, SERIES[n % len(SERIES)], DASHES[n // len(SERIES)]) for n, (label, _) in enumerate(shown))
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(350 * POINT, 230 * POINT), dpi=72)
        axes = figure.add_axes((0.14, 0.18, 0.84, 0.79))
        for line, (_, points) in zip(lines, shown, strict=True):
            _curve(axes, line, sorted(points, key=lambda point: point[0]))
        _latency_frame(axes, sorted({length for _, points in shown for length, _ in points}))
        svg = embed(
            figure,
            name=f"latency-{position}",
            title=f"Latency over length: {subject}",
            note="Lines join medians; the band reaches up to the 90th percentile. Both axes are logarithmic.",
        )
    return LatencyChart(subject, svg, lines, len(series) - len(shown))


def _curve(axes: Axes, line: Line, points: Sequence[tuple[int, Latency]]) -> None:
    lengths = [length for length, _ in points]
    median = [x.p50_ms if x.p50_ms is not None else math.nan for _, x in points]
    upper = [x.p90_ms if x.p90_ms is not None else m for (_, x), m in zip(points, median, strict=True)]
    colour = COLOUR[line.colour]
    axes.fill_between(lengths, median, upper, color=colour, alpha=0.18, linewidth=0)
    axes.vlines(lengths, median, upper, color=colour, linewidth=1, alpha=0.5)
    axes.plot(lengths, median, color=colour, linewidth=1.8, linestyle=line.dash, marker="o", markersize=4)


def _latency_frame(axes: Axes, lengths: Sequence[int]) -> None:
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    ticks = lengths[:: math.ceil(len(lengths) / 7)]
    axes.set_xticks(ticks, [str(t) for t in ticks])
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: milliseconds(value)))
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_minor_locator(NullLocator())
    axes.grid(axis="y", color=COLOUR["--line"], linewidth=0.6)
    axes.set_xlabel("length")
    axes.set_ylabel("ms")
