"""Faults planted in an exported file: what an optimiser, a quantiser, a converter or a hand edit gets wrong.

Each plant changes a ModelProto in place, finds its node by operator and module, and returns that node's name.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper

from onnxparity.errors import UsageError
from onnxparity.selftesting.planting import Where

__all__ = [
    "Plant",
    "Values",
    "attribute",
    "cut_rows",
    "dropout",
    "exchanged_inputs",
    "find",
    "folded",
    "in_bfloat16",
    "in_half",
    "initializer",
    "left_out",
    "one_column",
    "operator",
    "replace",
    "weight",
    "widened",
]

Plant = Callable[[ModelProto], Sequence[Where]]
Values = npt.NDArray[np.float32]


def attribute(op_type: str, name: str, value: object, *, module: str = "", place: int = 0) -> Plant:
    """Another value of a node's attribute."""

    def plant(model: ModelProto) -> Sequence[Where]:
        node = find(model, op_type, module, place)
        kept = [a for a in node.attribute if a.name != name]
        del node.attribute[:]
        node.attribute.extend([*kept, helper.make_attribute(name, value)])
        return (Where(nodes=(node.name,)),)

    return plant


def operator(op_type: str, instead: str, *, module: str = "", place: int = 0) -> Plant:
    """Another operator of the same arity."""

    def plant(model: ModelProto) -> Sequence[Where]:
        node = find(model, op_type, module, place)
        node.op_type = instead
        return (Where(nodes=(node.name,)),)

    return plant


def exchanged_inputs(op_type: str, *, module: str = "", place: int = 0) -> Plant:
    """The first two inputs of a node change places."""

    def plant(model: ModelProto) -> Sequence[Where]:
        node = find(model, op_type, module, place)
        node.input[0], node.input[1] = node.input[1], node.input[0]
        return (Where(nodes=(node.name,)),)

    return plant


def left_out(op_type: str, *, module: str = "", place: int = 0) -> Plant:
    """A node that is bypassed: whoever read it reads its first input. The location is its first consumer."""

    def plant(model: ModelProto) -> Sequence[Where]:
        node = find(model, op_type, module, place)
        readers = [n for n in model.graph.node if node.output[0] in n.input]
        if not readers:
            raise UsageError(f"{op_type} {node.name} is read by no node")
        for reader in readers:
            reader.input[:] = [node.input[0] if name == node.output[0] else name for name in reader.input]
        model.graph.node.remove(node)
        return (Where(nodes=tuple(n.name for n in readers)),)

    return plant


def in_half(op_type: str, *, module: str = "", place: int = 0) -> Plant:
    """A node of a float32 graph that computes in half precision, between casts."""
    return _between_casts(op_type, TensorProto.FLOAT16, TensorProto.FLOAT, module, place)


def widened(op_type: str, *, module: str = "", place: int = 0) -> Plant:
    """A node of a float32 graph that computes in double, between casts: the same function, only rounded less."""
    return _between_casts(op_type, TensorProto.DOUBLE, TensorProto.FLOAT, module, place)


def _between_casts(op_type: str, inside: int, outside: int, module: str, place: int) -> Plant:
    def plant(model: ModelProto) -> Sequence[Where]:
        node = find(model, op_type, module, place)
        switches = _of_type(model, TensorProto.BOOL)  # such as a mask, which stays what it is
        into = [
            helper.make_node("Cast", [name], [f"{name}_in"], f"{node.name}_cast_{i}", to=inside)
            for i, name in enumerate(node.input)
            if name not in switches
        ]
        back = helper.make_node("Cast", [f"{node.output[0]}_in"], [node.output[0]], f"{node.name}_back", to=outside)
        node.input[:] = [name if name in switches else f"{name}_in" for name in node.input]
        node.output[0] = back.input[0]
        _forget_types(model, back.input[0])
        _insert(model, node, before=into, after=[back])
        return (Where(nodes=(*(cast.name for cast in into), node.name, back.name)),)

    return plant


def dropout(op_type: str, *, training: bool, module: str = "", place: int = 0) -> Plant:
    """A Dropout behind a node; left in training mode it draws at each run."""

    def plant(model: ModelProto) -> Sequence[Where]:
        node = find(model, op_type, module, place)
        name, inner = node.output[0], f"{node.output[0]}_kept"
        node.output[0] = inner
        switch = [
            numpy_helper.from_array(np.asarray(0.1, np.float32), "dropout_ratio"),
            numpy_helper.from_array(np.asarray(training), "dropout_training"),
        ]
        model.graph.initializer.extend(switch)
        drop = helper.make_node("Dropout", [inner, *(s.name for s in switch)], [name], f"{node.name}_dropout", seed=7)
        _insert(model, node, before=[], after=[drop])
        return (Where(nodes=(drop.name,)),)

    return plant


