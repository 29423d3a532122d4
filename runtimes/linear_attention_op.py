"""The ONNX operators LinearAttention and CausalConvWithState (opset 27): what decoders without a softmax carry along.

A state goes from token to token, so what rounds at one token is carried to all after it: every step of the
recurrence is offered to `rounded`.
"""

from __future__ import annotations

import math

import numpy as np
from onnx.reference.op_run import OpRun

from onnxparity.protocols import Array
from onnxparity.runtimes.attention_op import Rounded

__all__ = ["CausalConvWithState", "LinearAttention", "causal_taps", "linear_attention"]

RULES = ("linear", "gated", "delta", "gated_delta")


class LinearAttention(OpRun):
    """The evaluator's goes through float32."""

    op_domain = ""

    def _run(self, *inputs: Array | None, **attributes: float | str | None) -> tuple[Array, Array]:
        return self.stepwise(*inputs, rounded=None, **attributes)

    def stepwise(
        self, *inputs: Array | None, rounded: Rounded | None, **attributes: float | str | None
    ) -> tuple[Array, Array]:
        """The node's outputs with every step rounded."""
        return linear_attention(*inputs, rounded=rounded, **attributes)  # type: ignore[arg-type]  # attributes come by name, each of the type that the schema gives it


def linear_attention(
    query: Array,
    key: Array,
    value: Array,
    past_state: Array | None = None,
    decay: Array | None = None,
    beta: Array | None = None,
    *,
    q_num_heads: int,
    kv_num_heads: int,
    chunk_size: int = 64,
    scale: float = 0.0,
    update_rule: str = "gated_delta",
    rounded: Rounded | None = None,
) -> tuple[Array, Array]:
    """Output (B, T, H*V) and the state after the last token (B, G, D, V).

    Shapes: query (B, T, H*D), key (B, T, G*D), value (B, T, G*V) with H a multiple of G; past_state (B, G, D, V);
    decay (B, T, G*D) or (B, T, G), in logarithms; beta (B, T, G) or (B, T, 1). Halves are computed in float32 and
    rounded at the end, and so is the state. chunk_size is a hint and changes nothing.
    Raises ValueError for an unknown rule, and for a gate that is missing or not the rule's.
    Source: ONNX operator LinearAttention-27.
    """
    _check_gates(update_rule, decay, beta)
    wide = np.float64 if query.dtype == np.float64 else np.float32
    q, k, v = (_heads(x.astype(wide), n) for x, n in ((query, q_num_heads), (key, kv_num_heads), (value, kv_num_heads)))
    factor = wide(scale or 1 / math.sqrt(q.shape[-1]))
    gate = None if decay is None else _rounded(np.exp(_heads(decay.astype(wide), kv_num_heads)), rounded)
    rate = None if beta is None else _heads(beta.astype(wide), beta.shape[-1])  # (B, G or 1, T, 1)
    state = np.zeros((*k.shape[:2], k.shape[-1], v.shape[-1]), wide) if past_state is None else past_state.astype(wide)
    rows = []
    for t in range(q.shape[2]):
        if gate is not None:
            state = _rounded(state * gate[:, :, t, :, None], rounded)
        write = v[:, :, t, None]  # (B, G, 1, V)
        if rate is not None:
            read = _product(k[:, :, t, None], state, rounded)
            write = _rounded(rate[:, :, t, :, None] * _rounded(write - read, rounded), rounded)
        state = _rounded(state + _rounded(k[:, :, t, :, None] * write, rounded), rounded)
        every = np.repeat(state, q_num_heads // kv_num_heads, axis=1)  # (B, H, D, V)
        rows.append(_rounded(factor * _product(q[:, :, t, None], every, rounded), rounded))
    output = np.concatenate(rows, 2).swapaxes(1, 2)  # (B, T, H, V)
    flat = output.reshape(*output.shape[:2], -1).astype(query.dtype)
    return flat, state.astype(query.dtype if past_state is None else past_state.dtype)


class CausalConvWithState(OpRun):
    """Written anew so that its products can be sized, see `causal_taps`."""

    op_domain = ""

    def _run(
        self,
        x: Array,
        weight: Array,
        bias: Array | None = None,
        past_state: Array | None = None,
        activation: str = "none",
    ) -> tuple[Array, Array]:
        wide = np.float64 if x.dtype == np.float64 else np.float32
        joined, taps = causal_taps(x.astype(wide), weight, past_state)
        y = taps.sum(-1)
        if bias is not None:
            y = y + bias.astype(wide)[:, None]
        if activation in ("silu", "swish"):
            y = y / (1 + np.exp(-y))
        elif activation != "none":
            raise ValueError(f"CausalConvWithState knows no activation {activation!r}")
        state = joined[..., joined.shape[-1] - weight.shape[-1] + 1 :]
        return y.astype(x.dtype), state.astype(x.dtype)


def causal_taps(x: Array, weight: Array, past_state: Array | None) -> tuple[Array, Array]:
    """What came before joined with x (B, C, K-1+L), and the products behind each output (B, C, L, K).

    Shapes: x (B, C, L), weight (C, 1, K), past_state (B, C, K-1), zeros where it is absent.
    Source: ONNX operator CausalConvWithState-27.
    """
    size = weight.shape[-1]
    before = np.zeros((*x.shape[:2], size - 1), x.dtype) if past_state is None else past_state.astype(x.dtype)
    joined = np.concatenate([before, x], -1)
    windows = np.lib.stride_tricks.sliding_window_view(joined, size, axis=-1)
    return joined, windows * weight.astype(x.dtype)  # (B, C, L, K) * (C, 1, K)


def _check_gates(rule: str, decay: Array | None, beta: Array | None) -> None:
    if rule not in RULES:
        raise ValueError(f"LinearAttention knows no update_rule {rule!r}, only {', '.join(RULES)}")
    for name, given, wanted in (("decay", decay, "gated" in rule), ("beta", beta, "delta" in rule)):
        if (given is not None) != wanted:
            raise ValueError(f"LinearAttention with update_rule {rule!r} {'needs' if wanted else 'takes no'} {name}")


def _heads(x: Array, heads: int) -> Array:
    """(B, T, H*D) to (B, H, T, D)."""
    return x.reshape(*x.shape[:2], heads, -1).swapaxes(1, 2)


def _product(a: Array, b: Array, rounded: Rounded | None) -> Array:
    return a @ b if rounded is None else rounded.product(a, b)


def _rounded(value: Array, rounded: Rounded | None) -> Array:
    return value if rounded is None else rounded.round(value, np.abs(value))
