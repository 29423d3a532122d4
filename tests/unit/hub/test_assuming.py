"""What a bare file is held to: what was asked, what its roles imply, and what its own float64 keeps; all of it said."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import NodeProto, TensorProto, helper, numpy_helper

from onnxparity.case import Subject
from onnxparity.errors import UsageError
from onnxparity.export.given import read_given
from onnxparity.planning import assuming
from onnxparity.planning.assuming import asked, flags, promised
from tests.tiny_models import save_tiny

FLOAT, BOOL = TensorProto.FLOAT, TensorProto.BOOL
WIDTH = 4


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No test reads or writes the user's cache."""
    monkeypatch.setenv("ONNXPARITY_CACHE", str(tmp_path / "cache"))


def write(
    path: Path,
    nodes: Sequence[NodeProto],
    *,
    masked: bool = False,
    dims: tuple[str, str] = ("batch", "sequence"),
) -> Path:
    """A file from x (B, T, 4), and a boolean mask (B, T) where asked, to y (B, T, 4)."""
    named: list[str | int | None] = [*dims, WIDTH]
    inputs = [helper.make_tensor_value_info("x", FLOAT, named)]
    inputs += [helper.make_tensor_value_info("padding_mask", BOOL, named[:2])] if masked else []
    tensors = [
        numpy_helper.from_array(np.array(2, np.int64), "last"),
        numpy_helper.from_array(np.array(1, np.int64), "one"),
        numpy_helper.from_array(np.array([1], np.int64), "ones"),
        numpy_helper.from_array(np.array([0], np.int64), "zeros"),
        numpy_helper.from_array(np.array(0.0, np.float32), "zero"),
    ]
    outputs = [helper.make_tensor_value_info("y", FLOAT, named)]
    graph = helper.make_graph(list(nodes), "g", inputs, outputs, tensors)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8), path)
    return path


def read(path: Path, *properties: str, assume: bool = True) -> tuple[Subject, tuple[str, ...]]:
    """What the file promises, and what is said of it."""
    found = read_given(path)
    return promised(found.subject, found.artifact, properties, found.notes, assume=assume)


RUNNING = [helper.make_node("CumSum", ["x", "one"], ["y"])]
ALONE = [helper.make_node("Relu", ["x"], ["y"])]
SUMMED = [
    helper.make_node("ReduceSum", ["x", "ones"], ["s"], keepdims=1),
    helper.make_node("Add", ["x", "s"], ["y"]),
]
MIXED = [
    helper.make_node("ReduceMean", ["x", "zeros"], ["m"], keepdims=1),
    helper.make_node("Add", ["x", "m"], ["y"]),
]


def keeping(*, dropped: bool = False) -> list[NodeProto]:
    """x plus the sum of what the mask keeps, or of what it does not drop."""
    chosen = ("zero", "x") if dropped else ("x", "zero")
    return [
        helper.make_node("Unsqueeze", ["padding_mask", "twos"], ["wide"]),
        helper.make_node("Constant", [], ["twos"], value=numpy_helper.from_array(np.array([2], np.int64))),
        helper.make_node("Where", ["wide", *chosen], ["kept"]),
        helper.make_node("ReduceSum", ["kept", "ones"], ["s"], keepdims=1),
        helper.make_node("Add", ["x", "s"], ["y"]),
    ]


def test_a_causal_file_is_held_to_it_and_one_that_is_not_is_told(tmp_path: Path) -> None:
    causal, notes = read(write(tmp_path / "a.onnx", RUNNING))
    assert causal.properties == ("batch-invariance", "causality")
    assert "causality holds in float64 at b2-t17, so each runtime is held to it" in notes

    summed, notes = read(write(tmp_path / "b.onnx", SUMMED))
    assert summed.properties == ("batch-invariance", "permutation-equivariance")
    (said,) = [note for note in notes if note.startswith("causality was not assumed: in float64 y is")]
    assert said.endswith("--property causality demands it")


def test_a_batch_that_the_file_names_is_promised_whether_or_not_it_is_kept(tmp_path: Path) -> None:
    mixed, notes = read(write(tmp_path / "a.onnx", MIXED))
    assert "batch-invariance" in mixed.properties, "a file that mixes what it calls its batch must come out red"
    assert "batch-invariance is assumed, because of axis 'batch'" in notes


