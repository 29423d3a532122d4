"""Red cells are led back to their cause; whatever goes wrong on the way costs a location and no verdict."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from onnxparity.errors import InternalError, WorkerTimeoutError
from onnxparity.feeding.feeds import BEYOND
from onnxparity.locating import diagnosing
from onnxparity.locating.diagnosing import FOLDER, GROUPS, MARKER, clear
from onnxparity.location import Location
from onnxparity.outcome import Expectation, Status, Verdict
from onnxparity.plan import Cell
from onnxparity.planning.grid import Point
from onnxparity.planning.planner import Target, plan
from onnxparity.running.schedule import Found, SubjectWork
from tests.unit.hub.scripted import (
    FILE,
    KEYS,
    OPTIONS,
    SUBJECT,
    Script,
    artifact,
    dead,
    planned,
    run,
    stubbed,
    verdicts,
    where,
)
from tests.unit.hub.subjects import subject


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> Script:
    """What this test's workers do."""
    return stubbed(monkeypatch)


@pytest.fixture
def work(tmp_path: Path) -> SubjectWork:
    """The quick plan of a subject with an oracle, whose failures are explained."""
    return replace(planned(tmp_path / "work"), out=str(tmp_path / "out"))


def of_values(work: SubjectWork) -> SubjectWork:
    """Without the cells of properties."""
    return replace(work, cells=tuple(c for c in work.cells if c.regime in ("normal", "saturated")))


def locations(found: Sequence[Found]) -> list[Location]:
    return [f.location for f in found if f.location is not None]


def limits(found: Sequence[Found]) -> list[str]:
    return [f.limit for f in found if f.limit is not None]


def long_meaning(cell: Cell) -> Status:
    """Another meaning at opset 18 from length 3 on."""
    is_long = int(cell.shape.partition("t")[2]) >= 3
    red = cell.runtime == "onnx-float64" and cell.artifact.opset == 18 and is_long and cell.regime != "causality"
    return Status.MEANING if red else Status.PASS


def test_a_green_run_costs_nothing(script: Script, work: SubjectWork) -> None:
    found = run(work)
    assert (locations(found), limits(found)) == ([], [])
    assert (len(script.examined), len(script.authored), script.traced, script.located) == (2, 1, [], [])
    assert not Path(work.out).exists()


def test_a_failure_is_shrunk_traced_and_located(script: Script, work: SubjectWork) -> None:
    script.outcome = long_meaning
    found = run(work)
    red = [c for c in work.cells if long_meaning(c) is Status.MEANING and c.runtime == "onnx-float64"]
    (location,) = locations(found)
    assert location.explains == tuple(c.id for c in red) and len(red) > 1
    assert location.cell == next(c for c in red if c.regime == "normal")
    assert (location.status, location.smallest_shape) == (Status.MEANING, "b1-t3")
    (request,) = script.located
    assert request.verdict.cell == replace(location.cell, shape="b1-t3") and request.traced is not None
    assert request.examine.artifact.key == KEYS[0] and request.examine.cells == ()
    (traced,) = script.traced
    assert (traced.point, traced.dtype) == (Point("b1-t3", "normal"), "float32")
    assert limits(found) == []


def test_tries_are_judged_by_the_same_jobs_with_reference_values_of_their_own(
    script: Script, work: SubjectWork
) -> None:
    script.outcome = long_meaning
    run(work)
    tries = [c for r in script.examined[2:] for c in r.cells]
    points = [p for a in script.authored[1:] for p in a.points["float32"]]
    assert points == [Point(c.shape, c.regime) for c in tries]
    assert {(c.artifact, c.runtime, c.regime) for c in tries} == {(KEYS[0], "onnx-float64", "normal")}
    assert {a.folder for a in script.authored} == {work.folder}, "beside those that the run itself has made"
    assert all(r.references == script.examined[0].references for r in script.examined)


def test_arithmetic_needs_no_further_reference_and_no_trace(script: Script, work: SubjectWork) -> None:
    script.outcome = lambda cell: Status.ARITHMETIC if cell.runtime == "ort-cpu" else Status.PASS
    found = run(of_values(work))
    assert [loc.cell.artifact for loc in locations(found)] == list(KEYS)
    assert (len(script.authored), script.traced) == (1, [])
    assert [r.traced for r in script.located] == [None, None]


def test_two_files_need_no_torch(script: Script, work: SubjectWork) -> None:
    other = artifact(replace(FILE, subject="other"), "other")
    given = replace(work, given=artifact(FILE), against=other, cells=plan(Target(SUBJECT, given=FILE), OPTIONS))
    script.outcome = lambda cell: Status.MEANING if cell.runtime == "onnx-float64" else Status.PASS
    (location,) = locations(run(given))
    assert location.smallest_shape == "b1-t1"
    assert (script.authored, script.traced) == ([], [])
    assert [(r.traced, r.examine.against) for r in script.located] == [(None, other)]


