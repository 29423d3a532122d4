"""`onnxparity list`: the catalogue with source, parameters, axes and properties."""

from __future__ import annotations

import argparse
import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path

from onnxparity import gate
from onnxparity.case import Axis, Subject
from onnxparity.planning.selection import OPERATOR_CASES, describe

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
    from rich.padding import Padding
    from rich.text import Text

    console = Console(highlight=False)
    for s in subjects:
        size = "" if s.parameters is None else f"{s.parameters:,} parameters"
        typed = s.origin if s.origin.startswith(OPERATOR_CASES) else s.name
        console.print(Text.assemble((f"{typed:<33}", "bold"), f" {_axes(s.axes):<14} {size:>19}"))
        lines = [f"{s.summary} ({s.source})"]
        lines += [f"promises {', '.join(s.properties)}"] if s.properties else []
        for line in lines:
            console.print(Padding(Text(line, style="dim"), (0, 0, 0, 2), expand=False))
    console.print(f"\n{len(subjects)} subjects; verify one with: onnxparity verify NAME")


def _axes(axes: Sequence[Axis]) -> str:
    """Letters as in shape ids, with the largest size where there is one."""
    return " ".join(a.letter if a.high is None else f"{a.letter}<={a.high}" for a in axes) or "fixed"
