"""Walking an ONNX model: every graph, node and tensor in it, subgraphs and functions included."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import onnx
from onnx import AttributeProto, GraphProto, ModelProto, NodeProto, TensorProto, ValueInfoProto

__all__ = [
    "FLOAT_BITS",
    "constants",
    "dims",
    "dtype_name",
    "elem_type",
    "graph_inputs",
    "graphs",
    "nodes",
    "operator",
    "read_values",
    "tensor_bytes",
    "tensors",
]

FLOAT_BITS: dict[int, int] = {
    TensorProto.DOUBLE: 53,
    TensorProto.FLOAT: 24,
    TensorProto.FLOAT16: 11,
    TensorProto.BFLOAT16: 8,
    TensorProto.FLOAT8E4M3FN: 4,
    TensorProto.FLOAT8E4M3FNUZ: 4,
    TensorProto.FLOAT8E5M2: 3,
    TensorProto.FLOAT8E5M2FNUZ: 3,
}
"""Significant bits of each floating element type, the hidden one included (ONNX IR specification)."""

_PACKED_BITS: dict[int, int] = {
    TensorProto.INT4: 4,
    TensorProto.UINT4: 4,
    TensorProto.FLOAT4E2M1: 4,
    TensorProto.INT2: 2,
    TensorProto.UINT2: 2,
}


def graphs(model: ModelProto) -> Iterator[GraphProto]:
    """The main graph and every subgraph, those inside functions too."""
    yield from _nested(model.graph)
    for function in model.functions:
        for node in function.node:
            for graph in _subgraphs(node):
                yield from _nested(graph)


def _nested(graph: GraphProto) -> Iterator[GraphProto]:
    yield graph
    for node in graph.node:
        for inner in _subgraphs(node):
            yield from _nested(inner)


def _subgraphs(node: NodeProto) -> Iterator[GraphProto]:
    for attribute in node.attribute:
        if attribute.type == AttributeProto.GRAPH:
            yield attribute.g
        yield from attribute.graphs


def nodes(model: ModelProto) -> Iterator[NodeProto]:
    """Every node once, a function's body once however often it is called."""
    for graph in graphs(model):
        yield from graph.node
    for function in model.functions:
        yield from function.node


def tensors(model: ModelProto) -> Iterator[TensorProto]:
    """Every tensor that can hold data: initializers, sparse ones, and attributes of nodes."""
    for graph in graphs(model):
        yield from graph.initializer
        for sparse in graph.sparse_initializer:
            yield from (sparse.values, sparse.indices)
    for node in nodes(model):
        for attribute in node.attribute:
            if attribute.type == AttributeProto.TENSOR:
                yield attribute.t
            yield from attribute.tensors
            if attribute.type == AttributeProto.SPARSE_TENSOR:
                yield from (attribute.sparse_tensor.values, attribute.sparse_tensor.indices)


def operator(node: NodeProto) -> str:
    """`MatMul`; `com.microsoft::FusedMatMul` outside the default domain."""
    return node.op_type if node.domain in ("", "ai.onnx") else f"{node.domain}::{node.op_type}"


def graph_inputs(graph: GraphProto) -> list[ValueInfoProto]:
    """What has to be fed: before IR 4 the initializers are listed among the inputs too, as defaults."""
    given = {tensor.name for tensor in graph.initializer}
    return [value for value in graph.input if value.name not in given]


def elem_type(value: ValueInfoProto) -> int:
    """The element type of a tensor; UNDEFINED for anything else."""
    return int(value.type.tensor_type.elem_type)


def dtype_name(element: int) -> str:
    """A NumPy dtype name such as `float32`, `bfloat16`; `undefined` where the file does not say."""
    try:
        return str(onnx.helper.tensor_dtype_to_np_dtype(element).name)
    except KeyError:
        return "undefined"


def dims(value: ValueInfoProto) -> tuple[int | str | None, ...]:
    """A number, the file's own symbol, or None for each dim; empty where the rank itself is unknown."""
    found: list[int | str | None] = []
    for dim in value.type.tensor_type.shape.dim:
        # Some exporters write -1 where they mean that nothing is known.
        known = dim.HasField("dim_value") and dim.dim_value >= 0
        found.append(int(dim.dim_value) if known else dim.dim_param or None)
    return tuple(found)


def tensor_bytes(tensor: TensorProto) -> int:
    """What the elements take, by dims and element type, wherever they are stored."""
    count = int(math.prod(tensor.dims))
    if tensor.data_type == TensorProto.STRING:
        return sum(len(text) for text in tensor.string_data)
    if (bits := _PACKED_BITS.get(tensor.data_type)) is not None:
        return -(-count * bits // 8)
    try:
        return int(count * onnx.helper.tensor_dtype_to_np_dtype(tensor.data_type).itemsize)
    except KeyError:
        return len(tensor.raw_data)


def constants(model: ModelProto) -> dict[str, TensorProto]:
    """Initializers and Constant nodes of the main graph, by name."""
    found = {tensor.name: tensor for tensor in model.graph.initializer}
    for node in model.graph.node:
        if node.op_type == "Constant" and node.output:
            for attribute in node.attribute:
                if attribute.name == "value":
                    found[node.output[0]] = attribute.t
                elif attribute.name in ("value_int", "value_ints"):
                    numbers = [attribute.i] if attribute.name == "value_int" else list(attribute.ints)
                    shape = [] if attribute.name == "value_int" else [len(numbers)]
                    found[node.output[0]] = onnx.helper.make_tensor(node.output[0], TensorProto.INT64, shape, numbers)
    return found


def read_values(tensor: TensorProto | None) -> npt.NDArray[np.generic] | None:
    """The elements of a tensor, or None where there is none or it lies outside the file."""
    if tensor is None or tensor.data_location == TensorProto.EXTERNAL:
        return None
    return np.asarray(onnx.numpy_helper.to_array(tensor))
