"""Cutting an ONNX graph: a part of it as a file of its own, or the whole with more of its values shown as outputs.

Values are addressed by name. Local functions are inlined first, so that every name is the graph's own; a node with
subgraphs (If, Loop, Scan) is one node.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path

import numpy as np
import onnx
from onnx import GraphProto, ModelProto, NodeProto, ValueInfoProto, helper, numpy_helper
from onnx.inliner import inline_local_functions
from onnx.shape_inference import infer_shapes

from onnxparity.artifact import Artifact, FileInput
from onnxparity.numerics.floats import cast
from onnxparity.protocols import Array, Feeds, Outputs
from onnxparity.runtimes.float64_graph import load_model
from onnxparity.runtimes.promotion import graphs_of

__all__ = [
    "LARGEST_INLINE",
    "Sliceable",
    "copied",
    "dtype_name",
    "outputs_as_declared",
    "save",
    "stored",
    "write_tensor",
]

LARGEST_INLINE = 2**30
"""Bytes of weights above which they are written beside the file; protobuf ends at 2**31."""
SMALL = 1024
"""Elements up to which a constant may hold a shape, which inference reads."""


class Sliceable:
    """A model that can be cut. Raises LoadError where the file cannot be read."""

    def __init__(self, model: ModelProto) -> None:
        """The model is kept and never changed: hand over one that nobody else changes."""
        self.model = inline_local_functions(model) if model.functions else model
        graph = self.model.graph
        self.nodes: tuple[NodeProto, ...] = tuple(graph.node)
        """In the order of the file, which is an order of evaluation."""
        self.makers: dict[str, NodeProto] = {name: node for node in graph.node for name in node.output if name}
        self._initializers = {t.name: t for t in graph.initializer}
        self.inputs = tuple(i.name for i in graph.input if i.name not in self._initializers)
        self.outputs = tuple(o.name for o in graph.output)

    @classmethod
    def load(cls, path: str | Path) -> Sliceable:
        """Reads the file with its external data."""
        return cls(load_model(path))

    @cached_property
    def dtypes(self) -> Mapping[str, int]:
        """Element type of every tensor whose type can be inferred, as a TensorProto number."""
        graph = _inferred(self.model).graph
        values = (*graph.input, *graph.output, *graph.value_info)
        known = {v.name: v.type.tensor_type.elem_type for v in values if v.type.HasField("tensor_type")}
        return known | {t.name: t.data_type for t in self._initializers.values()}

    def is_constant(self, name: str) -> bool:
        """Whether a value is stored in the file as it is."""
        maker = self.makers.get(name)
        return name in self._initializers or (maker is not None and maker.op_type == "Constant")

    def takes(self, node: NodeProto) -> tuple[str, ...]:
        """All that a node reads and that is not stored in the file, what its subgraphs capture included."""
        names = dict.fromkeys((*node.input, *(n for _, body in graphs_of(node) for n in _captured(body))))
        return tuple(name for name in names if name and not self.is_constant(name))

    def between(self, inputs: Collection[str], outputs: Iterable[str]) -> tuple[NodeProto, ...]:
        """The nodes that lead from these inputs to these outputs, in order; constants apart.

        Raises ValueError where an output needs something that is neither given nor made.
        """
        wanted, todo = set[str](), list(outputs)
        while todo:
            name = todo.pop()
            if name in inputs or name in wanted or self.is_constant(name):
                continue
            if name not in self.makers:
                raise ValueError(f"{name!r} is neither made by a node nor given; given: {sorted(inputs)}")
            wanted.add(name)
            todo += self.takes(self.makers[name])
        return tuple(node for node in self.nodes if wanted & set(node.output))

    def cut(self, feeds: Feeds, outputs: Sequence[str]) -> ModelProto:
        """The part that makes `outputs` from values with the names, shapes and dtypes of `feeds`.

        Feeds that nothing on the way needs are left out. Raises ValueError as `between`.
        """
        nodes = self.between(feeds.keys(), outputs)
        read = {
            name for node in nodes for name in (*node.input, *(n for _, b in graphs_of(node) for n in _captured(b)))
        }
        made = {name for node in nodes for name in node.output}
        constants = [n for n in self.nodes if n.op_type == "Constant" and n.output[0] in (read | set(outputs)) - made]
        inputs = [_declared(name, value) for name, value in feeds.items() if name in read - made]
        held = [t for t in self._initializers.values() if t.name in read | set(outputs)]
        shown = [self._shown(name) for name in outputs]
        return self._model(helper.make_graph([*constants, *nodes], "part", inputs, shown, held))

    def exposing(self, names: Sequence[str]) -> ModelProto:
        """The whole model with these values as further outputs, after its own."""
        model = copied(self.model)
        model.graph.output.extend(self._shown(name) for name in names if name not in self.outputs)
        return model

    def _shown(self, name: str) -> ValueInfoProto:
        """An output of this name: as the model declares it, else with its inferred type, else without."""
        info: ValueInfoProto
        for info in self.model.graph.output:
            if info.name == name:
                return info
        dtype = self.dtypes.get(name)
        info = helper.make_tensor_value_info(name, dtype, None) if dtype else ValueInfoProto(name=name)
        return info

    def _model(self, graph: GraphProto) -> ModelProto:
        model: ModelProto = helper.make_model(
            graph, opset_imports=list(self.model.opset_import), ir_version=self.model.ir_version
        )
        return model


def save(model: ModelProto, path: Path) -> bool:
    """Writes a model; weights above LARGEST_INLINE go beside it, to `NAME.onnx.data`. Returns whether they did."""
    large = sum(len(t.raw_data) for t in model.graph.initializer) > LARGEST_INLINE
    location = f"{path.name}.data"
    path.parent.mkdir(parents=True, exist_ok=True)
    (path.parent / location).unlink(missing_ok=True)  # onnx appends to what is there
    # a copy, since onnx moves the weights out of the model that it is given
    onnx.save(copied(model) if large else model, str(path), save_as_external_data=large, location=location)
    return large


def stored(model: ModelProto, artifact: Artifact, path: Path) -> Artifact:
    """Writes a part of an artifact's model. Its record is the artifact's own but for what the file declares."""
    external = save(model, path)
    held = {t.name for t in model.graph.initializer}
    return replace(
        artifact,
        path=str(path),
        sha256="",
        bytes=sum(p.stat().st_size for p in path.parent.glob(f"{path.name}*")),
        external_data=external,
        inputs=tuple(_file_input(i) for i in model.graph.input if i.name not in held),
        outputs=tuple(map(_file_input, model.graph.output)),
    )


def copied(model: ModelProto) -> ModelProto:
    """A copy of one's own."""
    copy = ModelProto()
    copy.CopyFrom(model)
    return copy


