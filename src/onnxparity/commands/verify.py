"""`onnxparity verify`: the whole pipeline, its progress on stderr, its verdict on stdout."""

from __future__ import annotations

import argparse
import json
import shlex
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from threading import Thread

from onnxparity.api import verify_with
from onnxparity.commands.report import write_all
from onnxparity.errors import UsageError
from onnxparity.record import Report
from onnxparity.running.pipeline import Listener

__all__ = ["judge", "verify"]


def verify(options: argparse.Namespace) -> int:
    """Verifies, writes the report folder, prints the verdict table; exits with the verdict."""
    from rich.console import Console

    from onnxparity.commands.progress import Progress
    from onnxparity.reports.terminal import print_report

    listener: Listener
    Thread(target=_import_renderers, name="onnxparity-renderers", daemon=True).start()
    with Progress() as listener:
        report = judge(options, listener)
    written = write_all(report, options.out)
    if options.json == "-":
        print(json.dumps(report.to_json(), allow_nan=False))
        return report.exit_code
    if options.json is not None:
        _write_document(report, Path(options.json))
    print_report(report, Console())
    print(f"\nreport: {written[1]}  document: {written[0]}")
    return report.exit_code


def judge(options: argparse.Namespace, listener: Listener) -> Report:
    """Carries out what the flags of `verify` ask for. Raises as `api.verify_with`."""
    return verify_with(
        options.targets,
        against=options.against,
        renamed=_pairs(options.map),
        opsets=options.opset,
        dtypes=options.dtype,
        runtimes=options.runtime,
        shapes=options.shape,
        regimes=options.regime,
        inputs=options.inputs,
        allow_nonfinite=options.allow_nonfinite,
        roles=_pairs(options.role, "--role", "NAME=ROLE"),
        properties=options.property,
        cells=options.cell,
        quick=options.quick,
        latency=options.latency,
        expect=options.expect,
        out=options.out,
        resume=options.resume,
        explain=options.explain,
        use_cache=not options.no_cache,
        jobs=options.jobs,
        limit=options.limit,
        command=f"onnxparity {shlex.join(options.typed)}",
        listener=listener,
    )


def _import_renderers() -> None:
    """While the workers work, since matplotlib alone takes a third of a second."""
    with suppress(Exception):  # whatever is wrong there is told by the import that needs it
        import_module("onnxparity.reports.html")


def _pairs(texts: Sequence[str], flag: str = "--map", form: str = "REFERENCE_NAME=FILE_NAME") -> dict[str, str]:
    pairs = {}
    for text in texts:
        reference, equals, candidate = text.partition("=")
        if not (reference and equals and candidate):
            raise UsageError(f"{flag} {text!r} is not a pair", expected=form)
        pairs[reference] = candidate
    return pairs


def _write_document(report: Report, path: Path) -> None:
    try:
        report.write(path)
    except OSError as error:
        raise UsageError(f"cannot write {path}", got=error.strerror, remedy="name another file with --json") from error
