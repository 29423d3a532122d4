"""The report as one HTML file: no network request, no font, no script from elsewhere.

The layout is in `report.html.jinja` and `parts.html.jinja`, the looks in `report.css`; `report.js` only filters,
sorts and copies, and the page says the same without it.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from typing import Any

from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup, escape

from onnxparity.location import Location
from onnxparity.outcome import OutputMetrics, Verdict
from onnxparity.protocols import Placement
from onnxparity.record import ArtifactSummary, Report
from onnxparity.reports import layout, plots, where

__all__ = ["MAX_FAILURES", "render_html"]

MAX_LOCATIONS = 50
"""Causes that are shown; the others stand in the JSON."""
MAX_FAILURES = 200
"""Cells that are not green and are shown in full; the others stand in the list of cells and in the JSON."""
OPEN_FAILURES = 5
METRICS = {
    "ratio": "error / budget",
    "over_noise": "error / honest rounding",
    "budget": "budget, relative to its vector",
    "max_abs": "largest difference",
    "max_rel": "largest difference relative to its vector",
    "max_ulp": "largest difference in ULP",
    "rms": "RMS difference",
    "p50_abs": "median difference",
    "p99_abs": "99th percentile of the difference",
    "cosine": "cosine",
    "snr_db": "SNR (dB)",
    "nonfinite_got": "non-finite values got",
    "nonfinite_want": "non-finite values wanted",
    "top1_agreement": "top-1 agreement",
    "kl_divergence": "KL divergence (nats)",
    "elements": "elements",
}

CLOSE_TO_ONE = {"cosine", "top1_agreement"}
"""Three digits would round these up to 1."""


@dataclass
class Section:
    """Everything of one artifact, for the row it has in the table."""

    row: ArtifactSummary
    anchor: str
    cells: dict[tuple[str, str], list[Verdict]] = field(default_factory=dict)
    """By runtime and question."""
    shown: list[Verdict] = field(default_factory=list)
    """What is not green, in full."""
    left: int = 0
    """How many more are not green."""


def render_html(report: Report) -> str:
    """The whole report; the same document gives the same bytes. Raises UsageError for a damaged document."""
    layout.check(report)
    page = _environment().get_template("report.html.jinja")
    return page.render(
        report=report,
        head=layout.headline(report),
        counts=layout.by_status(report),
        sections=_sections(report),
        locations=report.locations[:MAX_LOCATIONS],
        located=_located(report),
        columns=where.STATISTICS,
        location_limit=MAX_LOCATIONS,
        expected=layout.expected(report),
        placements=[(name, _by_provider(nodes)) for name, nodes in report.placements.items()],
        environment=_flat(report.environment),
        ratio_chart=Markup(plots.ratio_chart(report)),
        latency_charts=plots.latency_charts(report),
        metrics=METRICS,
        limit=MAX_FAILURES,
        open_failures=OPEN_FAILURES,
        ratio_meaning=layout.RATIO_MEANING,
    )


def _environment() -> Environment:
    environment = Environment(
        loader=FunctionLoader(_asset),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_finalize,
    )
    environment.filters |= {
        "ratio": layout.ratio,
        "number": layout.number,
        "exact": layout.exact,
        "ms": layout.milliseconds,
        "tone": layout.tone,
        "form": layout.form,
        "withheld": layout.withheld,
        "suffix": layout.suffix,
        "wrap": _wrap,
        "metric": _metric,
        "width": _width,
        "rank": _rank,
        "link": _link,
        "headed": where.headed,
        "facts": where.facts,
        "evidence": where.evidence,
        "reproduction": where.link,
    }
    environment.globals |= {"asset": lambda name: Markup(_asset(name)), "svg": Markup}
    return environment


def _asset(name: str) -> str:
    return files("onnxparity.reports").joinpath(name).read_text(encoding="utf-8")


def _finalize(value: object) -> object:
    """What every printed expression passes through: control and bidirectional characters become visible."""
    if isinstance(value, Markup):
        return value
    return layout.printable(value) if isinstance(value, str) else "–" if value is None else value


def _sections(report: Report) -> list[Section]:
    """Per artifact, red first; the cap on failures is shared out so that every artifact shows its first."""
    sections = {row.artifact: Section(row, f"a{n}") for n, row in enumerate(layout.table_order(report), 1)}
    for verdict in report.verdicts:
        cells = sections[verdict.cell.artifact].cells
        cells.setdefault((verdict.cell.runtime, verdict.question), []).append(verdict)
    shown, left = layout.fair_share(layout.failures(report), MAX_FAILURES)
    for verdict in shown:
        sections[verdict.cell.artifact].shown.append(verdict)
    for key, number in left.items():
        sections[key].left = number
    return list(sections.values())


def _located(report: Report) -> dict[str, tuple[int, Location]]:
    """The locations that are shown, by each cell that they explain."""
    return {cell: found for cell, found in where.by_cell(report).items() if found[0] <= MAX_LOCATIONS}


def _by_provider(nodes: Sequence[Placement]) -> dict[str, list[str]]:
    """Operators by provider, one entry for each node."""
    providers: dict[str, list[str]] = {}
    for node in nodes:
        providers.setdefault(node.provider, []).append(node.operator)
    return providers


def _flat(values: Mapping[str, Any], prefix: str = "") -> list[tuple[str, str]]:  # Any: JSON values
    """Nested JSON as dotted names and texts."""
    rows: list[tuple[str, str]] = []
    for name, value in values.items():
        if isinstance(value, Mapping):
            rows += _flat(value, f"{prefix}{name}.")
        else:
            rows.append((f"{prefix}{name}", value if isinstance(value, str) else json.dumps(value)))
    return rows


def _wrap(text: str) -> Markup:
    """Lets a long id break behind slashes, so that its parts stay whole where there is room."""
    return Markup("/<wbr>").join(escape(part) for part in layout.printable(text).split("/"))


def _metric(outputs: OutputMetrics, name: str) -> str:
    value = getattr(outputs, name)
    if name == "ratio":
        return layout.ratio(value)
    if value is None or isinstance(value, int):
        return layout.number(None) if value is None else str(value)
    return f"{value:.9g}" if name in CLOSE_TO_ONE else layout.number(value)


def _width(ratio: float) -> int:
    """Length of the bar in percent: full at the limit, and full where there is no number."""
    return round(100 * ratio) if 0 <= ratio <= 1 else 100


def _rank(ratio: float | None) -> str:
    """What a column of ratios is sorted by: not measured below every number, NaN and infinity above."""
    return "-1" if ratio is None else repr(ratio) if math.isfinite(ratio) else "1e999"


def _link(url: str) -> Markup:
    """A link where the text is a web address, else the text: a report must not carry a script in a link."""
    if re.fullmatch(r"https?://[^\s<>\"]+", url):
        return Markup('<a href="{0}" rel="noreferrer">{0}</a>').format(layout.printable(url))
    return escape(layout.printable(url))