def test_a_file_against_a_module_is_traced_with_the_module(script: Script, work: SubjectWork) -> None:
    other = subject(name="other")
    given = replace(work, given=artifact(FILE), reference=other, cells=plan(Target(SUBJECT, given=FILE), OPTIONS))
    script.outcome = lambda cell: Status.MEANING if cell.runtime == "onnx-float64" else Status.PASS
    assert len(locations(run(given))) == 1
    assert [t.subject for t in script.traced] == [other]


def test_one_trace_serves_every_artifact_that_fails_at_the_same_point(script: Script, work: SubjectWork) -> None:
    script.outcome = lambda cell: Status.MEANING if cell.runtime == "onnx-float64" else Status.PASS
    assert len(locations(run(work))) == 2
    assert len(script.traced) == 1


def test_groups_are_by_artifact_runtime_status_and_question(script: Script, work: SubjectWork) -> None:
    def outcome(cell: Cell) -> Status:
        if cell.runtime == "ort-cpu" and cell.artifact == KEYS[1]:
            return Status.NONFINITE if cell.regime == "saturated" else Status.ARITHMETIC
        return Status.PASS

    script.outcome = outcome
    found = locations(run(replace(work, cells=tuple(c for c in work.cells if c.regime != "determinism"))))
    assert [(loc.status, {i.split("/")[-1] for i in loc.explains}) for loc in found] == [
        (Status.ARITHMETIC, {"normal"}),
        (Status.NONFINITE, {"saturated"}),
        (Status.ARITHMETIC, {"causality"}),
    ]


def test_a_property_of_another_meaning_is_not_walked(script: Script, work: SubjectWork) -> None:
    def outcome(cell: Cell) -> Status:
        if cell.regime == "causality":
            return Status.PROPERTY
        if cell.regime == "determinism":
            return Status.PASS
        return Status.MEANING if cell.runtime == "onnx-float64" and cell.artifact == KEYS[0] else Status.PASS

    script.outcome = outcome
    found = locations(run(work))
    assert [(loc.status, loc.cell.artifact) for loc in found] == [
        (Status.MEANING, KEYS[0]),
        (Status.PROPERTY, KEYS[1]),
        (Status.PROPERTY, KEYS[1]),
    ]
    assert [loc.smallest_shape for loc in found[1:]] == ["b1-t2", "b1-t2"], "causality needs a later token"


