"""Running the command line inside a test: what it printed, how it ended, what it wrote."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jsonschema

from onnxparity.cli import main
from onnxparity.outcome import Status
from onnxparity.running.jobs import JOBS

__all__ = ["SCHEMA", "Here", "Ran", "cells", "cli"]

SCHEMA = json.loads((Path(__file__).parents[2] / "reports" / "schema.json").read_text(encoding="utf-8"))


@dataclass(frozen=True)
class Ran:
    """One command."""

    code: int
    out: str
    err: str

    def document(self, path: Path | None = None) -> dict[str, Any]:  # Any: JSON values
        """The report on stdout, or in a file; valid against the schema, and all that stdout holds."""
        found: dict[str, Any] = json.loads(self.out if path is None else path.read_text(encoding="utf-8"))
        jsonschema.validate(found, SCHEMA)
        return found


def cli(*arguments: object) -> Ran:
    """Runs `onnxparity` with these arguments in this process; its workers are processes as ever."""
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        try:
            code = main([str(a) for a in arguments])
        except SystemExit as left:
            code = left.code if isinstance(left.code, int) else 1
    return Ran(code, out.getvalue(), err.getvalue())


class Here:
    """A worker that works in this process, for what must be asked many times and cannot crash."""

    def __enter__(self) -> Here:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def call(self, job: str, request: object, *, limit: float) -> Iterator[object]:
        """As `Worker.call`."""
        return JOBS[job](request)


def cells(document: dict[str, Any], status: Status) -> list[str]:  # Any: JSON values
    """Ids of the cells of a status."""
    return [v["id"] for v in document["verdicts"] if v["status"] == status]
