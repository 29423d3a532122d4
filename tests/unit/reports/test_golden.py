"""Renderings against files that were looked at.

After a change that is meant: `UPDATE_GOLDEN=1 pytest tests/unit/reports/test_golden.py`, then read the difference.
Charts, style and script are left out of the HTML: charts depend on the version of matplotlib, the others are files.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path

import pytest
from rich.console import Console

from onnxparity.record import Report
from onnxparity.reports.html import render_html
from onnxparity.reports.junit import render_junit
from onnxparity.reports.markdown import render_markdown
from onnxparity.reports.terminal import print_report

Golden = Callable[[str, str], None]


def test_markdown(full: Report, golden: Golden) -> None:
    golden("full.md", render_markdown(full))


def test_markdown_of_an_empty_report(empty: Report, golden: Golden) -> None:
    golden("empty.md", render_markdown(empty))


def test_junit(full: Report, golden: Golden) -> None:
    golden("full.xml", render_junit(full))


def test_junit_of_an_empty_report(empty: Report, golden: Golden) -> None:
    golden("empty.xml", render_junit(empty))


def test_html(full: Report, golden: Golden, without_charts: Callable[[str], str]) -> None:
    golden("full.html", without_charts(render_html(full)))


def test_html_of_an_empty_report(empty: Report, golden: Golden, without_charts: Callable[[str], str]) -> None:
    golden("empty.html", without_charts(render_html(empty)))


def test_terminal(full: Report, golden: Golden) -> None:
    stream = io.StringIO()
    print_report(full, Console(file=stream, width=80, force_terminal=False))
    golden("full.txt", "\n".join(line.rstrip() for line in stream.getvalue().splitlines()) + "\n")


def test_a_difference_is_noticed(full: Report, golden: Golden, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("UPDATE_GOLDEN", raising=False)
    with pytest.raises(AssertionError, match="changed: look"):
        golden("full.md", render_markdown(full) + " ")
    with pytest.raises(AssertionError, match="no golden file"):
        golden("none.md", "")


def test_no_golden_file_is_left_over() -> None:
    names = {p.name for p in Path(__file__).with_name("golden").iterdir()}
    assert names == {"full.md", "empty.md", "full.xml", "empty.xml", "full.html", "empty.html", "full.txt"}
