"""Small files for the tests of localisation: an attention with one fault at a time, told by its node."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from onnx import ModelProto, NodeProto, helper

from onnxparity.artifact import Artifact
from onnxparity.locating.sides import Side, side_of
from onnxparity.protocols import Array, Feeds
from onnxparity.runtimes.onnx_float64 import OnnxFloat64Runtime
from tests.unit.runtimes.files import model, record, value

WIDTH, HEADS = 12, 3
Change = Callable[[list[NodeProto], dict[str, Array]], None]
"""Plants a fault in the nodes and initializers."""


def weights() -> dict[str, Array]:
    """Of `attention`."""
    rng = np.random.default_rng(7)
    names = ("w_q", "w_k", "w_v", "w_o")
    drawn: dict[str, Array] = {name: rng.standard_normal((WIDTH, WIDTH)).astype(np.float32) for name in names}
    return drawn | {
        "b_o": rng.standard_normal(WIDTH).astype(np.float32),
        "gain": rng.standard_normal(WIDTH).astype(np.float32),
        "root": np.array((WIDTH / HEADS) ** 0.5, np.float32),
        "heads": np.array([0, 0, HEADS, WIDTH // HEADS]),
        "merged": np.array([0, 0, WIDTH]),
        "last": np.array([-1]),
    }


def nodes() -> list[NodeProto]:
    """x (B, T, 12), mask (B, T) that is added -> y (B, T, 12): attention with a residual and a norm before it."""
    made = [helper.make_node("LayerNormalization", ["x", "gain"], ["n"], name="norm", epsilon=1e-5)]
    for part in "qkv":
        made += [
            helper.make_node("MatMul", ["n", f"w_{part}"], [part], name=f"project_{part}"),
            helper.make_node("Reshape", [part, "heads"], [f"{part}_split"], name=f"split_{part}"),
            helper.make_node(
                "Transpose", [f"{part}_split"], [f"{part}_heads"], name=f"heads_{part}", perm=[0, 2, 1, 3]
            ),
        ]
    made += [
        helper.make_node("Transpose", ["k_heads"], ["k_t"], name="transpose", perm=[0, 1, 3, 2]),
        helper.make_node("MatMul", ["q_heads", "k_t"], ["product"], name="score"),
        helper.make_node("Div", ["product", "root"], ["scores"], name="scale"),
        helper.make_node("Unsqueeze", ["mask", "places"], ["bias"], name="place"),
        helper.make_node("Add", ["scores", "bias"], ["masked"], name="mask"),
        helper.make_node("Softmax", ["masked"], ["weights"], name="softmax", axis=-1),
        helper.make_node("MatMul", ["weights", "v_heads"], ["read"], name="read"),
        helper.make_node("Transpose", ["read"], ["read_t"], name="merge_t", perm=[0, 2, 1, 3]),
        helper.make_node("Reshape", ["read_t", "merged"], ["joined"], name="merge"),
        helper.make_node("MatMul", ["joined", "w_o"], ["out"], name="project_o"),
        helper.make_node("Add", ["out", "b_o"], ["biased"], name="bias"),
        helper.make_node("Add", ["biased", "x"], ["y"], name="residual"),
    ]
    return made


def attention(change: Change | None = None) -> ModelProto:
    """The file, with a fault where one is given."""
    parts, held = nodes(), weights() | {"places": np.array([1, 2])}
    if change is not None:
        change(parts, held)
    return model(
        parts,
        [value("x", ["batch", "sequence", WIDTH]), value("mask", ["batch", "sequence"])],
        [value("y", ["batch", "sequence", WIDTH])],
        initializers=held,
    )


def replaced(name: str, operator: str, **attributes: Any) -> Change:  # Any: as helper.make_node takes them
    """Another operator on the same inputs."""

    def change(parts: list[NodeProto], held: dict[str, Array]) -> None:
        place, old = found(parts, name)
        parts[place] = helper.make_node(operator, list(old.input), list(old.output), name=name, **attributes)

    return change


def left_out(name: str, keep: int = 0) -> Change:
    """One node missing: what it was given is used in the place of its result."""

    def change(parts: list[NodeProto], held: dict[str, Array]) -> None:
        place, old = found(parts, name)
        del parts[place]
        for node in parts:
            for k, used in enumerate(node.input):
                if used == old.output[0]:
                    node.input[k] = old.input[keep]

    return change


def found(parts: list[NodeProto], name: str) -> tuple[int, NodeProto]:
    """A node and its place."""
    return next((k, n) for k, n in enumerate(parts) if n.name == name)


def feeds(batch: int = 2, length: int = 5) -> dict[str, Array]:
    """Values, and a mask that drops the last position of the first sample."""
    mask = np.zeros((batch, length), np.float32)
    mask[0, -1] = -np.inf
    rng = np.random.default_rng(3)
    return {"x": rng.standard_normal((batch, length, WIDTH)).astype(np.float32), "mask": mask}


def saved(path: Path, change: Change | None = None) -> Artifact:
    """The file on disk."""
    return record(path, attention(change))


def sides(
    folder: Path, candidate: Change | None, reference: Change | None = None, fed: Mapping[str, Array] | None = None
) -> tuple[Side, Side]:
    """Both sides on the same feeds."""
    given: Feeds = fed or feeds()
    sessions = [
        OnnxFloat64Runtime().load(saved(folder / f"{name}.onnx", change))
        for name, change in (("candidate", candidate), ("reference", reference))
    ]
    shared = sessions[0].fingerprints() & sessions[1].fingerprints()
    ours, theirs = (side_of(session, given, shared=shared) for session in sessions)
    return ours, theirs
