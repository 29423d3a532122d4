"""A cell whose arithmetic fails is led back to the node that injects the error, to a fusion, or honestly to nothing."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import onnx
import pytest
from onnx import ModelProto

from onnxparity import plugins
from onnxparity.export.given import read_given
from onnxparity.judging.examining import Bench, ExamineRequest, examine
from onnxparity.locating import arithmetic
from onnxparity.locating.arithmetic import locate_arithmetic
from onnxparity.locating.requests import LocateRequest
from onnxparity.location import Location
from onnxparity.outcome import Status, Verdict
from onnxparity.plan import Cell
from onnxparity.protocols import Runtime
from onnxparity.runtimes.onnx_spec import OnnxSpecRuntime
from onnxparity.runtimes.ort_cpu import OrtCpu
from tests.unit.hub.arithmetic_cases import (
    Fusing,
    Optimiser,
    Spoiling,
    attention_like,
    fourth_power_norm,
    masked_in_half,
    off_centre_norm,
    overflowing,
    quantised_softmax,
    squares_in_half,
)
from tests.unit.runtimes.files import value

Locate = Callable[..., tuple[Verdict, Location]]


@pytest.fixture
def locate(tmp_path: Path) -> Locate:
    """Judges one cell of a model and leads it back."""

    def call(model: ModelProto, runtime: str, shape: str = "b5") -> tuple[Verdict, Location]:
        path = tmp_path / "model.onnx"
        onnx.save(model, path)
        given = read_given(path)
        cell = Cell(given.artifact.key, runtime, shape, "normal")
        request = ExamineRequest(given.subject, given.artifact, (cell,), use_cache=False)
        (verdict,) = (item for item in examine(request) if isinstance(item, Verdict))
        asked = LocateRequest(request, verdict, None, str(tmp_path / "reproduction"))
        return verdict, locate_arithmetic(Bench(request), asked)

    return call


@pytest.fixture
def install(monkeypatch: pytest.MonkeyPatch) -> Callable[[Runtime], None]:
    """Makes a runtime known under its own name."""
    real = plugins.runtime

    def put(runtime: Runtime) -> None:
        def found(name: str, threads: int | None = None) -> Runtime:
            return runtime if name == runtime.name else real(name, threads)

        monkeypatch.setattr(plugins, "runtime", found)

    return put


def rerun(location: Location) -> int:
    """The exit code of the reproduction's script."""
    command = [sys.executable, "-P", "reproduce.py"]
    return subprocess.run(command, cwd=location.reproduction, capture_output=True, check=False).returncode


def test_a_softmax_in_half_inside_a_float32_graph_is_named_under_the_specification(locate: Locate) -> None:
    verdict, found = locate(attention_like(half=True), "onnx-spec")
    assert verdict.status is Status.ARITHMETIC
    assert (found.origin, found.node and found.node.name) == ("injected", "weights")
    assert "computes in float16 inside a float32 graph" in found.message
    assert any("narrow" in line for line in found.evidence), "the Cast that leads there is told"
    assert (found.region, found.nodes, found.cell) == (5, 6, verdict.cell)
    assert {(s.name, s.side) for s in found.statistics} == {
        ("narrow", "input"),
        ("weights", "want"),
        ("weights", "got"),
    }
    assert rerun(found) == 1


@pytest.mark.parametrize("runtime", ["ort-cpu", "ort-cpu-disabled"])
def test_a_kernel_that_cancels_is_named_with_error_noise_and_budget(locate: Locate, runtime: str) -> None:
    verdict, found = locate(off_centre_norm(), runtime, "b3")
    assert verdict.status is Status.ARITHMETIC
    assert (found.origin, found.node and found.node.name, found.optimizer) == ("injected", "normal", "")
    assert any(line.startswith("the node alone: error") and "budget" in line for line in found.evidence)
    assert any(line.startswith("input shifted:") and "0 of 24 vectors out" in line for line in found.evidence)
    assert any(line.startswith("it moves the output by") for line in found.evidence)
    assert rerun(found) == 1
    kept = onnx.load(Path(found.reproduction, "model.onnx")).graph.node
    assert [n.op_type for n in kept] == ["GroupNormalization"], "the smallest part is that node"


def test_scores_beyond_half_are_named_with_the_value_and_the_end_of_the_dtype(locate: Locate) -> None:
    verdict, found = locate(overflowing(fused=False), "onnx-spec", "b2-t5")
    assert verdict.status is Status.NONFINITE
    assert (found.origin, found.node and found.node.name) == ("injected", "scores")
    (largest,) = (s.largest for s in found.statistics if (s.name, s.side) == ("scores", "want"))
    assert found.message == f"MatMul 'scores': scores reach {largest:.6g}, float16 ends at 65504: 10 of 10 rows"
    assert rerun(found) == 1


@pytest.mark.parametrize("runtime", ["onnx-spec", "ort-cpu"])
def test_what_overflows_inside_a_fused_attention_is_named(locate: Locate, runtime: str) -> None:
    verdict, found = locate(overflowing(fused=True), runtime, "b2-t5")
    assert verdict.status is Status.NONFINITE
    assert (found.origin, found.node and found.node.operator) == ("injected", "Attention")
    reach = re.search(r"scores reach (\d+), float16 ends at 65504: 10 of 10 rows", found.message)
    assert reach and 65504 < int(reach[1]) < 10 * 65504


