"""Graphs whose placement on CUDA is known: where the dry run says otherwise of one, its answers prove nothing."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from onnxparity.cache import CacheDir
from onnxparity.errors import LoadError
from onnxparity.runtimes.cuda_dryrun import DEFAULT_CAPABILITY
from onnxparity.runtimes.placement import Reading, placed

if TYPE_CHECKING:
    from onnx import ModelProto, NodeProto

__all__ = ["KNOWN", "Known", "doubts"]

OPSET, IR_VERSION = 17, 8


def _attention() -> ModelProto:
    from onnx import helper

    nodes = [
        helper.make_node("MatMul", ["q", "k"], ["scores"], name="scores"),
        helper.make_node("Softmax", ["scores"], ["weights"], name="softmax"),
        helper.make_node("MatMul", ["weights", "q"], ["y"], name="mix"),
    ]
    return _model(nodes, {"q": ["b", 4, 8], "k": ["b", 8, 4]}, {"y": ["b", 4, 8]})


def _shape_arithmetic() -> ModelProto:
    from onnx import helper

    nodes = [
        helper.make_node("Shape", ["q"], ["shape"], name="shape"),
        helper.make_node("Constant", [], ["zero"], name="zero", value_ints=[0]),
        helper.make_node("Constant", [], ["rest"], name="rest", value_ints=[-1]),
        helper.make_node("Gather", ["shape", "zero"], ["batch"], name="pick"),
        helper.make_node("Concat", ["batch", "rest"], ["target"], name="join", axis=0),
        helper.make_node("Reshape", ["q", "target"], ["flat"], name="flatten"),
        helper.make_node("Softmax", ["flat"], ["y"], name="softmax"),
    ]
    return _model(nodes, {"q": ["b", "t", 8]}, {"y": [None, None]})


def _without_kernel() -> ModelProto:
    from onnx import helper

    nodes = [
        helper.make_node("MatMul", ["q", "q"], ["square"], name="square"),
        helper.make_node("Det", ["square"], ["determinants"], name="det"),
        helper.make_node("Softmax", ["determinants"], ["y"], name="softmax"),
    ]
    return _model(nodes, {"q": ["b", 4, 4]}, {"y": ["b"]})


def _model(nodes: list[NodeProto], inputs: dict[str, list[object]], outputs: dict[str, list[object]]) -> ModelProto:
    from onnx import TensorProto, helper

    given, made = (
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, dims) for name, dims in values.items()]  # type: ignore[arg-type]  # dims as onnx takes them
        for values in (inputs, outputs)
    )
    graph = helper.make_graph(nodes, "known", given, made)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION)


@dataclass(frozen=True)
class Known:
    """A graph and what is true of it."""

    says: str
    model: Callable[[], ModelProto]
    after: Mapping[str, Mapping[str, int]]
    """As `Reading.after`."""
    moved: frozenset[str]
    """Bytes of each copy."""


KNOWN = (
    Known(
        "attention runs on the device",
        _attention,
        {"device": {"MatMul": 2, "Softmax": 1}, "shapes": {}, "data": {}},
        frozenset(),
    ),
    Known(
        "shape arithmetic stays on the host",
        _shape_arithmetic,
        {"device": {"Shape": 1, "Reshape": 1, "Softmax": 1}, "shapes": {"Gather": 1, "Concat": 1}, "data": {}},
        frozenset(),
    ),
    Known(
        "Det has no kernel on CUDA and falls back",
        _without_kernel,
        {"device": {"MatMul": 1, "Softmax": 1}, "shapes": {}, "data": {"Det": 1}},
        frozenset({"4*b*4*4", "4*b"}),
    ),
)


def doubts(capability: str = DEFAULT_CAPABILITY, *, cache: CacheDir | None = None) -> tuple[str, ...]:
    """What the dry run gets wrong of the known graphs; empty where it proves itself. Raises as `cuda_dryrun.ask`."""
    return tuple(fault for known in KNOWN if (fault := _fault(known, capability, cache)))


def _fault(known: Known, capability: str, cache: CacheDir | None) -> str:
    with tempfile.TemporaryDirectory(prefix="onnxparity-") as folder:
        file = Path(folder) / "known.onnx"
        file.write_bytes(known.model().SerializeToString())
        try:
            seen: Reading = placed(file, capability=capability, cache=cache)
        except LoadError as error:
            return f"known: {known.says}; the dry run refuses the graph: {error.got}"
    moved = {str(c.bytes) for c in seen.copies}
    if (seen.after, moved) == (known.after, set(known.moved)):
        return ""
    return f"known: {known.says}; the dry run says {seen.after}, moving {sorted(moved) or 'nothing'}"
