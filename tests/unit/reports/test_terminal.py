"""The terminal report at 80 columns."""

from __future__ import annotations

import dataclasses
import io
from types import ModuleType
from typing import Literal

import pytest
from rich.console import Console

from onnxparity.record import Report
from onnxparity.reports.layout import failures
from onnxparity.reports.terminal import MAX_FAILURES, SHORT, print_report


def printed(report: Report, encoding: str = "utf-8", *, width: int = 80, colour: bool = False) -> str:
    raw = io.BytesIO()
    with io.TextIOWrapper(raw, encoding=encoding, errors="strict", newline="\n") as stream:
        system: Literal["standard"] | None = "standard" if colour else None
        print_report(report, Console(file=stream, width=width, force_terminal=colour, color_system=system))
        stream.flush()
        return raw.getvalue().decode(encoding)


def test_only_ids_and_commands_are_wider_than_the_terminal(full: Report) -> None:
    known = {v.cell.id for v in full.verdicts}
    for line in printed(full).splitlines():
        assert len(line) <= 80 or any(i in line for i in known), line


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
