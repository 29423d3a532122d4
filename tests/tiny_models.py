"""ONNX files of a few hundred bytes, written without PyTorch, for tests of what happens around a model."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

__all__ = ["WIDTH", "save_tiny"]

WIDTH = 3


def save_tiny(
    path: Path,
    *,
    scale: float = 1.0,
    names: tuple[str, str] = ("x", "y"),
    dtype: str = "float32",
    axis: int = -1,
    weights: bool = True,
) -> Path:
    """Writes y = softmax(scale * (x W)) over `axis`, with x and y (B, T, 3) of `dtype` under these names.

    A scale other than 1 is a fault, and so is axis 1, over which a token sees those after it. Without weights,
    y = softmax(x).
    """
    taken, given = names
    element = TensorProto.FLOAT16 if dtype == "float16" else TensorProto.FLOAT
    values = np.random.default_rng(0).standard_normal((WIDTH, WIDTH)) * scale
    nodes = [helper.make_node("Softmax", ["scores" if weights else taken], [given], axis=axis)]
    tensors = []
    if weights:
        nodes.insert(0, helper.make_node("MatMul", [taken, "W"], ["scores"]))
        tensors = [numpy_helper.from_array(values.astype(dtype), "W")]
    dims: list[str | int | None] = ["batch", "sequence", WIDTH]
    graph = helper.make_graph(
        nodes,
        "tiny",
        [helper.make_tensor_value_info(taken, element, dims)],
        [helper.make_tensor_value_info(given, element, dims)],
        tensors,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    onnx.save(model, path)
    return path
