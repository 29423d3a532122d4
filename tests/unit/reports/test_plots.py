"""The charts: deterministic, named, safe, and on the right side of the limit."""

from __future__ import annotations

import dataclasses
import math
import re
import xml.etree.ElementTree as ET
from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onnxparity.outcome import Status
from onnxparity.record import Report
from onnxparity.reports import plots
from onnxparity.reports.svg import COLOUR


def strokes(svg: str, colour: str) -> int:
    """Marks of one colour; each stroke of the strip chart is one `M x y L x y`."""
    paths = re.findall(rf'<path d="([^"]*)" style="[^"]*stroke: var\({colour}\)[^"]*linecap: round', svg)
    return sum(path.count("M") for path in paths)


def test_a_chart_is_well_formed_and_has_a_name(full: Report) -> None:
    for svg in (plots.ratio_chart(full), *(c.svg for c in plots.latency_charts(full))):
        root = ET.fromstring(svg)
        assert root.get("role") == "img"
        assert [child.tag for child in root[:2]] == ["title", "desc"]
        assert root.get("aria-label") == f"{root[0].text}. {root[1].text}"


def test_a_chart_uses_the_colours_of_the_page_and_no_others(full: Report) -> None:
    for svg in (plots.ratio_chart(full), *(c.svg for c in plots.latency_charts(full))):
        assert set(re.findall(r"var\((--\w+)\)", svg)) <= set(COLOUR)
        assert re.findall(r"(?<!url\()#[0-9a-f]{6}\b", svg.replace('href="#', "")) == []


def test_a_chart_holds_no_address_and_no_date(full: Report) -> None:
    svg = plots.ratio_chart(full) + "".join(c.svg for c in plots.latency_charts(full))
    assert "http" not in svg and "<style" not in svg and "metadata" not in svg


def test_the_same_report_gives_the_same_bytes(full: Report) -> None:
    assert plots.ratio_chart(full) == plots.ratio_chart(full)
    assert [c.svg for c in plots.latency_charts(full)] == [c.svg for c in plots.latency_charts(full)]


def test_ids_of_several_charts_do_not_clash(full: Report) -> None:
    svgs = [plots.ratio_chart(full), *(c.svg for c in plots.latency_charts(full))]
    ids = [name for svg in svgs for name in set(re.findall(r'id="([^"]*)"', svg))]
    assert len(ids) == len(set(ids))
    used = {name for svg in svgs for name in re.findall(r'(?:url\(|href=")#([^)"]+)', svg)}
    assert used == set(ids)


def test_marks_show_passes_and_failures_apart(full: Report) -> None:
    svg = plots.ratio_chart(full)
    red = [v for v in full.verdicts if v.ratio is not None and v.status is not Status.PASS]
    assert strokes(svg, "--bad") == 2 * len(red)
    assert strokes(svg, "--s1") == len([v for v in full.verdicts if v.status is Status.PASS])


def test_an_expected_failure_has_its_own_colour(full: Report) -> None:
    known = next(v for v in full.verdicts if v.status is Status.XFAIL)
    measured = dataclasses.replace(full, verdicts=(dataclasses.replace(known, ratio=5.0),))
    assert strokes(plots.ratio_chart(measured), "--known") == 2


@given(st.floats(min_value=0, allow_nan=False))
def test_no_mark_changes_sides_of_the_limit(ratio: float) -> None:
    column = plots._column(ratio)
    assert (column > 0) == (ratio > 1)


def test_nan_stands_with_the_infinities() -> None:
    assert plots._column(math.nan) == plots._column(math.inf) > plots._column(10_000.0)


def test_nothing_measured_gives_no_chart(empty: Report, full: Report) -> None:
    assert plots.ratio_chart(empty) == ""
    assert plots.latency_charts(empty) == []
    unmeasured = tuple(v for v in full.verdicts if v.ratio is None)
    assert plots.ratio_chart(dataclasses.replace(full, verdicts=unmeasured)) == ""


def test_a_line_for_each_series_and_none_for_what_is_withheld(full: Report) -> None:
    charts = {c.subject: [line.label for line in c.lines] for c in plots.latency_charts(full)}
    assert charts == {
        "causal-attention": ["ort-cpu · dynamo-23 float32 · b1", "torch-eager · torch float32 · b1"],
        "transformer-encoder-block": ["ort-cpu · dynamo-23 float32 · b1", "ort-cpu · dynamo-18 float32 · b1"],
    }


def test_a_subject_without_a_length_axis_is_left_to_the_table(full: Report) -> None:
    flat = tuple(dataclasses.replace(s, axes=s.axes[:1], inputs=(), outputs=()) for s in full.subjects)
    assert plots.latency_charts(dataclasses.replace(full, subjects=flat)) == []


def test_lines_that_cannot_be_told_apart_are_counted(full: Report, sample: ModuleType) -> None:
    many = tuple(x for n in range(30) for x in sample.series(sample.CAUSAL_23, f"runtime-{n}", {16: 1.0, 64: 2.0}))
    (chart,) = plots.latency_charts(dataclasses.replace(full, latency=many))
    assert len(chart.lines) == plots.MAX_SERIES
    assert chart.left == 30 - plots.MAX_SERIES
    assert len({(line.colour, line.dash) for line in chart.lines}) == plots.MAX_SERIES


@pytest.mark.parametrize("name", ["<script>x</script>", 'a" onload="x', "url(#a)"])
def test_a_hostile_name_stays_text(full: Report, sample: ModuleType, name: str) -> None:
    key = dataclasses.replace(sample.CAUSAL_23, subject=name)
    subject = dataclasses.replace(full.subjects[0], name=name)
    found = (sample.verdict(key, f"{name.replace('/', '')}/b1-t1/normal", ratio=0.5),)
    report = dataclasses.replace(
        full, subjects=(subject,), verdicts=found, latency=tuple(sample.series(key, "ort-cpu", {16: 1.0, 64: 2.0}))
    )
    (chart,) = plots.latency_charts(report)
    for svg in (chart.svg, plots.ratio_chart(report)):
        root = ET.fromstring(svg)
        assert not [e for e in root.iter() if e.tag == "script" or "onload" in e.attrib]
