"""An ONNX model in float64: the same graph, with rounding out of the way.

Initializers, constants, declared types and every attribute that names a floating dtype are widened;
integers, booleans, strings and the 8-bit and 4-bit quantised types keep their structure. What has no
meaning of its own (random numbers, the bits of a float) is refused rather than guessed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import onnx
from onnx import AttributeProto, GraphProto, ModelProto, NodeProto, TensorProto, TypeProto, helper, numpy_helper
from onnx.inliner import inline_local_functions

from onnxparity.errors import LoadError

__all__ = ["FLOATS", "graphs_of", "inlined", "promote"]

FLOATS = frozenset({TensorProto.FLOAT16, TensorProto.BFLOAT16, TensorProto.FLOAT, TensorProto.DOUBLE})
"""The dtypes a model computes in. The 8-bit and 4-bit floats are storage and stay what they are."""

_DTYPE_ATTRIBUTES = {
    "Attention": "softmax_precision",
    "Cast": "to",
    "DequantizeLinear": "output_dtype",
    "EyeLike": "dtype",
    "GroupNormalization": "stash_type",
    "LayerNormalization": "stash_type",
    "QuantizeLinear": "precision",
    "RMSNormalization": "stash_type",
    "Range": "stash_type",
    "SequenceEmpty": "dtype",
}
_RANDOM = frozenset(
    {"Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"}
)


def promote(model: ModelProto) -> ModelProto:
    """The model in float64, its local functions inlined. The given model is left alone.

    Raises LoadError for sparse constants, random operators and `BitCast`, which have no float64 meaning.
    """
    wide = ModelProto()
    wide.CopyFrom(inlined(model))
    _promote_graph(wide.graph)
    return wide


def inlined(model: ModelProto) -> ModelProto:
    """The same model without local functions; the model itself where it has none."""
    return inline_local_functions(model) if model.functions else model


def graphs_of(node: NodeProto) -> Iterator[tuple[str, GraphProto]]:
    """The node's subgraphs by attribute name (bodies of If, Loop, Scan)."""
    for attribute in node.attribute:
        if attribute.type == AttributeProto.GRAPH:
            yield attribute.name, attribute.g
        for graph in attribute.graphs:
            yield attribute.name, graph


def _promote_graph(graph: GraphProto) -> None:
    if graph.sparse_initializer:
        raise _sparse(graph.sparse_initializer[0].values.name or graph.name)
    _widen_tensors(graph.initializer)
    for value in (*graph.input, *graph.output, *graph.value_info):
        _widen_type(value.type)
    for node in graph.node:
        _promote_node(node)


def _promote_node(node: NodeProto) -> None:
    if node.domain in ("", "ai.onnx"):
        _refuse_meaningless(node)
        _write_defaults(node)
    for attribute in node.attribute:
        _promote_attribute(node, attribute)
    for _, graph in graphs_of(node):
        _promote_graph(graph)


def _promote_attribute(node: NodeProto, attribute: AttributeProto) -> None:
    if attribute.type == AttributeProto.SPARSE_TENSOR or attribute.sparse_tensors:
        raise _sparse(node.name or node.output[0])
    if attribute.type == AttributeProto.TENSOR:
        _widen_tensors([attribute.t])
    elif attribute.type == AttributeProto.TYPE_PROTO:
        _widen_type(attribute.tp)
    elif attribute.name == _DTYPE_ATTRIBUTES.get(node.op_type) and attribute.i in FLOATS:
        attribute.i = TensorProto.DOUBLE
    elif node.op_type == "Constant" and attribute.name in ("value_float", "value_floats"):
        floats = attribute.f if attribute.name == "value_float" else list(attribute.floats)
        wide = numpy_helper.from_array(np.asarray(floats, np.float64))
        attribute.CopyFrom(helper.make_attribute("value", wide))


def _refuse_meaningless(node: NodeProto) -> None:
    what = f"{node.op_type} {node.name or node.output[0]!r} has no float64 meaning"
    if node.op_type in _RANDOM:
        raise LoadError(what, expected="a deterministic graph", remedy="export in eval mode")
    if node.op_type == "BitCast":
        raise LoadError(what, expected="operators on values, not on bits", remedy="replace BitCast by Cast")


def _write_defaults(node: NodeProto) -> None:
    """Writes out the dtypes that an absent attribute stands for, since they would stay float32."""
    named = {a.name for a in node.attribute}
    if node.op_type == "ConstantOfShape" and "value" not in named:
        node.attribute.append(helper.make_attribute("value", numpy_helper.from_array(np.zeros(1))))
    if node.op_type == "SequenceEmpty" and "dtype" not in named:
        node.attribute.append(helper.make_attribute("dtype", TensorProto.DOUBLE))


def _widen_tensors(tensors: Iterable[TensorProto]) -> None:
    for tensor in tensors:
        if tensor.data_type in FLOATS and tensor.data_type != TensorProto.DOUBLE:
            wide = numpy_helper.to_array(tensor).astype(np.float64)
            tensor.CopyFrom(numpy_helper.from_array(wide, tensor.name))


def _widen_type(declared: TypeProto) -> None:
    kind = declared.WhichOneof("value")
    if kind == "tensor_type" and declared.tensor_type.elem_type in FLOATS:
        declared.tensor_type.elem_type = TensorProto.DOUBLE
    elif kind in ("sequence_type", "optional_type"):
        _widen_type(getattr(declared, kind).elem_type)


def _sparse(name: str) -> LoadError:
    return LoadError(
        f"sparse constant {name!r} cannot be promoted to float64",
        expected="dense initializers and constants",
        remedy="store the tensor dense before verifying",
    )
