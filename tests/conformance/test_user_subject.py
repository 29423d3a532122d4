"""A user's own model, brought by a factory in the working directory, is verified like any other."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from onnxparity.commands import export as export_verb
from onnxparity.outcome import Status
from onnxparity.planning import selection

from .running import Here, Ran, cells, cli

MODEL = """
import torch
from torch import nn


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.qkv, self.drop, self.norm = nn.Linear(8, 24), nn.Dropout(0.5), nn.LayerNorm(8)

    def forward(self, x, shift=None):
        q, k, v = self.qkv(x).chunk(3, -1)
        y = self.norm(x + self.drop((q @ k.mT / 8**0.5).softmax(-1) @ v))
        return y if shift is None else y + shift


def plain():
    return Attention(), (torch.randn(2, 5, 8, generator=torch.Generator().manual_seed(0)),)


def full():
    dims = {"x": {0: torch.export.Dim("batch"), 1: torch.export.Dim("sequence")}, "shift": None}
    return Attention().eval(), (torch.randn(2, 5, 8),), {"shift": torch.ones(8)}, dims
"""
FAST = ("--quick", "--opset", "18", "--runtime", "ort-cpu", "--latency", "none", "--json", "-")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The user's folder: a module with two factories."""
    made = tmp_path_factory.mktemp("user")
    (made / "their_model.py").write_text(MODEL)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ONNXPARITY_CACHE", str(made / "cache"))
        patch.chdir(made)
        yield made
    sys.modules.pop("their_model", None)


@pytest.fixture(scope="module")
def both(folder: Path) -> Ran:
    """Both factories, in both dtypes."""
    dtypes = ("--dtype", "float32", "--dtype", "float16")
    return cli("verify", "their_model:plain", "their_model:full", *FAST, *dtypes, "--out", "both")


def of(document: dict[str, Any], subject: str) -> list[dict[str, Any]]:  # Any: JSON values
    """The cells of a subject."""
    return [v["cell"] for v in document["verdicts"] if v["cell"]["artifact"]["subject"] == subject]


def test_two_forms_of_factory_are_green_in_both_dtypes(both: Ran) -> None:
    assert both.code == 0, both.out
    document = both.document()
    assert [(s["name"], s["kind"], s["origin"]) for s in document["subjects"]] == [
        ("their_model-plain", "factory", "their_model:plain"),
        ("their_model-full", "factory", "their_model:full"),
    ]
    for name in ("their_model-plain", "their_model-full"):
        found = of(document, name)
        assert {c["artifact"]["dtype"] for c in found} == {"float32", "float16"}
        assert {c["runtime"] for c in found} == {"onnx-float64", "ort-cpu"}


def test_the_users_own_inputs_are_tried_beside_the_grid(both: Ran) -> None:
    document = both.document()
    assert {(c["shape"], c["regime"]) for c in of(document, "their_model-plain")} == {
        *(("fixed", regime) for regime in ("normal", "saturated", "example", "determinism")),
    }
    assert {c["shape"] for c in of(document, "their_model-full") if c["regime"] == "example"} == {"b2-t5"}
    assert {c["shape"] for c in of(document, "their_model-full")} == {"b2-t17", "b1-t1", "b2-t5"}


def test_what_was_changed_is_told(both: Ran) -> None:
    said = [limit for limit in both.document()["limits"] if "training mode" in limit]
    assert len(said) == 1 and said[0].startswith("their_model-plain: ")


def test_a_file_with_one_wrong_weight_is_red_against_the_factory(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(export_verb, "Worker", Here)
        patch.setattr(selection, "Worker", Here)
        made = cli("export", "their_model:plain", "--opset", "18", "--out", "clean.onnx")
    assert made.code == 0, made.err
    model = onnx.load("clean.onnx")
    weight = max(model.graph.initializer, key=lambda tensor: int(np.prod(tensor.dims)))
    values = numpy_helper.to_array(weight).copy()
    values.flat[3] *= 1.01
    weight.CopyFrom(numpy_helper.from_array(values, weight.name))
    onnx.save(model, "faulty.onnx")

    judged = cli("verify", "clean.onnx", "faulty.onnx", "--against", "their_model:plain", *FAST[3:], "--quick")
    assert judged.code == 1
    document = judged.document()
    red = cells(document, Status.MEANING)
    assert red and all(cell.startswith("faulty/") for cell in red)
    assert len(cells(document, Status.PASS)) + len(red) == len(document["verdicts"])
    assert len(of(document, "clean")) == len(of(document, "faulty"))
    command = next(v["command"] for v in document["verdicts"] if v["status"] == "MEANING")
    assert command.startswith("onnxparity verify faulty.onnx --against their_model:plain ")