def test_a_batch_that_is_a_guess_is_promised_only_where_it_holds_and_told_where_not(tmp_path: Path) -> None:
    kept, _ = read(write(tmp_path / "a.onnx", ALONE, dims=("bulk", "sequence")))
    assert "batch-invariance" in kept.properties
    mixed, notes = read(write(tmp_path / "b.onnx", MIXED, dims=("bulk", "sequence")))
    assert "batch-invariance" not in mixed.properties
    assert any(note.startswith("batch-invariance was not assumed of axis 'bulk'") for note in notes)


def test_a_mask_of_two_values_means_what_leaves_valid_positions_alone(tmp_path: Path) -> None:
    for dropped, meaning in ((False, "keep"), (True, "drop")):
        nodes = sorted(keeping(dropped=dropped), key=lambda node: node.op_type != "Constant")
        found, notes = read(write(tmp_path / f"{meaning}.onnx", nodes, masked=True))
        mask = found.input("mask")
        assert mask is not None and mask.mask_meaning == meaning
        assert {"padding-invariance", "masked-content"} <= {*found.properties}
        assert any("drop where it is 1" in note for note in notes) == dropped
        assert any("1 keeps a position" in note for note in notes) != dropped


def test_a_mask_that_is_not_read_is_promised_all_the_same(tmp_path: Path) -> None:
    found, _ = read(write(tmp_path / "a.onnx", SUMMED, masked=True))
    mask = found.input("mask")
    assert mask is not None and mask.mask_meaning == "keep"
    assert "padding-invariance" in found.properties, "a mask without any effect must come out red"


def test_what_is_asked_is_promised_and_not_said_twice(tmp_path: Path) -> None:
    found, notes = read(write(tmp_path / "a.onnx", SUMMED), "causality", "window=5")
    assert found.properties == ("causality", "window", "batch-invariance")
    assert found.window == 5
    assert not any("causality" in note for note in notes)


def test_beside_a_reference_only_what_is_asked_is_promised(tmp_path: Path) -> None:
    path = write(tmp_path / "a.onnx", RUNNING)
    assert read(path, assume=False)[0].properties == ()
    assert read(path, "simplex", assume=False)[0].properties == ("simplex",)


def test_a_large_file_is_not_tried(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(assuming, "TRIED_UP_TO", 1)
    found, notes = read(save_tiny(tmp_path / "a.onnx"))
    assert found.properties == ("batch-invariance",)
    assert any("large" in note for note in notes)


def test_a_file_that_float64_cannot_run_is_not_held_to_guesses(tmp_path: Path) -> None:
    path = write(tmp_path / "a.onnx", [helper.make_node("Unheard", ["x"], ["y"], domain="ai.other")])
    model = onnx.load(path)
    model.opset_import.append(helper.make_opsetid("ai.other", 1))
    onnx.save(model, path)
    found, notes = read(path)
    assert found.properties == ("batch-invariance",)
    assert any(note.startswith("causality was not assumed") for note in notes)


@pytest.mark.parametrize("text", ["causal", "window", "window=0", "window=x", "causality=3", ""])
def test_a_property_that_there_is_not_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        asked([text])


def test_near_matches_are_named() -> None:
    with pytest.raises(UsageError) as raised:
        asked(["permutation-equivarience"])
    assert (raised.value.remedy or "").startswith("did you mean permutation-equivariance")


def test_what_was_said_is_typed_again() -> None:
    assert flags({}, ()) == ""
    said = flags({"a b": "tokens"}, ("window=3",))
    assert said == "--role 'a b=tokens' --property window=3"


def test_an_empty_past_is_tried_where_decoding_was_asked_for(tmp_path: Path) -> None:
    found = read_given(save_tiny(tmp_path / "a.onnx"))
    axes = (*found.subject.axes, dataclasses.replace(found.subject.axes[1], symbol="past", letter="p", role="past"))
    cached = dataclasses.replace(found.subject, axes=axes, roles={"y": "x"})
    for properties, low in ((("prefill-decode",), 0), ((), 1)):
        subject, _ = promised(cached, found.artifact, properties, (), assume=False)
        past = subject.axis("past")
        assert past is not None and past.low == low
