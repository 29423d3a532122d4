"""ONNX Runtime on CUDA, or nothing: the reason is the loader's own, and a quiet fallback to the CPU is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from onnxparity.errors import UnavailableError
from onnxparity.protocols import Availability
from onnxparity.runtimes import ort_cuda
from onnxparity.runtimes.cuda_answer import CUDA
from onnxparity.runtimes.ort import CPU, open_session
from onnxparity.runtimes.ort_cpu import OrtCpu
from onnxparity.runtimes.ort_cuda import OrtCuda
from tests.unit.runtimes.files import block, record

X = np.random.default_rng(0).standard_normal((2, 5, 8)).astype(np.float32)
MISSING = "x.cc:1 FAIL : Failed to load library /a/libonnxruntime_providers_cuda.so with error: "


def seen(**changes: object) -> str:
    """What the child prints where CUDA works, with changes."""
    works = {"built": True, "providers": [CUDA, CPU], "placed": [CUDA], "correct": True, "got": []}
    return json.dumps(works | changes)


def test_the_probe_answers_and_prints_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    ort_cuda._seen_in_child.cache_clear()
    found = OrtCuda().probe()
    assert found.runtime == "ort-cuda" and found.version
    assert capfd.readouterr() == ("", "")
    assert found.available == (found.reason == "") == (found.remedy == "")


def test_without_cuda_the_reason_is_told_and_load_refuses(tmp_path: Path) -> None:
    found = OrtCuda().probe()
    if found.available:
        pytest.skip("a CUDA device is here")
    with pytest.raises(UnavailableError) as caught:
        OrtCuda().load(record(tmp_path / "block.onnx", block()))
    assert found.reason in caught.value.what and caught.value.remedy == found.remedy != ""


@pytest.mark.cuda
def test_on_cuda_every_data_node_runs_on_the_device(tmp_path: Path) -> None:
    found = OrtCuda().probe()
    if not found.available:
        pytest.skip(f"no CUDA device: {found.reason}")
    artifact = record(tmp_path / "block.onnx", block())
    session = OrtCuda().load(artifact)
    assert session.providers[0] == CUDA and session.fallbacks == ()
    np.testing.assert_allclose(session.run({"x": X})["y"], OrtCpu().load(artifact).run({"x": X})["y"], atol=1e-5)
    session.bind({"x": X})()


def test_a_quiet_fallback_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The probe is made to say yes, and ONNX Runtime gives a session on the CPU, as it does without a device."""

    def on_cpu(*args: Any, **kwargs: Any) -> Any:  # Any: passed on as they come
        return open_session(*args, **{**kwargs, "providers": [CPU]})

    monkeypatch.setattr(OrtCuda, "probe", lambda self: Availability("ort-cuda", True, "", "1"))
    monkeypatch.setattr(ort_cuda, "open_session", on_cpu)
    monkeypatch.setattr(ort_cuda, "preload", lambda: None)
    with pytest.raises(UnavailableError, match="runs on CPUExecutionProvider only"):
        OrtCuda().load(record(tmp_path / "block.onnx", block()))


def test_a_session_whose_nodes_all_went_to_the_cpu_is_refused(tmp_path: Path) -> None:
    session = OrtCpu().load(record(tmp_path / "block.onnx", block()))
    session.providers = (CUDA, CPU)
    with pytest.raises(UnavailableError, match=r"took none of \d+ nodes; they run on CPUExecutionProvider"):
        ort_cuda._refuse_fallback(session)


def test_a_child_that_saw_cuda_work_is_believed() -> None:
    assert ort_cuda._judge(0, "noise of a library\n" + seen() + "\n", "a warning") == ("", "")


@pytest.mark.parametrize(
    ("returncode", "stdout", "stderr", "reason", "remedy"),
    [
        (0, seen(built=False), "", "has no CUDA provider", "onnxruntime-gpu"),
        (0, seen(providers=[CPU]), MISSING + "libcublasLt.so.13: cannot open", "libcublasLt.so.13", "[cuda,cudnn]"),
        (0, seen(providers=[CPU]), MISSING + "libcuda.so.1: cannot open", "libcuda.so.1: cannot open", "driver"),
        (0, seen(providers=[CPU]), "", "said nothing", "NVIDIA GPU"),
        (0, seen(placed=[CPU]), "", "node ran on CPUExecutionProvider", "NVIDIA GPU"),
        (0, seen(placed=[]), "", "node ran on nothing", "NVIDIA GPU"),
        (0, seen(correct=False, got=[[0]]), "", "gave [[0]] on the device", "NVIDIA GPU"),
        (1, "", "CUDA failure 100: no CUDA-capable device is detected ; GPU=0", "no CUDA-capable device", "NVIDIA GPU"),
        (-11, "", "last words", "died with signal 11: last words", "NVIDIA GPU"),
        (0, "no json", "", "died with exit code 0", "NVIDIA GPU"),
    ],
)
def test_every_way_to_fail_has_its_reason_and_remedy(
    returncode: int, stdout: str, stderr: str, reason: str, remedy: str
) -> None:
    told = ort_cuda._judge(returncode, stdout, stderr)
    assert reason in told[0] and remedy in told[1]


def test_tf32_is_off_unless_asked_for() -> None:
    assert OrtCuda()._provider_options["use_tf32"] == "0"
    assert OrtCuda(tf32=True)._provider_options["use_tf32"] == "1"
