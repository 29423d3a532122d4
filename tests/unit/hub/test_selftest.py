"""The score of a self-test: what counts as found, as a false alarm, as located; and a blind comparison is told."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from onnxparity.errors import RunError, UsageError
from onnxparity.location import Location, Node
from onnxparity.numerics import compare
from onnxparity.outcome import Expectation, OutputMetrics, Status
from onnxparity.planning.planner import Target
from onnxparity.protocols import Array
from onnxparity.running.jobs import JOBS
from onnxparity.running.pipeline import Listener
from onnxparity.running.worker import Worker
from onnxparity.selftesting.planting import SHOWN, Planted, Unplanted, Where
from onnxparity.selftesting.scoring import Clean, Fault, Histogram, Near, Score, judge_fault, lacking, unplanted
from onnxparity.selftesting.selftest import Settings, clean_cells, excuses, fault_cells, selftest
from tests.unit.hub.scripted import FILE, artifact
from tests.unit.hub.subjects import cell, subject, verdict

PLANTED = Planted(
    name="a-kind.subject-18",
    kind="a-kind",
    why="it is wrong",
    equivalent=False,
    subject=subject(),
    artifact=artifact(FILE),
    against=None,
    where=(Where(module="attention.query"),),
    points=("b1-t40/normal",),
    shows=SHOWN,
)
RED = replace(verdict(Status.MEANING), ratio=7.0)
GREEN = replace(verdict(Status.PASS), ratio=0.25)


def location(module: str, status: Status = Status.MEANING) -> Location:
    node = Node("MatMul", "n", (), (), module=module, source="a.py:1: x @ w")
    return Location(cell(), status, "", "injected", node, 1, 2, "b1-t1")


def metrics(over_noise: float | None) -> OutputMetrics:
    return OutputMetrics(
        output="y",
        dtype="float32",
        shape=(1,),
        elements=1,
        ratio=0.5,
        budget=1e-7,
        over_noise=over_noise,
        max_abs=None,
        max_rel=None,
        max_ulp=None,
        rms=None,
        cosine=None,
        snr_db=None,
        p50_abs=None,
        p99_abs=None,
        nonfinite_got=0,
        nonfinite_want=0,
    )


def score(fault: Fault | None = None, clean: Clean | None = None, incomplete: tuple[str, ...] = ()) -> Score:
    faults = (fault or judge_fault(PLANTED, [RED], []),)
    return Score(quick=True, faults=faults, clean=clean or Clean.of([GREEN], 0), incomplete=incomplete, seconds=1.0)


def test_a_red_cell_finds_a_fault_and_its_ratio_is_the_margin() -> None:
    fault = judge_fault(PLANTED, [GREEN, RED, replace(RED, cell=cell("tiny"), ratio=9.0)], [])
    assert (fault.found, fault.status, fault.nearest) == (True, "MEANING", Near(cell("tiny").id, 9.0))


def test_a_fault_that_only_green_cells_saw_is_missed() -> None:
    fault = judge_fault(PLANTED, [GREEN], [location("attention.query")])
    assert (fault.found, fault.located, fault.status) == (False, False, "PASS")


@pytest.mark.parametrize("status", [Status.RUN_ERROR, Status.LOAD_ERROR, Status.CRASH, Status.TIMEOUT, Status.MISSING])
def test_a_file_that_does_not_run_has_not_been_found_wrong(status: Status) -> None:
    fault = judge_fault(PLANTED, [verdict(status), GREEN], [])
    assert (fault.found, fault.status) == (False, str(status))


def test_a_fault_may_show_as_an_error_where_it_says_so() -> None:
    planted = replace(PLANTED, shows=SHOWN | {Status.RUN_ERROR})
    assert judge_fault(planted, [verdict(Status.RUN_ERROR)], []).found


def test_a_known_failure_finds_nothing() -> None:
    assert not judge_fault(PLANTED, [verdict(Status.XFAIL)], []).found


def test_a_finding_without_a_number_is_one_all_the_same() -> None:
    fault = judge_fault(PLANTED, [verdict(Status.NONFINITE), replace(RED, ratio=float("nan"))], [])
    assert (fault.found, fault.nearest) == (True, None)


@pytest.mark.parametrize(
    ("module", "located"), [("blocks.0.attention.query", True), ("attention.key", False), ("", False)]
)
def test_the_first_location_must_be_the_right_one(module: str, located: bool) -> None:
    fault = judge_fault(PLANTED, [RED], [location(module), location("attention.query")])
    assert fault.located is located
    assert fault.location.startswith("MatMul n in")


def test_a_location_of_another_failure_does_not_count() -> None:
    assert not judge_fault(PLANTED, [RED], [location("attention.query", Status.CRASH)]).located


def test_clean_cells_are_counted_apart_from_known_failures_and_from_what_did_not_run() -> None:
    red, expected, lost = (verdict(s) for s in (Status.ARITHMETIC, Status.XFAIL, Status.UNAVAILABLE))
    clean = Clean.of([GREEN, verdict(Status.XPASS), red, expected, lost], 1)
    assert (clean.cells, clean.expected, clean.equivalents) == (3, 1, 1)
    assert clean.alarms == (f"{red.cell.id}: ARITHMETIC",)
    assert lacking("it", [GREEN, lost]) == [f"it: {lost.cell.id}: UNAVAILABLE: it is UNAVAILABLE"]


def test_the_clean_cell_nearest_to_its_limit_is_the_margin() -> None:
    near = replace(GREEN, cell=cell("tiny"), ratio=0.875)
    assert Clean.of([GREEN, near], 0).nearest == Near(near.cell.id, 0.875)


def test_the_histogram_counts_the_worst_output_of_each_cell() -> None:
    cells = [
        replace(GREEN, outputs=tuple(map(metrics, values)))
        for values in ((0.5, 2.0), (0.0,), (None,), (None, 0.02), (7.0,), (99.0,))
    ]
    histogram = Clean.of(cells, 0).over_noise
    assert (histogram.cells, sum(histogram.counts)) == (5, 5)
    assert (histogram.below, histogram.above, histogram.outside) == (2, 2, 0.8)
    assert (histogram.counts[0], histogram.counts[-1]) == (1, 1)


def test_no_cell_gives_no_share() -> None:
    assert Histogram.of([]).outside is None


def test_only_a_perfect_score_exits_with_zero() -> None:
    missed = judge_fault(PLANTED, [GREEN], [])
    alarm = Clean.of([GREEN, verdict(Status.MEANING)], 0)
    assert score().exit_code == 0
    assert score(fault=missed).exit_code == 1
    assert score(clean=alarm).exit_code == 1
    assert score(incomplete=("it did not run",)).exit_code == 3
    assert score(clean=Clean.of([], 0)).exit_code == 3
    assert score(fault=missed, incomplete=("it did not run",)).exit_code == 1


def test_the_score_is_told_by_kind_and_as_a_document() -> None:
    found = judge_fault(PLANTED, [RED], [location("attention.query")])
    both = replace(score(found), faults=(found, judge_fault(replace(PLANTED, name="other"), [GREEN], [])))
    assert [(k.kind, k.planted, k.found, k.located) for k in both.kinds] == [("a-kind", 2, 1, 1)]
    assert both.conclusion == "1 of 2 planted faults found, 0 false alarms in 1 clean cells"
    document = both.to_json()
    assert document["schema"] == "onnxparity-selftest/1"
    assert (document["planted"], document["found"], document["located_share"]) == (2, 1, 1.0)
    assert document["margin"]["fault"] == {"name": PLANTED.name, "cell": RED.cell.id, "ratio": 7.0}
    assert document["margin"]["clean"] == {"cell": GREEN.cell.id, "ratio": 0.25}


def test_what_could_not_be_planted_is_told() -> None:
    assert unplanted(Unplanted("a", "k", RunError("no such node", got="0"))) == "a: not planted: no such node: 0"


def test_a_fault_is_judged_at_the_core_and_where_its_kind_needs_it() -> None:
    cells = fault_cells(PLANTED)
    assert {c.runtime for c in cells} == {"onnx-float64", "onnx-spec", "ort-cpu"}
    assert {(c.shape, c.regime) for c in cells} >= {("b2-t17", "normal"), ("b2-t17", "saturated"), ("b1-t40", "normal")}
    assert {c.artifact for c in cells} == {FILE}


def test_clean_cells_cover_opsets_dtypes_and_levels() -> None:
    found = subject(dtypes=("float32", "float16", "bfloat16"))
    cells = clean_cells(Target(found), quick=False)
    assert {c.artifact.opset for c in cells} == {18, 23}
    assert {c.runtime for c in cells if c.artifact.dtype == "float16"} >= {"ort-cpu-disabled", "onnx-spec"}
    assert {c.runtime for c in cells if c.artifact.dtype == "bfloat16"} == {"onnx-float64", "onnx-spec"}
    assert {"outlier", "saturated", "normal"} == {c.regime for c in cells}
    quick = clean_cells(Target(found), quick=True)
    assert len({c.artifact for c in quick}) == 2 < len({c.artifact for c in cells}) == 6


def test_known_failures_of_the_clean_file_are_those_of_the_file_made_from_it() -> None:
    known = [
        Expectation(cells, Status.MEANING, "a reason", "https://example.org")
        for cells in ("*ject/dynamo-[12][80]/*/onnx-float64/*/tiny", "other/dynamo-18/*/*/*/*")
    ]
    (found,) = excuses("a-kind.subject-18", subject(), known)
    assert found.cells == "a-kind.subject-18/file-[12][80]/*/onnx-float64/*/tiny"


@pytest.fixture
def in_process(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[], Score]:
    """A self-test of one fault whose workers work here, where what they compare with can be replaced."""

    def call(self: Worker, job: str, request: object, *, limit: float) -> Iterator[object]:
        return JOBS[job](request)

    monkeypatch.setattr(Worker, "call", call)
    return lambda: selftest(Settings(kinds=("epsilon",), quick=True, directory=tmp_path), Listener())


def test_one_real_fault_is_found_located_and_nothing_clean_is_red(in_process: Callable[[], Score]) -> None:
    found = in_process()
    assert (found.found, len(found.faults), found.exit_code) == (1, 1, 0), found.to_json()
    assert found.faults[0].located, found.faults[0].location
    assert found.clean.cells > 10
    assert found.clean.nearest is not None and found.clean.nearest.ratio <= 1


def test_a_blind_comparison_is_told_by_the_kinds_it_misses(
    in_process: Callable[[], Score], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compare, "allowance", lambda noise, floor, **_: np.full(np.shape(noise), 1e9))
    blind = in_process()
    assert blind.exit_code == 1
    assert [fault.kind for fault in blind.missed] == ["epsilon"]
    assert not blind.clean.alarms


def test_a_comparison_that_allows_nothing_is_told_by_its_false_alarms(
    in_process: Callable[[], Score], monkeypatch: pytest.MonkeyPatch
) -> None:
    def nothing(noise: Array, floor: float, **_: object) -> Array:
        return np.full(np.shape(noise), 1e-30)

    monkeypatch.setattr(compare, "allowance", nothing)
    strict = in_process()
    assert strict.exit_code == 1
    assert strict.clean.alarms


def test_a_kind_that_there_is_not_is_refused(in_process: object, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no fault is of kind 'no-such'"):
        selftest(Settings(kinds=("no-such",), directory=tmp_path), Listener())
