"""The side-by-side table of the README: planted faults found, false alarms, seconds, tool by tool (`make peers`).

    python -m tests.benchmarks.tools_compared [--quick] [--readme README.md]

Every tool sees the same files. The others are given the inputs that the file was exported with; onnxparity draws its
own, at the few points that stand for its grid.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import torch

from onnxparity import expectations
from onnxparity.api import KNOWN_FAILURES
from onnxparity.feeding.feeds import example
from onnxparity.outcome import GREEN, Expectation, Verdict
from onnxparity.running.schedule import run_all
from onnxparity.running.subject_work import Found, SubjectWork
from onnxparity.selftesting.planting import Field, Planted, PlantRequest, plant
from onnxparity.selftesting.selftest import excuses, fault_cells

from .peers import PEERS, Case, Says

BEGIN, END = "<!-- tools compared: begin -->", "<!-- tools compared: end -->"


@dataclass(frozen=True, eq=False)
class Pair:
    """One file with its reference."""

    planted: Planted
    case: Case

    @property
    def faulty(self) -> bool:
        return not self.planted.equivalent


@dataclass(frozen=True)
class Row:
    """What one tool made of all pairs."""

    tool: str
    found: int
    planted: int
    alarms: int
    clean: int
    seconds: float


def pairs(folder: Path, *, quick: bool) -> list[Pair]:
    """Every planted fault, every change that changes nothing, and the clean file behind each."""
    request = PlantRequest(kinds=(), folder=str(folder / "planted"), quick=quick, use_cache=False)
    planted = [item for item in plant(request) if isinstance(item, Planted)]
    found: list[Pair] = []
    clean: dict[tuple[str, int, str], tuple[Planted, Case]] = {}
    for item in planted:
        key = dataclasses.replace(item.artifact.key, subject=item.subject.name, exporter="dynamo")
        assert key.opset is not None
        place = (item.subject.name, key.opset, key.dtype)
        if place not in clean:
            field = Field(item.subject.name, request)
            module = field.source.build().to(getattr(torch, key.dtype)).eval()
            name = f"clean.{item.subject.name}-{key.opset}-{key.dtype}"
            path = Path(field._exported(field.source.build(), key, name).path)
            feeds = example(item.subject, key.dtype)
            clean[place] = (
                dataclasses.replace(
                    item, name=name, equivalent=True, artifact=field._named(path, name, key), against=None, points=()
                ),
                Case(path, path, module, feeds),
            )
        right = clean[place][1]
        reference = right.reference if item.against is None else Path(item.against.path)
        candidate = dataclasses.replace(right, candidate=Path(item.artifact.path), reference=reference)
        found.append(Pair(item, candidate))
    return found + [Pair(item, case) for item, case in clean.values()]


def runs(pair: Pair) -> bool:
    """Whether ONNX Runtime takes the right file at all: where it does not, no tool has anything to compare."""
    try:
        PEERS[next(iter(PEERS))](dataclasses.replace(pair.case, candidate=pair.case.reference))
    except Exception:  # whatever ONNX Runtime raises
        return False
    return True


def by_peer(tool: str, says: Says, found: Sequence[Pair]) -> Row:
    """One of the other tools, on one pair after the other."""
    started = time.perf_counter()
    refused = [not _accepts(says, pair.case) for pair in found]
    return _row(tool, found, refused, time.perf_counter() - started)


def _accepts(says: Says, case: Case) -> bool:
    try:
        return says(case)
    except Exception:  # a tool that stops with an error has not accepted the file
        return False


def by_onnxparity(found: Sequence[Pair], folder: Path) -> Row:
    """This project, on all pairs, where a red verdict at any point refuses a file."""
    started = time.perf_counter()
    red: set[str] = set()
    known = expectations.load(KNOWN_FAILURES)

    def on_found(item: Found) -> None:
        if item.verdict is not None and _is_red(item.verdict, found, known):
            red.add(item.verdict.cell.artifact.subject)

    works = [_work(pair, folder) for pair in found]
    run_all(works, slots=os.cpu_count() or 1, limit=300.0, on_found=on_found)
    refused = [pair.planted.name in red for pair in found]
    return _row("onnxparity", found, refused, time.perf_counter() - started)


def _is_red(verdict: Verdict, found: Sequence[Pair], known: Sequence[Expectation]) -> bool:
    (pair,) = (p for p in found if p.planted.name == verdict.cell.artifact.subject)
    excused = excuses(pair.planted.name, pair.planted.subject, known)
    return expectations.apply(verdict, excused).status not in GREEN


def _work(pair: Pair, folder: Path) -> SubjectWork:
    planted = pair.planted
    subject = dataclasses.replace(
        planted.subject, name=planted.name, kind="onnx", properties=(), companions={}, roles={}
    )
    return SubjectWork(
        subject=subject,
        cells=fault_cells(planted),
        folder=str(folder / "references" / planted.name),
        directory=str(Path.cwd()),
        given=planted.artifact,
        against=planted.against,
        reference=planted.subject if planted.against is None else None,
        use_cache=False,
    )


def _row(tool: str, found: Sequence[Pair], refused: Sequence[bool], seconds: float) -> Row:
    faulty = [no for pair, no in zip(found, refused, strict=True) if pair.faulty]
    clean = [no for pair, no in zip(found, refused, strict=True) if not pair.faulty]
    return Row(tool, sum(faulty), len(faulty), sum(clean), len(clean), seconds)


def table(rows: Sequence[Row], found: Sequence[Pair], *, quick: bool) -> str:
    """Markdown, with what it was measured on."""
    kinds = len({pair.planted.kind for pair in found if pair.faulty})
    first = rows[0]
    packages = ", ".join(f"{name} {version(name)}" for name in ("polygraphy", "torch", "onnxruntime-gpu", "numpy"))
    lines = [
        f"{first.planted} files with a planted fault of {kinds} kinds, and {first.clean} clean ones, among them "
        "changes that change nothing. Each of the other tools is given the inputs that the file was exported with; "
        "onnxparity draws its own, at the points that stand for its grid and at those that a fault needs to show.",
        "",
        "| tool | faults found | false alarms | seconds |",
        "|---|---:|---:|---:|",
    ]
    lines += [f"| {r.tool} | {r.found} of {r.planted} | {r.alarms} of {r.clean} | {r.seconds:.0f} |" for r in rows]
    command = "python -m tests.benchmarks.tools_compared --quick" if quick else "make peers"
    return "\n".join([*lines, "", f"Made by `{command}` with {packages}, on {os.cpu_count()} cores."])


def write(readme: Path, text: str) -> None:
    """Puts the table between its two marks. Raises ValueError where they are not there once each."""
    before = readme.read_text(encoding="utf-8")
    if before.count(BEGIN) != 1 or before.count(END) != 1 or before.index(BEGIN) > before.index(END):
        raise ValueError(f"{readme} needs {BEGIN!r} and {END!r}, once each and in this order")
    head, rest = before.split(BEGIN)
    readme.write_text(f"{head}{BEGIN}\n{text}\n{END}{rest.split(END)[1]}", encoding="utf-8")


def main() -> None:
    """Plants, asks every tool, prints the table and writes it where it belongs."""
    parser = argparse.ArgumentParser(description="The side-by-side table of the README.")
    parser.add_argument("--quick", action="store_true", help="only the faults that stand for the rest")
    parser.add_argument("--readme", type=Path, help="the file with the two marks; only printed when left out")
    options = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory(prefix="onnxparity-peers-") as temporary:
        made = pairs(Path(temporary), quick=options.quick)
        found = [pair for pair in made if runs(pair)]
        rows = [by_peer(tool, says, found) for tool, says in PEERS.items()]
        rows.append(by_onnxparity(found, Path(temporary)))
    text = table(rows, found, quick=options.quick)
    print(text)
    if options.readme is not None:
        write(options.readme, text)


if __name__ == "__main__":
    main()
