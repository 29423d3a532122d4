"""A run that was interrupted leaves no process behind, and goes on where it was, on the same evidence only."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from onnxparity import environment
from onnxparity.api import verify
from onnxparity.outcome import Status, Verdict
from onnxparity.record import Report
from onnxparity.running.pipeline import RESULTS, Listener
from tests.tiny_models import save_tiny

AFTER = 4


class Interrupting(Listener):
    """As a user who presses Ctrl-C after a few verdicts."""

    def __init__(self) -> None:
        self.heard = 0

    def found(self, verdict: Verdict) -> None:
        self.heard += 1
        if self.heard == AFTER:
            raise KeyboardInterrupt


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Two equal files, one with a fault, and a cache of their own."""
    made = tmp_path_factory.mktemp("resume")
    for name, scale in (("good", 1.0), ("same", 1.0), ("fault", 1.01)):
        save_tiny(made / f"{name}.onnx", scale=scale)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ONNXPARITY_CACHE", str(made / "cache"))
        patch.chdir(made)
        yield made


def run(target: str, **more: object) -> Report:
    """One run without timing, one subject at a time."""
    return verify(target, runtimes=("ort-cpu",), latency=("none",), jobs=1, **more)


def children() -> set[int]:
    """Processes that run below this one."""
    return {child.pid for child in psutil.Process().children(recursive=True)}


def interrupt(target: str, out: Path, **more: object) -> list[str]:
    """Interrupts a run; the ids that are on record, each whole. Fails where a process is left."""
    before = children()
    with pytest.raises(KeyboardInterrupt):
        run(target, out=out, listener=Interrupting(), **more)
    assert children() == before
    first, *rest = (out / RESULTS).read_text().splitlines()
    assert json.loads(first) == {"versions": environment.versions()}
    assert not (out / "report.json").exists(), "half a run is no report"
    done = [json.loads(line)["verdict"]["id"] for line in rest]
    assert len(done) == AFTER
    return done


def seconds(report: Report) -> dict[str, float | None]:
    """What each cell took: the same number where it is the same verdict, and never by chance."""
    return {v.cell.id: v.seconds for v in report.verdicts}


def recorded(out: Path) -> dict[str, float | None]:
    """What each cell on record took."""
    lines = [json.loads(line)["verdict"] for line in (out / RESULTS).read_text().splitlines()[1:]]
    return {verdict["id"]: verdict["seconds"] for verdict in lines}


def test_two_files_resume_with_the_same_verdicts_and_only_the_rest_is_judged(folder: Path) -> None:
    out = folder / "files"
    done = interrupt("good.onnx", out, against="same.onnx")
    before = recorded(out)
    resumed = run("good.onnx", out=out, against="same.onnx", resume=True)
    whole = run("good.onnx", out=folder / "whole", against="same.onnx")
    assert resumed.conforms and [v.cell for v in resumed.verdicts] == [v.cell for v in whole.verdicts]
    assert [(v.status, v.ratio) for v in resumed.verdicts] == [(v.status, v.ratio) for v in whole.verdicts]
    kept = {cell for cell, took in seconds(resumed).items() if before.get(cell) == took}
    assert kept == set(done)
    assert set(recorded(out)) == set(seconds(whole)), "every cell is on record, once"


def test_a_line_that_was_cut_short_is_judged_again(folder: Path) -> None:
    out = folder / "cut"
    done = interrupt("good.onnx", out, against="same.onnx")
    results = out / RESULTS
    before = recorded(out)
    results.write_text(results.read_text().rstrip("\n")[:-20])
    resumed = run("good.onnx", out=out, against="same.onnx", resume=True)
    assert resumed.conforms
    kept = {cell for cell, took in seconds(resumed).items() if before.get(cell) == took}
    assert kept == set(done[:-1])


def test_another_reference_is_other_evidence(folder: Path) -> None:
    out = folder / "reference"
    whole = run("good.onnx", out=out, against="same.onnx")
    assert whole.conforms
    other = run("good.onnx", out=out, against="fault.onnx", resume=True)
    assert other.exit_code == 1
    assert Status.MEANING in {v.status for v in other.verdicts if v.question == "meaning"}
    assert not set(seconds(other).values()) & set(seconds(whole).values())


def test_other_versions_are_other_evidence(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = folder / "versions"
    whole = run("good.onnx", out=out)
    again = run("good.onnx", out=out, resume=True)
    assert seconds(again) == seconds(whole)
    real = environment.versions()
    monkeypatch.setattr(environment, "versions", lambda: {**real, "onnx": "0"})
    other = run("good.onnx", out=out, resume=True)
    assert other.conforms and not set(seconds(other).values()) & set(seconds(whole).values())


def test_a_module_is_the_same_evidence_in_another_run(folder: Path) -> None:
    out = folder / "module"
    wanted: dict[str, object] = {"opsets": (18,), "quick": True, "cells": ("*/dynamo-18/*",)}
    done = interrupt("layer-norm", out, **wanted)
    before = recorded(out)
    resumed = run("layer-norm", out=out, resume=True, **wanted)
    assert resumed.conforms and len(resumed.verdicts) > AFTER
    kept = {cell for cell, took in seconds(resumed).items() if before.get(cell) == took}
    assert kept == set(done)
