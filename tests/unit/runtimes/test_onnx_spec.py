"""The two runtimes on the specification: stored dtypes are kept, float64 is kept, and both prove themselves."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import NodeProto, TensorProto, helper

from onnxparity.errors import LoadError, SubjectError
from onnxparity.protocols import Array, ExactSession, Runtime
from onnxparity.runtimes.onnx_float64 import OnnxFloat64Runtime
from onnxparity.runtimes.onnx_spec import OnnxSpecRuntime, StoredGraph
from onnxparity.runtimes.promotion import ROUNDOFF
from tests.unit.runtimes.files import block, model, record, value

X = np.random.default_rng(0).standard_normal((2, 5, 8)).astype(np.float32)
BFLOAT16 = np.dtype(ml_dtypes.bfloat16)


def _run(nodes: list[NodeProto], x: Array, **constants: Array) -> Array:
    """From x to y, both in the dtype of x."""
    ends = [value("x", x.shape, x.dtype.name)], [value("y", [], x.dtype.name)]
    return StoredGraph(model(nodes, *ends, opset=23, initializers=constants)).run({"x": x})["y"]


def _node(operator: str, inputs: str, output: str = "y", **attributes: Any) -> NodeProto:  # Any: attributes
    return helper.make_node(operator, inputs.split(), [output], **attributes)


RUNTIMES: list[Runtime] = [OnnxFloat64Runtime(), OnnxSpecRuntime()]


def test_names_and_questions() -> None:
    assert {r.name: r.question for r in RUNTIMES} == {"onnx-float64": "meaning", "onnx-spec": "arithmetic"}


@pytest.mark.parametrize("runtime", RUNTIMES, ids=lambda r: r.name)
def test_the_probe_finds_it_available(runtime: Runtime) -> None:
    found = runtime.probe()
    assert found.available and found.reason == "" and found.version == onnx.__version__


def test_the_probe_of_the_stored_dtypes_fails_on_a_wrong_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("onnxparity.runtimes.onnx_spec.WANT", np.eye(2, dtype=np.float32))
    found = OnnxSpecRuntime().probe()
    assert not found.available and "not [[1.0, 0.0]" in found.reason


def test_the_probe_of_float64_fails_on_float32(monkeypatch: pytest.MonkeyPatch) -> None:
    def narrow(self: object, a: Array, b: Array) -> tuple[Array]:
        return (a @ b.astype(np.float32).astype(np.float64),)

    monkeypatch.setattr("onnxparity.runtimes.reference_ops.MatMul._run", narrow)
    found = OnnxFloat64Runtime().probe()
    assert not found.available and "off by" in found.reason


@pytest.mark.parametrize("runtime", RUNTIMES, ids=lambda r: r.name)
def test_a_probe_never_raises(runtime: Runtime, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(self: object, a: Array, b: Array) -> tuple[Array]:
        raise OSError("no BLAS")

    monkeypatch.setattr("onnxparity.runtimes.reference_ops.MatMul._run", broken)
    found = runtime.probe()
    assert not found.available and "no BLAS" in found.reason


@pytest.mark.parametrize("runtime", RUNTIMES, ids=lambda r: r.name)
def test_sessions_check_their_feeds(runtime: Runtime, tmp_path: Path) -> None:
    session = runtime.load(record(tmp_path / "block.onnx", block()))
    assert session.run({"x": X})["y"].shape == X.shape and session.placement() is None
    for feeds in ({}, {"x": X, "z": X}, {"x": X[0]}, {"x": X.astype(np.int32)}):
        with pytest.raises(SubjectError):
            session.run(feeds)


@pytest.mark.parametrize("runtime", RUNTIMES, ids=lambda r: r.name)
def test_unknown_operators_are_refused_by_name(runtime: Runtime, tmp_path: Path) -> None:
    node = helper.make_node("QuickGelu", ["x"], ["y"], domain="com.microsoft")
    with pytest.raises(LoadError, match="QuickGelu of domain") as found:
        runtime.load(record(tmp_path / "m.onnx", model([node], [value("x", [2])], [value("y", [2])])))
    assert "evidence stays incomplete" in (found.value.remedy or "")


def test_the_exact_session_says_how_large_rounding_is(tmp_path: Path) -> None:
    session = OnnxFloat64Runtime().load(record(tmp_path / "block.onnx", block()))
    assert isinstance(session, ExactSession) and session.unit_roundoff == 2**-24
    spec = OnnxSpecRuntime().load(record(tmp_path / "block.onnx", block()))
    exact, rounded = session.run({"x": X})["y"], spec.run({"x": X})["y"]
    assert exact.dtype == np.float64 and rounded.dtype == np.float32
    found = session.noise({"x": X}, draws=3, seed=0)["y"]
    error = np.max(np.abs(rounded - exact), -1) / np.max(np.abs(exact), -1)
    assert found.shape == (2, 5) and 0.05 < np.max(error / found) < 8
    moved = session.constant_noise({"x": X}, shared=frozenset(), draws=3, seed=0)["y"]
    still = session.constant_noise({"x": X}, shared=session.fingerprints(), draws=3, seed=0)["y"]
    assert np.all(moved > 0) and np.all(still == 0)


@pytest.mark.parametrize("dtype", [np.dtype(np.float16), BFLOAT16], ids=str)
@pytest.mark.parametrize(
    "operator", ["Softmax", "Gelu", "Erf", "Elu", "Sigmoid", "HardSwish", "Mish", "LeakyRelu", "Softplus", "Sqrt"]
)
def test_halves_stay_halves(operator: str, dtype: Any) -> None:  # Any: a NumPy dtype
    x = np.abs(X).astype(dtype)
    got = _run([_node(operator, "x")], x)
    wide = _run([_node(operator, "x")], x.astype(np.float32))
    assert got.dtype == dtype
    np.testing.assert_allclose(
        got.astype(np.float32), wide, rtol=12 * ROUNDOFF[helper.np_dtype_to_tensor_dtype(dtype)], atol=1e-3
    )


@pytest.mark.parametrize("dtype", [np.dtype(np.float16), BFLOAT16], ids=str)
def test_products_of_halves_accumulate_in_float32(dtype: Any) -> None:  # Any: a NumPy dtype
    x, w = np.full((1, 1, 8), 1, dtype), np.array([[2.0**-9]] + [[1]] * 6 + [[2.0**-9]], dtype)
    assert _run([_node("MatMul", "x w")], x, w=w).astype(np.float32) == np.float32(6 + 2.0**-8).astype(dtype)


def test_normalisation_is_computed_in_the_stash_dtype() -> None:
    """Squares of 300 overflow a half; the node says float32."""
    x, ones = (300 * X).astype(np.float16), np.ones(8, np.float16)
    got = _run([_node("LayerNormalization", "x s")], x, s=ones)
    wide = _run([_node("LayerNormalization", "x s")], x.astype(np.float32), s=ones.astype(np.float32))
    assert got.dtype == np.float16 and np.max(np.abs(got - wide)) < 2e-3
    rms = _run([_node("RMSNormalization", "x s")], x, s=ones)
    assert np.max(np.abs(rms.astype(np.float32))) > 1


def test_a_softmax_in_half_is_rounded_to_half() -> None:
    cast = [_node("Cast", "x", "h", to=TensorProto.FLOAT16), _node("Softmax", "h", "p")]
    got = _run([*cast, _node("Cast", "p", to=TensorProto.FLOAT)], X)
    assert np.array_equal(got, got.astype(np.float16)) and not np.array_equal(got, _run([_node("Softmax", "x")], X))


@pytest.mark.parametrize("precision", [None, TensorProto.FLOAT])
def test_attention_in_half_takes_its_softmax_in_the_precision_it_is_given(precision: int | None) -> None:
    attributes: dict[str, Any] = {} if precision is None else {"softmax_precision": precision}  # Any: as in `_node`
    q = (X[:1, None] * 8).astype(np.float16)
    got = _run([_node("Attention", "x x x", **attributes)], q)
    wide = _run([_node("Attention", "x x x")], q.astype(np.float32))
    assert got.dtype == np.float16 and np.max(np.abs(got - wide)) < 0.05 * np.max(np.abs(wide))


def test_bert_gathers_fewer_indices_than_data() -> None:
    got = _run([_node("GatherElements", "x i", axis=2)], X, i=np.array([[[3, 1]]]))
    np.testing.assert_array_equal(got, X[:1, :1, [3, 1]])
