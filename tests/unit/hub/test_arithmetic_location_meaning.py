"""A failure of meaning is reproduced with the nodes that differ, against the reference's values."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import onnx
import pytest
from onnx import ModelProto

from onnxparity.export.given import read_given
from onnxparity.judging.examining import Bench, ExamineRequest, examine
from onnxparity.locating.reproducing_meaning import reproduce_meaning
from onnxparity.locating.requests import LocateRequest
from onnxparity.location import Node
from onnxparity.outcome import Verdict
from onnxparity.plan import Cell
from onnxparity.runtimes.node_metadata import described
from tests.unit.hub.arithmetic_cases import float32, node, weights


def mixing(scale: float) -> ModelProto:
    """softmax(scale * x w) w, (B, 16)."""
    nodes = [
        node("MatMul", "x w", "scores"),
        node("Mul", "scores scale", "scaled"),
        node("Softmax", "scaled", "weights"),
        node("MatMul", "weights w", "y"),
    ]
    return float32(nodes, w=weights() * 4, scale=scale)


def asked(folder: Path, candidate: ModelProto, reference: ModelProto) -> tuple[Bench, LocateRequest]:
    """A cell of the candidate against the reference, judged."""
    read = []
    for name, model in (("candidate", candidate), ("reference", reference)):
        onnx.save(model, folder / f"{name}.onnx")
        read.append(read_given(folder / f"{name}.onnx"))
    cell = Cell(read[0].artifact.key, "onnx-float64", "b5", "normal")
    request = ExamineRequest(read[0].subject, read[0].artifact, (cell,), against=read[1].artifact, use_cache=False)
    (verdict,) = (item for item in examine(request) if isinstance(item, Verdict))
    return Bench(request), LocateRequest(request, verdict, None, str(folder / "reproduction"))


def code(folder: str) -> int:
    """What the script exits with."""
    command = [sys.executable, "-I", "reproduce.py"]
    return subprocess.run(command, cwd=folder, capture_output=True, check=False).returncode


def region(model: ModelProto, *names: str) -> list[Node]:
    """These nodes of a model."""
    return [n for n in described(model.graph.node) if n.name in names]


def test_the_nodes_that_differ_are_enough(tmp_path: Path) -> None:
    bench, request = asked(tmp_path, mixing(0.25), mixing(0.5))
    folder = reproduce_meaning(bench, request, region(mixing(0.25), "scaled", "weights", "y"), what="scale")
    assert [n.name for n in onnx.load(Path(folder, "model.onnx")).graph.node] == ["scaled", "weights", "y"]
    assert code(folder) == 1
    assert Path(folder, "README.txt").read_text().startswith("scale\n")


@pytest.mark.parametrize("names", [(), ("y",), ("scaled",)], ids=["none", "blameless", "no-output"])
def test_the_whole_is_written_where_the_region_does_not_show_it(tmp_path: Path, names: tuple[str, ...]) -> None:
    bench, request = asked(tmp_path, mixing(0.25), mixing(0.5))
    nodes = region(mixing(0.25), *names)
    folder = reproduce_meaning(bench, request, nodes)
    kept = len(onnx.load(Path(folder, "model.onnx")).graph.node)
    assert code(folder) == 1
    assert kept == (1 if names == ("y",) else 4)


def test_the_same_function_is_green(tmp_path: Path) -> None:
    bench, request = asked(tmp_path, mixing(0.5), mixing(0.5))
    folder = reproduce_meaning(bench, request, region(mixing(0.5), "scaled", "weights", "y"))
    assert code(folder) == 0
    assert len(onnx.load(Path(folder, "model.onnx")).graph.node) == 4


def test_without_a_reference_or_a_file_nothing_is_written(tmp_path: Path) -> None:
    bench, request = asked(tmp_path, mixing(0.5), mixing(0.25))
    alone = Bench(replace(bench.request, against=None))
    assert reproduce_meaning(alone, request, ()) == ""
    Path(bench.request.artifact.path).write_bytes(b"no model")
    assert reproduce_meaning(bench, request, ()) == ""
    assert not Path(request.folder).exists()
