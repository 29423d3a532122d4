"""Attention against its formula, one query and one key at a time."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from onnx import helper

from onnxparity.errors import RunError
from onnxparity.protocols import Array
from onnxparity.runtimes.float64_graph import Float64Graph
from tests.unit.runtimes.files import model, value

ATTENTION: dict[str, dict[str, Any]] = {
    "plain": {},
    "causal": {"is_causal": 1},
    "more queries than keys": {"is_causal": 1, "queries": 6, "keys": 4},
    "past": {"past": 3},
    "past and causal": {"past": 3, "is_causal": 1},
    "bool mask": {"mask": "bool"},
    "float mask": {"mask": "float"},
    "causal bool mask": {"mask": "bool", "is_causal": 1},
    "mask per head": {"mask": "heads"},
    "grouped heads": {"kv_heads": 2},
    "one key head": {"kv_heads": 1, "is_causal": 1},
    "scale": {"scale": 0.3},
    "softcap": {"softcap": 2.0},
    "softcap, mask and past": {"softcap": 2.0, "mask": "float", "past": 2},
    "flat": {"flat": True, "kv_heads": 2, "is_causal": 1},
}


@pytest.mark.parametrize("mode", range(4))
@pytest.mark.parametrize("setting", ATTENTION.values(), ids=ATTENTION.keys())
def test_attention_is_what_its_formula_says(setting: dict[str, Any], mode: int) -> None:
    feeds, attributes = _attention_inputs(setting)
    got = _attention(feeds, qk_matmul_output_mode=mode, **attributes)
    want = _attention_oracle(feeds, setting)
    np.testing.assert_allclose(got["y"], want["y"], atol=1e-13)
    np.testing.assert_allclose(got["qk"], want["stages"][mode], atol=1e-13)
    if "past" in setting:
        np.testing.assert_array_equal(got["present_key"], np.concatenate([feeds["past_key"], feeds["k"]], 2))
        np.testing.assert_array_equal(got["present_value"], np.concatenate([feeds["past_value"], feeds["v"]], 2))


@pytest.mark.parametrize("hidden", [False, -np.inf], ids=["bool", "minus infinity"])
def test_a_query_without_keys_gives_zeros(hidden: float) -> None:
    q = np.random.default_rng(0).standard_normal((1, 1, 2, 4))
    mask = np.array([[True, True], [False, False]]) if hidden is False else np.array([[0.0, 0.0], [hidden, hidden]])
    got = _attention({"q": q, "k": q, "v": q, "mask": mask})["y"]
    assert np.all(got[0, 0, 1] == 0) and np.all(got[0, 0, 0] != 0)


def test_a_row_masked_by_the_lowest_float_is_the_mean_of_the_values() -> None:
    q = np.random.default_rng(0).standard_normal((1, 1, 2, 4))
    mask = np.full((2, 2), np.finfo(np.float32).min, np.float64)
    got = _attention({"q": q, "k": q, "v": q, "mask": mask})["y"]
    np.testing.assert_allclose(got[0, 0, 1], q[0, 0].mean(0), atol=1e-12)


def test_a_short_mask_hides_the_rest_at_opset_24_and_broadcasts_at_23() -> None:
    q, k = np.zeros((1, 1, 1, 2)), np.zeros((1, 1, 4, 2))
    v = np.arange(8.0).reshape(1, 1, 4, 2)
    feeds = {"q": q, "k": k, "v": v, "mask": np.zeros((1, 1))}
    np.testing.assert_allclose(_attention(feeds, opset=24)["y"][0, 0, 0], v[0, 0, 0])
    np.testing.assert_allclose(_attention(feeds, opset=23)["y"][0, 0, 0], v[0, 0].mean(0))


def test_flat_inputs_need_their_heads() -> None:
    flat = np.zeros((1, 2, 8))
    with pytest.raises(RunError, match="q_num_heads"):
        _attention({"q": flat, "k": flat, "v": flat})


@pytest.mark.parametrize(("left", "right", "seen"), [(1, -1, [0, 0, 1]), (0, 0, [0, 1, 2]), (-1, 0, [0, 0, 0])])
def test_a_window_hides_what_lies_outside(left: int, right: int, seen: list[int]) -> None:
    q, v = np.zeros((1, 1, 3, 2)), np.arange(3.0).reshape(1, 1, 3, 1)
    windows = {"left_window_size": left, "right_window_size": right, "is_causal": 1}
    got = _attention({"q": q, "k": q, "v": v}, opset=25, **windows)["y"][0, 0, :, 0]
    np.testing.assert_allclose(got, [np.mean(np.arange(first, last + 1)) for last, first in enumerate(seen)])


def test_keys_beyond_the_valid_ones_are_hidden() -> None:
    q, k, v = np.zeros((2, 1, 1, 2)), np.zeros((2, 1, 3, 2)), np.arange(6.0).reshape(2, 1, 3, 1)
    got = _attention({"q": q, "k": k, "v": v, "valid": np.array([1, 2])}, opset=24)["y"].ravel()
    np.testing.assert_allclose(got, [0, 3.5])


def _attention(feeds: dict[str, Array], *, opset: int = 23, **attributes: Any) -> dict[str, Array]:
    """Every output of one node; Any: its attributes."""
    places = ["q", "k", "v", "mask", "past_key", "past_value", "valid"][: 7 if opset > 23 else 6]
    outputs = ["y", "present_key", "present_value", "qk"]
    node = helper.make_node("Attention", [n if n in feeds else "" for n in places], outputs, **attributes)
    dtypes = {"b": "bool", "i": "int64", "f": "float32"}
    inputs = [value(n, v.shape, dtypes[v.dtype.kind]) for n, v in feeds.items()]
    return Float64Graph(model([node], inputs, [value(n, []) for n in outputs], opset=opset)).run(feeds)


def _attention_inputs(setting: dict[str, Any]) -> tuple[dict[str, Array], dict[str, Any]]:
    rng = np.random.default_rng(0)
    batch, heads, size = 2, 4, 8
    kv, queries, keys, past = (
        setting.get(n, d) for n, d in (("kv_heads", 4), ("queries", 5), ("keys", 5), ("past", 0))
    )
    feeds: dict[str, Array] = {"q": rng.standard_normal((batch, heads, queries, size))}
    feeds |= {n: rng.standard_normal((batch, kv, keys, size)) for n in "kv"}
    if past:
        feeds |= {n: rng.standard_normal((batch, kv, past, size)) for n in ("past_key", "past_value")}
    shape = (batch, heads if setting.get("mask") == "heads" else 1, queries, keys + past)
    if "mask" in setting:
        feeds["mask"] = rng.random(shape) > 0.3 if setting["mask"] == "bool" else rng.standard_normal(shape)
    attributes: dict[str, Any] = {n: setting[n] for n in ("is_causal", "scale", "softcap") if n in setting}
    if setting.get("flat"):
        feeds |= {n: feeds[n].swapaxes(1, 2).reshape(batch, feeds[n].shape[2], -1) for n in "qkv"}
        attributes |= {"q_num_heads": heads, "kv_num_heads": kv}
    return feeds, attributes


def _attention_oracle(feeds: dict[str, Array], setting: dict[str, Any]) -> dict[str, Any]:
    """One query and one key at a time."""
    kv, past = setting.get("kv_heads", 4), setting.get("past", 0)
    q, k, v = feeds["q"], feeds["k"], feeds["v"]
    if setting.get("flat"):
        q, k, v = (t.reshape(*t.shape[:2], n, -1).swapaxes(1, 2) for t, n in ((q, 4), (k, kv), (v, kv)))
    if past:
        k, v = np.concatenate([feeds["past_key"], k], 2), np.concatenate([feeds["past_value"], v], 2)
    batch, heads, queries, keys = q.shape[0], 4, q.shape[2], k.shape[2]
    scale = float(np.float32(setting.get("scale", 1 / math.sqrt(q.shape[-1])))) if "scale" in setting else 8**-0.5
    cap = setting.get("softcap", 0.0)
    stages = np.zeros((4, batch, heads, queries, keys))
    y = np.zeros((batch, heads, queries, v.shape[-1]))
    for b, h, i in np.ndindex(batch, heads, queries):
        group = h // (heads // kv)
        for j in range(keys):
            raw = scale * float(q[b, h, i] @ k[b, group, j])
            capped = cap * math.tanh(raw / cap) if cap else raw
            hidden = bool(setting.get("is_causal")) and j > i + past
            biased = -math.inf if hidden else capped
            if "mask" in feeds:
                m = feeds["mask"][b, h if feeds["mask"].shape[1] > 1 else 0, i, j]
                biased += (0.0 if m else -math.inf) if feeds["mask"].dtype == bool else float(m)
            stages[:3, b, h, i, j] = raw, capped, biased
        weights = [0.0 if s == -math.inf else math.exp(s) for s in stages[2, b, h, i]]
        total = sum(weights) or 1.0
        stages[3, b, h, i] = [w / total for w in weights]
        y[b, h, i] = sum(stages[3, b, h, i, j] * v[b, group, j] for j in range(keys))
    return {"y": y.swapaxes(1, 2).reshape(batch, queries, -1) if setting.get("flat") else y, "stages": stages}
