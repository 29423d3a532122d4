"""The smallest model with an answer everybody knows: probes run it instead of trusting a version string."""

from __future__ import annotations

import numpy as np

from onnxparity.protocols import Array, Feeds

__all__ = ["FEEDS", "WANT", "identity_model", "matmul_model"]

FEEDS: Feeds = {"a": np.array([[1, 2], [3, 4]], np.float32), "b": np.array([[5, 6], [7, 8]], np.float32)}
WANT: Array = np.array([[19, 22], [43, 50]], np.float32)
"""Small integers: exact in float32, TF32 and bfloat16 alike, so that any other answer is a fault."""


def matmul_model() -> bytes:
    """An ONNX file with c = a @ b, both 2x2 float32; old enough (opset 17, IR 8) for any runtime in use."""
    from onnx import TensorProto, helper

    a, b, c = (helper.make_tensor_value_info(n, TensorProto.FLOAT, [2, 2]) for n in "abc")
    graph = helper.make_graph([helper.make_node("MatMul", ["a", "b"], ["c"], name="matmul")], "known", [a, b], [c])
    return _serialised(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8))


def identity_model(*, opset: int, ir_version: int) -> bytes:
    """An ONNX file with c = a, 2x2 float32, stamped with this opset and IR version."""
    from onnx import TensorProto, helper

    a, c = (helper.make_tensor_value_info(n, TensorProto.FLOAT, [2, 2]) for n in "ac")
    graph = helper.make_graph([helper.make_node("Identity", ["a"], ["c"], name="same")], "known", [a], [c])
    return _serialised(helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=ir_version))


def _serialised(model: object) -> bytes:
    from onnx import ModelProto

    assert isinstance(model, ModelProto)
    return bytes(model.SerializeToString())
