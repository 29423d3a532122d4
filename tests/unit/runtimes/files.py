"""Small ONNX files for the tests of runtimes, and their records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import onnx
from onnx import NodeProto, TensorProto, ValueInfoProto, helper, numpy_helper

from onnxparity.artifact import Artifact, FileInput
from onnxparity.plan import ArtifactKey
from onnxparity.protocols import Array

Dims = Sequence[int | str | None]
IR_VERSION = 10


def value(name: str, dims: Dims, dtype: str = "float32") -> ValueInfoProto:
    """A declared input or output."""
    return helper.make_tensor_value_info(name, _kind(dtype), dims)


def record(path: Path, model: onnx.ModelProto, *, dtype: str = "float32") -> Artifact:
    """Saves a model and describes it as the exporter would."""
    path.write_bytes(model.SerializeToString())
    opset = model.opset_import[0].version
    return Artifact(
        key=ArtifactKey("subject", "file", opset, dtype),
        path=str(path),
        sha256="",
        bytes=path.stat().st_size,
        external_data=False,
        opset_asked=opset,
        opset_got=opset,
        ir_version=model.ir_version,
        domains={},
        inputs=tuple(map(_declared, model.graph.input)),
        outputs=tuple(map(_declared, model.graph.output)),
        op_census={},
        initializer_bytes=0,
        seconds=None,
        cached=False,
    )


def model(
    nodes: Sequence[NodeProto],
    inputs: Sequence[ValueInfoProto],
    outputs: Sequence[ValueInfoProto],
    *,
    opset: int = 20,
    ir_version: int = IR_VERSION,
    initializers: Mapping[str, Array] | None = None,
) -> onnx.ModelProto:
    """A model with its opset and IR version stated: onnx's own defaults are newer than ONNX Runtime."""
    held = [numpy_helper.from_array(np.asarray(array), name) for name, array in (initializers or {}).items()]
    graph = helper.make_graph(list(nodes), "graph", list(inputs), list(outputs), held)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=ir_version)


def block(seed: int = 0) -> onnx.ModelProto:
    """softmax(x w) w with a GELU made of parts: something for each optimisation level to fuse. x: (B, T, 8)."""
    weight = np.random.default_rng(seed).standard_normal((8, 8)).astype(np.float32)
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["scores"], name="project"),
        helper.make_node("Softmax", ["scores"], ["weights"], name="softmax", axis=-1),
        helper.make_node("MatMul", ["weights", "w"], ["mixed"], name="mix"),
        helper.make_node("Div", ["mixed", "root"], ["scaled"], name="scale"),
        helper.make_node("Erf", ["scaled"], ["erf"], name="erf"),
        helper.make_node("Add", ["erf", "one"], ["shifted"], name="shift"),
        helper.make_node("Mul", ["mixed", "shifted"], ["gated"], name="gate"),
        helper.make_node("Mul", ["gated", "half"], ["y"], name="halve"),
    ]
    scalars = {name: np.array(v, np.float32) for name, v in (("root", 2.0**0.5), ("one", 1.0), ("half", 0.5))}
    return model(
        nodes,
        [value("x", ["batch", "sequence", 8])],
        [value("y", ["batch", "sequence", 8])],
        initializers={"w": weight, **scalars},
    )


def _kind(dtype: str) -> int:
    return TensorProto.BFLOAT16 if dtype == "bfloat16" else helper.np_dtype_to_tensor_dtype(np.dtype(dtype))


def _declared(info: ValueInfoProto) -> FileInput:
    tensor = info.type.tensor_type
    dims = tuple(d.dim_value if d.HasField("dim_value") else d.dim_param or None for d in tensor.shape.dim)
    return FileInput(info.name, str(helper.tensor_dtype_to_np_dtype(tensor.elem_type).name), dims)
