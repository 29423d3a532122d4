"""The noise is as large as honest rounding: not blind to what cancels or saturates, not wide where nothing rounds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper

from onnxparity.numerics.budget import KAPPA, vector_error
from onnxparity.protocols import Array
from onnxparity.runtimes.fingerprint import fingerprint
from onnxparity.runtimes.float64_graph import Float64Graph
from onnxparity.runtimes.monte_carlo import constant_noise, fingerprints, noise, recorded
from onnxparity.runtimes.onnx_spec import StoredGraph
from onnxparity.runtimes.operator_table import ROUNDING, Rounding
from tests.tiny_models import save_tiny
from tests.unit.runtimes.files import block, model, value

U = 2.0**-24
RNG = np.random.default_rng(0)
X = RNG.standard_normal((3, 17, 64)).astype(np.float32)
W = (RNG.standard_normal((64, 64)) / 8).astype(np.float32)


def _node(operator: str, inputs: str, output: str = "y", **attributes: Any) -> NodeProto:  # Any: attributes
    return helper.make_node(operator, inputs.split(), [output], **attributes)


def _model(*nodes: NodeProto, dtype: str = "float32", **constants: Array) -> ModelProto:
    """From x (B, T, D) to y, at opset 23."""
    answer = "int64" if nodes[-1].op_type == "ArgMax" else dtype
    ends = [value("x", ["b", "t", "d"], dtype)], [value("y", [], answer)]
    return model(nodes, *ends, opset=23, initializers=constants)


def _noise(made: ModelProto, x: Array, *, draws: int = 3, seed: int = 0) -> Array:
    return noise(Float64Graph(_copy(made)), {"x": x}, draws=draws, seed=seed)["y"]


def _copy(made: ModelProto) -> ModelProto:
    copy = ModelProto()
    copy.CopyFrom(made)
    return copy


def _ratio(got: Array, made: ModelProto, x: Array) -> float:
    """Error over noise of the worst vector."""
    graph = Float64Graph(_copy(made))
    want = graph.run({"x": x})["y"]
    found = noise(graph, {"x": x}, draws=3, seed=0)["y"]
    error = vector_error(got.astype(np.float64) - want, want)
    return float(np.max(error / (np.maximum(found, found.max() / 4) + graph.unit_roundoff)))


def _ort(made: ModelProto, x: Array) -> Array:
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(made.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return np.asarray(session.run(None, {"x": x})[0])


def _outliers(x: Array) -> Array:
    large = x.copy()
    large[..., [0, 40]] *= 200
    return large


LAST = np.array([-1])
HONEST: dict[str, ModelProto] = {
    "MatMul": _model(_node("MatMul", "x w"), w=W),
    "Einsum": _model(_node("Einsum", "x w", equation="btd,dk->btk"), w=W),
    "Softmax": _model(_node("Softmax", "x")),
    "LogSoftmax": _model(_node("LogSoftmax", "x")),
    "LayerNormalization": _model(_node("LayerNormalization", "x s b"), s=W[0], b=W[1]),
    "RMSNormalization": _model(_node("RMSNormalization", "x s"), s=W[0]),
    "ReduceMean": _model(_node("ReduceMean", "x axes"), axes=LAST),
    "ReduceSum": _model(_node("ReduceSum", "x axes"), axes=LAST),
    "ReduceL2": _model(_node("ReduceL2", "x axes"), axes=LAST),
    "ReduceLogSumExp": _model(_node("ReduceLogSumExp", "x axes"), axes=LAST),
    "CumSum": _model(_node("CumSum", "x last"), last=np.array(2)),
    "Gelu": _model(_node("Gelu", "x")),
    "Gelu by tanh": _model(_node("Gelu", "x", approximate="tanh")),
    "Sigmoid": _model(_node("Sigmoid", "x")),
    "Tanh": _model(_node("Tanh", "x")),
    "Erf": _model(_node("Erf", "x")),
    "Elu": _model(_node("Elu", "x")),
    "Swish": _model(_node("Sigmoid", "x", "s"), _node("Mul", "x s")),
    "block": block(),
}
VALUES = {
    "normal": X,
    "large": 30 * X,
    "tiny": X / 100,
    "outliers": _outliers(X),
    "a large mean": X + 10,
    "positive": np.abs(X),
}


@pytest.mark.parametrize("x", VALUES.values(), ids=VALUES.keys())
@pytest.mark.parametrize("made", HONEST.values(), ids=HONEST.keys())
def test_honest_arithmetic_is_within_the_noise(made: ModelProto, x: Array) -> None:
    """Half of kappa is left for graphs of many nodes."""
    x = x[..., :8] if made is HONEST["block"] else x
    assert _ratio(_ort(made, x), made, x) < KAPPA / 2
    assert _ratio(StoredGraph(_copy(made)).run({"x": x})["y"], made, x) < KAPPA / 2


@pytest.mark.parametrize("made", HONEST.values(), ids=HONEST.keys())
def test_the_noise_is_no_blank_cheque(made: ModelProto) -> None:
    """Honest arithmetic uses a twentieth of it at least, and rounding to 12 bits overdraws it."""
    x = X[..., :8] if made is HONEST["block"] else X
    assert _ratio(_ort(made, x), made, x) > 0.05
    exact = Float64Graph(_copy(made)).run({"x": x})["y"]
    assert _ratio(exact * (1 + 2.0**-12 * RNG.uniform(-1, 1, exact.shape)), made, x) > KAPPA


SIGNS = np.where(np.arange(64) % 2, -1, 1).astype(np.float32)
"""Makes keys of queries, so that scores are differences and the softmax hangs between two of them."""


def _attention(scale: float) -> tuple[ModelProto, ModelProto]:
    """Attention of x on itself as one node, and in parts."""
    whole = _model(
        _node("Unsqueeze", "x one", "q"),
        _node("Mul", "q signs", "k"),
        _node("Attention", "q k q", "a", scale=scale),
        _node("Squeeze", "a one"),
        one=np.array([1]),
        signs=SIGNS,
    )
    parts = _model(
        _node("Mul", "x root", "q"),
        _node("Mul", "q signs", "k"),
        _node("Transpose", "k", "kt", perm=[0, 2, 1]),
        _node("MatMul", "q kt", "s"),
        _node("Softmax", "s", "p"),
        _node("MatMul", "p x"),
        root=np.array(scale**0.5, np.float32),
        signs=SIGNS,
    )
    return whole, parts


@pytest.mark.parametrize("factor", [1, 30])
def test_one_attention_node_is_as_noisy_as_its_parts(factor: float) -> None:
    whole, parts = (_noise(made, factor * X, draws=6) for made in _attention(0.125))
    assert 0.5 < np.median(whole / parts) < 2 and 0.3 < whole.max() / parts.max() < 3


def test_attention_rounded_only_at_its_end_is_seen_to_be_too_quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.rint(8 * X)  # whole numbers do not move, so that all noise comes from the operator
    whole, _ = _attention(0.125)
    enough = _noise(whole, x).max()
    monkeypatch.setitem(ROUNDING, "Attention", Rounding.RESULT)
    assert _noise(whole, x).max() < enough / 4


def test_a_sum_that_cancels_is_noisy_and_one_sized_by_its_result_is_seen_to_be_too_quiet(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    x = np.array([[[4096.0, 1, 2, 3, -4096.0, 5, 6, 8]]], np.float32)
    made = _model(
        _node("Sub", "x third", "d"), _node("ReduceSum", "d axes"), third=np.array([4.125], np.float32), axes=LAST
    )
    enough = _noise(made, x).max()
    monkeypatch.setitem(ROUNDING, "ReduceSum", Rounding.RESULT)
    monkeypatch.setitem(ROUNDING, "Sub", Rounding.NONE)
    assert enough > 100 * _noise(made, x).max() > 0


def test_a_softmax_in_half_inside_a_float32_graph_is_a_fault() -> None:
    nodes = [
        _node("MatMul", "x w", "s"),
        _node("Cast", "s", "h", to=TensorProto.FLOAT16),
        _node("Softmax", "h", "p"),
        _node("Cast", "p", "f", to=TensorProto.FLOAT),
        _node("MatMul", "f w"),
    ]
    made = _model(*nodes, w=W)
    assert _ratio(StoredGraph(_copy(made)).run({"x": X})["y"], made, X) > 50


MOVES = {
    "Transpose": [_node("Transpose", "x", perm=[0, 1, 2])],
    "Reshape": [_node("Shape", "x", "s"), _node("Reshape", "x s")],
    "Concat": [_node("Concat", "x x", axis=1)],
    "Relu": [_node("Relu", "x")],
    "Neg": [_node("Neg", "x")],
    "Max": [_node("Max", "x x")],
    "Cast": [_node("Cast", "x", "h", to=TensorProto.FLOAT16), _node("Cast", "h", to=TensorProto.FLOAT)],
    "Where": [_node("Greater", "x zero", "c"), _node("Where", "c x zero")],
    "Slice": [_node("Slice", "x begin to")],
}


@pytest.mark.parametrize("nodes", MOVES.values(), ids=MOVES.keys())
def test_moving_values_rounds_nothing(nodes: list[NodeProto]) -> None:
    made = _model(*nodes, zero=np.array(0, np.float32), to=np.array([2]), begin=np.array([0]))
    assert np.all(_noise(made, np.rint(8 * X)) == 0)


def test_inputs_move_by_the_roundoff_of_the_artifact() -> None:
    for dtype, u in (("float32", U), ("float16", 2.0**-11)):
        found = _noise(_model(_node("Identity", "x"), dtype=dtype), X.astype(dtype), draws=20)
        assert np.all(found <= u) and found.max() > 0.8 * u


def test_halves_below_the_normal_ones_do_not_get_finer() -> None:
    made = _model(_node("Mul", "x small"), dtype="float16", small=np.array(2.0**-12, np.float16))
    x = np.full((1, 1, 4), 2.0**-6, np.float16)  # the product is 2**-18, and the spacing there 2**-24
    assert 2.0**-9 < _noise(made, x, draws=20)[0, 0] <= 2.0**-7


POSITIONS = [_node("Shape", "x", "s"), _node("Gather", "s one", "t"), _node("Cast", "t", "tf", to=TensorProto.FLOAT)]


def test_positions_stay_whole() -> None:
    """Seventeen positions of a third each, floored: a moved 3·(1/3) would fall to 0."""
    nodes = [
        *POSITIONS,
        _node("Range", "zero tf step", "r"),
        _node("Mul", "r third", "thirds"),
        _node("Floor", "thirds", "f"),
        _node("Cast", "f", "index", to=TensorProto.INT64),
        _node("Gather", "table index", "rows"),
        _node("Identity", "rows"),
    ]
    made = _model(
        *nodes,
        one=np.array(1),
        zero=np.array(0, np.float32),
        step=np.array(1, np.float32),
        third=np.array(1 / 3, np.float32),
        table=np.arange(24, dtype=np.float32).reshape(6, 4) ** 2,
    )
    assert np.all(_noise(made, X) == 0)


def test_a_decision_on_rounded_data_may_fall_the_other_way() -> None:
    made = _model(
        _node("MatMul", "x w", "s"),
        _node("ArgMax", "s", axis=-1),
        w=np.array([[1 / 3, 1 / 3, 0]], np.float32),
    )
    apart = _model(
        _node("MatMul", "x w", "s"),
        _node("ArgMax", "s", axis=-1),
        w=np.array([[1 / 3, 0.4, 0]], np.float32),
    )
    x = np.full((1, 2, 1), 0.7, np.float32)
    assert np.all(_noise(made, x, draws=20) == 1)
    assert np.all(_noise(apart, x, draws=20) == 0)


def test_a_decision_on_what_was_fed_stays() -> None:
    nodes = [_node("Greater", "x edge", "c"), _node("Where", "c zero one")]
    zero, one, edge = (np.array(v, np.float32) for v in (0, 1, 0.7))
    made = _model(*nodes, zero=zero, one=one, edge=edge)
    assert np.all(_noise(made, np.full((1, 2, 3), edge), draws=20) == 0)


def test_a_row_masked_by_the_lowest_float_is_quiet() -> None:
    """Scores vanish in it, in float32 as in float64."""
    lowest = np.full((64,), np.finfo(np.float32).min)
    made = _model(_node("Add", "x mask", "s"), _node("Softmax", "s", "p"), _node("MatMul", "p w"), mask=lowest, w=W)
    assert _noise(made, X).max() < 20 * U


def test_a_row_of_minus_infinity_has_no_noise() -> None:
    made = _model(_node("Add", "x mask", "s"), _node("Softmax", "s"), mask=np.full((64,), -np.inf, np.float32))
    assert np.all(_noise(made, X) == 0)


def test_loops_are_rounded_inside() -> None:
    body = helper.make_graph(
        [_node("Mul", "v third", "w"), _node("Identity", "go", "on")],
        "body",
        [value("i", [], "int64"), value("go", [], "bool"), value("v", [])],
        [value("on", [], "bool"), value("w", [])],
        [numpy_helper.from_array(np.array(1 / 3, np.float32), "third")],
    )
    loop = helper.make_node("Loop", ["turns", "", "x"], ["y"], body=body)
    few, many = (_noise(_model(loop, turns=np.array(n)), np.rint(8 * X), draws=6).max() for n in (1, 30))
    assert U / 2 < few < 3 * U and many > 3 * few


def test_draws_repeat_by_seed() -> None:
    made = HONEST["MatMul"]
    np.testing.assert_array_equal(_noise(made, X, seed=3), _noise(made, X, seed=3))
    assert np.any(_noise(made, X, seed=3) != _noise(made, X, seed=4))
    assert np.all(_noise(made, X, draws=6) >= _noise(made, X, draws=3))
    with pytest.raises(ValueError, match="at least 1 draw"):
        _noise(made, X, draws=0)


def test_noise_has_the_shape_of_its_vectors() -> None:
    nodes = [_node("ReduceSum", "x", "scalar", keepdims=0), _node("ReduceSum", "x first", "vector", keepdims=0)]
    outputs = [value("scalar", []), value("vector", ["d"]), value("x", ["b", "t", "d"])]
    made = model(nodes, [value("x", ["b", "t", "d"])], outputs, initializers={"first": np.array([0, 1])})
    found = noise(Float64Graph(made), {"x": X}, draws=1, seed=0)
    assert [found[n].shape for n in ("scalar", "vector", "x")] == [(), (), (3, 17)]
    empty = noise(Float64Graph(_copy(HONEST["MatMul"])), {"x": X[:0]}, draws=1, seed=0)["y"]
    assert empty.shape == (0, 17)


def test_only_constants_that_are_not_shared_move() -> None:
    graph = Float64Graph(_copy(HONEST["MatMul"]))
    own = fingerprints(graph)
    assert own == {fingerprint(W)} == {fingerprint(W.T)}
    alone = constant_noise(graph, {"x": X}, shared=frozenset(), draws=6, seed=0)["y"]
    assert 0.05 * U < np.median(alone) < 3 * U
    assert np.all(constant_noise(graph, {"x": X}, shared=own, draws=3, seed=0)["y"] == 0)


def test_short_fractions_and_masks_are_exact() -> None:
    exact = np.array([0.5, -3, 1e9, 0.375, np.finfo(np.float32).min, 0], np.float32)
    graph = Float64Graph(_model(_node("Add", "x c"), c=exact))
    assert np.all(constant_noise(graph, {"x": X[..., :6]}, shared=frozenset(), draws=3, seed=0)["y"] == 0)


def test_half_constants_move_by_the_roundoff_of_half() -> None:
    nodes = [_node("Cast", "c", "wide", to=TensorProto.FLOAT), _node("Mul", "x wide")]
    graph = Float64Graph(_model(*nodes, c=W[0].astype(np.float16)))
    found = constant_noise(graph, {"x": X}, shared=frozenset(), draws=20, seed=0)["y"]
    assert 2.0**-12 < found.max() <= 2.0**-11 and graph.unit_roundoff == U


def test_attributes_are_constants_too() -> None:
    """The file rounds a scale of 0.1 to float32."""
    whole, _ = _attention(0.1)
    graph = Float64Graph(whole)
    found = constant_noise(graph, {"x": 8 * X}, shared=frozenset(), draws=3, seed=0)["y"]
    assert found.max() > U / 4
    shared = fingerprints(graph)
    assert fingerprint(np.array(np.float32(0.1), np.float64)) in shared
    assert np.all(constant_noise(graph, {"x": 8 * X}, shared=shared, draws=3, seed=0)["y"] == 0)


def _quantised(static: bool) -> tuple[ModelProto, Array]:
    """x w with int8 weights: dequantised, or multiplied as integers."""
    scale = np.array(np.abs(W).max() / 127, np.float32)
    weight = np.rint(W / scale).astype(np.int8)
    if static:
        return _model(_node("DequantizeLinear", "w scale", "f"), _node("MatMul", "x f"), w=weight, scale=scale), weight
    dynamic = helper.make_node("DynamicQuantizeLinear", ["x"], ["q", "s", "z"])
    rest = [
        _node("MatMulInteger", "q w z zero", "counts"),
        _node("Cast", "counts", "wide", to=TensorProto.FLOAT),
        _node("Mul", "s scale", "both"),
        _node("Mul", "wide both"),
    ]
    return _model(dynamic, *rest, w=weight, scale=scale, zero=np.array(0, np.int8)), weight


@pytest.mark.parametrize("static", [True, False], ids=["dequantised", "multiplied as integers"])
def test_quantised_weights_move_by_half_a_step(static: bool) -> None:
    made, weight = _quantised(static)
    graph = Float64Graph(made)
    found = constant_noise(graph, {"x": X}, shared=frozenset(), draws=3, seed=0)["y"]
    exact = X.astype(np.float64) @ W.astype(np.float64)
    error = vector_error(graph.run({"x": X})["y"] - exact, exact)
    assert np.max(error / np.maximum(found, found.max() / 4)) < 3 and np.median(found) < 3 * np.median(error)
    assert fingerprint(weight) in fingerprints(graph)
    assert np.all(constant_noise(graph, {"x": X}, shared=fingerprints(graph), draws=3, seed=0)["y"] == 0)


def test_quantised_activations_flip_where_they_are_near_a_tie() -> None:
    made, _ = _quantised(static=False)
    assert _ratio(_ort(made, X), made, X) < KAPPA / 2


def test_the_first_draw_is_the_same_whatever_was_drawn_before(tmp_path: Path) -> None:
    """Else a cell that is repeated alone would have another budget than in the run that failed."""
    path = save_tiny(tmp_path / "a.onnx")
    x = np.random.default_rng(1).standard_normal((2, 5, 3))
    alone, after = Float64Graph.load(path), Float64Graph.load(path)
    noise(after, {"x": x[:1] + 1}, draws=1, seed=0)
    first = noise(alone, {"x": x}, draws=1, seed=0)["y"]
    assert np.array_equal(noise(after, {"x": x}, draws=1, seed=0)["y"], first)
    assert np.all(first > 0)


def test_what_was_recorded_is_found_again_and_only_for_the_same_inputs(tmp_path: Path) -> None:
    graph = Float64Graph.load(save_tiny(tmp_path / "a.onnx"))
    x = np.random.default_rng(1).standard_normal((2, 5, 3))
    tape, exact = recorded(graph, {"x": x})
    assert recorded(graph, {"x": x.copy()})[0] is tape
    other = recorded(graph, {"x": x + 1})
    assert other[0] is not tape and not np.array_equal(other[1]["y"], exact["y"])
    assert np.array_equal(exact["y"], graph.run({"x": x})["y"])
