"""Real inputs are judged beside the drawn ones, at their own shapes, and so are the outputs recorded with them."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from onnxparity.outcome import Status
from onnxparity.planning import selection
from onnxparity.protocols import Array
from tests.tiny_models import save_tiny

from .running import Here, Ran, cells, cli
from .wrong_inputs import X, save_sets, save_wrong_inputs, set_folder

FAST = ("--quick", "--runtime", "ort-cpu", "--latency", "none", "--no-explain", "--json", "-")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A file, the same with a fault, other names and half precision, and inputs for all of them."""
    made = tmp_path_factory.mktemp("inputs")
    save_wrong_inputs(made)
    save_sets(made, save_tiny(made / "model.onnx"))
    save_tiny(made / "fault.onnx", scale=1.01)
    save_tiny(made / "renamed.onnx", names=("input", "output"))
    save_tiny(made / "half.onnx", dtype="float16")
    several: dict[str, Array] = {"x#0": X, "x#1": X[:1, :4]}
    np.savez(made / "several.npz", allow_pickle=False, **several)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ONNXPARITY_CACHE", str(made / "cache"))
        patch.chdir(made)
        yield made


@pytest.fixture(autouse=True)
def _described_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selection, "Worker", Here)


def verified(folder: Path, *typed: object) -> Ran:
    """One run of `verify`."""
    return cli("verify", *typed, *FAST, "--out", folder / "out")


def points(ran: Ran) -> set[str]:
    """Shape and regime of every cell with real inputs."""
    return {"/".join(v["id"].split("/")[-2:]) for v in ran.document()["verdicts"] if "/given-" in v["id"]}


def regimes_of(ran: Ran) -> set[str]:
    """The regimes of every cell."""
    return {v["id"].rpartition("/")[2] for v in ran.document()["verdicts"]}


def test_real_inputs_are_points_of_their_own_beside_the_drawn_ones(folder: Path) -> None:
    ran = verified(folder, "model.onnx", "--inputs", "good.npz", "--inputs", "several.npz", "--inputs", "two/good")
    assert ran.code == 2, "two sets are called good"
    ran = verified(folder, "model.onnx", "--inputs", "good.npz", "--inputs", "several.npz")
    assert ran.code == 0, ran.err
    assert points(ran) == {"b2-t5/given-good", "b2-t5/given-several-0", "b1-t4/given-several-1"}
    assert {"normal", "saturated"} < regimes_of(ran)


def test_a_regime_can_be_asked_for_alone(folder: Path) -> None:
    ran = verified(folder, "model.onnx", "--inputs", "good.npz", "--regime", "given-good")
    assert ran.code == 0, ran.err
    assert regimes_of(ran) == {"given-good"}
    ran = verified(folder, "model.onnx", "--regime", "zero-rows")
    assert regimes_of(ran) == {"zero-rows"}


def test_a_fault_shows_on_real_inputs_and_the_command_repeats_it(folder: Path) -> None:
    ran = verified(folder, "fault.onnx", "--against", "model.onnx", "--inputs", "good.npz", "--regime", "given-good")
    assert ran.code == 1
    (red,) = [v for v in ran.document()["verdicts"] if v["status"] == "MEANING"]
    assert red["command"].endswith("--inputs good.npz")
    again = cli(*red["command"].split()[1:], "--latency", "none", "--no-explain", "--json", "-", "--out", "again")
    assert again.code == 1
    assert cells(again.document(), Status.MEANING) == [red["id"]]


def test_inputs_go_by_the_names_of_the_reference(folder: Path) -> None:
    mapped = ("--map", "x=input", "--map", "y=output")
    ran = verified(folder, "renamed.onnx", "--against", "model.onnx", *mapped, "--inputs", "recorded")
    assert ran.code == 0, ran.err
    assert len(points(ran)) == 2


def test_a_half_precision_file_is_judged_on_the_same_inputs(folder: Path) -> None:
    ran = verified(folder, "half.onnx", "--against", "model.onnx", "--inputs", "recorded", "--inputs", "good.npz")
    assert ran.code == 0, ran.err
    assert len(points(ran)) == 3


