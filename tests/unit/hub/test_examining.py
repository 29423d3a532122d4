"""One artifact is judged cell by cell: meaning, arithmetic, properties; nothing spoils the next cell."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from onnxparity import plugins
from onnxparity.artifact import Artifact
from onnxparity.case import Subject
from onnxparity.errors import LoadError, OnnxParityError, UnavailableError
from onnxparity.export.given import read_given
from onnxparity.feeding.references import References, feeds_at, write_arrays, write_failure
from onnxparity.judging.draws import CONFIRMING_DRAWS, DRAWS, FIRST_DRAWS
from onnxparity.judging.examining import Bench, ExamineRequest, Placements, Started, examine
from onnxparity.outcome import Status, Verdict
from onnxparity.plan import Cell
from onnxparity.planning.grid import Point
from onnxparity.protocols import Availability, Feeds, Outputs, Placement, Runtime, Session
from tests.tiny_models import save_tiny
from tests.unit.hub.subjects import mask
from tests.unit.hub.subjects import subject as subject_of

MEANING, ORT = "onnx-float64", "ort-cpu"
SHAPE = "b2-t5"


def given(path: Path) -> tuple[Artifact, Subject]:
    """The file's record, and the subject that is read off it."""
    read = read_given(path)
    return read.artifact, read.subject


def request(path: Path, *cells: tuple[str, str], **more: object) -> ExamineRequest:
    """Cells as (runtime, regime) of a file, judged without a cache unless `more` says otherwise."""
    artifact, subject = given(path)
    planned = tuple(Cell(artifact.key, runtime, SHAPE, regime) for runtime, regime in cells)
    settings = {"use_cache": False, **more}
    return replace(ExamineRequest(subject, artifact, planned), **settings)  # type: ignore[arg-type]  # its fields


def judge(asked: ExamineRequest) -> list[Verdict]:
    """The verdicts alone."""
    return [item for item in examine(asked) if isinstance(item, Verdict)]


def only(asked: ExamineRequest) -> Verdict:
    """The verdict of the only cell."""
    (verdict,) = judge(asked)
    return verdict


class Fake:
    """A runtime that changes what another one gives, or does not load."""

    question = "arithmetic"

    def __init__(
        self, name: str, change: Callable[[Outputs], Outputs] | None = None, error: Exception | None = None
    ) -> None:
        self.name = name
        self._change, self._error = change, error

    def probe(self) -> Availability:
        return Availability(self.name, True, "", "1")

    def load(self, artifact: Artifact) -> Session:
        if self._error is not None:
            raise self._error
        inner, change = REAL(ORT).load(artifact), self._change or (lambda outputs: outputs)

        class Changed:
            def run(self, feeds: Feeds) -> Outputs:
                return change(inner.run(feeds))

            def placement(self) -> tuple[Placement, ...] | None:
                return None

        return Changed()


REAL = plugins.runtime


@pytest.fixture
def install(monkeypatch: pytest.MonkeyPatch) -> Callable[[Fake], None]:
    """Puts a runtime in the place of the one of its name."""

    def put(fake: Fake) -> None:
        def found(name: str, threads: int | None = None) -> Runtime:
            return fake if name == fake.name else REAL(name, threads)  # type: ignore[return-value]  # question is a literal

        monkeypatch.setattr(plugins, "runtime", found)

    return put


def test_each_cell_is_announced_before_its_verdict(tmp_path: Path) -> None:
    asked = request(save_tiny(tmp_path / "a.onnx"), (ORT, "normal"), (ORT, "saturated"), (MEANING, "causality"))
    items = list(examine(asked))
    told = [(type(i), i.step if isinstance(i, Started) else i.cell) for i in items if not isinstance(i, Placements)]
    assert told == [(kind, cell) for cell in asked.cells for kind in (Started, Verdict)]
    (placed,) = [i for i in items if isinstance(i, Placements)]
    assert placed.runtime == ORT
    assert {p.operator for p in placed.nodes} == {"MatMul", "Softmax"}


def test_a_file_is_itself(tmp_path: Path) -> None:
    path = save_tiny(tmp_path / "a.onnx")
    asked = request(path, (MEANING, "normal"), (ORT, "normal"), (ORT, "batch-invariance"), against=given(path)[0])
    verdicts = judge(asked)
    assert [(v.status, v.question) for v in verdicts] == [
        (Status.PASS, "meaning"),
        (Status.PASS, "arithmetic"),
        (Status.PASS, "property"),
    ]
    assert verdicts[0].ratio == 0


