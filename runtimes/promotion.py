"""An ONNX graph in float64: the same graph, with rounding out of the way.

Constants, declared types and every attribute that names a floating dtype are widened; integers, booleans,
strings and the 8-bit and 4-bit quantised types keep their structure. What has no meaning of its own
(random numbers, the bits of a float) is refused rather than guessed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from onnx import AttributeProto, GraphProto, ModelProto, NodeProto, TensorProto, TypeProto, helper, numpy_helper

from onnxparity.errors import LoadError
from onnxparity.protocols import Array
from onnxparity.runtimes.fingerprint import fingerprint

__all__ = [
    "MASK",
    "ROUNDOFF",
    "Constant",
    "dominant_dtype",
    "graphs_of",
    "promote",
    "rounded_when_stored",
    "take_constants",
]

ROUNDOFF: dict[int, float] = {
    TensorProto.FLOAT16: 2.0**-11,
    TensorProto.BFLOAT16: 2.0**-8,
    TensorProto.FLOAT: 2.0**-24,
    TensorProto.DOUBLE: 2.0**-53,
}
"""Unit roundoff of the dtypes that a model computes in. The 8-bit and 4-bit floats are storage and stay."""

MASK = 2.0**100
"""Beyond this a value stands for infinity in a mask."""

_DTYPE_ATTRIBUTES = {
    "Attention": "softmax_precision",
    "Cast": "to",
    "DequantizeLinear": "output_dtype",
    "EyeLike": "dtype",
    "FlexAttention": "softmax_precision",
    "GroupNormalization": "stash_type",
    "LayerNormalization": "stash_type",
    "QuantizeLinear": "precision",
    "RMSNormalization": "stash_type",
    "Range": "stash_type",
    "SequenceEmpty": "dtype",
    **dict.fromkeys(("BlackmanWindow", "HammingWindow", "HannWindow"), "output_datatype"),
}
_RANDOM = frozenset(
    {"Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"}
)


@dataclass(frozen=True, eq=False)
class Constant:
    """An initializer or the value of a Constant node."""

    name: str
    value: Array
    """In float64 where the file stores a float, unless it was taken in the stored dtype."""
    roundoff: float
    """Unit roundoff of the dtype that the file stores it in; 0 for what is no float."""

    @cached_property
    def fingerprint(self) -> str:
        """Of the values, see `fingerprint.fingerprint`."""
        return fingerprint(self.value)

    @cached_property
    def inexact(self) -> Array | bool:
        """Where storing it may have rounded: everywhere (True), nowhere (False) or by element."""
        return rounded_when_stored(self.value, self.roundoff) if self.roundoff else False


def rounded_when_stored(value: Array, roundoff: float = ROUNDOFF[TensorProto.FLOAT]) -> Array | bool:
    """Where float64 values may be rounded forms of others: True, False or by element.

    Whole numbers and short binary fractions are exact in any dtype that holds them, and so are values beyond
    2**100, which are masks rather than data. Short is up to six significant bits in float32 (3, 0.625), which one
    rounded number in 2**18 is by chance; in half precision two bits (0.5, 0.75), since 10**-0.25 becomes 0.5625.
    """
    value = np.ascontiguousarray(value, np.float64)
    spare = 47 if roundoff <= ROUNDOFF[TensorProto.FLOAT] else 51
    short = (value.view(np.int64) & ((1 << spare) - 1)) == 0
    exact = short | (value == np.rint(value)) | (np.abs(value) > MASK)
    return False if exact.all() else ~exact if exact.any() else True


def take_constants(graph: GraphProto, *, promoted: bool) -> tuple[Constant, ...]:
    """Removes the initializers and Constant nodes from this graph (not from its subgraphs) and returns them.

    promoted: floats come out in float64; otherwise as stored. Raises LoadError for sparse constants.
    """
    if graph.sparse_initializer:
        raise _sparse(graph.sparse_initializer[0].values.name)
    taken = [_constant(t.name, t, promoted) for t in graph.initializer]
    kept = []
    for node in graph.node:
        if node.op_type == "Constant":
            taken.append(_constant(node.output[0], _value(node), promoted))
        else:
            kept.append(node)
    del graph.initializer[:], graph.node[:]
    graph.node.extend(kept)
    return tuple(taken)


def promote(graph: GraphProto) -> None:
    """Widens the declared types and the attributes of this graph and its subgraphs, in place.

    Raises LoadError for random operators, `BitCast` and sparse attributes, which have no float64 meaning.
    """
    for value in (*graph.input, *graph.output, *graph.value_info):
        _widen_type(value.type)
    for node in graph.node:
        _refuse_meaningless(node)
        _write_defaults(node)
        for attribute in node.attribute:
            _widen_attribute(node, attribute)
        for _, body in graphs_of(node):
            promote(body)


def dominant_dtype(model: ModelProto) -> int:
    """The floating dtype that most of the model's constants are kept and used in, as a TensorProto number.

    A constant that only passes through Cast counts in the finer of the two dtypes: half weights that are widened
    before use make no half-precision model, and neither do float32 weights that are narrowed, since whoever stored
    them so can expect float32 of every part. Without floating constants the declared inputs and outputs decide,
    else float32.
    """
    elements: Counter[int] = Counter()
    for graph in _all_graphs(model.graph):
        casts = _cast_targets(graph)
        stored = [(t.name, t) for t in graph.initializer]
        stored += [(n.output[0], _value(n)) for n in graph.node if n.op_type == "Constant"]
        for name, tensor in stored:
            if tensor.data_type in ROUNDOFF:
                used = casts.get(name, tensor.data_type)
                elements[min(tensor.data_type, used, key=ROUNDOFF.__getitem__)] += int(np.prod(tensor.dims))
    declared = {v.type.tensor_type.elem_type for v in (*model.graph.input, *model.graph.output)} & ROUNDOFF.keys()
    finest = min(declared, key=ROUNDOFF.__getitem__, default=TensorProto.FLOAT)
    if not elements:
        return finest
    # Where all that goes in and comes out is half, so is the model, however few of its constants are.
    return max(elements.most_common(1)[0][0], finest if declared else 0, key=lambda d: ROUNDOFF.get(d, 0.0))


def graphs_of(node: NodeProto) -> Iterator[tuple[str, GraphProto]]:
    """The node's subgraphs by attribute name (the bodies of If, Loop and Scan)."""
    for attribute in node.attribute:
        if attribute.type == AttributeProto.GRAPH:
            yield attribute.name, attribute.g


