"""One run from the plan to the report: nothing goes missing, and an interrupted run loses nothing."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from onnxparity import environment
from onnxparity.artifact import Artifact
from onnxparity.errors import UsageError
from onnxparity.locating.diagnosing import FOLDER, MARKER
from onnxparity.location import Location
from onnxparity.outcome import Expectation, Status, Verdict
from onnxparity.plan import ArtifactKey, Cell
from onnxparity.planning.planner import Options, Target
from onnxparity.planning.selection import Described, Selected
from onnxparity.protocols import Placement
from onnxparity.record import Latency, Report
from onnxparity.running import pipeline
from onnxparity.running.pipeline import Explain, Listener, Settings
from onnxparity.running.schedule import Found, SubjectWork
from tests.unit.hub.scripted import FILE, PLACED, artifact
from tests.unit.hub.subjects import subject, verdict

OPTIONS = Options(opsets=(18, 23), dtypes=("float32",), runtimes=("onnx-float64", "ort-cpu"), quick=True)
KNOWN = Expectation("*/normal", Status.ARITHMETIC, "a reason", "https://example.org/1")


@dataclass
class Stage:
    """Stands for the workers and for the clock."""

    outcome: Callable[[Cell], Verdict | None] = lambda cell: verdict(Status.PASS, cell)
    """What becomes of a cell; None for nothing."""
    works: list[SubjectWork] = field(default_factory=list)
    calls: list[dict[str, object]] = field(default_factory=list)
    timed: list[tuple[tuple[Artifact, ...], tuple[Verdict, ...]]] = field(default_factory=list)
    causes: Callable[[SubjectWork], Sequence[Found]] = lambda work: ()
    """Locations, or why there is none."""

    def run_all(self, works: Sequence[SubjectWork], **how: object) -> None:
        """As `schedule.run_all`: an artifact in the work's folder, then its cells in reverse."""
        self.works += works
        self.calls.append(how)
        on_found = how["on_found"]
        assert callable(on_found)
        for work in works:
            self.serve(work, on_found)

    def serve(self, work: SubjectWork, on_found: Callable[[Found], None]) -> None:
        """One subject."""
        for key in dict.fromkeys(c.artifact for c in reversed(work.cells)):
            if work.given is None:
                path = Path(work.folder) / f"{key.opset}.onnx"
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text("a model")
                on_found(Found(artifact=replace(artifact(key), path=str(path))))
            on_found(Found(placement=(f"{key.id}/ort-cpu", PLACED)))
        kept = {v.cell: v for v in work.done.get("basis", ())}
        for cell in reversed(work.cells):
            found = kept.get(cell) or self.outcome(cell)
            if found is not None:
                on_found(Found(verdict=found, basis=None if cell in kept else "basis"))
        for cause in self.causes(work):
            on_found(cause)

    def measure(
        self, selected: object, artifacts: Sequence[Artifact], verdicts: Sequence[Verdict], *_: object
    ) -> tuple[Latency, ...]:
        """As `latency.measure`, which must find every artifact on disk."""
        assert all(Path(a.path).is_file() for a in artifacts)
        self.timed.append((tuple(artifacts), tuple(verdicts)))
        return ()


@pytest.fixture
def stage(monkeypatch: pytest.MonkeyPatch) -> Stage:
    """No worker is started and nothing is timed."""
    made = Stage()
    monkeypatch.setattr(pipeline, "run_all", made.run_all)
    monkeypatch.setattr(pipeline, "measure", made.measure)
    return made


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """Results go to a folder of this test's own."""
    return Settings(out=tmp_path / "out", command="onnxparity verify", slots=3, limit=7.0)


def selected(name: str = "subject", *, kind: str = "catalogue") -> Selected:
    """One subject, as `selection.select` would give it."""
    found = replace(subject(name=name), kind=kind)  # type: ignore[arg-type]  # one of the three kinds
    if kind == "onnx":
        key = replace(FILE, subject=name)
        return Selected(
            Target(found, given=key, has_reference=False), Described(name, found, artifact=artifact(key, name))
        )
    return Selected(Target(found), Described(name, found))


class Heard(Listener):
    """Counts what it hears, and interrupts the run where it is told to."""

    def __init__(self, interrupt_after: int | None = None) -> None:
        self.cells = 0
        self.verdicts: list[Verdict] = []
        self.left = interrupt_after

    def planned(self, cells: int) -> None:
        self.cells += cells

    def found(self, verdict: Verdict) -> None:
        self.verdicts.append(verdict)
        if self.left is not None and len(self.verdicts) > self.left:
            raise KeyboardInterrupt