def test_squares_that_overflow_inside_a_norm_are_named(locate: Locate) -> None:
    verdict, found = locate(squares_in_half(), "onnx-spec")
    assert verdict.status in (Status.NONFINITE, Status.ARITHMETIC)
    assert (found.origin, found.node and found.node.name) == ("injected", "length")
    assert "squares reach" in found.message and "float16 ends at 65504" in found.message


@pytest.mark.parametrize(
    ("model", "optimizer", "first"),
    [
        (fourth_power_norm(), "LayerNormFusionL1", "mean"),
        (quantised_softmax(), "QDQSelectorActionTransformer", "d_scores"),
    ],
    ids=["fourth-power", "quantised-softmax"],
)
def test_a_fusion_that_changes_the_result_is_named(
    locate: Locate, model: ModelProto, optimizer: str, first: str
) -> None:
    verdict, found = locate(model, "ort-cpu")
    assert verdict.status is Status.ARITHMETIC
    assert (found.origin, found.optimizer) == ("optimizer", optimizer)
    assert found.node is not None and found.node.name == first
    assert rerun(found) == 1
    assert locate(model, "ort-cpu-disabled")[0].status is Status.PASS


def test_a_norm_that_may_be_fused_is_not_blamed(locate: Locate) -> None:
    verdict, found = locate(fourth_power_norm(2.0), "ort-cpu")
    assert verdict.status is Status.PASS
    assert (found.origin, found.node, found.reproduction) == ("unknown", None, "")


@pytest.mark.parametrize("spoiled", ["scores", "wide", "mixed", "y"])
def test_the_one_operator_that_a_plug_in_spoils_is_named(
    locate: Locate, install: Callable[[Runtime], None], tmp_path: Path, spoiled: str
) -> None:
    install(Spoiling(OrtCpu(), spoiled, tmp_path))
    verdict, found = locate(attention_like(), "spoiling")
    assert verdict.status is Status.ARITHMETIC
    assert (found.origin, found.node and found.node.name) == ("injected", spoiled)
    readme = Path(found.reproduction, "README.txt").read_text()
    assert rerun(found) == 0 and "passes here in onnxruntime" in readme, "the failure is the plug-in's own"
    assert any("the reproduction passes in onnxruntime" in line for line in found.evidence)
    assert readme.startswith(f"{verdict.cell.id}: ")


@pytest.mark.parametrize("spoiled", ["scores", "weights"])
def test_an_overflow_that_does_no_harm_is_not_blamed(
    locate: Locate, install: Callable[[Runtime], None], tmp_path: Path, spoiled: str
) -> None:
    assert locate(masked_in_half(), "onnx-spec")[0].status is Status.PASS
    install(Spoiling(OnnxSpecRuntime(), spoiled, tmp_path, error=0.2))
    verdict, found = locate(masked_in_half(), "spoiling")
    assert verdict.status is Status.ARITHMETIC
    assert (found.origin, found.node and found.node.name) == ("injected", spoiled)


def test_an_error_that_no_node_injects_alone_is_propagated(
    locate: Locate, install: Callable[[Runtime], None], tmp_path: Path
) -> None:
    install(Spoiling(OrtCpu(), "wide", tmp_path, beside="scores"))
    verdict, found = locate(attention_like(), "spoiling")
    assert verdict.status is Status.ARITHMETIC
    assert (found.origin, found.node and found.node.name) == ("propagated", "wide")
    assert found.region == 3


def test_a_level_that_no_single_optimiser_explains_is_said_and_the_node_is_found_all_the_same(
    locate: Locate, install: Callable[[Runtime], None], tmp_path: Path
) -> None:
    install(Optimiser(OrtCpu(), "wide", tmp_path))
    _, found = locate(attention_like(), "spoiling")
    assert (found.origin, found.node and found.node.name, found.optimizer) == ("injected", "wide", "")
    assert any(line.startswith("in budget at optimisation level disabled") for line in found.evidence)


def test_a_failure_that_goes_away_with_intermediate_outputs_is_called_a_fusion(
    locate: Locate, install: Callable[[Runtime], None], tmp_path: Path
) -> None:
    install(Fusing(OrtCpu(), "wide", tmp_path))
    _, found = locate(attention_like(), "spoiling")
    assert any("it fails only where it fuses" in line for line in found.evidence)
    assert found.origin == "propagated"
    assert len(onnx.load(Path(found.reproduction, "model.onnx")).graph.node) == 4, "nothing smaller fails"


def test_a_weight_that_is_an_output_too_does_not_hinder(locate: Locate) -> None:
    made = fourth_power_norm()
    made.graph.output.append(value("w", [16, 16]))
    _, found = locate(made, "ort-cpu")
    assert found.optimizer == "LayerNormFusionL1"
    assert rerun(found) == 1


def test_a_cell_that_passes_has_no_node(locate: Locate) -> None:
    verdict, found = locate(attention_like(), "ort-cpu")
    assert verdict.status is Status.PASS
    assert (found.origin, found.node, found.region) == ("unknown", None, 0)
    assert "did not come again" in found.message


def test_a_search_that_is_cut_short_says_so(locate: Locate, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arithmetic, "REPLAYS", 1)
    _, found = locate(attention_like(half=True), "onnx-spec")
    assert "1 of 5 nodes were replayed" in found.evidence
    assert found.node and found.node.name == "narrow", "what comes later was not replayed"
