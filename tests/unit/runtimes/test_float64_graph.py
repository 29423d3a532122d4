"""A graph in float64: everything is widened, nothing narrow gets through, and what has no meaning is refused."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import GraphProto, NodeProto, TensorProto, helper, numpy_helper

from onnxparity.errors import LoadError, RunError
from onnxparity.protocols import Array
from onnxparity.runtimes.evaluation import Exact, execute
from onnxparity.runtimes.float64_graph import Float64Graph
from onnxparity.runtimes.promotion import ROUNDOFF
from tests.unit.runtimes.files import block, model, record, value

X = np.random.default_rng(0).standard_normal((2, 3))
THIRD = np.float32(1 / 3)


def _graph(*nodes: NodeProto, dtype: str = "float32", opset: int = 20, **constants: Array) -> Float64Graph:
    """From x (2, 3) to y."""
    return Float64Graph(
        model(nodes, [value("x", [2, 3], dtype)], [value("y", [2, 3], dtype)], opset=opset, initializers=constants)
    )


def _node(operator: str, inputs: str, output: str = "y", **attributes: Any) -> NodeProto:  # Any: attributes
    return helper.make_node(operator, inputs.split(), [output], **attributes)


def test_block_is_what_numpy_says() -> None:
    import math

    original = block()
    w = numpy_helper.to_array(original.graph.initializer[0]).astype(np.float64)
    x = np.random.default_rng(1).standard_normal((2, 5, 8))
    scores = x @ w
    e = np.exp(scores - scores.max(-1, keepdims=True))
    mixed = e / e.sum(-1, keepdims=True) @ w
    root = float(np.float32(2**0.5))
    want = mixed * (np.vectorize(math.erf)(mixed / root) + 1) * 0.5
    np.testing.assert_allclose(Float64Graph(original).run({"x": x})["y"], want, rtol=1e-13)


FORMS = {
    "value": helper.make_node("Constant", [], ["c"], value=numpy_helper.from_array(np.array(THIRD))),
    "value_float": helper.make_node("Constant", [], ["c"], value_float=1 / 3),
    "value_floats": helper.make_node("Constant", [], ["c"], value_floats=[1 / 3]),
}


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS.keys())
def test_every_form_of_constant_is_widened(form: NodeProto) -> None:
    got = _graph(form, _node("Mul", "x c")).run({"x": X})["y"]
    np.testing.assert_array_equal(got, X * float(THIRD))


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, np.float32, np.float64])
def test_every_floating_initializer_is_widened(dtype: Any) -> None:  # Any: a NumPy or ml_dtypes scalar type
    constant = np.array(1 / 3, dtype)
    name = np.dtype(dtype).name
    got = _graph(_node("Mul", "x c"), dtype=name, c=constant).run({"x": X.astype(dtype)})["y"]
    assert got.dtype == np.float64
    np.testing.assert_array_equal(got, X.astype(dtype).astype(np.float64) * float(constant))


CARRIERS = {
    "Cast to float": [_node("Shape", "x", "s"), _node("Cast", "s", "f", to=TensorProto.FLOAT)],
    "Cast to half": [_node("Shape", "x", "s"), _node("Cast", "s", "f", to=TensorProto.FLOAT16)],
    "Cast to bfloat16": [_node("Shape", "x", "s"), _node("Cast", "s", "f", to=TensorProto.BFLOAT16)],
    "CastLike": [_node("Shape", "x", "s"), _node("CastLike", "s x", "f")],
    "EyeLike": [_node("Cast", "x", "i", to=TensorProto.INT32), _node("EyeLike", "i", "f", dtype=TensorProto.FLOAT)],
    "ConstantOfShape": [_node("Shape", "x", "s"), _node("ConstantOfShape", "s", "f")],
    "ConstantOfShape of a half": [
        _node("Shape", "x", "s"),
        _node("ConstantOfShape", "s", "f", value=numpy_helper.from_array(np.array([0.1], np.float16))),
    ],
    "Range": [
        _node("ReduceSum", "x", "sum", keepdims=0),
        _node("Add", "sum one", "end"),
        _node("Range", "sum end one", "f"),
    ],
    "OneHot": [
        _node("Constant", "", "depth", value_int=3),
        _node("Constant", "", "off", value_floats=[0.0, 1.0]),
        _node("Cast", "x", "i", to=TensorProto.INT64),
        _node("OneHot", "i depth off", "f"),
    ],
}


@pytest.mark.parametrize("nodes", CARRIERS.values(), ids=CARRIERS.keys())
def test_what_creates_floats_creates_float64(nodes: list[NodeProto]) -> None:
    """ReduceSum of the creation times x: a narrow dtype would be refused on the way."""
    made = [*nodes, _node("ReduceSum", "f", "total", keepdims=0), _node("Mul", "x total")]
    got = _graph(*made, one=np.array(1, np.float32)).run({"x": X})["y"]
    assert got.dtype == np.float64 and np.all(np.isfinite(got))


def test_an_unpromoted_constant_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    cast = [_node("Shape", "x", "s"), _node("Cast", "s", "f", to=TensorProto.FLOAT), _node("ReduceSum", "f", "t")]
    monkeypatch.setattr("onnxparity.runtimes.scope.promote", lambda graph: None)
    with pytest.raises(RunError, match="left float64"):
        _graph(*cast, _node("Mul", "x t")).run({"x": X})


def test_a_narrow_operator_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("onnxparity.runtimes.reference_ops.Erf._run", lambda self, x: (x.astype(np.float32),))
    with pytest.raises(RunError, match="Erf 'rough' left float64"):
        _graph(_node("Erf", "x", name="rough")).run({"x": X})


def test_external_data_is_read(tmp_path: Path) -> None:
    weight = np.random.default_rng(2).standard_normal((3, 3)).astype(np.float32)
    outside = model([_node("MatMul", "x w")], [value("x", [2, 3])], [value("y", [2, 3])], initializers={"w": weight})
    onnx.save(outside, str(tmp_path / "m.onnx"), save_as_external_data=True, location="w.bin", size_threshold=0)
    got = Float64Graph.load(tmp_path / "m.onnx").run({"x": X})["y"]
    np.testing.assert_array_equal(got, X @ weight.astype(np.float64))


@pytest.mark.parametrize("content", [None, b"no model"])
def test_an_unreadable_file_is_a_load_error(tmp_path: Path, content: bytes | None) -> None:
    if content is not None:
        (tmp_path / "m.onnx").write_bytes(content)
    with pytest.raises(LoadError, match="cannot read"):
        Float64Graph.load(tmp_path / "m.onnx")


def test_local_functions_are_widened_inside() -> None:
    body = [
        helper.make_node("Constant", [], ["c"], value_float=1 / 3),
        helper.make_node("Cast", ["c"], ["h"], to=TensorProto.FLOAT),
        helper.make_node("Mul", ["a", "h"], ["b"]),
    ]
    function = helper.make_function("local", "Third", ["a"], ["b"], body, [helper.make_opsetid("", 20)])
    node = helper.make_node("Third", ["x"], ["y"], domain="local")
    calling = model([node], [value("x", [2, 3])], [value("y", [2, 3])])
    calling.functions.append(function)
    calling.opset_import.append(helper.make_opsetid("local", 1))
    np.testing.assert_array_equal(Float64Graph(calling).run({"x": X})["y"], X * float(THIRD))


def _body(nodes: Sequence[NodeProto], inputs: Sequence[str], outputs: Sequence[str], **constants: Array) -> GraphProto:
    kinds = {"i": TensorProto.INT64, "go": TensorProto.BOOL, "on": TensorProto.BOOL}

    def declared(names: Sequence[str]) -> list[onnx.ValueInfoProto]:
        return [helper.make_tensor_value_info(n, kinds.get(n, TensorProto.FLOAT), None) for n in names]

    held = [numpy_helper.from_array(v, n) for n, v in constants.items()]
    return helper.make_graph(nodes, "body", declared(inputs), declared(outputs), held)


def test_branches_are_widened_and_capture() -> None:
    up = _body([_node("Mul", "x c", "up")], [], ["up"], c=np.array(THIRD))
    down = _body([_node("Neg", "x", "down")], [], ["down"])
    choose = [_node("ReduceSum", "x", "sum", keepdims=0), _node("Greater", "sum zero", "go")]
    graph = _graph(*choose, _node("If", "go", then_branch=up, else_branch=down), zero=np.array(0, np.float32))
    positive = np.abs(X)
    np.testing.assert_array_equal(graph.run({"x": positive})["y"], positive * float(THIRD))
    np.testing.assert_array_equal(graph.run({"x": -positive})["y"], positive)


def test_loops_carry_and_collect() -> None:
    nodes = [
        _node("Mul", "v c", "w"),
        _node("ReduceSum", "w", "row", keepdims=0),
        _node("Less", "i last", "on"),
        _node("Identity", "w", "w2"),
    ]
    body = _body(nodes, ["i", "go", "v"], ["on", "w2", "row"], c=np.array(THIRD), last=np.array(2, np.int64))
    loop = helper.make_node("Loop", ["", "yes", "x"], ["y", "rows"], body=body)
    made = model(
        [loop], [value("x", [2, 3])], [value("y", [2, 3]), value("rows", [None])], initializers={"yes": np.array(True)}
    )
    got = Float64Graph(made).run({"x": X})
    np.testing.assert_allclose(got["y"], X * float(THIRD) ** 3, rtol=1e-15)
    np.testing.assert_allclose(got["rows"], [X.sum() * float(THIRD) ** k for k in (1, 2, 3)], rtol=1e-14)


def test_a_loop_of_no_turns_gives_what_it_was_given() -> None:
    body = _body([_node("Neg", "v", "w"), _node("Identity", "go", "on")], ["i", "go", "v"], ["on", "w"])
    loop = helper.make_node("Loop", ["none", "", "x"], ["y"], body=body)
    np.testing.assert_array_equal(_graph(loop, none=np.array(0, np.int64)).run({"x": X})["y"], X)


@pytest.mark.parametrize("backward", [0, 1])
def test_scans_run_along_any_axis_in_either_direction(backward: int) -> None:
    body = _body([_node("Add", "sum part", "new"), _node("Identity", "new", "out")], ["sum", "part"], ["new", "out"])
    scan = helper.make_node(
        "Scan",
        ["start", "x"],
        ["total", "y"],
        body=body,
        num_scan_inputs=1,
        scan_input_axes=[1],
        scan_output_axes=[1],
        scan_input_directions=[backward],
        scan_output_directions=[backward],
    )
    made = model(
        [scan],
        [value("x", [2, 3])],
        [value("total", [2]), value("y", [2, 3])],
        initializers={"start": np.zeros(2, np.float32)},
    )
    got = Float64Graph(made).run({"x": X})
    want = np.cumsum(X[:, ::-1], 1)[:, ::-1] if backward else np.cumsum(X, 1)
    np.testing.assert_allclose(got["y"], want, atol=1e-15)
    np.testing.assert_allclose(got["total"], X.sum(1), atol=1e-15)


def test_quantised_graphs_keep_their_integers() -> None:
    scale, weight = np.array(0.02, np.float32), np.array([[5, -7, 3]], np.int8).repeat(3, 0)
    nodes = [
        _node("DynamicQuantizeLinear", "x", "q"),
        _node("MatMulInteger", "q w z zero", "counts"),
        _node("Cast", "counts", "wide", to=TensorProto.FLOAT),
        _node("Mul", "wide s", "part"),
        _node("Mul", "part scale"),
    ]
    nodes[0].output.extend(["s", "z"])
    got = _graph(*nodes, w=weight, zero=np.array(0, np.int8), scale=scale).run({"x": X})["y"]
    step = (X.max() - min(0, X.min())) / 255
    steps = np.rint(X / step) + np.rint(-X.min() / step)
    want = (np.clip(steps, 0, 255) - np.rint(-X.min() / step)) @ weight * step * float(scale)
    np.testing.assert_allclose(got, want, rtol=1e-12)


REFUSED = {
    "an operator of another domain": (helper.make_node("Gelu", ["x"], ["y"], domain="com.microsoft"), "com.microsoft"),
    "an operator that is not in the table": (_node("ImageDecoder", "x"), "operator ImageDecoder"),
    "random numbers": (_node("RandomNormalLike", "x"), "operator RandomNormalLike"),
    "the bits of a float": (_node("BitCast", "x", to=TensorProto.INT32), "operator BitCast"),
}


@pytest.mark.parametrize(("node", "why"), REFUSED.values(), ids=REFUSED.keys())
def test_what_has_no_meaning_is_refused(node: NodeProto, why: str) -> None:
    with pytest.raises(LoadError, match=why) as found:
        _graph(node)
    assert found.value.remedy


def test_an_unknown_operator_inside_a_branch_is_refused() -> None:
    inner = _body([_node("ImageDecoder", "x", "up")], [], ["up"])
    with pytest.raises(LoadError, match="ImageDecoder"):
        _graph(_node("If", "go", then_branch=inner, else_branch=inner), go=np.array(True))


def test_sparse_constants_are_refused() -> None:
    values = helper.make_tensor("w", TensorProto.FLOAT, [1], [1.0])
    sparse = helper.make_sparse_tensor(values, helper.make_tensor("i", TensorProto.INT64, [1], [0]), [3])
    made = model([_node("Mul", "x w")], [value("x", [2, 3])], [value("y", [2, 3])])
    made.graph.sparse_initializer.append(sparse)
    with pytest.raises(LoadError, match="sparse constant 'w'"):
        Float64Graph(made)
    with pytest.raises(LoadError, match="sparse constant 'c'"):
        _graph(helper.make_node("Constant", [], ["c"], sparse_value=sparse), _node("Mul", "x c"))


def test_old_opsets_are_refused_where_an_operator_changed_since() -> None:
    assert _graph(_node("Neg", "x"), opset=8).run({"x": X})["y"].shape == X.shape
    with pytest.raises(LoadError, match="opset 8"):
        _graph(_node("Cast", "x", to=TensorProto.FLOAT), opset=8)
    same = _body([_node("Neg", "x", "up")], [], ["up"])
    with pytest.raises(LoadError, match="opset 8"):
        _graph(_node("If", "go", then_branch=same, else_branch=same), opset=8, go=np.array(True))


def test_sequences_as_outputs_are_refused() -> None:
    parts = helper.make_tensor_sequence_value_info("y", TensorProto.FLOAT, None)
    with pytest.raises(LoadError, match="'y' is no tensor"):
        Float64Graph(model([_node("SequenceConstruct", "x")], [value("x", [2, 3])], [parts]))


def test_a_node_that_fails_is_named() -> None:
    with pytest.raises(RunError, match="MatMul 'product' cannot be evaluated"):
        _graph(_node("MatMul", "x x", name="product")).run({"x": X})


def test_the_model_is_judged_in_the_dtype_its_weights_are_used_in() -> None:
    half, single = np.ones((3, 3), np.float16), np.ones((3, 3), np.float32)
    widened = [_node("Cast", "w", "wide", to=TensorProto.FLOAT), _node("MatMul", "x wide")]
    narrowed = [
        _node("Cast", "x", "xh", to=TensorProto.FLOAT16),
        _node("MatMul", "xh w", "yh"),
        _node("Cast", "yh", to=TensorProto.FLOAT),
    ]
    assert _graph(*widened, w=half).unit_roundoff == 2**-24
    assert _graph(*narrowed, w=half).unit_roundoff == 2**-11
    assert _graph(_node("MatMul", "x w"), w=single).unit_roundoff == 2**-24
    assert _graph(_node("Neg", "x"), dtype="float16").unit_roundoff == 2**-11
    assert _graph(_node("Neg", "x"), dtype="bfloat16").unit_roundoff == ROUNDOFF[TensorProto.BFLOAT16] == 2**-8


def test_what_constants_determine_is_computed_once() -> None:
    graph = _graph(
        _node("Transpose", "w", "wt"), _node("Neg", "wt", "wn"), _node("MatMul", "x wn"), w=np.eye(3, dtype="f4")
    )
    assert [s.op for s in graph.scope.fixed] == ["Transpose", "Neg"] and [s.op for s in graph.scope.live] == ["MatMul"]
    np.testing.assert_array_equal(graph.run({"x": X})["y"], -X)


def test_values_are_dropped_when_nothing_needs_them() -> None:
    graph = _graph(_node("Neg", "x", "a"), _node("Neg", "a", "b"), _node("Add", "b b"))
    values: dict[str, Any] = {"x": X}  # Any: values of a scope
    execute(graph.scope.live, values, Exact(promoted=True))
    assert set(values) == {"y"}


def test_an_output_may_be_an_input_or_a_constant() -> None:
    made = model(
        [_node("Neg", "x")], [value("x", [2, 3])], [value(n, []) for n in "yxc"], initializers={"c": np.array(THIRD)}
    )
    got = Float64Graph(made).run({"x": X})
    assert got["x"] is X and got["c"] == float(THIRD)


def test_the_long_name_of_the_default_domain_is_understood(tmp_path: Path) -> None:
    node = helper.make_node("Neg", ["x"], ["y"], domain="ai.onnx")
    made = model([node], [value("x", [2, 3])], [value("y", [2, 3])])
    made.opset_import[0].domain = "ai.onnx"
    artifact = record(tmp_path / "m.onnx", made)
    np.testing.assert_array_equal(Float64Graph.load(artifact.path).run({"x": X})["y"], -X)