def dtype_name(element: int) -> str:
    """NumPy's name of a TensorProto element type."""
    return str(helper.tensor_dtype_to_np_dtype(element).name)


def outputs_as_declared(model: ModelProto, values: Outputs) -> Outputs:
    """Exact values by output name, rounded to the dtype that the model declares, in its order."""
    declared = {o.name: o.type.tensor_type.elem_type for o in model.graph.output if o.name in values}
    return {n: cast(values[n], dtype_name(kind)) if kind else values[n] for n, kind in declared.items()}


def write_tensor(path: Path, name: str, value: Array) -> None:
    """One array as a TensorProto, the form of ONNX's own test data."""
    path.write_bytes(numpy_helper.from_array(np.asarray(value), name).SerializeToString())


def _captured(graph: GraphProto) -> Iterator[str]:
    """Names that a subgraph takes from the graphs around it."""
    own = {t.name for t in graph.initializer} | {i.name for i in graph.input}
    for node in graph.node:
        for name in (*node.input, *(n for _, body in graphs_of(node) for n in _captured(body))):
            if name and name not in own:
                yield name
        own |= set(node.output)
    yield from (o.name for o in graph.output if o.name not in own)


def _declared(name: str, value: Array) -> ValueInfoProto:
    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(value.dtype), value.shape)


def _file_input(info: ValueInfoProto) -> FileInput:
    tensor = info.type.tensor_type
    dims = tuple(d.dim_value if d.HasField("dim_value") else d.dim_param or None for d in tensor.shape.dim)
    dtype = helper.tensor_dtype_to_np_dtype(tensor.elem_type).name if tensor.elem_type else ""
    return FileInput(info.name, str(dtype), dims)


def _inferred(model: ModelProto) -> ModelProto:
    """The model with inferred types, less its weights: inference needs their types alone."""
    graph = GraphProto(name=model.graph.name or "graph")
    graph.node.extend(model.graph.node)
    graph.output.extend(model.graph.output)
    graph.input.extend(model.graph.input)
    given = {i.name for i in graph.input}
    for tensor in model.graph.initializer:
        if np.prod(tensor.dims) <= SMALL:
            graph.initializer.append(tensor)
        elif tensor.name not in given:
            graph.input.append(helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims))
    bare = helper.make_model(graph, opset_imports=list(model.opset_import), ir_version=model.ir_version)
    try:
        return infer_shapes(bare)
    except Exception:  # onnx raises its own kinds; types that are not known are left to the runtime
        return bare
