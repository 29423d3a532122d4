"""OpenVINO through the same protocol; where it is not installed it says so, and the rest is skipped."""

from __future__ import annotations

import importlib.util
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from onnx import helper

from onnxparity.errors import LoadError, RunError, SubjectError, UnavailableError
from onnxparity.protocols import Availability, Runtime
from onnxparity.runtimes import openvino
from onnxparity.runtimes.openvino import OpenVino
from onnxparity.runtimes.ort_cpu import OrtCpu
from tests.unit.runtimes.files import block, model, record, value

X = np.random.default_rng(0).standard_normal((2, 5, 8)).astype(np.float32)
installed = pytest.mark.skipif(
    importlib.util.find_spec("openvino") is None, reason="the package openvino is not installed"
)


def test_without_the_package_it_is_unavailable_with_a_remedy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> str:
        raise PackageNotFoundError(name)

    monkeypatch.setattr(openvino, "version", missing)
    runtime: Runtime = OpenVino()
    found = runtime.probe()
    assert not found.available and found.version is None and "pip install" in found.remedy
    with pytest.raises(UnavailableError, match="not installed"):
        runtime.load(record(tmp_path / "block.onnx", block()))


def test_a_package_that_does_not_work_is_unavailable(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(self: OpenVino, model: object) -> object:
        raise ImportError("libopenvino.so: cannot open shared object file")

    monkeypatch.setattr(openvino, "version", lambda name: "2026.0")
    monkeypatch.setattr(OpenVino, "_compile", broken)
    assert OpenVino().probe() == Availability(
        "openvino", False, "libopenvino.so: cannot open shared object file", "2026.0"
    )


@installed
def test_it_agrees_with_onnx_runtime_in_float32(tmp_path: Path) -> None:
    artifact = record(tmp_path / "block.onnx", block())
    session = OpenVino().load(artifact)
    assert "float32" in str(session.options["INFERENCE_PRECISION_HINT"])
    np.testing.assert_allclose(session.run({"x": X})["y"], OrtCpu().load(artifact).run({"x": X})["y"], atol=1e-5)
    placed = session.placement()
    assert placed and all(p.provider.startswith("OpenVINO CPU") for p in placed)
    session.bind({"x": X})()
    with pytest.raises(SubjectError):
        session.run({"x": X[0]})


@installed
def test_a_failing_node_is_an_error_and_never_an_empty_output(tmp_path: Path) -> None:
    node = helper.make_node("Reshape", ["a", "shape"], ["c"], name="reshape")
    made = model([node], [value("a", ["n", 2]), value("shape", [2], "int64")], [value("c", [None, None])])
    session = OpenVino().load(record(tmp_path / "reshape.onnx", made))
    with pytest.raises(RunError, match="conflicts with the reshape pattern"):
        session.run({"a": np.ones((3, 2), np.float32), "shape": np.array([4, 4])})


@installed
def test_bfloat16_is_not_misread(tmp_path: Path) -> None:
    made = model(
        [helper.make_node("Add", ["a", "a"], ["c"])], [value("a", ["n"], "bfloat16")], [value("c", ["n"], "bfloat16")]
    )
    a = np.array([1.5, -3.0], ml_dtypes.bfloat16)
    got = OpenVino().load(record(tmp_path / "bf.onnx", made)).run({"a": a})["c"]
    assert got.dtype.name == "bfloat16" and got.astype(np.float32).tolist() == [3.0, -6.0]


@installed
def test_an_operator_it_does_not_know_is_a_load_error(tmp_path: Path) -> None:
    made = model([helper.make_node("Attenshun", ["a"], ["c"])], [value("a", [2])], [value("c", [2])])
    with pytest.raises(LoadError, match="Attenshun"):
        OpenVino().load(record(tmp_path / "unknown.onnx", made))
