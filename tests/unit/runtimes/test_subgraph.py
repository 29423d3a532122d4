"""A part of a graph is a model of its own that computes what the whole computes there."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import ModelProto, TensorProto, helper

from onnxparity.protocols import Feeds, Outputs
from onnxparity.runtimes import subgraph
from onnxparity.runtimes.ort_cpu import OrtCpu
from onnxparity.runtimes.subgraph import Sliceable, copied, outputs_as_declared, save, stored, write_tensor
from tests.unit.runtimes.files import block, model, record, value

X = np.random.default_rng(0).standard_normal((2, 5, 8)).astype(np.float32)


def run(made: ModelProto, feeds: Feeds, path: Path) -> Outputs:
    """Outputs of a model in ONNX Runtime, without optimisers."""
    return OrtCpu(level="disabled").load(record(path, made)).run(feeds)


def branching() -> ModelProto:
    """y = x + w where `flag`, else x: both branches capture `sum`, which the outer graph makes."""
    inner = [helper.make_node("Identity", [name], ["out"]) for name in ("sum", "x")]
    out = value("out", ["n"])
    branches = [helper.make_graph([node], "branch", [], [out]) for node in inner]
    nodes = [
        helper.make_node("Add", ["x", "w"], ["sum"], name="add"),
        helper.make_node("If", ["flag"], ["y"], name="if", then_branch=branches[0], else_branch=branches[1]),
    ]
    ends = [value("x", ["n"]), value("flag", [], "bool")], [value("y", ["n"])]
    return model(nodes, *ends, initializers={"w": np.ones(1, np.float32)})


def test_one_node_is_cut_out_with_its_constants(tmp_path: Path) -> None:
    whole = Sliceable(block())
    part = whole.cut({"weights": X}, ["mixed"])
    assert [n.name for n in part.graph.node] == ["mix"]
    assert [t.name for t in part.graph.initializer] == ["w"]
    weight = onnx.numpy_helper.to_array(part.graph.initializer[0])
    np.testing.assert_allclose(run(part, {"weights": X}, tmp_path / "part.onnx")["mixed"], X @ weight, rtol=1e-5)


def test_a_part_computes_what_the_whole_does(tmp_path: Path) -> None:
    whole = Sliceable(block())
    shown = run(whole.exposing(["weights", "mixed"]), {"x": X}, tmp_path / "whole.onnx")
    part = whole.cut({"weights": shown["weights"]}, ["y", "mixed"])
    got = run(part, {"weights": shown["weights"]}, tmp_path / "part.onnx")
    assert list(got) == ["y", "mixed"]
    for name, array in got.items():
        np.testing.assert_array_equal(array, shown[name])


def test_a_given_value_cuts_off_all_that_makes_it() -> None:
    part = Sliceable(block()).cut({"x": X, "weights": X}, ["y"])
    assert "scores" not in {name for n in part.graph.node for name in n.output}
    assert [i.name for i in part.graph.input] == ["weights"], "x is not needed any more"


def test_what_a_part_lacks_is_named() -> None:
    with pytest.raises(ValueError, match="'x' is neither made by a node nor given"):
        Sliceable(block()).cut({}, ["scores"])


def test_a_constant_node_comes_along(tmp_path: Path) -> None:
    constant = helper.make_node("Constant", [], ["two"], value_float=2.0)
    nodes = [constant, helper.make_node("Mul", ["x", "two"], ["a"]), helper.make_node("Neg", ["a"], ["y"])]
    whole = Sliceable(model(nodes, [value("x", ["n"])], [value("y", ["n"])]))
    assert whole.is_constant("two") and not whole.is_constant("a")
    assert whole.takes(whole.nodes[1]) == ("x",)
    got = run(whole.cut({"x": X[0, 0]}, ["a"]), {"x": X[0, 0]}, tmp_path / "part.onnx")
    np.testing.assert_array_equal(got["a"], 2 * X[0, 0])


def test_what_a_subgraph_captures_is_an_input_of_its_node(tmp_path: Path) -> None:
    whole = Sliceable(branching())
    node = whole.nodes[1]
    assert set(whole.takes(node)) == {"flag", "sum", "x"}
    feeds = {"flag": np.array(True), "sum": np.ones(3, np.float32), "x": np.zeros(3, np.float32)}
    part = whole.cut(feeds, ["y"])
    assert [n.op_type for n in part.graph.node] == ["If"]
    np.testing.assert_array_equal(run(part, feeds, tmp_path / "part.onnx")["y"], np.ones(3, np.float32))


def test_local_functions_are_inlined() -> None:
    body = [helper.make_node("Mul", ["a", "a"], ["b"])]
    opsets = [helper.make_opsetid("", 20), helper.make_opsetid("own", 1)]
    function = helper.make_function("own", "Square", ["a"], ["b"], body, opsets[:1])
    made = model([helper.make_node("Square", ["x"], ["y"], domain="own")], [value("x", ["n"])], [value("y", ["n"])])
    made.opset_import.append(opsets[1])
    made.functions.append(function)
    assert [n.op_type for n in Sliceable(made).nodes] == ["Mul"]


def test_shown_values_carry_their_type_and_leave_the_model_alone() -> None:
    whole = Sliceable(block())
    shown = whole.exposing(["scores"])
    assert [(o.name, o.type.tensor_type.elem_type) for o in shown.graph.output][1] == ("scores", TensorProto.FLOAT)
    assert [o.name for o in whole.model.graph.output] == ["y"]


def test_a_large_weight_has_its_type_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subgraph, "SMALL", 1)
    assert Sliceable(block()).dtypes["scores"] == TensorProto.FLOAT


def test_large_weights_are_written_beside_the_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(subgraph, "LARGEST_INLINE", 1)
    product = helper.make_node("MatMul", ["x", "w"], ["y"])
    weight = np.random.default_rng(0).standard_normal((8, 64)).astype(np.float32)  # onnx leaves less than 1 KiB inside
    made = model([product], [value("x", ["n", 8])], [value("y", ["n", 64])], initializers={"w": weight})
    before = made.SerializeToString()
    artifact = stored(made, record(tmp_path / "whole.onnx", block()), tmp_path / "part.onnx")
    assert artifact.external_data and artifact.bytes > weight.nbytes
    assert made.SerializeToString() == before, "the model that was handed over keeps its weights"
    assert save(made, tmp_path / "part.onnx")
    assert (tmp_path / "part.onnx.data").stat().st_size == weight.nbytes, "nothing is appended to an older file"
    got = OrtCpu(level="disabled").load(artifact).run({"x": X[0]})["y"]
    np.testing.assert_allclose(got, X[0] @ weight, rtol=1e-4, atol=1e-5)


def test_a_record_says_what_the_part_declares(tmp_path: Path) -> None:
    whole = Sliceable(block())
    artifact = stored(whole.cut({"weights": X}, ["mixed"]), record(tmp_path / "a.onnx", block()), tmp_path / "b.onnx")
    assert [(i.name, i.dtype, i.dims) for i in artifact.inputs] == [("weights", "float32", (2, 5, 8))]
    assert [o.name for o in artifact.outputs] == ["mixed"]
    assert not artifact.external_data


def test_expected_outputs_have_the_declared_dtype(tmp_path: Path) -> None:
    rounded = outputs_as_declared(block(), {"y": np.array([1 / 3])})
    assert rounded["y"].dtype == np.float32
    write_tensor(tmp_path / "y.pb", "y", rounded["y"])
    read = onnx.numpy_helper.to_array(TensorProto.FromString((tmp_path / "y.pb").read_bytes()))
    np.testing.assert_array_equal(read, rounded["y"])


def test_a_copy_is_ones_own() -> None:
    made = block()
    other = copied(made)
    del other.graph.node[:]
    assert len(made.graph.node) == 8
