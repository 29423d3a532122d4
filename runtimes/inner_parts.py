"""What one node computes on its way, in float64: the scores of an Attention, the squares of a norm.

For saying why a node gives NaN or infinity from inputs that are finite: what leaves the range of a dtype is inside it.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from onnx import ModelProto, NodeProto

from onnxparity.protocols import Array
from onnxparity.runtimes.float64_graph import Float64Graph

__all__ = ["inner_parts"]

SQUARED = ("LpNormalization", "RMSNormalization", "ReduceL2", "ReduceSumSquare")
CENTRED = ("GroupNormalization", "InstanceNormalization", "LayerNormalization")
SUMMED = ("GlobalAveragePool", "ReduceMean", "ReduceSum", "ReduceLogSum")
SCORES = {0: "scores", 1: "capped scores", 2: "scores with the mask"}
"""By qk_matmul_output_mode of Attention-23 and later."""


def inner_parts(node: NodeProto, part: ModelProto, feeds: Mapping[str, Array]) -> dict[str, Array]:
    """Inner values by a name for a person, in the order in which they are computed; empty where none are known.

    part: the node as a model of its own, with its constants. feeds: its inputs. Sums are shown along the last axis.
    """
    if node.op_type == "Attention":
        return {label: _scores(part, feeds, mode) for mode, label in SCORES.items()}
    if not node.input or node.input[0] not in feeds:
        return {}
    x = np.asarray(feeds[node.input[0]], np.float64)
    with np.errstate(all="ignore"):
        if node.op_type in SQUARED:
            return {"squares": x * x, "sum of squares": np.sum(x * x, axis=-1, keepdims=True)}
        if node.op_type in CENTRED:
            rows = _rows(node, x)
            centred = np.square(rows - np.mean(rows, axis=-1, keepdims=True))
            total = np.sum(centred, axis=-1, keepdims=True)
            return {"squares of x": rows * rows, "squares of x - mean": centred, "sum of squares": total}
        if node.op_type in SUMMED:
            return {"sum": np.sum(x, axis=-1, keepdims=True)}
        if node.op_type == "Gelu":
            return {"cubes": x * x * x}
    return {}


def _rows(node: NodeProto, x: Array) -> Array:
    """With all that shares one mean along the last axis."""
    given: dict[str, int] = {a.name: a.i for a in node.attribute}
    if node.op_type == "LayerNormalization":
        return x.reshape(*x.shape[: given.get("axis", -1) % x.ndim], -1)
    return x.reshape(x.shape[0], given.get("num_groups") or x.shape[1], -1)


def _scores(part: ModelProto, feeds: Mapping[str, Array], mode: int) -> Array:
    """What an Attention node has at one of its stages, (B, H, T, S)."""
    model = ModelProto()
    model.CopyFrom(part)
    (node,) = (n for n in model.graph.node if n.op_type == "Attention")
    outputs = [*node.output, "", "", ""][:4]
    outputs[3] = "_inner"
    del node.output[:]
    node.output.extend(outputs)
    kept = [a for a in node.attribute if a.name != "qk_matmul_output_mode"]
    del node.attribute[:]
    node.attribute.extend(kept)
    attribute = node.attribute.add()
    attribute.name, attribute.type, attribute.i = "qk_matmul_output_mode", 2, mode
    del model.graph.output[:]
    model.graph.output.add().name = "_inner"
    result: Array = Float64Graph(model).run(feeds)["_inner"]
    return result
