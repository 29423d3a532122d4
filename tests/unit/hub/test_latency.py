"""The latency table: a number only for what conforms, and a reason in every other row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from onnxparity.artifact import Artifact
from onnxparity.outcome import Status, Verdict
from onnxparity.plan import ArtifactKey, Cell
from onnxparity.planning.planner import Options, Target
from onnxparity.planning.selection import Described, Selected
from onnxparity.record import Latency
from onnxparity.running.worker import Worker
from onnxparity.speed import latency
from onnxparity.speed.timing import Series, TimeRequest
from tests.unit.hub.scripted import FILE, KEYS, artifact
from tests.unit.hub.subjects import subject, verdict

OPTIONS = Options((18, 23), ("float32",), ("torch-float64", "torch-eager", "onnx-float64", "ort-cpu", "ort-cpu-basic"))
EAGER = ArtifactKey("subject", "torch", None, "float32")
CELLS = tuple(
    Cell(key, runtime, "b2-t17", regime)
    for key, runtimes in ((EAGER, ("torch-eager",)), *((key, ("onnx-float64", "ort-cpu")) for key in KEYS))
    for runtime in runtimes
    for regime in ("normal", "tiny")
)
ARTIFACTS = tuple(artifact(key) for key in KEYS)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[list[TimeRequest]]:
    """What is timed together, without being timed."""
    groups: list[list[TimeRequest]] = []

    def timed(requests: Sequence[TimeRequest], *, workers: dict[str, Worker]) -> list[Series]:
        groups.append(list(requests))
        return [Series(r.runtime, (3.0, 1.0, 2.0), 7, 8) for r in requests]

    monkeypatch.setattr(latency, "interleave", timed)
    return groups


def verdicts(**red: Status) -> list[Verdict]:
    """All green, but for the first cell of a runtime (with _ for -) and opset, such as ort_cpu_23."""
    found = [verdict(Status.PASS, cell) for cell in CELLS]
    for where, status in red.items():
        runtime, _, opset = where.replace("_", "-").rpartition("-")
        place = next(n for n, c in enumerate(CELLS) if c.runtime == runtime and (c.artifact.opset or 0) == int(opset))
        found[place] = verdict(status, CELLS[place])
    return found


def measure(found: Sequence[Verdict], selected: Selected | None = None, *globs: str) -> tuple[Latency, ...]:
    """The table of one subject."""
    chosen = selected or Selected(Target(subject()), Described("subject", subject()))
    return latency.measure([chosen], ARTIFACTS, found, OPTIONS, globs or ("*",), Path("/somewhere"), heard.append)


heard: list[str] = []


def test_the_newest_conforming_artifact_is_timed_at_each_length(asked: list[list[TimeRequest]]) -> None:
    heard.clear()
    rows = measure(verdicts())
    assert heard == [f"{KEYS[1].id} {shape}" for shape in ("b1-t16", "b1-t64", "b1-t128")]
    assert [(r.runtime, r.shape) for r in rows] == [
        (runtime, shape) for shape in ("b1-t16", "b1-t64", "b1-t128") for runtime in ("torch-eager", "ort-cpu")
    ]
    assert {r.artifact for r in rows} == {EAGER, KEYS[1]}
    for row in rows:
        assert row.samples_ms == (3.0, 1.0, 2.0), "in the order they were taken"
        assert (row.p50_ms, row.warmup_runs, row.turns, row.conforms, row.note) == (2.0, 7, 8, True, "")
    assert [[r.runtime for r in group] for group in asked] == [["torch-eager", "ort-cpu"]] * 3
    assert {(r.artifact.key if r.artifact else None) for group in asked for r in group} == {None, KEYS[1]}


@pytest.mark.parametrize("status", [Status.MEANING, Status.XFAIL, Status.MISSING, Status.XPASS])
def test_an_artifact_with_a_cell_that_does_not_pass_is_not_timed(
    asked: list[list[TimeRequest]], status: Status
) -> None:
    rows = measure(verdicts(onnx_float64_23=status))
    assert {r.artifact for r in rows if r.runtime == "ort-cpu"} == {KEYS[0]}
    assert all(r.conforms for r in rows)


def test_where_no_artifact_conforms_no_number_is_shown(asked: list[list[TimeRequest]]) -> None:
    rows = measure(verdicts(ort_cpu_18=Status.ARITHMETIC, onnx_float64_23=Status.MEANING))
    assert asked == []
    assert [r.runtime for r in rows] == ["torch-eager", "ort-cpu"]
    for row in rows:
        assert (row.samples_ms, row.p50_ms, row.conforms) == ((), None, False)
        assert row.note == "no artifact conforms, so no number is shown"


def test_a_red_module_withholds_its_own_number_alone(asked: list[list[TimeRequest]]) -> None:
    rows = measure(verdicts(torch_eager_0=Status.ARITHMETIC))
    eager = [r for r in rows if r.runtime == "torch-eager"]
    assert {(r.samples_ms, r.p50_ms, r.conforms) for r in eager} == {((), None, False)}
    assert {r.note for r in eager} == {f"{EAGER.id}/torch-eager/b2-t17/normal is ARITHMETIC"}
    assert all(r.conforms for r in rows if r.runtime == "ort-cpu")
    assert [[r.runtime for r in group] for group in asked] == [["ort-cpu"]] * 3


def test_a_runtime_that_was_not_verified_has_no_number(asked: list[list[TimeRequest]]) -> None:
    found = [v for v in verdicts() if v.cell.runtime != "torch-eager"]
    eager = [r for r in measure(found) if r.runtime == "torch-eager"]
    assert {r.note for r in eager} == {"this runtime was not verified for this artifact"}
    assert not any(r.conforms or r.samples_ms for r in eager)


def test_what_could_not_be_timed_says_why(asked: list[list[TimeRequest]], monkeypatch: pytest.MonkeyPatch) -> None:
    def failed(requests: Sequence[TimeRequest], *, workers: dict[str, Worker]) -> list[Series]:
        return [Series(r.runtime, (), 0, 8, "it does not load" if r.artifact else "") for r in requests]

    monkeypatch.setattr(latency, "interleave", failed)
    rows = measure(verdicts())
    assert {(r.runtime, r.note) for r in rows} == {
        ("ort-cpu", "it does not load"),
        ("torch-eager", "no sample was taken"),
    }
    assert not any(r.conforms or r.samples_ms or r.p50_ms for r in rows)


def test_only_the_named_subjects_are_timed(asked: list[list[TimeRequest]]) -> None:
    assert measure(verdicts(), None, "other", "sub") == ()
    assert measure(verdicts(), None, "other", "sub*")


def test_a_file_is_timed_under_its_own_names(asked: list[list[TimeRequest]]) -> None:
    found = [verdict(Status.PASS, Cell(FILE, runtime, "b2-t17", "normal")) for runtime in ("onnx-float64", "ort-cpu")]
    described = Described("a.onnx", subject(), artifact=artifact(FILE))
    selected = Selected(Target(subject(), given=FILE), described, described, {"x": "input"})
    rows = measure(found, selected)
    assert {(r.runtime, r.artifact, r.conforms) for r in rows} == {("ort-cpu", FILE, True)}, "it has no module"
    assert {r.renamed["x"] for group in asked for r in group} == {"input"}


def test_float32_comes_before_a_newer_opset_in_another_dtype(asked: list[list[TimeRequest]]) -> None:
    half = replace(KEYS[1], opset=25, dtype="float16")
    found = [*verdicts(), verdict(Status.PASS, Cell(half, "ort-cpu", "b2-t17", "normal"))]
    chosen = Selected(Target(subject()), Described("subject", subject()))
    where = Path("/somewhere")
    both: tuple[Artifact, ...] = (*ARTIFACTS, artifact(half))
    rows = latency.measure([chosen], both, found, OPTIONS, ("*",), where, heard.append)
    assert {r.artifact for r in rows if r.runtime == "ort-cpu"} == {KEYS[1]}
    rows = latency.measure([chosen], both[-1:], found, OPTIONS, ("*",), where, heard.append)
    assert {r.artifact for r in rows if r.runtime == "ort-cpu"} == {half}
