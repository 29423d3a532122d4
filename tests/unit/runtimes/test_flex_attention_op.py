"""FlexAttention: Attention with graphs of the model's own, which round like the rest of the model."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import GraphProto, NodeProto, helper

from onnxparity.errors import LoadError
from onnxparity.protocols import Array
from onnxparity.runtimes.attention_op import attention
from onnxparity.runtimes.flex_attention_op import flex_attention
from onnxparity.runtimes.float64_graph import Float64Graph
from onnxparity.runtimes.monte_carlo import noise
from tests.unit.runtimes.files import model, value

SHAPES = {"q": (2, 4, 5, 8), "k": (2, 2, 7, 8), "v": (2, 2, 7, 3)}


def drawn(scale: float = 1.0) -> dict[str, Array]:
    """Queries, keys and values that float32 holds exactly."""
    rng = np.random.default_rng(0)
    return {n: (scale * rng.standard_normal(s)).astype(np.float32).astype(np.float64) for n, s in SHAPES.items()}


def mod(factor: float) -> GraphProto:
    """A graph that multiplies what it is given."""
    shape = [2, 4, 5, 7]
    nodes: list[NodeProto] = [
        helper.make_node("Constant", [], ["f"], value_float=factor),
        helper.make_node("Mul", ["s", "f"], ["m"]),
    ]
    return helper.make_graph(nodes, "mod", [value("s", shape)], [value("m", shape)])


def graph(**mods: GraphProto) -> Float64Graph:
    """One node in the preview domain."""
    node = helper.make_node("FlexAttention", list(SHAPES), ["y"], domain="ai.onnx.preview", **mods)
    built = model([node], [value(n, s) for n, s in SHAPES.items()], [value("y", [2, 4, 5, 3])], opset=26)
    built.opset_import.append(helper.make_opsetid("ai.onnx.preview", 1))
    return Float64Graph(built)


def test_without_graphs_it_is_attention() -> None:
    fed = drawn()
    np.testing.assert_allclose(flex_attention(**fed), attention(**fed)[0], rtol=1e-13, atol=1e-15)  # type: ignore[arg-type]  # arrays by name
    np.testing.assert_array_equal(graph().run(fed)["y"], flex_attention(**fed))  # type: ignore[arg-type]  # arrays by name


def test_its_graphs_stand_on_either_side_of_the_softmax() -> None:
    fed = drawn()
    sharper = graph(score_mod=mod(3.0)).run(fed)["y"]
    np.testing.assert_allclose(sharper, attention(**fed, scale=3 / np.sqrt(8))[0], rtol=1e-12, atol=1e-15)  # type: ignore[arg-type]  # arrays by name
    half = graph(prob_mod=mod(0.5)).run(fed)["y"]
    np.testing.assert_allclose(half, attention(**fed)[0] / 2, rtol=1e-12, atol=1e-15)  # type: ignore[arg-type]  # arrays by name


@pytest.mark.parametrize("scale", [1.0, 4.0])
def test_float32_is_within_a_few_times_the_noise(scale: float) -> None:
    fed = drawn(scale)
    exact = graph(score_mod=mod(1.5)).run(fed)["y"]
    measured = noise(graph(score_mod=mod(1.5)), fed, draws=6, seed=0)["y"]
    narrow = {n: x.astype(np.float32) for n, x in fed.items()}
    got = flex_attention(**narrow, score_mod=lambda s: s * np.float32(1.5))  # type: ignore[arg-type]  # arrays by name
    error = np.max(np.abs(got - exact), -1) / np.max(np.abs(exact), -1)
    assert 0 < np.max(error / np.maximum(measured, np.median(measured) / 4)) < 4


def test_the_same_name_in_another_domain_is_refused() -> None:
    node = helper.make_node("FlexAttention", list(SHAPES), ["y"], domain="com.example")
    built = model([node], [value(n, s) for n, s in SHAPES.items()], [value("y", [2, 4, 5, 3])], opset=26)
    built.opset_import.append(helper.make_opsetid("com.example", 1))
    with pytest.raises(LoadError, match=r"com\.example"):
        Float64Graph(built)