def run(
    settings: Settings, *subjects: Selected, options: Options = OPTIONS, listener: Listener | None = None
) -> Report:
    """One run of `pipeline.run`."""
    return pipeline.run(subjects or (selected(),), options, settings, listener or Listener())


def lines(settings: Settings) -> list[str]:
    """The results file."""
    return (settings.out / pipeline.RESULTS).read_text().splitlines()


def test_the_report_has_one_verdict_per_planned_cell_in_the_order_of_the_plan(stage: Stage, settings: Settings) -> None:
    heard = Heard()
    report = run(settings, selected("a"), selected("b"), listener=heard)
    planned = [cell for work in stage.works for cell in work.cells]
    assert [v.cell for v in report.verdicts] == planned
    assert heard.cells == len(planned) == len(heard.verdicts)
    assert (report.conforms, report.exit_code) == (True, 0)
    assert [s.name for s in report.subjects] == ["a", "b"]
    assert [(r.artifact.subject, r.artifact.opset) for r in report.summary] == [
        ("a", 18),
        ("a", 23),
        ("b", 18),
        ("b", 23),
    ]


def test_what_never_came_back_is_missing_and_not_green(stage: Stage, settings: Settings) -> None:
    lost = run(settings).verdicts[3].cell
    stage.outcome = lambda cell: None if cell == lost else verdict(Status.PASS, cell)
    report = run(settings)
    assert [v.cell for v in report.verdicts if v.status is Status.MISSING] == [lost]
    assert (report.conforms, report.exit_code) == (False, 3)


def test_one_red_cell_makes_the_run_red(stage: Stage, settings: Settings) -> None:
    red = run(settings).verdicts[-1].cell
    stage.outcome = lambda cell: verdict(Status.MEANING if cell == red else Status.PASS, cell)
    report = run(settings)
    assert (report.conforms, report.exit_code) == (False, 1)
    assert report.counts["MEANING"] == 1


def test_artifacts_are_timed_while_they_exist_and_reported_without_their_path(stage: Stage, settings: Settings) -> None:
    report = run(settings)
    ((artifacts, verdicts),) = stage.timed
    assert verdicts == report.verdicts
    assert not any(Path(a.path).exists() for a in artifacts), "the folder is gone after the run"
    assert [(a.key.opset, a.path) for a in report.artifacts] == [(18, ""), (23, "")]
    assert list(report.placements) == sorted(report.placements) and len(report.placements) == 2
    assert set(report.placements.values()) == {(Placement("n", "MatMul", "CPUExecutionProvider"),)}


def test_a_given_file_is_an_artifact_of_the_report(stage: Stage, settings: Settings) -> None:
    given = selected("file", kind="onnx")
    report = run(settings, given)
    assert report.artifacts == (given.described.artifact,)
    assert [v.cell.runtime for v in report.verdicts] == ["ort-cpu"] * len(report.verdicts)


def test_settings_reach_the_workers_and_the_report(stage: Stage, settings: Settings) -> None:
    told = replace(settings, use_cache=False, limits=("one limit",), directory=Path("/somewhere"))
    report = run(told)
    assert [(c["slots"], c["limit"]) for c in stage.calls] == [(3, 7.0)]
    assert [(w.use_cache, w.directory) for w in stage.works] == [(False, "/somewhere")]
    assert (report.limits, report.command) == (("one limit",), "onnxparity verify")
    assert report.environment["packages"] == environment.versions()


def test_causes_stand_in_the_order_of_the_plan_and_what_is_lacking_in_the_limits(
    stage: Stage, settings: Settings
) -> None:
    def causes(work: SubjectWork) -> list[Found]:
        cells = [cell for cell in work.cells if cell.runtime == "ort-cpu"]
        found = [Location(c, Status.ARITHMETIC, "m", "unknown", None, 0, 1, c.shape) for c in reversed(cells)]
        return [*(Found(location=each) for each in found), Found(limit="one was not led back")]

    stage.outcome, stage.causes = failing, causes
    report = run(replace(settings, limits=("known before",)))
    assert [x.cell for x in report.locations] == [v.cell for v in report.verdicts if v.cell.runtime == "ort-cpu"]
    assert report.limits == ("known before", "one was not led back")


@pytest.mark.parametrize(("explain", "out", "excused"), [("none", "", 0), ("red", "out", 1), ("all", "out", 0)])
def test_which_failures_are_led_back_reaches_the_workers(
    stage: Stage, settings: Settings, explain: Explain, out: str, excused: int
) -> None:
    run(replace(settings, explain=explain, expectations=(KNOWN,)))
    (work,) = stage.works
    assert (Path(work.out).name, len(work.excused)) == (out, excused)


