"""Nodes on the host: shape arithmetic is by design, data is a fallback."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper

from onnxparity.protocols import Placement
from onnxparity.runtimes.host_nodes import host_data_nodes
from tests.unit.runtimes.files import model, value

HOST, DEVICE = "CPUExecutionProvider", "CUDAExecutionProvider"


@pytest.fixture
def path(tmp_path: Path) -> str:
    """Reshapes x by its own batch size, then takes the distinct values and branches on a flag."""
    branch = helper.make_graph(
        [helper.make_node("Add", ["flat", "flat"], ["sum"], name="inside")], "branch", [], [value("sum", [None, None])]
    )
    nodes = [
        helper.make_node("Shape", ["x"], ["shape"], name="shape"),
        helper.make_node("Gather", ["shape", "zero"], ["batch"], name="pick"),
        helper.make_node("Concat", ["batch", "rest"], ["target"], name="join", axis=0),
        helper.make_node("Reshape", ["x", "target"], ["flat"], name="reshape"),
        helper.make_node("Unique", ["flat"], ["distinct"], name="unique"),
        helper.make_node("If", ["flag"], ["chosen"], name="if", then_branch=branch, else_branch=branch),
    ]
    made = model(
        nodes,
        [value("x", ["b", 2, 2]), value("flag", [], "bool")],
        [value("distinct", [None]), value("chosen", [None, None])],
        initializers={"zero": np.array([0]), "rest": np.array([-1])},
    )
    onnx.save(made, tmp_path / "model.onnx")
    return str(tmp_path / "model.onnx")


def placed(node: str, operator: str, provider: str = HOST) -> Placement:
    return Placement(node, operator, provider)


def test_shape_arithmetic_on_the_host_is_no_fallback(path: str) -> None:
    nodes = [placed("shape", "Shape"), placed("pick", "Gather"), placed("join", "Concat")]
    assert host_data_nodes(path, nodes, host=HOST) == ()


def test_data_on_the_host_is_a_fallback(path: str) -> None:
    nodes = [placed("pick", "Gather"), placed("unique", "Unique"), placed("inside", "Add"), placed("if", "If")]
    assert [p.node for p in host_data_nodes(path, nodes, host=HOST)] == ["unique", "inside", "if"]


def test_data_on_the_device_is_where_it_belongs(path: str) -> None:
    assert host_data_nodes(path, [placed("unique", "Unique", DEVICE)], host=HOST) == ()


def test_a_node_that_the_file_does_not_have_counts_by_its_kind(path: str) -> None:
    nodes = [placed("", "Gather"), placed("", "Unique"), placed("fused", "FusedMatMul")]
    assert [p.operator for p in host_data_nodes(path, nodes, host=HOST)] == ["Unique", "FusedMatMul"]
