"""`onnxparity report`: renders a report document. Needs neither torch nor onnx."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

from onnxparity.errors import UsageError
from onnxparity.record import Report

__all__ = ["render", "write_all"]


def render(options: argparse.Namespace) -> int:
    """Writes the renderings that are asked for, or shows the report on the terminal; exits with its verdict."""
    from rich.console import Console

    from onnxparity.reports.html import render_html
    from onnxparity.reports.junit import render_junit
    from onnxparity.reports.markdown import render_markdown
    from onnxparity.reports.terminal import print_report

    report = Report.read(options.document)
    wanted: tuple[tuple[Path | None, Callable[[Report], str]], ...] = (
        (options.html, render_html),
        (options.markdown, render_markdown),
        (options.junit, render_junit),
    )
    for path, form in wanted:
        if path is not None:
            _write(path, form(report))
    if all(path is None for path, _ in wanted):
        print_report(report, Console())
    return report.exit_code


def write_all(report: Report, folder: Path) -> tuple[Path, ...]:
    """The document and its three renderings in a folder. Raises UsageError where it cannot be written."""
    from onnxparity.reports.html import render_html
    from onnxparity.reports.junit import render_junit
    from onnxparity.reports.markdown import render_markdown

    document = folder / "report.json"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        report.write(document)
    except OSError as error:
        raise UsageError(f"cannot write to {folder}", got=error.strerror, remedy="name another folder") from error
    forms = {"report.html": render_html, "report.md": render_markdown, "junit.xml": render_junit}
    for name, form in forms.items():
        _write(folder / name, form(report))
    return (document, *(folder / name for name in forms))


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"cannot write {path}", got=error.strerror, remedy="name another file") from error
