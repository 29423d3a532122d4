"""The two jobs together: a module is traced in one worker, a file against it is located in the other."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from onnxparity.case import Subject
from onnxparity.export.given import read_given
from onnxparity.feeding.references import References
from onnxparity.judging.examining import Bench, ExamineRequest, examine
from onnxparity.locating.requests import LocateRequest, Traced, TraceRequest
from onnxparity.location import Location
from onnxparity.models import catalogue
from onnxparity.outcome import Status, Verdict
from onnxparity.plan import Cell
from onnxparity.planning.grid import Point
from onnxparity.running.authoring import AuthorRequest, author
from onnxparity.running.jobs import JOBS
from tests.conformance.exporting import export
from tests.unit.hub.locating_cases import replaced, saved


def against_module(name: str, path: Path, folder: Path, regime: str = "normal") -> Location:
    """A file against the catalogue subject it should be, at b2-t7."""
    subject = catalogue.find(name).subject
    point = Point("b2-t7", regime)
    asked = AuthorRequest(subject, (), {"float32": (point,)}, (), str(folder), str(folder), use_cache=False)
    references = next(item for item in author(asked) if isinstance(item, References))
    artifact = read_given(path).artifact
    cell = Cell(artifact.key, "onnx-float64", point.shape, point.regime)
    request = ExamineRequest(subject, artifact, (cell,), references=references, use_cache=False)
    (verdict,) = (item for item in examine(request) if isinstance(item, Verdict))
    (traced,) = JOBS["trace"](TraceRequest(subject, "float32", point, str(folder)))
    assert isinstance(traced, Traced)
    (location,) = JOBS["locate"](LocateRequest(request, verdict, traced, str(folder / "reproduction")))
    assert isinstance(location, Location)
    return location


def test_another_epsilon_than_the_modules_is_named_with_both_values(tmp_path: Path) -> None:
    module = catalogue.find("layer-norm").build()
    module.norm.eps = 1e-6  # type: ignore[union-attr]  # the catalogue's builder promises any module
    path = export("layer-norm", module, 18, tmp_path / "m.onnx")
    location = against_module("layer-norm", path, tmp_path)
    assert location.node is not None
    assert (location.status, location.origin) == (Status.MEANING, "injected")
    assert (location.node.operator, location.node.module) == ("LayerNormalization", "norm")
    assert location.node.source.startswith("norms.py:")
    assert "epsilon is 1e-06, the reference has 1e-05" in location.message
    assert location.region == 1
    assert any(line.endswith("vectors of output are out of budget") for line in location.evidence)
    assert [row.side for row in location.statistics] == ["input", "input", "input", "got", "want"]
    assert location.smallest_shape == "b2-t7"
    assert len(location.explains) == 1


def test_a_file_that_is_the_module_gives_no_node(tmp_path: Path) -> None:
    path = export("layer-norm", catalogue.find("layer-norm").build(), 18, tmp_path / "m.onnx")
    location = against_module("layer-norm", path, tmp_path)
    assert (location.origin, location.node) == ("unknown", None)
    assert "differ by less than can be followed" in location.message


def of_files(folder: Path) -> LocateRequest:
    """A file with another epsilon against the right one."""
    candidate = saved(folder / "candidate.onnx", replaced("norm", "LayerNormalization", epsilon=1e-6))
    reference = saved(folder / "reference.onnx")
    given = read_given(folder / "candidate.onnx")
    cell = Cell(candidate.key, "onnx-float64", "b2-t5", "normal")
    subject: Subject = given.subject
    request = ExamineRequest(subject, given.artifact, (cell,), against=read_given(Path(reference.path)).artifact)
    verdict = Verdict(cell, Status.MEANING, "meaning", "it differs")
    return LocateRequest(request, verdict, None, str(folder / "reproduction"))


def test_two_files_need_no_trace(tmp_path: Path) -> None:
    request = of_files(tmp_path)
    (location,) = JOBS["locate"](request)
    assert location.node is not None, location.message
    assert location.node.name == "norm"


@pytest.mark.parametrize(
    ("break_it", "why"),
    [
        (lambda path: path.unlink(), "cannot read"),
        (lambda path: path.write_bytes(b"no model"), "could not be located"),
    ],
    ids=["missing", "damaged"],
)
def test_what_cannot_be_opened_again_is_unknown_and_no_error(break_it: object, why: str, tmp_path: Path) -> None:
    request = of_files(tmp_path)
    assert callable(break_it)
    break_it(tmp_path / "candidate.onnx")
    (location,) = JOBS["locate"](request)
    assert (location.origin, location.node) == ("unknown", None)
    assert why in location.message


def test_without_a_reference_nothing_can_be_told(tmp_path: Path) -> None:
    request = of_files(tmp_path)
    alone = LocateRequest(
        ExamineRequest(request.examine.subject, request.examine.artifact, ()), request.verdict, None, ""
    )
    (location,) = JOBS["locate"](alone)
    assert location.message == "there is no reference whose values could be compared"


def test_a_fault_of_this_package_is_unknown_and_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(self: Bench, *_: object) -> None:
        raise ZeroDivisionError("a fault")

    monkeypatch.setattr(Bench, "feeds", fail)
    (location,) = JOBS["locate"](of_files(tmp_path))
    assert location.message == "it could not be located: ZeroDivisionError: a fault"


def test_a_trace_holds_weights_inputs_results_and_outputs(tmp_path: Path) -> None:
    subject = catalogue.find("layer-norm").subject
    (traced,) = JOBS["trace"](TraceRequest(subject, "float32", Point("b1-t3", "normal"), str(tmp_path)))
    kinds = {value.node.operator for value in traced.values}
    assert {"input", "parameter", "output", "aten.native_layer_norm.default"} <= kinds
    assert any(c.name == "eps" and np.isclose(c.value, 1e-5) for c in traced.constants)