def test_recorded_outputs_are_held_against_the_meaning_without_any_reference(folder: Path) -> None:
    ran = verified(folder, "model.onnx", "--inputs", "recorded")
    assert ran.code == 0, ran.err
    found = {v["id"]: v for v in ran.document()["verdicts"] if v["question"] == "meaning"}
    assert len(found) == 2 and all(v["status"] == "PASS" for v in found.values())
    assert any("recorded outputs alone" in line for line in ran.document()["limits"])


def test_a_recorded_output_that_is_not_the_files_own_is_seen(folder: Path) -> None:
    ran = verified(folder, "fault.onnx", "--inputs", "recorded")
    assert ran.code == 1
    assert len(cells(ran.document(), Status.MEANING)) == 2


def test_one_wrong_element_in_a_recorded_output_is_seen(folder: Path) -> None:
    tensor = onnx.TensorProto()
    tensor.ParseFromString((folder / "recorded" / "test_data_set_0" / "output_0.pb").read_bytes())
    y = numpy_helper.to_array(tensor).copy()
    y[1, 2, 0] *= 1 + 1e-4
    set_folder(folder / "wrong-one", X[:, :3], y)
    ran = verified(folder, "model.onnx", "--inputs", "wrong-one")
    assert ran.code == 1
    (red,) = cells(ran.document(), Status.MEANING)
    assert red.endswith("b2-t3/given-wrong-one")


def test_inputs_that_are_not_finite_are_taken_only_if_it_is_said(folder: Path) -> None:
    assert verified(folder, "model.onnx", "--inputs", "holes.npz").code == 2
    ran = verified(folder, "model.onnx", "--inputs", "holes.npz", "--allow-nonfinite", "--regime", "given-holes")
    assert ran.code in (0, 1)
    assert points(ran) == {"b2-t5/given-holes"}
    again = [v["command"] for v in ran.document()["verdicts"]]
    assert all(command.endswith("--inputs holes.npz --allow-nonfinite") for command in again)


FACTORIES = """
import torch
from torch import nn


class Plain(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.linear = nn.Linear(3, 3)

    def forward(self, x):
        return self.linear(x)


class Mixed(Plain):
    def forward(self, x):
        return super().forward(x) @ torch.eye(3)


SHAPES = {"x": {0: torch.export.Dim("batch")}}


def mixed():
    return {"module": Mixed().eval(), "args": (torch.ones(2, 3),), "dynamic_shapes": SHAPES}


def listed():
    examples = {"one": torch.ones(1, 3), "five": torch.ones(5, 3)}
    return {"module": Plain().eval(), "args": (torch.ones(2, 3),), "dynamic_shapes": SHAPES, "examples": examples}
"""


@pytest.fixture
def factories(folder: Path) -> Iterator[str]:
    """A module with two factories, in the working directory."""
    (folder / "narrow_factories.py").write_text(FACTORIES)
    yield "narrow_factories"
    sys.modules.pop("narrow_factories", None)


def test_a_module_that_cannot_run_in_half_is_judged_in_float32_and_the_report_says_so(
    folder: Path, factories: str
) -> None:
    typed = (f"{factories}:mixed", "--opset", "18", "--shape", "b3", "--regime", "normal", "--runtime", "ort-cpu")
    wanted = ("--latency", "none", "--no-explain", "--json", "-", "--out", folder / "out")
    ran = cli("verify", *typed, *wanted)
    assert ran.code == 0, ran.err
    assert {v["id"].split("/")[2] for v in ran.document()["verdicts"]} == {"float32"}
    assert any("not judged in float16" in line and "dtype" in line for line in ran.document()["limits"])
    ran = cli("verify", f"{factories}:mixed", "--dtype", "float16", *wanted)
    assert (ran.code, ran.out) == (2, "")
    assert "does not run in float16" in ran.err and "remedy" in ran.err


def test_a_factory_may_list_inputs_of_its_own(folder: Path, factories: str) -> None:
    wanted = ("--regime", "example-one", "--regime", "example-five", "--opset", "18", *FAST)
    ran = cli("verify", f"{factories}:listed", *wanted, "--out", folder / "out")
    assert ran.code == 0, ran.err
    assert {"/".join(v["id"].split("/")[-2:]) for v in ran.document()["verdicts"]} == {
        "b1/example-one",
        "b5/example-five",
    }