def test_meaning_comes_first_and_what_is_left_out_is_said(
    script: Script, work: SubjectWork, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(diagnosing, "GROUPS", 3)
    script.outcome = lambda cell: Status.MEANING if cell.runtime == "onnx-float64" else Status.ARITHMETIC
    found = run(of_values(work))
    assert [loc.cell.runtime for loc in locations(found)] == ["onnx-float64", "onnx-float64", "ort-cpu"]
    (limit,) = limits(found)
    assert limit.startswith("subject: of 4 groups of cells that fail alike, 3 were led back")
    assert limit.split()[-1] in {c.id for c in where(work, runtime="ort-cpu", artifact=KEYS[1])}
    assert GROUPS > 3


def test_what_is_expected_is_not_led_back(script: Script, work: SubjectWork) -> None:
    script.outcome = long_meaning
    known = Expectation("*/dynamo-18/*", Status.MEANING, "a reason", "https://example.org/1")
    found = run(replace(work, excused=(known,)))
    assert (locations(found), limits(found)) == ([], [])
    assert len(locations(run(replace(work, excused=(replace(known, cells="other/*"),))))) == 1


def test_nothing_is_led_back_where_nobody_wants_it(script: Script, work: SubjectWork) -> None:
    script.outcome = long_meaning
    found = run(replace(work, out=""))
    assert (locations(found), limits(found), script.located) == ([], [], [])


@pytest.mark.parametrize("step", ["locate", "trace"])
@pytest.mark.parametrize(
    ("error", "words"),
    [
        (dead(), "the worker died"),
        (WorkerTimeoutError("no answer from locate within 180 s"), "no answer from locate within 180 s"),
        (InternalError("KeyError in locate", got="Traceback\n  File x, line 3\nKeyError: 'a'"), "KeyError in locate"),
    ],
)
def test_a_worker_that_fails_costs_the_location_alone(
    script: Script, work: SubjectWork, step: str, error: Exception, words: str
) -> None:
    script.outcome = long_meaning
    script.deaths = {step: [error]}  # type: ignore[list-item]  # each is one of ours
    found = run(work)
    assert set(verdicts(found)) == set(work.cells)
    assert locations(found) == []
    (limit,) = limits(found)
    assert "was not led back to its cause" in limit and words in limit and "/onnx-float64/" in limit


def test_a_worker_that_sends_nothing_costs_the_location_alone(
    script: Script, work: SubjectWork, monkeypatch: pytest.MonkeyPatch
) -> None:
    script.outcome = long_meaning
    monkeypatch.setattr(Script, "locate", lambda self, request: iter(()))
    found = run(work)
    assert locations(found) == [] and "sent no Location" in limits(found)[0]


def test_a_shape_at_which_the_worker_dies_fails_in_another_way(script: Script, work: SubjectWork) -> None:
    script.outcome = long_meaning
    walked = next(c for c in work.cells if long_meaning(c) is Status.MEANING and c.regime == "normal")
    script.deaths = {replace(walked, shape=f"b1-t{n}"): [dead()] for n in (3, 4)}
    (location,) = locations(run(work))
    assert location.smallest_shape not in ("b1-t3", "b1-t4")


def test_given_inputs_keep_their_shape(script: Script, work: SubjectWork) -> None:
    examples = {"sentence": {"x": np.zeros((2, 17, 3), np.float32)}}
    cell = replace(where(work, runtime="onnx-float64", regime="normal")[0], regime="sentence", shape="b2-t17")
    script.outcome = lambda c: Status.MEANING if c.regime == "sentence" else Status.PASS
    (location,) = locations(run(replace(work, examples=examples, cells=(*work.cells, cell))))
    assert (location.smallest_shape, location.evidence) == ("b2-t17", ("seen",))
    assert len(script.examined) == 2


def test_drawn_values_are_walked_before_given_ones(script: Script, work: SubjectWork) -> None:
    examples = {"sentence": {"x": np.zeros((1, 1, 3), np.float32)}}
    cell = replace(where(work, runtime="onnx-float64", regime="normal")[0], regime="sentence", shape="b1-t1")
    script.outcome = lambda c: Status.MEANING if c.runtime == "onnx-float64" and c.artifact == KEYS[0] else Status.PASS
    (location,) = locations(run(replace(work, examples=examples, cells=(*work.cells, cell))))
    assert location.cell.regime == "normal"


def test_beyond_the_end_of_a_table_there_is_nothing_to_walk(script: Script, work: SubjectWork) -> None:
    cell = replace(where(work, runtime="onnx-float64", regime="normal")[0], regime=BEYOND, shape="b1-t257")
    script.outcome = lambda c: Status.MEANING if c.regime == BEYOND else Status.PASS
    found = run(replace(work, cells=(*work.cells, cell)))
    assert verdicts(found)[cell].status is Status.MEANING
    assert (locations(found), limits(found), script.located) == ([], [], [])


def test_an_error_of_running_has_a_smallest_shape_and_no_walk(script: Script, work: SubjectWork) -> None:
    script.outcome = lambda c: Status.RUN_ERROR if c.runtime == "ort-cpu" and c.artifact == KEYS[0] else Status.PASS
    (location,) = locations(run(of_values(work)))
    assert (location.status, location.origin, location.node) == (Status.RUN_ERROR, "unknown", None)
    assert (location.smallest_shape, location.message) == ("b1-t1", "it is RUN_ERROR")
    assert script.located == []


def test_tries_that_run_out_are_told_of(script: Script, work: SubjectWork, monkeypatch: pytest.MonkeyPatch) -> None:
    script.outcome = long_meaning
    monkeypatch.setattr(diagnosing, "SHRINK_SECONDS", 0.0)
    (location,) = locations(run(work))
    assert location.smallest_shape == location.cell.shape
    assert "not all tried" in location.evidence[-1]


def test_reproductions_lie_below_the_reports_folder_by_name(script: Script, work: SubjectWork) -> None:
    script.outcome = long_meaning
    (location,) = locations(run(work))
    name = "subject-dynamo-18-float32-onnx-float64-meaning"
    assert location.reproduction == f"{FOLDER}/{name}"
    assert [r.folder for r in script.located] == [str(Path(work.out).absolute() / FOLDER / name)]
    script.reproduces = False
    assert locations(run(work))[0].reproduction == ""


def test_a_folder_that_cannot_be_made_costs_the_location_alone(script: Script, work: SubjectWork) -> None:
    script.outcome = long_meaning
    Path(work.out).write_text("a file in its place")
    found = run(work)
    assert locations(found) == [] and "cannot write to" in limits(found)[0]


def test_old_reproductions_go_and_a_users_own_folder_of_that_name_stays(script: Script, work: SubjectWork) -> None:
    script.outcome = long_meaning
    run(work)
    out = Path(work.out)
    (out / FOLDER / "old").mkdir()
    assert (out / FOLDER / MARKER).is_file()
    clear(out, empty=True)
    assert (out / FOLDER / "old").is_dir()
    clear(out)
    assert not (out / FOLDER).exists() and out.is_dir()
    (out / FOLDER / "mine").mkdir(parents=True)
    run(work)
    clear(out)
    assert (out / FOLDER / "mine").is_dir()


def test_a_folder_without_any_reproduction_goes(script: Script, work: SubjectWork) -> None:
    script.outcome = long_meaning
    run(work)
    clear(Path(work.out), empty=True)
    assert list(Path(work.out).iterdir()) == []


def test_verdicts_of_an_interrupted_run_are_led_back_too(script: Script, work: SubjectWork) -> None:
    script.outcome = long_meaning
    first = run(work)
    done: dict[str, list[Verdict]] = {}
    for each in first:
        if each.basis is not None and each.verdict is not None:
            done.setdefault(each.basis, []).append(each.verdict)
    script.examined.clear()
    second = run(replace(work, done={basis: tuple(each) for basis, each in done.items()}))
    assert locations(second) == locations(first)
    assert all(len(r.cells) < 10 for r in script.examined), "only the shapes that are tried are judged"
