"""LinearAttention and CausalConvWithState: by their closed forms, token by token, and as exact as their noise says."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import helper

from onnxparity.errors import RunError
from onnxparity.protocols import Array
from onnxparity.runtimes.float64_graph import Float64Graph
from onnxparity.runtimes.linear_attention_op import linear_attention
from onnxparity.runtimes.monte_carlo import noise
from tests.unit.runtimes.files import model, value

B, T, H, D, V = 2, 7, 2, 4, 3
RULES = ("linear", "gated", "delta", "gated_delta")


def drawn(rule: str, groups: int = H, tokens: int = T) -> dict[str, Array]:
    """Inputs of a rule: keys of length one, decays below 0, rates between 0 and 1."""
    rng = np.random.default_rng(3)
    keys = rng.standard_normal((B, tokens, groups, D))
    found: dict[str, Array] = {
        "query": rng.standard_normal((B, tokens, H * D)),
        "key": (keys / np.linalg.norm(keys, axis=-1, keepdims=True)).reshape(B, tokens, -1),
        "value": rng.standard_normal((B, tokens, groups * V)),
    }
    if "gated" in rule:
        found["decay"] = -rng.random((B, tokens, groups * D))
    if "delta" in rule:
        found["beta"] = rng.random((B, tokens, groups))
    return found


def run(rule: str, inputs: dict[str, Array], groups: int = H, **more: Any) -> tuple[Array, Array]:
    """Output and state of the operator."""  # Any: the operator's attributes
    return linear_attention(**inputs, **more, q_num_heads=H, kv_num_heads=groups, update_rule=rule)  # type: ignore[arg-type]  # arrays by name, where mypy sees every parameter


def heads(x: Array, n: int) -> Array:
    """(B, T, n*D) to (B, n, T, D)."""
    return x.reshape(*x.shape[:2], n, -1).swapaxes(1, 2)


def test_without_gates_it_is_causal_attention_without_a_softmax() -> None:
    inputs = drawn("linear")
    q, k, v = (heads(inputs[n], H) for n in ("query", "key", "value"))
    scores = np.tril(q @ k.swapaxes(2, 3)) / np.sqrt(D)
    wanted = (scores @ v).swapaxes(1, 2).reshape(B, T, -1)
    output, state = run("linear", inputs)
    np.testing.assert_allclose(output, wanted, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(state, k.swapaxes(2, 3) @ v, rtol=1e-12, atol=1e-14)


def test_a_rate_of_one_makes_the_last_value_readable_by_its_key() -> None:
    inputs = drawn("delta") | {"beta": np.ones((B, T, 1))}
    _, state = run("delta", inputs)
    k, v = heads(inputs["key"], H)[:, :, -1:], heads(inputs["value"], H)[:, :, -1:]
    np.testing.assert_allclose(k @ state, v, rtol=1e-12, atol=1e-14)


def test_a_deep_decay_forgets_what_came_before() -> None:
    inputs = drawn("gated") | {"decay": np.full((B, T, H), -800.0)}
    _, state = run("gated", inputs)
    k, v = heads(inputs["key"], H)[:, :, -1:], heads(inputs["value"], H)[:, :, -1:]
    np.testing.assert_allclose(state, k.swapaxes(2, 3) @ v, rtol=1e-12)


@pytest.mark.parametrize("rule", RULES)
def test_token_by_token_is_the_same_as_at_once(rule: str) -> None:
    inputs = drawn(rule)
    whole, last = run(rule, inputs)
    state: Array = np.zeros((B, H, D, V))
    for t in range(T):
        output, state = run(rule, {n: x[:, t : t + 1] for n, x in inputs.items()} | {"past_state": state})
        np.testing.assert_allclose(output, whole[:, t : t + 1], rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(state, last, rtol=1e-12, atol=1e-14)


def test_query_heads_share_the_state_of_their_group() -> None:
    inputs = drawn("gated", groups=1)
    shared = {n: np.tile(x, (1, 1, H)) if n != "query" else x for n, x in inputs.items()}
    np.testing.assert_allclose(run("gated", inputs, groups=1)[0], run("gated", shared)[0], rtol=1e-12)


def test_a_rule_says_which_gates_it_takes() -> None:
    with pytest.raises(ValueError, match="needs decay"):
        run("gated", drawn("linear"))
    with pytest.raises(ValueError, match="takes no beta"):
        run("linear", drawn("delta"))
    with pytest.raises(ValueError, match="update_rule"):
        run("other", drawn("linear"))


@pytest.mark.parametrize("rule", RULES)
def test_float32_is_within_a_few_times_the_noise(rule: str) -> None:
    inputs = {n: x.astype(np.float32).astype(np.float64) for n, x in drawn(rule, tokens=33).items()}
    names = ["query", "key", "value", "", "decay" if "gated" in rule else "", "beta" if "delta" in rule else ""]
    attributes = {"q_num_heads": H, "kv_num_heads": H, "update_rule": rule}
    node = helper.make_node("LinearAttention", names, ["y", "state"], **attributes)  # type: ignore[arg-type]  # onnx's stub names only the keywords of its own
    declared = [value(n, x.shape, "float32") for n, x in inputs.items()]
    graph = Float64Graph(model([node], declared, [value("y", []), value("state", [])], opset=27))
    exact, measured = graph.run(inputs), noise(graph, inputs, draws=6, seed=0)
    narrow = run(rule, {n: x.astype(np.float32) for n, x in inputs.items()})
    for name, got in zip(("y", "state"), narrow, strict=True):
        error = np.max(np.abs(got - exact[name]), -1) / np.max(np.abs(exact[name]), -1)
        share = error / np.maximum(measured[name], np.median(measured[name]) / 4)
        assert 0 < np.max(share) < 4


def convolved(x: Array, weight: Array, *more: Array | None, activation: str = "none") -> tuple[Array, Array]:
    """Output and state of the operator."""
    fed = {"x": x, "w": weight} | {n: v for n, v in zip(("b", "past"), more, strict=False) if v is not None}
    names = [n if n in fed else "" for n in ("x", "w", "b", "past")]
    node = helper.make_node("CausalConvWithState", names, ["y", "state"], activation=activation)
    declared = [value(n, v.shape, "float32") for n, v in fed.items()]
    graph = Float64Graph(model([node], declared, [value("y", []), value("state", [])], opset=27))
    got = graph.run(fed)
    return got["y"], got["state"]


def test_the_convolution_sees_what_came_before_and_nothing_after() -> None:
    rng = np.random.default_rng(0)
    x, weight = rng.standard_normal((B, 3, T)), rng.standard_normal((3, 1, 4))
    y, state = convolved(x, weight)
    for channel in range(3):
        wanted = np.convolve(x[0, channel], weight[channel, 0, ::-1])[:T]
        np.testing.assert_allclose(y[0, channel], wanted, rtol=1e-12, atol=1e-14)
    np.testing.assert_array_equal(state, x[..., -3:])


def test_the_state_carries_a_convolution_on() -> None:
    rng = np.random.default_rng(1)
    x, weight, bias = rng.standard_normal((B, 3, T)), rng.standard_normal((3, 1, 4)), rng.standard_normal(3)
    whole, last = convolved(x, weight, bias, activation="silu")
    first, state = convolved(x[..., :2], weight, bias, activation="silu")
    rest, state = convolved(x[..., 2:], weight, bias, state, activation="silu")
    np.testing.assert_allclose(np.concatenate([first, rest], -1), whole, rtol=1e-12)
    np.testing.assert_array_equal(state, last)


def test_an_unknown_activation_is_refused() -> None:
    with pytest.raises(RunError, match="gelu"):
        convolved(np.ones((1, 1, 2)), np.ones((1, 1, 2)), activation="gelu")
