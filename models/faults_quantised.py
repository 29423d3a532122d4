"""A weight stored as int8, as a right quantiser stores it, and the ways in which that goes wrong."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from onnx import ModelProto, helper, numpy_helper

from onnxparity.models.graph_faults import Plant, Values, find, replace, weight
from onnxparity.outcome import Expectation, Status
from onnxparity.selftesting.planting import Where

__all__ = ["FUSED", "dequantised", "first_larger", "first_one_on", "of_128", "quantised", "unchanged"]

FUSED = Expectation(
    cells="*/ort-cpu*/*",
    status=Status.ARITHMETIC,
    reason="""ONNX Runtime 1.31 fuses DequantizeLinear and MatMul into MatMulNBits at accuracy level 4, which rounds \
the float32 inputs to int8 as well; session.qdq_matmulnbits_accuracy_level=1 keeps them""",
    link="https://github.com/microsoft/onnxruntime/blob/main/include/onnxruntime/core/session/"
    "onnxruntime_session_options_config_keys.h",
)
"""What ONNX Runtime gets wrong of the right file."""


def quantised(op_type: str = "MatMul", *, module: str = "", place: int = 0, axis: int | None = 1) -> Plant:
    """A weight stored as int8 with one scale a column (or one in all), as a right quantiser writes it."""

    def plant(model: ModelProto) -> Sequence[Where]:
        node = find(model, op_type, module, place)
        known = {tensor.name for tensor in model.graph.initializer}
        name = next(name for name in node.input if name in known)
        values = numpy_helper.to_array(weight(model, name))
        scale = np.abs(values).max(axis=None if axis is None else 1 - axis) / 127
        columns = scale if axis is None or axis == 1 else scale[:, None]
        parts = {
            "int8": np.clip(np.round(values / columns), -128, 127).astype(np.int8),
            "scale": np.asarray(scale, np.float32),
            "zero": np.zeros(np.shape(scale), np.int8),
        }
        model.graph.initializer.remove(weight(model, name))
        model.graph.initializer.extend(numpy_helper.from_array(v, f"{name}_{k}") for k, v in parts.items())
        wide = helper.make_node("DequantizeLinear", [f"{name}_{k}" for k in parts], [name], "dequantise")
        wide.attribute.extend([] if axis is None else [helper.make_attribute("axis", axis)])
        model.graph.node.insert(0, wide)
        return (Where(nodes=("dequantise",)),)

    return plant


def dequantised(part: str, change: Callable[[Values], Values]) -> Plant:
    """Another scale or zero point of the weight that `quantised` stored. The location is its DequantizeLinear."""

    def plant(model: ModelProto) -> Sequence[Where]:
        node = find(model, "DequantizeLinear", "", 0)
        name = next(i for i in node.input if i.endswith(f"_{part}"))
        old = numpy_helper.to_array(weight(model, name))
        replace(model, name, change(old.astype(np.float32)).astype(old.dtype))
        return (Where(nodes=(node.name, *(n.name for n in model.graph.node if node.output[0] in n.input))),)

    return plant


def first_larger(scale: Values) -> Values:
    """The first of many 1 % larger."""
    return scale * np.where(np.arange(scale.size) == 0, np.float32(1.01), np.float32(1))


def of_128(scale: Values) -> Values:
    """As if the largest weight were 128 steps away, not 127."""
    return scale * np.float32(127 / 128)


def first_one_on(zero: Values) -> Values:
    """The first of many one larger."""
    return zero + np.where(np.arange(zero.size) == 0, np.float32(1), np.float32(0))


def unchanged(model: ModelProto) -> Sequence[Where]:
    """What a right tool wrote, as it wrote it."""
    return ()
