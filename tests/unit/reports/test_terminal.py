"""The terminal report at 80 columns."""

from __future__ import annotations

import dataclasses
import io
from types import ModuleType
from typing import Literal

import pytest
from rich.console import Console

from onnxparity.outcome import Status
from onnxparity.record import Report
from onnxparity.reports.layout import failures
from onnxparity.reports.terminal import MAX_FAILURES, MAX_LOCATIONS, SHORT, print_report


def printed(report: Report, encoding: str = "utf-8", *, width: int = 80, colour: bool = False) -> str:
    raw = io.BytesIO()
    with io.TextIOWrapper(raw, encoding=encoding, errors="strict", newline="\n") as stream:
        system: Literal["standard"] | None = "standard" if colour else None
        print_report(report, Console(file=stream, width=width, force_terminal=colour, color_system=system))
        stream.flush()
        return raw.getvalue().decode(encoding)


def test_only_ids_and_commands_are_wider_than_the_terminal(full: Report) -> None:
    known = {v.cell.id for v in full.verdicts}
    known |= {f"{v.cell.artifact.id}/{v.cell.runtime}" for v in full.verdicts}
    known |= {x.reproduction for x in full.locations if x.reproduction}
    for line in printed(full).splitlines():
        assert len(line) <= 80 or any(i in line for i in known), line


def test_each_cause_is_told_in_a_few_lines_before_what_it_explains(full: Report) -> None:
    head, _, tail = printed(full).partition("Where it goes wrong")
    causes, _, failing = tail.partition("\n\n")
    assert full.locations and "✗ MEANING" not in head.split("passes (worst")[1]
    for place, location in enumerate(full.locations, 1):
        told = " ".join(causes.split(f"[{place}] ")[1].split(f"[{place + 1}] ")[0].split())
        origin = "" if location.origin == "unknown" else location.origin
        for words in (location.message, location.smallest_shape, origin, location.reproduction):
            assert " ".join(words.split()) in told
        explained = failing.split(location.explains[0])[1].split("onnxparity verify")[0]
        assert f"led back to [{place}]" in explained
    assert causes.count("model.py:88") == 1, "a line that the message has is not repeated"


def test_what_is_fixed_has_no_smallest_shape_and_an_optimizer_is_named(full: Report) -> None:
    first = dataclasses.replace(full.locations[0], smallest_shape="fixed", origin="optimizer", optimizer="GeluFusion")
    text = printed(dataclasses.replace(full, locations=(first,)))
    assert "optimizer GeluFusion" in text and "smallest shape" not in text


def test_causes_that_are_cut_are_counted(full: Report) -> None:
    many = dataclasses.replace(full, locations=full.locations * 7)
    assert f"{3 * 7 - MAX_LOCATIONS} more are in the JSON report" in printed(many)


def test_evidence_stands_below_its_message(full: Report) -> None:
    red = next(v for v in full.verdicts if v.evidence and v.status is Status.ARITHMETIC)
    assert " ".join(red.evidence[0].split()) in " ".join(printed(full).split())
    longer = dataclasses.replace(red, evidence=tuple(f"line {n}" for n in range(9)))
    report = dataclasses.replace(full, verdicts=tuple(longer if v is red else v for v in full.verdicts))
    assert "line 1" in printed(report) and "line 2" not in printed(report)
    mended = dataclasses.replace(red, evidence=(*longer.evidence, "remedy: do this"))
    told = printed(dataclasses.replace(full, verdicts=tuple(mended if v is red else v for v in full.verdicts)))
    assert "line 0" in told and "remedy: do this" in told and "line 1" not in told


def test_each_command_is_on_one_line(full: Report) -> None:
    lines = printed(full).splitlines()
    assert all(f"  {v.command}" in lines for v in failures(full))


def test_the_conclusion_comes_last(full: Report) -> None:
    words = " ".join(printed(full).split())
    assert words.endswith(f"✗ {full.conclusion} Does not conform, exit code 1")


@pytest.mark.parametrize(("name", "sign"), [("green", "✓"), ("full", "✗"), ("incomplete", "?"), ("empty", "?")])
def test_only_a_conforming_report_ends_green(sample: ModuleType, name: str, sign: str) -> None:
    report = getattr(sample, name)()
    ends = [line for line in printed(report).splitlines() if line.startswith(f"{sign} {report.conclusion[:20]}")]
    assert len(ends) == 1


def test_a_stream_that_knows_only_ascii_gets_only_ascii(full: Report) -> None:
    found = (dataclasses.replace(full.verdicts[-1], message="größer – ∞ 漢"), *full.verdicts[:-1])
    text = printed(dataclasses.replace(full, verdicts=found), "ascii")
    assert "gr\\xf6\\xdfer - inf \\u6f22" in text
    assert "xNONFI" in text and "+0.40" in text


def test_limits_and_counts_are_there(full: Report) -> None:
    words = " ".join(printed(full).split())
    assert all(limit in words for limit in full.limits)
    assert all(f"{status}={count}" in words for status, count in full.counts.items())


def test_an_escape_sequence_in_a_message_is_not_sent_to_the_terminal(full: Report) -> None:
    found = (dataclasses.replace(full.verdicts[-1], message="\x1b]0;owned\x07 [bold]x[/bold]"), *full.verdicts[:-1])
    text = printed(dataclasses.replace(full, verdicts=found), colour=True)
    assert "\x1b[" in text
    assert "\x1b]" not in text and "\x07" not in text
    assert "[bold]x[/bold]" in text


def test_what_is_cut_is_counted(sample: ModuleType) -> None:
    report = sample.large(350, 4, failing_every=3)
    red = len(failures(report))
    text = printed(report)
    assert f"{red - MAX_FAILURES} more cells are not green: see the JSON report" in text


def test_350_artifacts_fit_in_one_screenful_of_rows(sample: ModuleType) -> None:
    report = sample.large(350, 2, failing_every=10_000)
    table = printed(report).split("passes (worst")[0].splitlines()
    assert len(table) < 60
    assert all(len(line) <= 80 for line in table)


def test_a_narrow_terminal_gets_more_tables_and_loses_no_column(sample: ModuleType) -> None:
    table = printed(sample.large(350, 2), width=40).split("passes (worst")[0]
    headers = [line.split() for line in table.splitlines() if line.split() and line.strip().replace(" ", "").isdigit()]
    assert len(headers) > 1
    assert [opset for header in headers for opset in header] == [str(n) for n in range(17, 24)]


def test_a_missing_artifact_leaves_its_place_empty_and_status_names_fit(full: Report) -> None:
    assert all(len(name) <= 5 for name in SHORT.values())
    line = next(x for x in printed(full).splitlines() if x.startswith("acme.ranker"))
    assert line.split() == ["acme.ranker", "f32", "✗EXPRT", "✗LINT"]
