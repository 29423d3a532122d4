"""The job summary: complete where short, honest where cut, escaped."""

from __future__ import annotations

import dataclasses
import re
from html import unescape
from types import ModuleType

import pytest
from markdown_it import MarkdownIt

from onnxparity.location import Location, Node
from onnxparity.outcome import Status
from onnxparity.record import Report
from onnxparity.reports.markdown import MAX_ARTIFACTS, MAX_FAILURES, render_markdown
from onnxparity.reports.where import evidence

HOSTILE = "a|b `c` ```d <script>alert(1)</script> **e** [f](javascript:g) ![h](i) # j\n| k | l |\n```\n<br>~~m~~ \\"


def as_html(text: str) -> str:
    return str(MarkdownIt("commonmark").enable(["table", "strikethrough"]).render(text))


def words(text: str) -> str:
    """What a reader sees."""
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", as_html(text))).split())


def test_it_opens_with_the_conclusion(full: Report) -> None:
    text = render_markdown(full)
    assert text.startswith("# ❌ Does not conform\n")
    assert full.conclusion in words(text)
    assert "Exit code 1." in words(text)


@pytest.mark.parametrize(("name", "sign"), [("green", "✅"), ("full", "❌"), ("incomplete", "⚠️"), ("empty", "⚠️")])
def test_only_a_conforming_report_opens_green(sample: ModuleType, name: str, sign: str) -> None:
    assert render_markdown(getattr(sample, name)()).startswith(f"# {sign} ")


def test_an_empty_report_says_so(empty: Report) -> None:
    assert "nothing was planned" in render_markdown(empty)


def test_counts_limits_failures_and_commands_are_there(full: Report) -> None:
    seen = words(render_markdown(full))
    assert all(f"{count} {status}" in seen for status, count in full.counts.items())
    assert all(limit in seen for limit in full.limits)
    for verdict in full.verdicts:
        if verdict.status not in (Status.PASS, Status.XFAIL):
            assert verdict.cell.id in seen
            assert " ".join(verdict.message.split()) in seen
            assert verdict.command in seen


def test_withheld_times_are_not_shown(full: Report) -> None:
    hidden = tuple(dataclasses.replace(x, conforms=False, p50_ms=123.456) for x in full.latency)
    text = render_markdown(dataclasses.replace(full, latency=hidden))
    assert "123" not in text and "withheld" in text


def hostile(location: Location) -> Location:
    node = Node(*(HOSTILE,) * 2, (HOSTILE,), (HOSTILE,), HOSTILE, HOSTILE)
    tensors = tuple(dataclasses.replace(t, name=HOSTILE, dtype=HOSTILE) for t in location.statistics)
    return dataclasses.replace(
        location,
        message=HOSTILE,
        node=location.node and node,
        evidence=tuple("a " + HOSTILE for _ in evidence(location)),
        statistics=tensors,
        optimizer=location.optimizer and HOSTILE,
        reproduction=location.reproduction and HOSTILE,
        smallest_shape=HOSTILE,
    )


def poisoned(report: Report, sample: ModuleType) -> Report:
    found = [
        dataclasses.replace(v, message=HOSTILE, evidence=(HOSTILE, HOSTILE), command=HOSTILE) for v in report.verdicts
    ]
    causes = tuple(hostile(x) for x in report.locations)
    notes = tuple(dataclasses.replace(x, note=HOSTILE, runtime=HOSTILE) for x in report.latency)
    details = {"limits": (HOSTILE,), "locations": causes, "latency": notes, "conclusion": HOSTILE, "command": HOSTILE}
    made = sample.assemble(found, **{**sample.context(), **details})
    assert isinstance(made, Report)
    return made


def test_a_message_that_looks_like_a_list_stays_text(full: Report) -> None:
    for text in ("- one", "1. one", "+ one", "=== one", "1) one"):
        report = dataclasses.replace(full, limits=(text,))
        assert f"<li>{text}</li>" in as_html(render_markdown(report))


def tags(text: str) -> dict[str, int]:
    found = re.findall(r"<(\w+)", as_html(text))
    return {name: found.count(name) for name in set(found) - {"code", "em", "br"}}


def test_hostile_text_changes_no_structure(full: Report, sample: ModuleType) -> None:
    plain, attacked = render_markdown(full), render_markdown(poisoned(full, sample))
    longer = dataclasses.replace(full, limits=full.limits[:1])
    assert tags(attacked).get("script") is None and tags(attacked).get("img") is None
    assert tags(attacked) == {**tags(render_markdown(longer)), "a": 2}
    assert tags(plain)["table"] == 2 + sum(bool(x.statistics) for x in full.locations)
    assert "<script>alert(1)</script>" in words(attacked)


def test_the_structure_check_itself_notices_raw_text(full: Report) -> None:
    assert tags(render_markdown(full) + HOSTILE) != tags(render_markdown(full))


def test_what_is_cut_is_counted(sample: ModuleType) -> None:
    report = sample.large(350, 4, failing_every=3)
    red = report.counts["MEANING"] + report.counts["ARITHMETIC"]
    text = render_markdown(report)
    assert f"**{350 - MAX_ARTIFACTS} more artifacts** are in the JSON report." in text
    assert f"**{red - MAX_FAILURES} more cells that are not green** are in the JSON report." in text


def test_long_evidence_stays_below_the_size_github_drops(sample: ModuleType) -> None:
    report = sample.large(60, 2, failing_every=1)
    found = [dataclasses.replace(v, evidence=("x<|" * 5000,) * 200) for v in report.verdicts]
    text = render_markdown(sample.assemble(found))
    assert len(text.encode()) < 1 << 20
    assert "190 more lines of evidence are in the JSON report" in text
    assert "(cut, whole in the JSON report)" in text