def _all_graphs(graph: GraphProto) -> Iterator[GraphProto]:
    yield graph
    for node in graph.node:
        for _, body in graphs_of(node):
            yield from _all_graphs(body)


def _cast_targets(graph: GraphProto) -> dict[str, int]:
    """By name: the floating dtype that every use of it is cast to."""
    targets: dict[str, set[int]] = {}
    for node in graph.node:
        to = next((a.i for a in node.attribute if node.op_type == "Cast" and a.name == "to"), 0)
        for name in node.input:
            targets.setdefault(name, set()).add(to)
    return {name: next(iter(to)) for name, to in targets.items() if len(to) == 1 and to <= ROUNDOFF.keys()}


def _constant(name: str, tensor: TensorProto, promoted: bool) -> Constant:
    roundoff = ROUNDOFF.get(tensor.data_type, 0.0)
    value = numpy_helper.to_array(tensor)
    return Constant(name, value.astype(np.float64) if promoted and roundoff else value, roundoff)


def _value(node: NodeProto) -> TensorProto:
    """What a Constant node holds, whichever attribute says so."""
    (attribute,) = (a for a in node.attribute if a.name.startswith(("value", "sparse")))
    kinds = {"float": np.float32, "floats": np.float32, "int": np.int64, "ints": np.int64}
    kind = attribute.name.removeprefix("value_")
    if attribute.type == AttributeProto.TENSOR:
        tensor: TensorProto = attribute.t
        return tensor
    if kind in kinds:
        return numpy_helper.from_array(np.asarray(helper.get_attribute_value(attribute), kinds[kind]))
    if kind in ("string", "strings"):
        return numpy_helper.from_array(np.asarray(helper.get_attribute_value(attribute), object))
    raise _sparse(node.output[0])


def _widen_attribute(node: NodeProto, attribute: AttributeProto) -> None:
    if attribute.type == AttributeProto.SPARSE_TENSOR:
        raise _sparse(node.output[0])
    if attribute.type == AttributeProto.TENSOR and attribute.t.data_type in ROUNDOFF:
        attribute.t.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(attribute.t).astype(np.float64)))
    elif attribute.type == AttributeProto.TYPE_PROTO:
        _widen_type(attribute.tp)
    elif attribute.name == _DTYPE_ATTRIBUTES.get(node.op_type) and attribute.i in ROUNDOFF:
        attribute.i = TensorProto.DOUBLE


def _refuse_meaningless(node: NodeProto) -> None:
    what = f"{node.op_type} {node.name or node.output[0]!r} has no float64 meaning"
    if node.op_type in _RANDOM:
        raise LoadError(what, expected="a deterministic graph", remedy="export the model in eval mode")
    if node.op_type == "BitCast":
        raise LoadError(what, expected="operators on values, not on bits", remedy="use Cast instead of BitCast")


def _write_defaults(node: NodeProto) -> None:
    """Writes out the float32 that an absent attribute stands for, as float64."""
    named = {a.name for a in node.attribute}
    if node.op_type == "ConstantOfShape" and "value" not in named:
        node.attribute.append(helper.make_attribute("value", numpy_helper.from_array(np.zeros(1))))
    if node.op_type.endswith("Window") and "output_datatype" not in named:
        node.attribute.append(helper.make_attribute("output_datatype", TensorProto.DOUBLE))
    if node.op_type == "SequenceEmpty" and "dtype" not in named:
        node.attribute.append(helper.make_attribute("dtype", TensorProto.DOUBLE))


def _widen_type(declared: TypeProto) -> None:
    kind = declared.WhichOneof("value")
    if kind == "tensor_type" and declared.tensor_type.elem_type in ROUNDOFF:
        declared.tensor_type.elem_type = TensorProto.DOUBLE
    elif kind in ("sequence_type", "optional_type"):
        _widen_type(getattr(declared, kind).elem_type)


def _sparse(name: str) -> LoadError:
    return LoadError(
        f"sparse constant {name!r} cannot be evaluated",
        expected="dense initializers and constants",
        remedy="store the tensor dense before verifying",
    )
