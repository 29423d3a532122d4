"""`onnxparity placement` as a check before a release: exit codes, what it prints, and where the catalogue goes."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import onnx
import pytest
from onnx import helper

from onnxparity.runtimes import placement_probes
from tests.unit.runtimes.cuda_here import needs_dry_run
from tests.unit.runtimes.files import block, model, value

from .running import cli


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The working directory, with a file that is all on the device, one that falls back, and a cache of its own."""
    made = tmp_path_factory.mktemp("placement")
    onnx.save(block(), made / "device.onnx")
    nodes = [
        helper.make_node("MatMul", ["x", "x"], ["h"], name="square"),
        helper.make_node("Det", ["h"], ["y"], name="determinants"),
    ]
    onnx.save(model(nodes, [value("x", ["batch", 4, 4])], [value("y", ["batch"])]), made / "falls.onnx")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ONNXPARITY_CACHE", str(made / "cache"))
        patch.setenv("COLUMNS", "80")
        patch.chdir(made)
        yield made


def document(*arguments: str, code: int) -> dict[str, Any]:  # Any: JSON
    ran = cli("placement", *arguments, "--json", "-")
    assert ran.code == code, ran.err
    found: dict[str, Any] = json.loads(ran.out)
    assert (found["schema"], found["exit_code"]) == ("onnxparity-placement/1", code)
    return found


@needs_dry_run
def test_a_file_that_is_all_on_the_device_exits_with_0(folder: Path) -> None:
    ran = cli("placement", "device.onnx", "--json", "also.json")
    assert ran.code == 0 and ran.err == ""
    assert "Everything that handles data is on the device." in ran.out and "A dry run: no kernel ran" in ran.out
    assert json.loads((folder / "also.json").read_text())["fallbacks"] == []
    assert max(map(len, ran.out.splitlines())) <= 80


@needs_dry_run
def test_data_that_falls_back_exits_with_1_and_tells_node_reason_and_bytes(folder: Path) -> None:
    ran = cli("placement", "falls.onnx")
    assert ran.code == 1
    for words in ("determinants (Det)", "no CUDA kernel", "4*batch*4*4", "1 node handles data on the host"):
        assert words in ran.out
    found = document("falls.onnx", code=1)
    assert found["proven"] and [f["node"] for f in found["fallbacks"]] == ["determinants"]


@needs_dry_run
@pytest.mark.parametrize(
    ("opset", "device", "shapes"),
    [
        (18, {"Softmax": 1, "Transpose": 5, "Reshape": 6}, {"Concat": 4, "Gather": 1, "Slice": 3, "Squeeze": 1}),
        (23, {"Attention": 1, "Transpose": 4, "Reshape": 4}, {"Concat": 2, "Squeeze": 1}),
    ],
)
def test_causal_attention_is_on_the_device_but_for_its_shapes(
    folder: Path, opset: int, device: dict[str, int], shapes: dict[str, int]
) -> None:
    found = document("causal-attention", "--opset", str(opset), code=0)
    assert found["title"] == f"causal-attention, opset {opset}, float32"
    assert device.items() <= found["after"]["device"].items()
    assert (found["after"]["shapes"], found["after"]["data"], found["copies"]) == (shapes, {}, [])


@needs_dry_run
def test_dtype_and_compute_capability_are_what_is_asked_about(folder: Path) -> None:
    found = document("layer-norm", "--dtype", "float16", "--compute-capability", "8.6", code=0)
    assert found["title"] == "layer-norm, opset 23, float16" and found["compute_capability"] == "8.6"


@pytest.mark.parametrize(
    "typed",
    [
        ("nothing.onnx",),
        ("no-such-subject",),
        ("device.onnx", "--opset", "20"),
        ("device.onnx", "--dtype", "float16"),
        ("device.onnx", "--compute-capability", "90"),
        ("device.onnx", "--json", "no/such/folder.json"),
    ],
)
def test_wrong_usage_exits_with_2(folder: Path, typed: tuple[str, ...]) -> None:
    ran = cli("placement", *typed)
    assert ran.code == 2 and ran.out == "" and "Traceback" not in ran.err


@needs_dry_run
def test_an_answer_that_is_not_proven_is_never_green(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(placement_probes, "doubts", lambda _: ("known: attention runs on the device",))
    ran = cli("placement", "device.onnx")
    assert ran.code == 3 and "Unproven: known: attention" in ran.out
    assert "Everything that handles data" not in ran.out
    assert document("falls.onnx", code=3)["proven"] is False


def test_where_it_cannot_be_asked_it_exits_with_3(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda _: None)
    ran = cli("placement", "device.onnx")
    assert ran.code == 3 and "is not available" in ran.err and ran.out == ""
