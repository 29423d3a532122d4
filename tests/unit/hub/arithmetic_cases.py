"""Small graphs whose arithmetic goes wrong in one known place, and a runtime that spoils one node."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import ModelProto, NodeProto, TensorProto, helper

from onnxparity.artifact import Artifact
from onnxparity.outcome import Question
from onnxparity.protocols import Array, Availability, Runtime, Session
from onnxparity.runtimes.ort import Level
from onnxparity.runtimes.ort_cpu import OrtCpu
from tests.unit.runtimes.files import model, value

WIDTH = 16


def weights() -> Array:
    """(16, 16), of a size that keeps the size of what is multiplied."""
    return np.asarray(np.random.default_rng(0).standard_normal((WIDTH, WIDTH)) / 4, np.float32)


def node(op: str, inputs: str, outputs: str, **attributes: Any) -> NodeProto:  # Any: as onnx.helper takes them
    """A node that is called like its first output."""
    made: NodeProto = helper.make_node(op, inputs.split(), outputs.split(), name=outputs.split()[0], **attributes)
    return made


def attention_like(*, half: bool = False) -> ModelProto:
    """softmax(x w) w, (B, 16); `half`: the softmax is computed in half between two casts."""
    nodes = [node("MatMul", "x w", "scores")]
    if half:
        nodes += [
            node("Cast", "scores", "narrow", to=TensorProto.FLOAT16),
            node("Softmax", "narrow", "weights"),
            node("Cast", "weights", "wide", to=TensorProto.FLOAT),
        ]
    else:
        nodes += [node("Softmax", "scores", "wide")]
    nodes += [node("MatMul", "wide w", "mixed"), node("Add", "mixed x", "y")]
    return float32(nodes, w=weights())


def off_centre_norm() -> ModelProto:
    """A GroupNormalization of values around 1000, (B, 8, 32), which ONNX Runtime computes as E[x²] - E[x]²."""
    nodes = [
        node("Add", "x thousand", "shifted"),
        node("GroupNormalization", "shifted scale bias", "normal", num_groups=2),
        node("Mul", "normal two", "y"),
    ]
    held = {"thousand": 1000.0, "two": 2.0, "scale": np.ones(8), "bias": np.zeros(8)}
    return model(
        nodes,
        [value("x", ["batch", 8, 32])],
        [value("y", ["batch", 8, 32])],
        initializers={name: np.asarray(v, np.float32) for name, v in held.items()},
        opset=21,
    )


def fourth_power_norm(power: float = 4.0) -> ModelProto:
    """A norm by the fourth root's place: ONNX Runtime fuses it into a LayerNormalization whatever the power is."""
    nodes = [
        node("MatMul", "x w", "h"),
        node("ReduceMean", "h", "mean", axes=[-1]),
        node("Sub", "h mean", "centred"),
        node("Pow", "centred power", "powers"),
        node("ReduceMean", "powers", "variance", axes=[-1]),
        node("Add", "variance epsilon", "guarded"),
        node("Sqrt", "guarded", "root"),
        node("Div", "centred root", "normal"),
        node("Mul", "normal scale", "scaled"),
        node("Add", "scaled bias", "y"),
    ]
    return float32(nodes, opset=17, w=weights(), power=power, epsilon=1e-5, scale=np.ones(WIDTH), bias=np.zeros(WIDTH))


def quantised_softmax() -> ModelProto:
    """A softmax between QuantizeLinear and DequantizeLinear, which ONNX Runtime fuses into its own QLinearSoftmax."""
    nodes = [
        node("MatMul", "x w", "scores"),
        node("QuantizeLinear", "scores wide_step middle", "q_scores"),
        node("DequantizeLinear", "q_scores wide_step middle", "d_scores"),
        node("Softmax", "d_scores", "weights"),
        node("QuantizeLinear", "weights step low", "q_weights"),
        node("DequantizeLinear", "q_weights step low", "d_weights"),
        node("MatMul", "d_weights w", "y"),
    ]
    made = float32(nodes, w=weights() * 4, wide_step=0.1, step=1 / 255)
    made.graph.initializer.extend(
        onnx.numpy_helper.from_array(np.array(zero, np.uint8), name) for name, zero in (("middle", 128), ("low", 0))
    )
    return made


def overflowing(*, fused: bool) -> ModelProto:
    """Attention in half over 512 features at scale 1, (B, T, 512): its scores leave the range of float16."""
    width = 512
    if fused:
        nodes = [
            node("Mul", "x big", "q"),
            node("Unsqueeze", "q one", "heads"),
            node("Attention", "heads heads heads", "attended", scale=1.0),
            node("Squeeze", "attended one", "y"),
        ]
    else:
        nodes = [
            node("Mul", "x big", "q"),
            node("Transpose", "q", "k", perm=[0, 2, 1]),
            node("MatMul", "q k", "scores"),
            node("Softmax", "scores", "weights"),
            node("MatMul", "weights x", "y"),
        ]
    held = {"big": np.array(16, np.float16)} | ({"one": np.array([1], np.int64)} if fused else {})
    return half(nodes, ["batch", "t", width], **held)


