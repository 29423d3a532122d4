"""The reproduction needs ONNX Runtime and NumPy only, is red while the failure is there and green once it is not."""

from __future__ import annotations

import ast
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from onnxparity.errors import EvidenceError
from onnxparity.locating.reproduction import Failing, write
from onnxparity.protocols import Array
from onnxparity.runtimes import subgraph
from tests.unit.runtimes.files import model, value

X = np.linspace(-2, 2, 12).reshape(3, 4).astype(np.float32)
WANT = {"y": 2 * X.astype(float), "n": np.array([0, 1, 3])}


def failing(**changed: Array) -> Failing:
    """y = 2 x and n, the place of the largest; right unless wanted otherwise."""
    nodes = [helper.make_node("Mul", ["x", "two"], ["y"]), helper.make_node("ArgMax", ["square"], ["n"], keepdims=0)]
    made = model(
        nodes,
        [value("x", ["n", 4]), value("square", [4, "k"])],
        [value("y", ["n", 4]), value("n", ["k"], "int64")],
        initializers={"two": np.array(2, np.float32)},
    )
    square = np.zeros((4, 3), np.float32)
    square[[0, 1, 3], [0, 1, 2]] = 1
    limits = {"y": np.full((3, 1), 1e-6), "n": np.zeros(3)}
    return Failing(made, {"x": X, "square": square}, {**WANT, **changed}, limits)


def run(folder: Path) -> tuple[int, str]:
    """Exit code and output of the script, in a process that has this package out of its sight."""
    command = [sys.executable, "-I", "reproduce.py"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


def test_a_graph_that_is_right_is_green(tmp_path: Path) -> None:
    found = write(failing(), tmp_path / "case", "ort-cpu")
    assert not found.fails
    code, said = run(tmp_path / "case")
    assert code == 0, said
    assert "y: error 0, limit 1e-06, 0 of 12 out" in said and "n: error 0" in said


@pytest.mark.parametrize(
    ("name", "want"),
    [
        ("y", WANT["y"] + 2e-6),
        ("y", np.where(np.eye(3, 4, dtype=bool), np.nan, WANT["y"])),
        ("y", np.where(np.eye(3, 4, dtype=bool), np.inf, WANT["y"])),
        ("n", np.array([0, 1, 2])),
    ],
    ids=["off", "nan", "infinite", "integer"],
)
def test_what_is_out_of_its_limit_is_red(tmp_path: Path, name: str, want: Array) -> None:
    found = write(failing(**{name: want}), tmp_path / "case", "ort-cpu")
    assert found.fails
    code, said = run(tmp_path / "case")
    assert code == 1
    assert f"{name}: error" in said and "Traceback" not in said


def test_nan_and_infinity_on_both_sides_are_no_failure(tmp_path: Path) -> None:
    case = failing()
    x = np.array([[np.nan, np.inf, -np.inf, 1]] * 3, np.float32)
    case = replace(case, feeds={**case.feeds, "x": x}, want={**case.want, "y": 2 * x.astype(float)})
    assert not write(case, tmp_path / "case", "ort-cpu").fails


def test_the_folder_holds_onnx_test_data(tmp_path: Path) -> None:
    write(failing(), tmp_path, "onnx-spec", what="Mul is 12 times its budget")
    names = sorted(str(p.relative_to(tmp_path)) for p in tmp_path.rglob("*") if p.is_file())
    assert names == [
        "README.txt",
        "data.npz",
        "inputs/input_0.pb",
        "inputs/input_1.pb",
        "model.onnx",
        "outputs/output_0.pb",
        "outputs/output_1.pb",
        "reproduce.py",
    ]
    tensor = TensorProto.FromString((tmp_path / "outputs/output_0.pb").read_bytes())
    assert tensor.name == "y"
    np.testing.assert_array_equal(onnx.numpy_helper.to_array(tensor), 2 * X)
    lines = (tmp_path / "README.txt").read_text().splitlines()
    assert len(lines) == 3
    assert lines[0] == "Mul is 12 times its budget"
    assert "passes here in onnxruntime: the failure is one of onnx-spec" in lines[1]


def test_the_script_needs_onnxruntime_and_numpy_only(tmp_path: Path) -> None:
    write(failing(), tmp_path, "ort-cuda")
    text = (tmp_path / "reproduce.py").read_text()
    imported = {a.name for n in ast.walk(ast.parse(text)) if isinstance(n, ast.Import) for a in n.names}
    assert imported == {"sys", "numpy", "onnxruntime"}
    assert "['CUDAExecutionProvider', 'CPUExecutionProvider']" in text


@pytest.mark.parametrize(("level", "name"), [("all", "ORT_ENABLE_ALL"), ("disabled", "ORT_DISABLE_ALL")])
def test_the_optimisation_level_is_kept(tmp_path: Path, level: str, name: str) -> None:
    write(replace(failing(), level=level), tmp_path, "ort-cpu")
    assert f"GraphOptimizationLevel.{name}\n" in (tmp_path / "reproduce.py").read_text()


def test_an_older_reproduction_is_removed(tmp_path: Path) -> None:
    (tmp_path / "inputs").mkdir()
    (tmp_path / "inputs" / "input_7.pb").write_bytes(b"old")
    write(failing(), tmp_path, "ort-cpu")
    assert not (tmp_path / "inputs" / "input_7.pb").exists()


def test_large_weights_stay_beside_the_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subgraph, "LARGEST_INLINE", 1)
    case = failing()
    weight = onnx.numpy_helper.from_array(np.full((512, 4), 2, np.float32), "two")
    del case.model.graph.initializer[:]
    case.model.graph.initializer.append(weight)
    x = np.ones((512, 4), np.float32)
    wide = replace(
        case,
        feeds={**case.feeds, "x": x},
        want={**case.want, "y": 2 * x.astype(float)},
        limits={**case.limits, "y": np.full((512, 1), 1e-6)},
    )
    assert not write(wide, tmp_path, "ort-cpu").fails
    assert (tmp_path / "model.onnx.data").stat().st_size >= weight.ByteSize() - 100
    assert (tmp_path / "model.onnx").stat().st_size < 1000


def test_bfloat16_cannot_be_stored_and_says_so(tmp_path: Path) -> None:
    case = failing()
    feeds = {**case.feeds, "x": X.astype(ml_dtypes.bfloat16)}
    with pytest.raises(EvidenceError, match="'x' cannot be stored"):
        write(replace(case, feeds=feeds), tmp_path, "onnx-spec")
