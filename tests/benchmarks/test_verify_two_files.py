"""Two files held against each other, on the default grid, beside what another tool takes for a single cell of it.

The commands take turns, A B A B, so that a machine that slows down slows both; the ratio stands in `extra_info`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path
from statistics import median

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from .replay import CLOCK

TURNS = 5
FEWEST_POINTS = 24
WIDTH, HEADS, HIDDEN, LAYERS = 256, 4, 1024, 4

pytestmark = [pytest.mark.slow, pytest.mark.benchmark(timer=CLOCK)]


def encoders(folder: Path) -> tuple[Path, Path]:
    """An encoder of 3 million parameters, exported at two opsets."""
    import torch
    from torch import nn

    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(WIDTH, HEADS, HIDDEN, batch_first=True)
    module = nn.TransformerEncoder(layer, LAYERS, enable_nested_tensor=False).eval()
    sizes = {0: torch.export.Dim("batch"), 1: torch.export.Dim("sequence")}
    made = []
    for name, opset in (("enc", 18), ("other", 20)):
        program = torch.onnx.export(
            module,
            (torch.randn(2, 5, WIDTH),),
            dynamo=True,
            opset_version=opset,
            dynamic_shapes=(sizes,),
            input_names=["x"],
            output_names=["y"],
            verbose=False,
        )
        assert program is not None
        made.append(folder / f"{name}.onnx")
        program.save(made[-1])
    return made[0], made[1]


def seconds(command: list[str], folder: Path) -> float:
    """Wall time of a command that must succeed."""
    started = time.perf_counter()
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    taken = time.perf_counter() - started
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return taken


@pytest.mark.filterwarnings("ignore")  # of torch's exporter, which is not what is measured
def test_verify_two_files(benchmark: BenchmarkFixture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if find_spec("polygraphy") is None:
        pytest.skip("polygraphy is not installed: pip install 'onnxparity[peers]'")
    monkeypatch.setenv("ONNXPARITY_CACHE", str(tmp_path / "cache"))
    ours, theirs = encoders(tmp_path)
    tools = Path(sys.executable).parent
    verify = [str(tools / "onnxparity"), "verify", ours.name, "--against", theirs.name, "--no-cache", "--out", "report"]
    other = [str(tools / "polygraphy"), "run", ours.name, "--onnxrt", "--onnxrt"]
    for command in (verify, other):  # once before, so that both find their files and bytecode in memory
        seconds(command, tmp_path)
    turns = [(seconds(verify, tmp_path), seconds(other, tmp_path)) for _ in range(TURNS)]

    document = json.loads((tmp_path / "report" / "report.json").read_text(encoding="utf-8"))
    cells = [v["cell"] for v in document["verdicts"]]
    points = {(c["shape"], c["regime"]) for c in cells}
    assert len(points) >= FEWEST_POINTS
    assert {v["status"] for v in document["verdicts"]} == {"PASS"}

    benchmark.group = "two files, 3 million parameters"
    benchmark.extra_info |= {
        "cells": len(cells),
        "points": len(points),
        "polygraphy_seconds": [round(b, 3) for _, b in turns],
        "ratio": round(median(a / b for a, b in turns), 2),
        "load_1min": os.getloadavg()[0] if hasattr(os, "getloadavg") else None,
    }
    CLOCK.load([a * 1e3 for a, _ in turns])
    benchmark.pedantic(CLOCK.advance, rounds=TURNS)  # type: ignore[no-untyped-call]  # untyped there
