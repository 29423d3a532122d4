"""ONNX Runtime on the CPU: levels agree, placements are told, and every refusal names what it refuses."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from onnx import helper

from onnxparity.errors import LoadError, RunError, SubjectError
from onnxparity.protocols import Availability, Placement, Runtime
from onnxparity.runtimes.ort import LEVELS, Level, OrtSession
from onnxparity.runtimes.ort_cpu import OrtCpu, OrtCpuBasic, OrtCpuDisabled, OrtCpuExtended
from onnxparity.runtimes.ort_install import InstalledBuilds, installed_builds, newest_ir_version, newest_opset, versions
from tests.unit.runtimes.files import block, model, record, value

MATMUL = helper.make_node("MatMul", ["a", "b"], ["c"], name="product")
X = np.random.default_rng(0).standard_normal((2, 5, 8)).astype(np.float32)


@pytest.fixture
def session(tmp_path: Path) -> OrtSession:
    return OrtCpu().load(record(tmp_path / "block.onnx", block()))


def test_names_and_question() -> None:
    runtimes: list[Runtime] = [OrtCpu(), OrtCpuExtended(), OrtCpuBasic(), OrtCpuDisabled()]
    assert [r.name for r in runtimes] == ["ort-cpu", "ort-cpu-extended", "ort-cpu-basic", "ort-cpu-disabled"]
    assert {r.question for r in runtimes} == {"arithmetic"}


def test_the_probe_runs_a_known_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    found = OrtCpu().probe()
    assert found == Availability("ort-cpu", True, "", found.version) and found.version
    monkeypatch.setattr("onnxparity.runtimes.ort_cpu.WANT", np.eye(2, dtype=np.float32))
    assert not OrtCpu().probe().available and "2x2 product gave" in OrtCpu().probe().reason
    monkeypatch.setattr("onnxparity.runtimes.ort_cpu.matmul_model", lambda: b"no model")
    assert not OrtCpu().probe().available and OrtCpu().probe().reason


def test_levels_agree_and_really_differ(tmp_path: Path) -> None:
    artifact = record(tmp_path / "block.onnx", block())
    outputs, nodes = {}, {}
    level: Level
    for level in LEVELS:
        loaded = OrtCpu(level=level).load(artifact)
        assert loaded.options["graph_optimization_level"] == level
        outputs[level], nodes[level] = loaded.run({"x": X})["y"], loaded.placement() or ()
    for got in outputs.values():
        np.testing.assert_allclose(got, outputs["disabled"], rtol=1e-5, atol=1e-6)
    assert len(nodes["all"]) < len(nodes["disabled"]) == 8


def test_every_node_runs_on_the_cpu(session: OrtSession) -> None:
    placed = session.placement()
    assert placed and {p.provider for p in placed} == {"CPUExecutionProvider"}
    assert Placement("project", "MatMul", "CPUExecutionProvider") in placed


def test_threads_are_one_by_default_and_recorded(tmp_path: Path) -> None:
    artifact = record(tmp_path / "block.onnx", block())
    assert OrtCpu().load(artifact).options["intra_op_threads"] == 1
    assert OrtCpu(intra_op_threads=2).load(artifact).options["intra_op_threads"] == 2


def test_feeds_are_checked_before_anything_runs(session: OrtSession) -> None:
    for feeds in ({}, {"x": X, "z": X}, {"x": X.astype(np.float64)}, {"x": X[..., :4]}, {"x": X[0]}):
        with pytest.raises(SubjectError):
            session.run(feeds)


def test_big_endian_feeds_are_not_misread(session: OrtSession) -> None:
    np.testing.assert_array_equal(session.run({"x": X.astype(">f4")})["y"], session.run({"x": X})["y"])


def test_an_empty_past_is_fed(tmp_path: Path) -> None:
    nodes = [helper.make_node("Concat", ["past", "x"], ["present"], axis=1)]
    inputs = [value("x", ["b", "t", 2]), value("past", ["b", "p", 2])]
    loaded = OrtCpu().load(record(tmp_path / "past.onnx", model(nodes, inputs, [value("present", ["b", None, 2])])))
    x = np.ones((1, 3, 2), np.float32)
    assert loaded.run({"x": x, "past": np.ones((1, 0, 2), np.float32)})["present"].shape == (1, 3, 2)


def test_a_bound_call_runs_again_and_makes_no_inputs(session: OrtSession, monkeypatch: pytest.MonkeyPatch) -> None:
    runs: list[Any] = []  # Any: onnxruntime.IOBinding, which carries no types
    run = session._session.run_with_iobinding

    def spied(binding: Any) -> None:  # Any: as above
        runs.append(binding)
        run(binding)

    monkeypatch.setattr(session._session, "run_with_iobinding", spied)
    call = session.bind({"x": X})
    monkeypatch.setattr("onnxparity.runtimes.ort._value", None)
    before = len(runs)
    call()
    call()
    assert len(runs) == before + 2 and len(set(map(id, runs))) == 1
    (output,) = runs[-1].get_outputs()
    monkeypatch.undo()
    np.testing.assert_array_equal(output.numpy(), session.run({"x": X})["y"])


def test_a_bound_call_takes_no_feeds_that_do_not_fit(session: OrtSession) -> None:
    with pytest.raises(SubjectError):
        session.bind({"x": X[0]})


def test_outputs_outlive_the_session(tmp_path: Path) -> None:
    artifact = record(tmp_path / "block.onnx", block())
    first = OrtCpu().load(artifact).run({"x": X})["y"]
    np.testing.assert_array_equal(first, OrtCpu().load(artifact).run({"x": X})["y"])
    assert first.flags.owndata and first.flags.writeable


def test_bfloat16_goes_in_and_comes_out(tmp_path: Path) -> None:
    nodes = [helper.make_node("Cast", ["a"], ["wide"], to=1), helper.make_node("Identity", ["a"], ["same"])]
    outputs = [value("wide", ["n"]), value("same", ["n"], "bfloat16")]
    artifact = record(tmp_path / "cast.onnx", model(nodes, [value("a", ["n"], "bfloat16")], outputs))
    a = np.array([1.5, -3.0, 2.0**-120, np.inf], ml_dtypes.bfloat16)
    got = OrtCpu().load(artifact).run({"a": a})
    assert got["same"].dtype.name == "bfloat16"
    np.testing.assert_array_equal(got["wide"], a.astype(np.float32))
    np.testing.assert_array_equal(got["same"].view(np.uint16), a.view(np.uint16))


def test_a_missing_kernel_names_operator_dtype_node_and_remedy(tmp_path: Path) -> None:
    inputs = [value("a", ["n", 2], "bfloat16"), value("b", [2, 2], "bfloat16")]
    artifact = record(tmp_path / "bf.onnx", model([MATMUL], inputs, [value("c", ["n", 2], "bfloat16")]))
    with pytest.raises(LoadError) as caught:
        OrtCpu().load(artifact)
    assert "no kernel for MatMul-13 in bfloat16, node 'product'" in caught.value.what
    assert caught.value.remedy is not None and "ort-cuda" in caught.value.remedy
    assert "NOT_IMPLEMENTED" not in str(caught.value) and "Could not find an implementation" in str(caught.value)


def test_the_dtype_of_a_missing_kernel_is_the_nodes_own(tmp_path: Path) -> None:
    node = helper.make_node("Conv", ["x", "w"], ["y"], name="conv")
    inputs = [value("x", [1, 1, 4, 4], "float64")]
    made = model([node], inputs, [value("y", [1, 1, 3, 3], "float64")], initializers={"w": np.ones((1, 1, 2, 2))})
    with pytest.raises(LoadError, match=r"no kernel for Conv-\d+ in float64, node 'conv'"):
        OrtCpu().load(record(tmp_path / "conv.onnx", made, dtype="float32"))


def test_too_new_an_opset_or_ir_version_says_what_would_do(tmp_path: Path) -> None:
    same = helper.make_node("Identity", ["a"], ["c"])
    opset, ir = newest_opset(), newest_ir_version()
    assert opset is not None and opset >= 21 and ir is not None and ir >= 10
    for opsets, irs, words in ((1, 0, f"opset {opset} or older"), (0, 1, f"IR version {ir} or older")):
        made = model([same], [value("a", [2])], [value("c", [2])], opset=opset + opsets, ir_version=ir + irs)
        with pytest.raises(LoadError, match="too new") as caught:
            OrtCpu().load(record(tmp_path / "new.onnx", made))
        assert caught.value.expected == words


@pytest.mark.parametrize(
    ("domain", "words"), [("", "no operator Attenshun at opset 20"), ("my.domain", "no operator my.domain:Attenshun")]
)
def test_an_unknown_operator_is_named(tmp_path: Path, domain: str, words: str) -> None:
    node = helper.make_node("Attenshun", ["a"], ["c"], name="n", domain=domain)
    made = model([node], [value("a", [2])], [value("c", [2])])
    if domain:
        made.opset_import.append(helper.make_opsetid(domain, 1))
    with pytest.raises(LoadError) as caught:
        OrtCpu().load(record(tmp_path / "unknown.onnx", made))
    assert words in caught.value.what and caught.value.remedy


def test_a_file_that_is_none_is_refused_with_a_remedy(tmp_path: Path) -> None:
    artifact = record(tmp_path / "block.onnx", block())
    Path(artifact.path).write_bytes(b"version https://git-lfs.github.com/spec/v1\n" * 9)
    with pytest.raises(LoadError) as caught:
        OrtCpu().load(artifact)
    assert caught.value.remedy is not None and "Git LFS" in caught.value.remedy
    Path(artifact.path).unlink()
    with pytest.raises(LoadError, match="existing"):
        OrtCpu().load(artifact)


def test_a_failing_node_is_named_with_a_remedy(tmp_path: Path) -> None:
    node = helper.make_node("Attention", ["q", "q", "q", "mask"], ["y"], name="attend")
    inputs = [value("q", ["b", 2, "t", 8]), value("mask", ["b", 1, 1, "t"], "bool")]
    made = model([node], inputs, [value("y", ["b", 2, "t", 8])], opset=23)
    loaded = OrtCpu().load(record(tmp_path / "attention.onnx", made))
    with pytest.raises(RunError) as caught:
        loaded.run({"q": np.ones((2, 2, 5, 8), np.float32), "mask": np.ones((2, 1, 1, 5), bool)})
    assert caught.value.what == "ort-cpu failed in Attention node 'attend'"
    assert caught.value.remedy is not None and "opset 18" in caught.value.remedy
    assert caught.value.got is not None and "\n" not in caught.value.got


def test_a_failing_bind_is_a_run_error(tmp_path: Path) -> None:
    gather = helper.make_node("Gather", ["table", "ids"], ["y"], name="embed")
    table = {"table": np.ones((4, 2), np.float32)}
    made = model([gather], [value("ids", ["n"], "int64")], [value("y", ["n", 2])], initializers=table)
    loaded = OrtCpu().load(record(tmp_path / "gather.onnx", made))
    with pytest.raises(RunError, match="Gather node 'embed'"):
        loaded.bind({"ids": np.array([9])})


def test_versions_say_what_is_installed() -> None:
    told = versions()
    assert told["newest_opset"] == newest_opset() and "CPUExecutionProvider" in str(told["providers"])
    assert told["packages"] == dict(installed_builds().packages) and told["packages"]


def test_two_builds_over_each_other_are_a_conflict_with_a_remedy() -> None:
    both = InstalledBuilds({"onnxruntime": "1.31.1", "onnxruntime-gpu": "1.31.1"})
    assert both.conflict and "pip uninstall -y onnxruntime onnxruntime-gpu" in both.remedy
    assert both.remedy.endswith("--force-reinstall onnxruntime-gpu")
    alone = InstalledBuilds({"onnxruntime": "1.31.1"})
    assert not alone.conflict and alone.remedy == ""


@pytest.mark.parametrize(
    "name", ["ort_cpu", "ort_cuda", "ort_install", "openvino", "feeding", "fingerprint", "host_nodes", "cuda_answer"]
)
def test_the_onnx_side_leaves_torch_out(name: str) -> None:
    code = f"import sys, onnxparity.runtimes.{name}; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_the_check_for_torch_can_fail() -> None:
    code = "import sys, onnxparity.runtimes.torch_eager; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 1
