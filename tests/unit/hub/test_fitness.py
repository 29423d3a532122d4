"""A given file is refused, with the axis or the node, before it is run at sizes it cannot take or with dropout on."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from onnxparity.artifact import Artifact
from onnxparity.case import Subject
from onnxparity.errors import LintError
from onnxparity.export.given import read_given
from onnxparity.judging.fitness import refuse_unfit
from onnxparity.plan import Cell


def given(path: Path, batch: int | str, *, live: bool | None = None) -> tuple[Artifact, Subject]:
    """y = x for x (batch, 4), with a Dropout in between where `live` says whether it trains."""
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [batch, 4]) for name in ("x", "y")]
    through = helper.make_node("Identity", ["x"], ["y"])
    if live is not None:
        through = helper.make_node("Dropout", ["x", "", "training"], ["y"])
    flags = [] if live is None else [numpy_helper.from_array(np.array(live), "training")]
    graph = helper.make_graph([through], "made", ends[:1], ends[1:], flags)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8), path)
    read = read_given(path)
    return read.artifact, read.subject


def cell(artifact: Artifact, shape: str) -> Cell:
    return Cell(artifact.key, "ort-cpu", shape, "normal")


def test_a_size_that_the_file_has_fixed_is_refused_with_its_axis(tmp_path: Path) -> None:
    fixed, _ = given(tmp_path / "fixed.onnx", 1)
    _, open_subject = given(tmp_path / "open.onnx", "batch")
    refuse_unfit(fixed, open_subject, cell(fixed, "b1"), {})
    with pytest.raises(LintError, match=r"'x': axis 'batch' \(dim 0\).*the constant 1") as raised:
        refuse_unfit(fixed, open_subject, cell(fixed, "b3"), {})
    assert raised.value.remedy is not None


def test_an_input_of_another_name_is_found_by_it(tmp_path: Path) -> None:
    fixed, _ = given(tmp_path / "fixed.onnx", 1)
    _, open_subject = given(tmp_path / "open.onnx", "batch")
    refuse_unfit(fixed, open_subject, cell(fixed, "b3"), {"x": "tokens"})
    with pytest.raises(LintError):
        refuse_unfit(fixed, open_subject, cell(fixed, "b3"), {"x": "x"})


def test_an_open_size_is_taken_as_it_comes(tmp_path: Path) -> None:
    artifact, subject = given(tmp_path / "open.onnx", "batch")
    for shape in ("b1", "b3"):
        refuse_unfit(artifact, subject, cell(artifact, shape), {})


def test_dropout_that_is_live_is_refused_and_one_that_is_idle_is_not(tmp_path: Path) -> None:
    idle, subject = given(tmp_path / "idle.onnx", "batch", live=False)
    refuse_unfit(idle, subject, cell(idle, "b2"), {})
    live, subject = given(tmp_path / "live.onnx", "batch", live=True)
    with pytest.raises(LintError, match="training-node: Dropout"):
        refuse_unfit(live, subject, cell(live, "b2"), {})
