"""`onnxparity list`: the catalogue with source, parameters, axes and properties."""

from __future__ import annotations

import argparse
import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path

from onnxparity import gate
from onnxparity.case import Axis, Subject
from onnxparity.selection import describe

__all__ = ["show"]


def show(options: argparse.Namespace) -> int:
    """Prints one row per subject; exits 0. Raises SubjectError for a name that nothing has."""
    found = [d for d in describe([options.pattern], Path.cwd()) if not d.left_out]
    subjects = [d.subject for d in found]
    if options.json:
        print(json.dumps([dataclasses.asdict(s) for s in subjects], indent=1))
    else:
        _print(subjects)
    return gate.CONFORMS


def _print(subjects: Sequence[Subject]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold", expand=True)
    table.add_column("subject", no_wrap=True)
    table.add_column("parameters", justify="right", no_wrap=True)
    table.add_column("axes, properties", ratio=2)
    table.add_column("source", ratio=2)
    for s in subjects:
        promises = " ".join(filter(None, [_axes(s.axes), ", ".join(s.properties)]))
        table.add_row(s.name, "" if s.parameters is None else f"{s.parameters:,}", promises, s.source)
    console = Console()
    console.print(table)
    console.print(f"{len(subjects)} subjects; verify one with: onnxparity verify NAME")


def _axes(axes: Sequence[Axis]) -> str:
    return " ".join(f"{a.letter}={a.symbol}" + (f"≤{a.high}" if a.high is not None else "") for a in axes) + ";"
