"""Products in TF32: judged as such where the session says so, and nowhere else; a fault stays a fault."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import numpy.typing as npt
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from onnxparity import plugins
from onnxparity.artifact import Artifact
from onnxparity.export.given import read_given
from onnxparity.judging.examining import ExamineRequest, examine
from onnxparity.outcome import Status, Verdict
from onnxparity.plan import Cell
from onnxparity.protocols import TF32, Availability, Feeds, Outputs, Placement, Runtime, Session

WIDTH, NAME = 64, "ort-cpu"
Float32 = npt.NDArray[np.float32]
WEIGHTS = [np.random.default_rng(seed).standard_normal((WIDTH, WIDTH)).astype(np.float32) for seed in (1, 2)]


def in_tf32(value: Float32) -> Float32:
    """Without the last 13 of the 23 bits behind the leading one, as a tensor core drops them."""
    return (np.ascontiguousarray(value).view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32)


def in_half(value: Float32) -> Float32:
    return value.astype(np.float16).astype(np.float32)


Keeps = Callable[[Float32], Float32]


class TensorCores:
    """A runtime for tanh(x A) B whose hardware multiplies what `keeps` leaves of its factors."""

    name, question = NAME, "arithmetic"

    def __init__(self, said: float | None, *, keeps: Keeps = in_tf32, fault: float = 1.0) -> None:
        self.said, self.keeps, self.fault = said, keeps, fault

    def probe(self) -> Availability:
        return Availability(self.name, True, "", "1")

    def load(self, artifact: Artifact) -> Session:
        keeps, fault = self.keeps, self.fault

        class Loaded:
            product_roundoff = self.said

            def run(self, feeds: Feeds) -> Outputs:
                hidden = np.tanh(keeps(feeds["x"]) @ keeps(WEIGHTS[0]))
                hidden[0, 0, 0] *= np.float32(fault)
                return {"y": keeps(hidden) @ keeps(WEIGHTS[1])}

            def placement(self) -> tuple[Placement, ...] | None:
                return None

        return Loaded()


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """y = tanh(x A) B in float32, with x and y (B, T, 64)."""
    dims: list[str | int | None] = ["batch", "sequence", WIDTH]
    graph = helper.make_graph(
        [
            helper.make_node("MatMul", ["x", "A"], ["h"]),
            helper.make_node("Tanh", ["h"], ["t"]),
            helper.make_node("MatMul", ["t", "B"], ["y"]),
        ],
        "two products",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, dims)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, dims)],
        [numpy_helper.from_array(w, name) for w, name in zip(WEIGHTS, "AB", strict=True)],
    )
    made = tmp_path_factory.mktemp("tf32") / "products.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8), made)
    return made


def verdict(path: Path, runtime: TensorCores, monkeypatch: pytest.MonkeyPatch) -> Verdict:
    """Of the runtime on one point of normal values."""
    real = plugins.runtime

    def found(name: str, threads: int | None = None) -> Runtime:
        return runtime if name == NAME else real(name, threads)  # type: ignore[return-value]  # question is a literal

    monkeypatch.setattr(plugins, "runtime", found)
    given = read_given(path)
    cell = Cell(given.artifact.key, NAME, "b2-t5", "normal")
    (made,) = [
        item
        for item in examine(ExamineRequest(given.subject, given.artifact, (cell,), use_cache=False))
        if isinstance(item, Verdict)
    ]
    return made


def test_without_the_word_tf32_is_wrong_arithmetic(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = verdict(path, TensorCores(None), monkeypatch)
    assert found.status is Status.ARITHMETIC
    assert found.ratio is not None and found.ratio > 10


def test_with_the_word_tf32_passes_and_the_verdict_says_so(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = verdict(path, TensorCores(TF32), monkeypatch)
    assert found.status is Status.PASS, found.message
    assert found.ratio is not None and found.ratio > 0.01  # the budget is not far wider than what it is for
    assert any("TF32" in line for line in found.evidence)


def test_a_session_that_says_nothing_special_is_told_nothing_special(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = verdict(path, TensorCores(None, keeps=lambda value: value), monkeypatch)
    assert (found.status, found.evidence) == (Status.PASS, ())


@pytest.mark.parametrize("fault", [1.1, 0.0])
def test_a_fault_is_a_fault_in_tf32_too(path: Path, monkeypatch: pytest.MonkeyPatch, fault: float) -> None:
    found = verdict(path, TensorCores(TF32, fault=fault), monkeypatch)
    assert found.status is Status.ARITHMETIC


@pytest.mark.parametrize("said", [2.0**-8, 0.0, float("nan"), -1.0])
def test_no_word_is_believed_that_would_allow_more_than_tf32(
    path: Path, monkeypatch: pytest.MonkeyPatch, said: float
) -> None:
    found = verdict(path, TensorCores(said), monkeypatch)
    assert found.status is Status.LOAD_ERROR
    assert any("half precision" in line for line in found.evidence)


def test_fewer_bits_than_tf32_are_wrong_even_with_the_word(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def in_bfloat16(value: Float32) -> Float32:
        return (np.ascontiguousarray(value).view(np.uint32) & np.uint32(0xFFFF0000)).view(np.float32)

    assert verdict(path, TensorCores(TF32, keeps=in_bfloat16), monkeypatch).status is Status.ARITHMETIC