def squares_in_half() -> ModelProto:
    """The root of a sum of squares in half, (B, 16), of values around 300."""
    nodes = [node("Mul", "x big", "h"), node("ReduceL2", "h axes", "length", keepdims=1), node("Div", "h length", "y")]
    return half(nodes, ["batch", WIDTH], big=np.array(300, np.float16), axes=np.array([-1], np.int64))


def masked_in_half() -> ModelProto:
    """softmax(x w - mask) w in half, (B, 16): what is masked with float16's end becomes -inf, and does no harm."""
    mask = np.zeros(WIDTH, np.float16)
    mask[10:] = -65504
    nodes = [
        node("MatMul", "x w", "scores"),
        node("Add", "scores mask", "below"),
        node("Add", "below mask", "masked"),
        node("Softmax", "masked", "weights"),
        node("MatMul", "weights w", "y"),
    ]
    return half(nodes, ["batch", WIDTH], w=weights().astype(np.float16), mask=mask)


def float32(nodes: list[NodeProto], *, opset: int = 20, **held: object) -> ModelProto:
    """x to y, (B, 16)."""
    dims: list[str | int | None] = ["batch", WIDTH]
    arrays = {name: np.asarray(array, np.float32) for name, array in held.items()}
    return model(nodes, [value("x", dims)], [value("y", dims)], initializers=arrays, opset=opset)


def half(nodes: list[NodeProto], dims: list[str | int | None], **held: Array) -> ModelProto:
    """x to y in float16."""
    ends = [value(name, dims, "float16") for name in "xy"]
    return model(nodes, ends[:1], ends[1:], initializers=held, opset=23)


class Spoiling:
    """Another runtime, but for one node, whose result is off by up to `error`."""

    question: Question = "arithmetic"

    name = "spoiling"

    def __init__(self, inner: Runtime, spoiled: str, folder: Path, *, beside: str = "", error: float = 1e-3) -> None:
        """spoiled: the node's name. beside: only in files that hold a node of this name too."""
        self._inner, self._spoiled, self._folder, self._beside, self._error = inner, spoiled, folder, beside, error

    def probe(self) -> Availability:
        """It is there."""
        return Availability(self.name, True, "", "1")

    def load(self, artifact: Artifact) -> Session:
        """The inner runtime's session of a changed file."""
        return self._inner.load(self.changed(artifact))

    def changed(self, artifact: Artifact) -> Artifact:
        """The file with the error in it."""
        changed = onnx.load(artifact.path)
        nodes: list[NodeProto] = []
        names = {n.name for n in changed.graph.node}
        for one in changed.graph.node:
            nodes.append(one)
            if one.name == self._spoiled and (not self._beside or self._beside in names):
                name, one.output[0] = one.output[0], "right"
                nodes += [node("Sin", "many", "wave"), node("Mul", "wave little", "error")]
                nodes.insert(-2, node("Mul", "right fifty", "many"))
                nodes.append(helper.make_node("Add", ["right", "error"], [name], name="spoil"))
        del changed.graph.node[:], changed.graph.value_info[:]
        changed.graph.node.extend(nodes)
        dtype = np.float16 if any(t.data_type == TensorProto.FLOAT16 for t in changed.graph.initializer) else np.float32
        for name, number in (("fifty", 50.0), ("little", self._error)):
            changed.graph.initializer.append(onnx.numpy_helper.from_array(np.array(number, dtype), name))
        path = self._folder / "spoiled.onnx"
        onnx.save(changed, path)
        return replace(artifact, path=str(path))


class Optimiser(Spoiling):
    """ONNX Runtime, which spoils one node at every optimisation level but `disabled`, whatever is switched off."""

    level: Level = "all"

    def load(self, artifact: Artifact) -> Session:
        """Spoiled."""
        return self.load_without(artifact, (), level=self.level)

    def load_without(
        self,
        artifact: Artifact,
        disabled: Collection[str],
        *,
        level: Level,
        verbose: bool = False,
        optimized_to: str = "",
    ) -> Session:
        """Spoiled, but at level `disabled`."""
        return OrtCpu(level=level).load(artifact if level == "disabled" else self.changed(artifact))


class Fusing(Spoiling):
    """A runtime that spoils a node where the file has several nodes and one output: a fusion of its own."""

    def changed(self, artifact: Artifact) -> Artifact:
        """Spoiled only where it can fuse."""
        graph = onnx.load(artifact.path).graph
        return super().changed(artifact) if len(graph.node) > 3 and len(graph.output) == 1 else artifact
