"""A worker that dies costs the step it was working on, and nothing that was planned goes missing."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from onnxparity.errors import (
    ExportError,
    InternalError,
    LintError,
    OnnxParityError,
    SubjectError,
    WorkerCrashedError,
    WorkerTimeoutError,
)
from onnxparity.feeding.references import References, write_arrays
from onnxparity.outcome import Status
from onnxparity.planning.grid import Point
from onnxparity.planning.planner import Target, plan
from onnxparity.running.schedule import SubjectWork
from tests.unit.hub.scripted import (
    FILE,
    KEYS,
    OPTIONS,
    PLACED,
    SUBJECT,
    Script,
    artifact,
    dead,
    not_passed,
    planned,
    run,
    stubbed,
    verdicts,
    where,
)
from tests.unit.hub.subjects import subject

DEATHS = ((WorkerCrashedError, Status.CRASH), (WorkerTimeoutError, Status.TIMEOUT))


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> Script:
    """What this test's workers do."""
    return stubbed(monkeypatch)


@pytest.fixture
def work(tmp_path: Path) -> SubjectWork:
    """The quick plan of a subject with an oracle."""
    return planned(tmp_path)


def test_every_planned_cell_has_one_verdict(script: Script, work: SubjectWork) -> None:
    found = run(work)
    assert set(verdicts(found)) == set(work.cells)
    assert not_passed(found) == {}
    assert [f.artifact.key for f in found if f.artifact] == list(KEYS)
    assert [f.placement for f in found if f.placement] == [(f"{key.id}/ort-cpu", PLACED) for key in KEYS]
    assert len(script.authored) == 1 and len(script.examined) == 2


@pytest.mark.parametrize(("kind", "status"), DEATHS)
@pytest.mark.parametrize("place", [0, 3, -1])
def test_a_death_while_judging_costs_that_cell(
    script: Script, work: SubjectWork, kind: type[OnnxParityError], status: Status, place: int
) -> None:
    lost = where(work, artifact=KEYS[0])[place]
    script.deaths[lost] = [kind("the worker died", got="signal 11")]
    found = run(work)
    assert set(verdicts(found)) == set(work.cells)
    assert not_passed(found) == {lost: status}
    told = verdicts(found)[lost]
    assert told.message == "the worker died" and told.evidence == ("got: signal 11",)
    assert told.command.startswith("onnxparity verify subject ") and lost.id in told.command


def test_a_death_between_two_cells_costs_the_next(script: Script, work: SubjectWork) -> None:
    _, second, *_ = where(work, artifact=KEYS[0])
    script.deaths[("before", second)] = [dead()]
    assert not_passed(run(work)) == {second: Status.CRASH}


def test_a_death_after_the_last_cell_costs_no_verdict(script: Script, work: SubjectWork) -> None:
    script.deaths["placements"] = [dead(), InternalError("a fault of ours")]
    found = run(work)
    assert set(verdicts(found)) == set(work.cells)
    assert not_passed(found) == {}


def test_where_every_cell_kills_its_worker_every_cell_is_a_crash(script: Script, work: SubjectWork) -> None:
    script.deaths = {cell: [dead()] for cell in work.cells}
    found = run(work)
    assert set(verdicts(found)) == set(work.cells)
    assert set(not_passed(found).values()) == {Status.CRASH} and len(not_passed(found)) == len(work.cells)


@pytest.mark.parametrize(("kind", "status"), DEATHS)
def test_a_death_while_exporting_costs_that_artifact(
    script: Script, work: SubjectWork, kind: type[OnnxParityError], status: Status
) -> None:
    script.deaths[KEYS[0]] = [kind("the worker died")]
    found = run(work)
    assert set(verdicts(found)) == set(work.cells)
    assert not_passed(found) == dict.fromkeys(where(work, artifact=KEYS[0]), status)
    assert script.authored[1].keys == KEYS[1:], "what was lost is not tried again, what was not is"


