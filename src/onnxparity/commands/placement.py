"""`onnxparity placement`: where ONNX Runtime would put each node on CUDA, asked without a GPU."""

from __future__ import annotations

import argparse
import dataclasses
import io
import json
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING

from onnxparity import environment, gate
from onnxparity.commands.export import export
from onnxparity.errors import UsageError

if TYPE_CHECKING:
    from rich.console import Console

    from onnxparity.runtimes.placement import Copied, Reading

__all__ = ["placement"]

SCHEMA = "onnxparity-placement/1"
LIMITS = "A dry run: no kernel ran, so nothing here tells of numbers, speed or memory."
MOST = 20
"""Rows of fallbacks and copies that are printed; --json has all."""


def placement(options: argparse.Namespace) -> int:
    """Prints where nodes go; exits 1 where data falls back, 3 where the dry run does not prove itself.

    Raises:
        UsageError: no such file or subject, or a flag that does not fit it.
        UnavailableError: it cannot be asked here.
        LoadError, ExportError, LintError: there is no file that could be loaded.
    """
    from onnxparity.runtimes.placement import placed
    from onnxparity.runtimes.placement_probes import doubts

    with tempfile.TemporaryDirectory(prefix="onnxparity-") as folder:
        model, title = _file(options, Path(folder))
        doubted = doubts(options.compute_capability)
        seen = placed(model, capability=options.compute_capability)
    code = gate.INCOMPLETE if doubted else gate.DOES_NOT if seen.fallbacks else gate.CONFORMS
    if options.json is not None:
        _write(_document(options, title, seen, doubted, code), options.json)
    if options.json != "-":
        _print(f"{title} on CUDA, compute capability {options.compute_capability}", seen, doubted)
    return code


def _file(options: argparse.Namespace, folder: Path) -> tuple[Path, str]:
    """The file to ask about, and what to call it; a subject is exported."""
    if options.target.endswith(".onnx"):
        if not Path(options.target).is_file():
            raise UsageError(f"there is no file {options.target}", remedy="name an ONNX file or a subject")
        for flag, asked in (("--opset", options.opset), ("--dtype", options.dtype)):
            if asked is not None:
                raise UsageError(f"{options.target} is a file, and is what it is", remedy=f"leave {flag} out")
        return Path(options.target), options.target
    opset, dtype = options.opset or 23, options.dtype or "float32"
    target = folder / "model.onnx"
    with redirect_stdout(io.StringIO()):  # where the file lies is of no interest: it goes away
        export(argparse.Namespace(target=options.target, opset=opset, dtype=dtype, out=target, json=False))
    return target, f"{options.target}, opset {opset}, {dtype}"


def _document(
    options: argparse.Namespace, title: str, seen: Reading, doubted: Sequence[str], code: int
) -> dict[str, object]:
    return {
        "schema": SCHEMA,
        "target": options.target,
        "title": title,
        "compute_capability": options.compute_capability,
        "onnxruntime": environment.versions()["onnxruntime-gpu"],
        "proven": not doubted,
        "doubts": list(doubted),
        "limits": LIMITS,
        **dataclasses.asdict(seen),
        "copies": [dataclasses.asdict(c) | {"unknown": sorted(c.unknown)} for c in seen.copies],
        "exit_code": code,
    }


def _write(document: Mapping[str, object], target: str) -> None:
    text = json.dumps(document, indent=1, allow_nan=False)
    if target == "-":
        print(text)
        return
    try:
        Path(target).write_text(text + "\n", encoding="utf-8")
    except OSError as error:
        raise UsageError(
            f"cannot write {target}", got=error.strerror, remedy="name another file with --json"
        ) from error


def _print(title: str, seen: Reading, doubted: Sequence[str]) -> None:
    from rich.console import Console
    from rich.table import Table

    console = Console(highlight=False, markup=False)
    console.print(title + "\n")
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("nodes")
    table.add_column("in the file", justify="right")
    table.add_column("optimised", justify="right")
    table.add_column("operators after optimisation", overflow="fold")
    rows = {"device": "on the device", "shapes": "host, shape arithmetic", "data": "host, data"}
    for key, name in rows.items():
        found = seen.after[key]
        in_file = "?" if seen.before is None else str(sum(seen.before[key].values()))
        each = ", ".join(f"{count}×{operator.rpartition(':')[2]}" for operator, count in sorted(found.items()))
        table.add_row(name, in_file, str(sum(found.values())), each)
    table.add_row("copies between them", "", str(len(seen.copies)), "")
    console.print(table)
    _print_fallbacks(console, seen)
    for doubt in doubted:
        console.print(f"\nUnproven: {doubt}")
    console.print(f"\n{_conclusion(seen, doubted)}\n{LIMITS}")


def _print_fallbacks(console: Console, seen: Reading) -> None:
    if seen.fallbacks:
        console.print("\nData on the host:")
    for reason in dict.fromkeys(f.why for f in seen.fallbacks):
        nodes = [f"{f.node} ({f.operator})" for f in seen.fallbacks if f.why == reason]
        more = f" and {len(nodes) - MOST} more" if len(nodes) > MOST else ""
        console.print(f"  {', '.join(nodes[:MOST])}{more}\n    {reason or 'ONNX Runtime gives no reason'}")
    if seen.copies:
        console.print("\nMoved in each run, in bytes:")
    for copied in seen.copies[:MOST]:
        console.print(f"  {_copy(copied)}")
    if len(seen.copies) > MOST:
        console.print(f"  and {len(seen.copies) - MOST} more; --json has all")


def _copy(copied: Copied) -> str:
    way = "device to host" if copied.to_host else "host to device"
    where = f", each turn of {copied.within[-1]}" if copied.repeated else ", in a branch" if copied.within else ""
    depends = f" ({', '.join(sorted(copied.unknown))}: known only when run)" if copied.unknown else ""
    return f"{way}  {copied.bytes or 'of unknown shape'}  {copied.tensor}{where}{depends}"


def _conclusion(seen: Reading, doubted: Sequence[str]) -> str:
    if doubted:
        return "Unproven: the dry run is wrong about graphs whose placement is known."
    if seen.fallbacks:
        count = len(seen.fallbacks)
        return f"Falls back: {count} node{'s handle' if count > 1 else ' handles'} data on the host."
    return "Everything that handles data is on the device."