def folded(op_type: str, value: npt.NDArray[np.int64], *, module: str = "", place: int = 0) -> Plant:
    """A node replaced by the constant that it had at one shape. The location is that of its first consumers."""

    def plant(model: ModelProto) -> Sequence[Where]:
        node = find(model, op_type, module, place)
        readers = tuple(n.name for n in model.graph.node if node.output[0] in n.input)
        model.graph.initializer.append(numpy_helper.from_array(value, node.output[0]))
        model.graph.node.remove(node)
        _forget_types(model)
        return (Where(nodes=readers),)

    return plant


def cut_rows(name: str, rows: int) -> Plant:
    """A table that ends after `rows` rows. The location is who reads it."""

    def plant(model: ModelProto) -> Sequence[Where]:
        replace(model, name, numpy_helper.to_array(weight(model, name))[:rows])
        _forget_types(model)
        return _readers(model, name)

    return plant


def initializer(op_type: str, change: Callable[[Values], Values], *, module: str = "", place: int = 0) -> Plant:
    """Another value of the weight that a node reads."""

    def plant(model: ModelProto) -> Sequence[Where]:
        node = find(model, op_type, module, place)
        known = {tensor.name for tensor in model.graph.initializer}
        name = next(name for name in node.input if name in known)
        replace(model, name, change(numpy_helper.to_array(weight(model, name)).astype(np.float32)))
        return _readers(model, name)

    return plant


def in_bfloat16(weight: Values) -> Values:
    """The upper half of each number's bits."""
    bits = weight.view(np.uint32) & np.uint32(0xFFFF0000)
    rounded: Values = bits.view(np.float32)
    return rounded


def one_column(weight: Values) -> Values:
    """One column 1 % larger."""
    return weight * np.where(np.arange(weight.shape[1]) == 7, np.float32(1.01), np.float32(1))


def find(model: ModelProto, op_type: str, module: str, place: int) -> NodeProto:
    """The node of that operator below that module. Raises UsageError where there is none."""
    nodes = [n for n in model.graph.node if n.op_type == op_type and (not module or module in _scopes(n))]
    if not -len(nodes) <= place < len(nodes):
        raise UsageError(f"the file has no {op_type} number {place} in {module or 'any module'}", got=str(len(nodes)))
    node: NodeProto = nodes[place]
    return node


def _of_type(model: ModelProto, elem_type: int) -> set[str]:
    """Names of the values of that type."""
    values = (*model.graph.value_info, *model.graph.input, *model.graph.output)
    return {value.name for value in values if value.type.tensor_type.elem_type == elem_type}


def _scopes(node: NodeProto) -> str:
    return next((p.value for p in node.metadata_props if p.key == "pkg.torch.onnx.name_scopes"), "")


def weight(model: ModelProto, name: str) -> TensorProto:
    """The initializer of that name. Raises UsageError where there is none."""
    tensors: Sequence[TensorProto] = model.graph.initializer
    found = next((tensor for tensor in tensors if tensor.name == name), None)
    if found is None:
        raise UsageError(f"the file has no weight {name!r}")
    return found


def replace(model: ModelProto, name: str, value: npt.NDArray[np.generic]) -> None:
    weight(model, name).CopyFrom(numpy_helper.from_array(np.ascontiguousarray(value), name))


def _readers(model: ModelProto, name: str) -> tuple[Where, ...]:
    return (Where(nodes=tuple(n.name for n in model.graph.node if name in n.input)),)


def _insert(model: ModelProto, node: NodeProto, *, before: Sequence[NodeProto], after: Sequence[NodeProto]) -> None:
    place = list(model.graph.node).index(node)
    for offset, new in enumerate(before):
        model.graph.node.insert(place + offset, new)
    for offset, new in enumerate(after):
        model.graph.node.insert(place + len(before) + 1 + offset, new)


def _forget_types(model: ModelProto, name: str | None = None) -> None:
    """Value types that no longer hold; shape inference finds them again."""
    kept = [] if name is None else [v for v in model.graph.value_info if v.name != name]
    del model.graph.value_info[:]
    model.graph.value_info.extend(kept)