def test_another_weight_is_another_meaning_and_no_wrong_arithmetic(tmp_path: Path) -> None:
    faulty, clean = save_tiny(tmp_path / "a.onnx", scale=1.001), save_tiny(tmp_path / "b.onnx")
    meaning, arithmetic = judge(request(faulty, (MEANING, "normal"), (ORT, "normal"), against=given(clean)[0]))
    assert (meaning.status, arithmetic.status) == (Status.MEANING, Status.PASS)
    assert meaning.ratio is not None and meaning.ratio > 10
    assert meaning.worst is not None and meaning.worst.output == "y" and meaning.worst.got != meaning.worst.want


def test_a_runtime_that_computes_wrongly_is_wrong_arithmetic(tmp_path: Path, install: Callable[[Fake], None]) -> None:
    path = save_tiny(tmp_path / "a.onnx")
    install(Fake(ORT, lambda outputs: {name: value + np.float32(1e-4) for name, value in outputs.items()}))
    verdict = only(request(path, (ORT, "normal")))
    assert verdict.status is Status.ARITHMETIC
    install(Fake(ORT))
    assert only(request(path, (ORT, "normal"))).status is Status.PASS


def test_wrong_arithmetic_is_confirmed_with_more_draws(
    tmp_path: Path, install: Callable[[Fake], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: list[int] = []
    measured = Bench.noise

    def tailed(bench: Bench, feeds: Feeds, draws: int = DRAWS, coarse: float | None = None) -> Outputs:
        drawn.append(draws)
        return {
            name: v * (1e4 if draws == CONFIRMING_DRAWS else 1) for name, v in measured(bench, feeds, draws).items()
        }

    install(Fake(ORT, lambda outputs: {name: value + np.float32(1e-4) for name, value in outputs.items()}))
    monkeypatch.setattr(Bench, "noise", tailed)
    assert only(request(save_tiny(tmp_path / "a.onnx"), (ORT, "normal"))).status is Status.PASS
    asked = [draws for place, draws in enumerate(drawn) if draws not in drawn[:place]]
    assert asked == [FIRST_DRAWS, DRAWS, CONFIRMING_DRAWS]


def test_one_wrong_token_is_found(tmp_path: Path, install: Callable[[Fake], None]) -> None:
    def spoil(outputs: Outputs) -> Outputs:
        outputs["y"][1, 3, 2] += np.float32(1e-4)
        return outputs

    install(Fake(ORT, spoil))
    verdict = only(request(save_tiny(tmp_path / "a.onnx"), (ORT, "normal")))
    assert verdict.status is Status.ARITHMETIC
    assert verdict.worst is not None and verdict.worst.index == (1, 3, 2)


def test_without_a_reference_the_meaning_is_red(tmp_path: Path) -> None:
    verdict = only(request(save_tiny(tmp_path / "a.onnx"), (MEANING, "normal")))
    assert verdict.status is Status.RUN_ERROR
    assert "no reference" in verdict.message and "remedy: give one with --against" in verdict.evidence


@pytest.fixture
def references(tmp_path: Path) -> References:
    """Where a module's values lie; the test writes them."""
    nothing: Mapping[str, frozenset[str]] = {"float32": frozenset()}
    return References(str(tmp_path / "references"), nothing, {"float32": {"y": "float32"}}, {"float32": "c"})


def values(path: Path) -> Outputs:
    """What the file means at the normal point."""
    artifact, subject = given(path)
    return REAL(MEANING).load(artifact).run(feeds_at(subject, Point(SHAPE, "normal"), "float32", {}))


def test_a_file_is_held_against_the_values_of_a_module(tmp_path: Path, references: References) -> None:
    path = save_tiny(tmp_path / "a.onnx")
    asked = request(path, (MEANING, "normal"), references=references)
    for factor, status in ((1.0, Status.PASS), (1.01, Status.MEANING)):
        write_arrays(references.path("float32", Point(SHAPE, "normal")), {"y": values(path)["y"] * factor})
        assert only(asked).status is status


def test_a_reference_without_a_value_says_why(tmp_path: Path, references: References) -> None:
    write_failure(references.path("float32", Point(SHAPE, "normal")), "the worker died: signal 11")
    verdict = only(request(save_tiny(tmp_path / "a.onnx"), (MEANING, "normal"), references=references))
    assert verdict.status is Status.RUN_ERROR
    assert "no value at b2-t5/normal" in verdict.message
    assert "got: the worker died: signal 11" in verdict.evidence


def test_another_dtype_than_the_modules_is_another_structure(tmp_path: Path, references: References) -> None:
    asked = request(save_tiny(tmp_path / "a.onnx"), (ORT, "normal"), references=references)
    assert only(asked).status is Status.PASS
    other = replace(references, dtypes={"float32": {"y": "float16"}})
    assert only(replace(asked, references=other)).status is Status.STRUCTURE


def test_names_are_mapped_in_every_question(tmp_path: Path) -> None:
    ours = save_tiny(tmp_path / "a.onnx", names=("input", "output"))
    artifact, subject = given(save_tiny(tmp_path / "b.onnx"))
    cells = ((MEANING, "normal"), (ORT, "normal"), (ORT, "causality"), (MEANING, "batch-invariance"))
    renamed = {"x": "input", "y": "output"}
    asked = request(ours, *cells, subject=subject, against=artifact, renamed=renamed)
    assert [v.status for v in judge(asked)] == [Status.PASS] * 4
    assert [v.status for v in judge(replace(asked, renamed={}))] == [Status.RUN_ERROR] * 4
    halfway = judge(replace(asked, renamed={"x": "input"}))
    assert halfway[0].status is Status.STRUCTURE, "an output that is not mapped is missing"


@pytest.mark.parametrize("weights", [True, False])
@pytest.mark.parametrize(("ours", "theirs"), [("float16", "float32"), ("float32", "float16")])
def test_two_dtypes_of_one_model_are_fed_alike(tmp_path: Path, ours: str, theirs: str, *, weights: bool) -> None:
    candidate = save_tiny(tmp_path / "a.onnx", dtype=ours, weights=weights)
    artifact, subject = given(save_tiny(tmp_path / "b.onnx", dtype=theirs, weights=weights))
    cells = tuple((MEANING, regime) for regime in ("normal", "tiny", "saturated", "outlier"))
    asked = request(candidate, *cells, (ORT, "normal"), (ORT, "causality"), subject=subject, against=artifact)
    assert [v.status for v in judge(asked)] == [Status.PASS] * 6


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (LoadError("refused", got="why"), Status.LOAD_ERROR),
        (UnavailableError("not there"), Status.UNAVAILABLE),
        (ValueError("something else"), Status.RUN_ERROR),
    ],
)
def test_a_runtime_that_does_not_load_costs_its_own_cells(
    tmp_path: Path, install: Callable[[Fake], None], error: Exception, status: Status
) -> None:
    install(Fake("ort-cpu-basic", error=error))
    path = save_tiny(tmp_path / "a.onnx")
    cells = (("ort-cpu-basic", "normal"), (ORT, "normal"), ("ort-cpu-basic", "causality"))
    verdicts = judge(request(path, *cells))
    assert [v.status for v in verdicts] == [status, Status.PASS, status]
    said = error.what if isinstance(error, OnnxParityError) else "ValueError: something else"
    assert verdicts[0].message == said