@pytest.mark.parametrize(
    ("error", "status"),
    [(ExportError("none"), Status.EXPORT_ERROR), (LintError("another"), Status.LINT_ERROR)],
)
def test_a_refused_export_costs_that_artifact(
    script: Script, work: SubjectWork, error: OnnxParityError, status: Status
) -> None:
    script.refused[KEYS[1]] = error
    found = run(work)
    assert set(verdicts(found)) == set(work.cells)
    assert not_passed(found) == dict.fromkeys(where(work, artifact=KEYS[1]), status)


@pytest.mark.parametrize("runtime", ["torch-float64", "torch-eager"])
def test_a_death_in_the_module_costs_that_cell(script: Script, work: SubjectWork, runtime: str) -> None:
    lost = where(work, runtime=runtime)[0]
    script.deaths[lost] = [dead()]
    found = run(work)
    assert set(verdicts(found)) == set(work.cells)
    assert not_passed(found) == {lost: Status.CRASH}
    again = script.authored[1]
    assert (again.keys, again.points) == ((), {}), "nothing that is done is done again"


def test_a_module_that_cannot_be_built_fails_every_cell(script: Script, work: SubjectWork) -> None:
    script.deaths["build"] = [SubjectError("no such module")] * 100
    found = run(work)
    assert set(verdicts(found)) == set(work.cells)
    assert set(not_passed(found)) == set(work.cells)


def test_a_death_in_the_references_leaves_the_reason_and_no_value(script: Script, work: SubjectWork) -> None:
    script.deaths["references"] = [dead()]
    point = Point("b2-t17", "normal")
    stale = References(work.folder, {}, {}, {}).path("float32", point)
    write_arrays(stale, {})
    found = run(work)
    assert set(verdicts(found)) == set(work.cells)
    for request in script.examined:
        assert request.references is not None
        assert request.references.fingerprints == {"float32": frozenset()}
        with pytest.raises(SubjectError, match="no value at b2-t17/normal") as raised:
            request.references.want("float32", point)
        assert raised.value.got is not None and "signal 11" in raised.value.got
    assert [a.points for a in script.authored[1:]] == [{}], "the references are not tried again"


def test_references_are_wanted_where_the_meaning_is_judged(script: Script, work: SubjectWork) -> None:
    run(work)
    meaning = [c for c in where(work, runtime="onnx-float64", artifact=KEYS[0]) if c.regime != "causality"]
    assert script.authored[0].points == {"float32": tuple(Point(c.shape, c.regime) for c in meaning)}


def test_arithmetic_alone_still_asks_the_module_for_its_dtypes(script: Script, work: SubjectWork) -> None:
    cells = [c for c in where(work, runtime="ort-cpu") if c.regime == "saturated"]
    run(replace(work, cells=tuple(cells)))
    assert script.authored[0].points == {"float32": (Point("b2-t17", "saturated"),)}
    causality = [c for c in where(work, runtime="ort-cpu") if c.regime == "causality"]
    run(replace(work, cells=tuple(causality)))
    assert script.authored[1].points == {}, "a property is held against itself"


def test_a_file_without_a_reference_needs_no_torch(script: Script, work: SubjectWork) -> None:
    given = replace(work, given=artifact(FILE), cells=plan(Target(SUBJECT, given=FILE, has_reference=False), OPTIONS))
    assert set(verdicts(run(given))) == set(given.cells)
    assert script.authored == []
    assert [r.references for r in script.examined] == [None]


def test_a_file_against_a_module_is_not_exported(script: Script, work: SubjectWork) -> None:
    other = subject(name="other")
    cells = plan(Target(SUBJECT, given=FILE), OPTIONS)
    given = replace(work, given=artifact(FILE), reference=other, cells=cells)
    assert set(verdicts(run(given))) == set(cells)
    assert [(a.subject, a.keys) for a in script.authored] == [(other, ())]
    assert [r.subject for r in script.examined] == [other]