def test_reproductions_of_an_earlier_run_are_removed_before_anything_runs(stage: Stage, settings: Settings) -> None:
    old = settings.out / FOLDER / "old"
    old.mkdir(parents=True)
    run(settings)
    assert old.is_dir(), "a folder that no run of ours has made"
    (settings.out / FOLDER / MARKER).touch()
    run(replace(settings, explain="none"))
    assert not old.exists()


def test_eager_beside_a_failing_runtime_is_told(stage: Stage, settings: Settings) -> None:
    def both(cell: Cell) -> Verdict:
        red = cell.runtime in ("ort-cpu", "torch-eager") and cell.regime == "normal"
        return replace(verdict(Status.ARITHMETIC, cell), ratio=3.0) if red else verdict(Status.PASS, cell)

    stage.outcome = both
    report = run(settings, options=replace(OPTIONS, runtimes=("torch-eager", *OPTIONS.runtimes)))
    told = [v.cell for v in report.verdicts if any("ill-conditioned in float32" in line for line in v.evidence)]
    assert told == [v.cell for v in report.verdicts if v.cell.runtime == "ort-cpu" and v.cell.regime == "normal"]


def test_nothing_selected_is_refused(stage: Stage, settings: Settings) -> None:
    with pytest.raises(UsageError, match="no cell was selected"):
        run(settings, options=replace(OPTIONS, cells=("nothing",)))
    assert stage.works == [] and not settings.out.exists()


def test_a_cell_glob_that_fits_nothing_is_refused_beside_one_that_does(stage: Stage, settings: Settings) -> None:
    with pytest.raises(UsageError, match="--cell nothing fits no planned cell"):
        run(settings, options=replace(OPTIONS, cells=("*/normal", "nothing")))
    assert stage.works == []


def test_an_expectation_that_fits_nothing_is_refused(stage: Stage, settings: Settings) -> None:
    idle = replace(KNOWN, cells="nothing/*")
    with pytest.raises(UsageError, match="nothing/\\* fits no planned cell"):
        run(replace(settings, expectations=(KNOWN, idle)))
    assert stage.works == []
    some = replace(OPTIONS, cells=("*/dynamo-18/*",))
    assert run(replace(settings, expectations=(idle,)), options=some).conforms, "of some cells, they may fit none"


def failing(cell: Cell) -> Verdict:
    """Red at every cell of normal values."""
    return verdict(Status.ARITHMETIC if cell.regime == "normal" else Status.PASS, cell)


def test_a_known_failure_is_expected_and_told(stage: Stage, settings: Settings) -> None:
    stage.outcome = failing
    report = run(replace(settings, expectations=(KNOWN,)))
    assert report.conforms and report.counts["XFAIL"] > 0
    stage.outcome = lambda cell: verdict(Status.PASS, cell)
    assert run(replace(settings, expectations=(KNOWN,))).counts["XPASS"] > 0


@pytest.mark.parametrize("kind", ["factory", "onnx"])
def test_a_known_failure_of_the_catalogue_never_excuses_a_users_subject(
    stage: Stage, settings: Settings, kind: str
) -> None:
    stage.outcome = failing
    told = replace(settings, catalogue_expectations=(KNOWN,))
    assert run(told, selected(kind="catalogue")).conforms
    report = run(told, selected(kind=kind))
    assert "XFAIL" not in report.counts and report.exit_code == 1