def test_a_token_that_sees_later_ones_breaks_causality(tmp_path: Path) -> None:
    cells = ((MEANING, "causality"), (ORT, "causality"))
    for axis, status in ((-1, Status.PASS), (1, Status.PROPERTY)):
        path = save_tiny(tmp_path / f"{axis}.onnx", axis=axis)
        assert [v.status for v in judge(request(path, *cells))] == [status] * 2


def test_a_property_whose_companion_is_missing_is_red(tmp_path: Path) -> None:
    verdict = only(request(save_tiny(tmp_path / "a.onnx"), (ORT, "prefill-decode")))
    assert (verdict.status, verdict.question) == (Status.RUN_ERROR, "property")
    assert "prefill companion" in verdict.message


def test_a_property_is_held_to_what_the_runtime_computes_in(tmp_path: Path, install: Callable[[Fake], None]) -> None:
    runs = []

    def unsteady(outputs: Outputs) -> Outputs:
        runs.append(1)
        return {name: value * np.float32(1 + 1e-4 * len(runs)) for name, value in outputs.items()}

    install(Fake(ORT, unsteady))
    float32 = only(request(save_tiny(tmp_path / "a.onnx"), (ORT, "causality")))
    assert float32.status is Status.PROPERTY
    install(Fake(ORT, lambda outputs: {n: (v * (1 + 1e-4)).astype(v.dtype) for n, v in unsteady(outputs).items()}))
    float16 = only(request(save_tiny(tmp_path / "b.onnx", dtype="float16"), (ORT, "causality")))
    assert float16.status is Status.PASS, "1e-4 is below a unit of half precision"


