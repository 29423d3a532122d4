"""A file's evaluation shows every value as it comes, in float64 and in the stored dtypes, and holds none of them."""

from __future__ import annotations

import tracemalloc
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from onnx import NodeProto, TensorProto, helper

from onnxparity.location import Node
from onnxparity.protocols import Array, TracingSession
from onnxparity.runtimes.onnx_float64 import OnnxFloat64Runtime, OnnxFloat64Session
from onnxparity.runtimes.onnx_spec import OnnxSpecRuntime, OnnxSpecSession
from tests.unit.runtimes.files import block, model, record, value

Session = OnnxFloat64Session | OnnxSpecSession
RUNTIMES = (OnnxFloat64Runtime(), OnnxSpecRuntime())
X = np.random.default_rng(0).standard_normal((2, 3, 8)).astype(np.float32)


class Seen:
    """Everything that was shown."""

    def __init__(self) -> None:
        self.nodes: list[Node] = []
        self.values: dict[str, Array] = {}

    def __call__(self, node: Node, results: Sequence[Array]) -> None:
        self.nodes.append(node)
        self.values |= dict(zip(node.outputs, results, strict=True))


@pytest.mark.parametrize("runtime", RUNTIMES, ids=lambda r: r.name)
def test_every_value_is_shown_in_order_and_the_outputs_are_those_of_a_run(
    runtime: OnnxFloat64Runtime | OnnxSpecRuntime, tmp_path: Path
) -> None:
    session: Session = runtime.load(record(tmp_path / "block.onnx", block()))
    seen = Seen()
    outputs = session.trace({"x": X}, seen)
    assert isinstance(session, TracingSession)
    assert [n.name for n in seen.nodes] == [n.name for n in block().graph.node]
    assert [n.operator for n in seen.nodes] == [n.op_type for n in block().graph.node]
    assert seen.nodes[0].inputs == ("x", "w")
    np.testing.assert_array_equal(outputs["y"], session.run({"x": X})["y"])
    np.testing.assert_array_equal(seen.values["y"], outputs["y"])


def test_values_are_shown_in_the_dtype_of_the_evaluation(tmp_path: Path) -> None:
    artifact = record(tmp_path / "block.onnx", block())
    exact, stored = Seen(), Seen()
    OnnxFloat64Runtime().load(artifact).trace({"x": X}, exact)
    OnnxSpecRuntime().load(artifact).trace({"x": X}, stored)
    assert {v.dtype for v in exact.values.values()} == {np.dtype(np.float64)}
    assert {v.dtype for v in stored.values.values()} == {np.dtype(np.float32)}


def test_what_constants_alone_determine_is_shown_too(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Sqrt", ["w"], ["root"], name="root"),
        helper.make_node("Mul", ["x", "root"], ["y"], name="scale"),
    ]
    made = model(nodes, [value("x", [4])], [value("y", [4])], initializers={"w": np.full(4, 2.0, np.float32)})
    seen = Seen()
    OnnxFloat64Runtime().load(record(tmp_path / "m.onnx", made)).trace({"x": np.ones(4, np.float32)}, seen)
    np.testing.assert_allclose(seen.values["root"], np.sqrt(2.0))


def looped() -> list[NodeProto]:
    """y = x · 2³ by a loop."""
    body = helper.make_graph(
        [
            helper.make_node("Add", ["inner", "inner"], ["doubled"], name="double"),
            helper.make_node("Identity", ["condition"], ["again"], name="go on"),
        ],
        "body",
        [
            helper.make_tensor_value_info("turn", TensorProto.INT64, []),
            helper.make_tensor_value_info("condition", TensorProto.BOOL, []),
            value("inner", [4]),
        ],
        [helper.make_tensor_value_info("again", TensorProto.BOOL, []), value("doubled", [4])],
    )
    return [helper.make_node("Loop", ["trips", "", "x"], ["y"], name="loop", body=body)]


@pytest.mark.parametrize("runtime", RUNTIMES, ids=lambda r: r.name)
def test_nodes_of_a_subgraph_are_shown_at_each_turn(
    runtime: OnnxFloat64Runtime | OnnxSpecRuntime, tmp_path: Path
) -> None:
    made = model(looped(), [value("x", [4])], [value("y", [4])], initializers={"trips": np.array(3, np.int64)})
    seen = Seen()
    session: Session = runtime.load(record(tmp_path / "m.onnx", made))
    outputs = session.trace({"x": np.ones(4, np.float32)}, seen)
    assert [n.name for n in seen.nodes] == ["double", "go on"] * 3 + ["loop"]
    np.testing.assert_array_equal(outputs["y"], np.full(4, 8.0))


def test_what_is_no_tensor_is_left_out_of_the_node(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("SplitToSequence", ["x"], ["parts"], name="split", axis=0),
        helper.make_node("ConcatFromSequence", ["parts"], ["y"], name="join", axis=0),
    ]
    made = model(nodes, [value("x", [2, 3])], [value("y", [2, 3])])
    seen = Seen()
    OnnxFloat64Runtime().load(record(tmp_path / "m.onnx", made)).trace({"x": np.ones((2, 3), np.float32)}, seen)
    assert [n.outputs for n in seen.nodes] == [(), ("y",)]


def test_a_trace_holds_no_more_than_the_evaluation(tmp_path: Path) -> None:
    """A long chain of wide values: two are alive at a time, whatever the length."""
    wide = 2**17
    nodes = [helper.make_node("Neg", [f"v{k}"], [f"v{k + 1}"], name=f"n{k}") for k in range(30)]
    made = model(nodes, [value("v0", [wide])], [value("v30", [wide])])
    session = OnnxFloat64Runtime().load(record(tmp_path / "m.onnx", made))
    feeds = {"v0": np.ones(wide, np.float32)}
    tracemalloc.start()
    try:
        session.trace(feeds, lambda node, results: None)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 5 * wide * 8


def test_only_constants_that_the_other_side_does_not_have_move(tmp_path: Path) -> None:
    session = OnnxFloat64Runtime().load(record(tmp_path / "block.onnx", block()))
    exact, moved, shared = Seen(), Seen(), Seen()
    session.trace({"x": X}, exact)
    session.trace_moved({"x": X}, moved, shared=frozenset(), seed=0)
    session.trace_moved({"x": X}, shared, shared=session.fingerprints(), seed=0)
    assert list(moved.values) == list(exact.values)
    apart = np.max(np.abs(moved.values["scores"] - exact.values["scores"]))
    assert 0 < apart < 1e-5
    np.testing.assert_array_equal(shared.values["y"], exact.values["y"])


def test_attributes_and_initializers_are_told_with_their_roundoff(tmp_path: Path) -> None:
    nodes = [helper.make_node("LayerNormalization", ["x", "w"], ["y"], name="norm", epsilon=1e-6)]
    made = model(nodes, [value("x", [2, 4])], [value("y", [2, 4])], initializers={"w": np.ones(4, np.float32)})
    session = OnnxFloat64Runtime().load(record(tmp_path / "m.onnx", made))
    told = {(node.name if node else "", name): (v, u) for node, name, v, u in session.numbers()}
    assert told[("", "w")][1] == 2.0**-24
    assert float(told[("norm", "epsilon")][0]) == pytest.approx(1e-6)