def test_a_folder_that_cannot_be_written_is_refused_before_anything_runs(
    stage: Stage, settings: Settings, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("in the way")
    for out in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(UsageError, match="cannot write to"):
            run(replace(settings, out=out))
    assert stage.works == []


def interrupted(settings: Settings, after: int) -> list[Verdict]:
    """What a run had found when it was interrupted."""
    heard = Heard(after)
    with pytest.raises(KeyboardInterrupt):
        run(settings, listener=heard)
    return heard.verdicts


def test_an_interrupted_run_resumes_with_the_same_verdicts(stage: Stage, settings: Settings) -> None:
    whole = run(settings)
    before = interrupted(settings, 3)
    asked: list[Cell] = []

    def counted(cell: Cell) -> Verdict:
        asked.append(cell)
        return verdict(Status.PASS, cell)

    stage.outcome = counted
    report = run(replace(settings, resume=True))
    assert report.verdicts == whole.verdicts
    assert set(asked) == {v.cell for v in whole.verdicts} - {v.cell for v in before}


def test_without_resume_every_cell_runs_again(stage: Stage, settings: Settings) -> None:
    interrupted(settings, 3)
    run(settings)
    assert stage.works[-1].done == {}


def test_a_resumed_run_that_is_interrupted_at_once_has_lost_nothing(stage: Stage, settings: Settings) -> None:
    interrupted(settings, 5)
    kept = lines(settings)
    interrupted(replace(settings, resume=True), 0)
    assert lines(settings) == kept
    run(replace(settings, resume=True))
    assert len(lines(settings)) == len(set(lines(settings))) == 1 + len(stage.works[0].cells)


@pytest.mark.parametrize(
    "tail", ['{"basis": "basis", "verd', "{}", "[]", "null", '{"basis": "b", "verdict": {}}', "\udcff"]
)
def test_a_damaged_line_is_dropped_and_the_rest_is_kept(stage: Stage, settings: Settings, tail: str) -> None:
    run(settings)
    results = settings.out / pipeline.RESULTS
    whole = results.read_text()
    if tail == "\udcff":
        results.write_bytes(whole.encode() + b"\xff")
        run(replace(settings, resume=True))
        assert stage.works[-1].done == {}, "not text at all: nothing is believed"
        return
    results.write_text(whole + tail)
    run(replace(settings, resume=True))
    assert len(stage.works[-1].done["basis"]) == len(stage.works[0].cells)
    assert results.read_text() == whole


def test_other_versions_are_not_resumed(stage: Stage, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    run(settings)
    monkeypatch.setattr(environment, "versions", lambda: {"onnx": "0"})
    run(replace(settings, resume=True))
    assert stage.works[-1].done == {}


@pytest.mark.parametrize("before", [None, "", "no results", '["versions"]'])
def test_a_results_file_that_is_none_is_as_good_as_missing(
    stage: Stage, settings: Settings, before: str | None
) -> None:
    if before is not None:
        settings.out.mkdir()
        (settings.out / pipeline.RESULTS).write_text(before)
    assert run(replace(settings, resume=True)).conforms
    assert stage.works[-1].done == {}


@pytest.mark.parametrize("status", [Status.CRASH, Status.TIMEOUT, Status.UNAVAILABLE, Status.FALLBACK])
def test_what_tells_of_the_machine_is_tried_again(stage: Stage, settings: Settings, status: Status) -> None:
    stage.outcome = lambda cell: verdict(status if cell.regime == "normal" else Status.MEANING, cell)
    run(settings)
    stage.outcome = lambda cell: verdict(Status.PASS, cell)
    report = run(replace(settings, resume=True))
    assert {v.status for v in report.verdicts if v.cell.regime == "normal"} == {Status.PASS}
    assert {v.status for v in report.verdicts if v.cell.regime != "normal"} == {Status.MEANING}


def test_expectations_of_today_apply_to_verdicts_of_yesterday(stage: Stage, settings: Settings) -> None:
    stage.outcome = failing
    assert run(settings).exit_code == 1
    document = [json.loads(line) for line in lines(settings)[1:]]
    assert {d["verdict"]["status"] for d in document} == {"PASS", "ARITHMETIC"}
    assert run(replace(settings, resume=True, expectations=(KNOWN,))).conforms


def test_what_a_file_is_held_against_reaches_the_worker(stage: Stage, settings: Settings) -> None:
    file = selected("file", kind="onnx")
    other = Described("other", subject(name="other"), artifact=artifact(replace(FILE, subject="other"), "other"))
    module = Described("module", subject(name="module"), examples={"example": {}})
    run(settings, replace(file, against=other, renamed={"x": "z"}))
    run(settings, replace(file, against=module))
    first, second = stage.works
    assert (first.against, first.reference, first.renamed) == (other.artifact, None, {"x": "z"})
    assert (second.against, second.reference, second.examples) == (None, module.subject, {"example": {}})


def test_the_longest_subject_starts_first_and_the_report_keeps_the_order(stage: Stage, settings: Settings) -> None:
    small, large = (selected(name) for name in ("small", "large"))
    heavy = replace(large.target.subject, parameters=10)
    report = run(settings, small, replace(large, target=replace(large.target, subject=heavy)))
    assert [w.subject.name for w in stage.works] == ["large", "small"]
    assert [s.name for s in report.subjects] == ["small", "large"]
    assert report.verdicts[0].cell.artifact == ArtifactKey("small", "dynamo", 18, "float32")