def test_in_float64_a_property_is_held_to_float64(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = request(save_tiny(tmp_path / "a.onnx"), (MEANING, "causality"))
    session = type(REAL(MEANING).load(asked.artifact))
    runs, run = [], session.run

    def drifting(self: Session, feeds: Feeds) -> Outputs:
        runs.append(1)
        return {name: value * (1 + 1e-9 * len(runs)) for name, value in run(self, feeds).items()}

    monkeypatch.setattr(session, "run", drifting)
    assert only(asked).status is Status.PROPERTY, "1e-9 is far below a unit of float32, and far above one of float64"


def test_a_mask_is_filled_with_what_the_narrower_side_can_hold(tmp_path: Path) -> None:
    wide, half = (given(save_tiny(tmp_path / f"{d}.onnx", dtype=d))[0] for d in ("float32", "float16"))
    masked = subject_of((mask("additive"),), outputs=())
    for ours, theirs in ((wide, half), (half, wide)):
        feeds = Bench(ExamineRequest(masked, ours, (), against=theirs)).drawn(Point("b2-t17", "mask-right-min"))
        assert float(feeds["mask"].min()) == float(np.finfo(np.float16).min)


def test_an_example_that_is_called_like_a_regime_is_refused(tmp_path: Path) -> None:
    examples = {"normal": {"x": np.ones((2, 5, 3), np.float32)}}
    verdict = only(request(save_tiny(tmp_path / "a.onnx"), (ORT, "normal"), examples=examples))
    assert verdict.status is Status.RUN_ERROR and "called 'normal'" in verdict.message


def test_an_example_is_fed_as_it_is(tmp_path: Path, install: Callable[[Fake], None]) -> None:
    seen: list[Outputs] = []

    def watched(outputs: Outputs) -> Outputs:
        seen.append(outputs)
        return outputs

    install(Fake(ORT, watched))
    path = save_tiny(tmp_path / "a.onnx", weights=False)
    examples = {"example": {"x": np.zeros((2, 5, 3), np.float32)}}
    assert only(request(path, (ORT, "example"), examples=examples)).status is Status.PASS
    np.testing.assert_allclose(seen[0]["y"], 1 / 3, rtol=1e-6)


def test_a_verdict_says_how_it_is_repeated(tmp_path: Path) -> None:
    asked = request(save_tiny(tmp_path / "a.onnx"), (ORT, "normal"), origin="a.onnx --against b")
    verdict = only(asked)
    assert (
        verdict.command
        == f"onnxparity verify a.onnx --against b --runtime ort-cpu --shape b2-t5 --cell {verdict.cell.id}"
    )


def test_exact_values_are_not_computed_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, install: Callable[[Fake], None]
) -> None:
    monkeypatch.setenv("ONNXPARITY_CACHE", str(tmp_path / "cache"))
    path = save_tiny(tmp_path / "a.onnx")
    first = only(request(path, (ORT, "normal"), use_cache=True))
    install(Fake(MEANING, error=LoadError("not again")))
    second = only(request(path, (ORT, "normal"), use_cache=True))
    assert (second.status, second.ratio) == (Status.PASS, first.ratio)
    for other in (request(path, (ORT, "tiny"), use_cache=True), request(path, (ORT, "normal"), use_cache=False)):
        assert only(other).status is Status.LOAD_ERROR, "other feeds, or no cache: computed"
    changed = save_tiny(tmp_path / "a.onnx", scale=2.0)
    assert only(request(changed, (ORT, "normal"), use_cache=True)).status is Status.LOAD_ERROR
