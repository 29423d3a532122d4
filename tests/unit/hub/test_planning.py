"""The plan lists every cell once, and nothing that was planned can go missing."""

from __future__ import annotations

import dataclasses

import pytest

from onnxparity import invariants, plugins
from onnxparity.case import Subject, TensorSpec
from onnxparity.errors import UsageError
from onnxparity.feeding.feeds import BEYOND, FILLS, MASK_PATTERNS, OVERFLOW, SCALES, regimes, stays_finite
from onnxparity.outcome import Status, Verdict
from onnxparity.plan import ArtifactKey, Cell, slug
from onnxparity.planning import grid
from onnxparity.planning.grid import Point
from onnxparity.planning.planner import Options, Target, keys, plan, question_of, reconcile
from onnxparity.record import verdict_from_json, verdict_to_json
from tests.unit.hub.subjects import BATCH, KEY, SEQUENCE, cell, mask, subject, verdict

RUNTIMES = ("torch-float64", "torch-eager", "onnx-float64", "onnx-spec", "ort-cpu", "ort-cpu-basic")
OPTIONS = Options(opsets=(18, 23), dtypes=("float32", "float16"), runtimes=RUNTIMES)
CAUSAL = subject(properties=("causality", "batch-invariance"))
TARGET = Target(CAUSAL, has_oracle=True)
GIVEN = ArtifactKey("subject", "file", 17, "float32")
EVERY = set(invariants.UNIVERSAL)


def where(**wanted: object) -> list[Cell]:
    """The planned cells whose fields are these."""
    return [c for c in plan(TARGET, OPTIONS) if all(getattr(c, k) == v for k, v in wanted.items())]


def regimes_of(runtime: str, target: Target = TARGET, options: Options = OPTIONS) -> set[str]:
    """The regimes and properties that are planned on a runtime."""
    return {c.regime for c in plan(target, options) if c.runtime == runtime}


def test_ids_are_unique_and_the_plan_is_stable() -> None:
    cells = plan(TARGET, OPTIONS)
    assert len({c.id for c in cells}) == len(cells) == len(set(cells))
    assert plan(TARGET, OPTIONS) == cells


def test_an_id_is_made_of_its_parts() -> None:
    assert cell("tiny").id == "subject/dynamo-23/float32/ort-cpu/b2-t17/tiny"
    assert ArtifactKey("a", "torch", None, "float64").id == "a/torch/float64"


def test_an_id_survives_the_document() -> None:
    for planned in plan(TARGET, OPTIONS):
        document = verdict_to_json(verdict(Status.PASS, planned))
        assert document["id"] == planned.id
        assert verdict_from_json(document).cell == planned


def test_slugs_can_be_typed() -> None:
    assert slug("My Model (v2)/é.onnx") == "my-model-v2-.onnx"
    assert slug("///") == "unnamed"


def test_every_opset_and_dtype_has_its_artifact() -> None:
    assert {(k.opset, k.dtype) for k in keys(TARGET, OPTIONS)} == {
        (o, d) for o in (18, 23) for d in ("float32", "float16")
    }
    assert {k.exporter for k in keys(TARGET, OPTIONS)} == {"dynamo"}


def test_a_given_file_is_its_own_only_artifact_and_has_no_torch_cells() -> None:
    target = Target(CAUSAL, given=GIVEN)
    assert keys(target, OPTIONS) == (GIVEN,)
    assert {c.runtime for c in plan(target, OPTIONS)} == set(RUNTIMES) - {"torch-float64", "torch-eager"}


def test_a_dtype_that_the_subject_does_not_offer_leaves_nothing_to_pass() -> None:
    narrow = Target(subject(dtypes=("float32",)), has_oracle=True)
    assert plan(narrow, dataclasses.replace(OPTIONS, dtypes=("float16",))) == ()
    assert plan(TARGET, dataclasses.replace(OPTIONS, dtypes=("float8",))) == (), "the oracle alone verifies no artifact"


def test_runtimes_that_judge_no_file_leave_nothing_to_pass() -> None:
    assert plan(TARGET, dataclasses.replace(OPTIONS, runtimes=("torch-float64", "torch-eager"))) == ()
    unknown = dataclasses.replace(TARGET, given=GIVEN, has_reference=False)
    assert plan(unknown, dataclasses.replace(OPTIONS, runtimes=("torch-float64", "onnx-float64"))) == ()


def test_meaning_needs_a_reference_and_the_oracle_needs_an_oracle() -> None:
    assert "onnx-float64" not in {c.runtime for c in plan(Target(subject(), has_reference=False), OPTIONS)}
    assert "torch-float64" not in {c.runtime for c in plan(Target(CAUSAL), OPTIONS)}
    assert {c.artifact.dtype for c in where(runtime="torch-float64")} == {"float64"}


def test_the_whole_grid_is_planned_where_it_decides() -> None:
    full, core = set(grid.full(CAUSAL)), set(grid.core(CAUSAL))
    for runtime in ("torch-float64", "onnx-float64", "ort-cpu"):
        points = {Point(c.shape, c.regime) for c in where(runtime=runtime) if c.regime in regimes(CAUSAL)}
        assert points == full, runtime
    for runtime in ("torch-eager", "onnx-spec", "ort-cpu-basic"):
        assert {Point(c.shape, c.regime) for c in where(runtime=runtime)} == core, runtime


WIDE = dataclasses.replace(OPTIONS, opsets=(18, 20, 23, 24, 25))


def points_of(key: ArtifactKey, runtime: str = "ort-cpu", options: Options = WIDE) -> set[Point]:
    """The points planned for one artifact on one runtime, without properties."""
    cells = plan(TARGET, options)
    found = {Point(c.shape, c.regime) for c in cells if (c.artifact, c.runtime) == (key, runtime)}
    return {p for p in found if p.regime in regimes(CAUSAL)}


def test_many_artifacts_divide_the_grid_and_those_written_differently_have_all_of_it() -> None:
    full = set(grid.full(CAUSAL))
    for opset in (18, 23):
        assert points_of(ArtifactKey("subject", "dynamo", opset, "float32")) == full
    rest = [key for key in keys(TARGET, WIDE) if (key.opset, key.dtype) not in ((18, "float32"), (23, "float32"))]
    shares = {key: points_of(key) for key in rest}
    common = {p for p in grid.share(CAUSAL, 0, 8) if p in grid.share(CAUSAL, 1, 8)}
    for key, found in shares.items():
        wanted = {p for p in common if stays_finite(p.regime, key.dtype)}
        assert wanted <= found < full
    together = set().union(*shares.values())
    assert {p for p in full - together if stays_finite(p.regime, "float16")} == set()
    assert points_of(ArtifactKey("subject", "torch", None, "float64"), "torch-float64") == full


def test_a_file_and_a_single_artifact_have_the_whole_grid() -> None:
    assert len(grid.full(CAUSAL)) >= 24
    one = dataclasses.replace(OPTIONS, opsets=(25,), dtypes=("float16",))
    finite = {p for p in grid.full(CAUSAL) if stays_finite(p.regime, "float16")}
    assert points_of(ArtifactKey("subject", "dynamo", 25, "float16"), options=one) == finite
    cells = plan(Target(CAUSAL, given=GIVEN), WIDE)
    assert {Point(c.shape, c.regime) for c in cells if c.runtime == "ort-cpu"} >= set(grid.full(CAUSAL))


def test_scores_beyond_half_are_asked_of_half_only_where_the_user_asks() -> None:
    def dtypes(options: Options) -> set[str]:
        return {c.artifact.dtype for c in plan(TARGET, options) if c.regime == OVERFLOW}

    assert dtypes(OPTIONS) == {"float32", "float64"}
    assert dtypes(dataclasses.replace(OPTIONS, regimes=(OVERFLOW,))) == {"float16", "float32", "float64"}


def test_a_regime_that_is_asked_for_is_all_that_is_planned_and_on_every_runtime() -> None:
    cells = plan(TARGET, dataclasses.replace(OPTIONS, regimes=("tiny", "causality")))
    assert {c.regime for c in cells} == {"tiny", "causality"}
    assert {c.runtime for c in cells if c.regime == "tiny"} == set(RUNTIMES)
    quick = plan(TARGET, dataclasses.replace(OPTIONS, regimes=("tiny",), quick=True))
    assert {c.regime for c in quick} == {"tiny"}


def test_beyond_its_end_an_artifact_is_tried_and_the_module_is_not() -> None:
    table = subject(axes=(BATCH, dataclasses.replace(SEQUENCE, high=256)), properties=("causality",))
    cells = plan(Target(table, has_oracle=True), OPTIONS)
    assert {c.runtime for c in cells if c.regime == BEYOND} == {"onnx-float64", "ort-cpu"}
    assert all(question_of(c, table) == plugins.question(c.runtime) for c in cells if c.regime == BEYOND)
    asked = plan(Target(table, has_oracle=True), dataclasses.replace(OPTIONS, shapes=("b2-t257",)))
    assert {c.regime for c in asked} == {BEYOND}, "no property is promised there"


def test_recorded_outputs_stand_in_for_a_reference_at_their_own_inputs_alone() -> None:
    real = (Point("b2-t9", "given-a"), Point("b2-t9", "given-b"))
    target = Target(CAUSAL, given=GIVEN, has_reference=False, examples=real, recorded=("given-b",))
    meant = {(c.shape, c.regime) for c in plan(target, OPTIONS) if c.runtime == plugins.MEANING}
    assert {regime for _, regime in meant} - set(invariants.PROPERTIES) == {"given-b"}


def test_properties_are_planned_on_runtimes_that_have_the_whole_grid() -> None:
    for runtime in RUNTIMES:
        planned = regimes_of(runtime) & set(invariants.PROPERTIES)
        promised = {"causality", "batch-invariance"} if runtime in ("onnx-float64", "ort-cpu") else set()
        assert planned - EVERY == promised, runtime
        assert planned & EVERY == (EVERY if runtime == "ort-cpu" else set()), runtime


def test_properties_are_planned_only_where_there_is_something_to_check() -> None:
    one = dataclasses.replace(OPTIONS, shapes=("b1-t1",))
    assert regimes_of("ort-cpu", options=one) & set(invariants.PROPERTIES) == EVERY
    longer = dataclasses.replace(OPTIONS, shapes=("b1-t2",))
    assert regimes_of("ort-cpu", options=longer) & set(invariants.PROPERTIES) == {"causality", *EVERY}


def test_what_every_file_keeps_is_planned_once_for_each_artifact() -> None:
    several = dataclasses.replace(OPTIONS, shapes=("b1-t2", "b2-t5"))
    for name in EVERY:
        cells = [c for c in plan(TARGET, several) if c.regime == name]
        assert [c.artifact for c in cells] == list(keys(TARGET, several)), name
        assert {(c.runtime, c.shape) for c in cells} == {("ort-cpu", "b1-t2")}, name


def test_levels_are_left_out_of_a_quick_run_and_runs_are_not() -> None:
    quick = dataclasses.replace(OPTIONS, quick=True)
    assert regimes_of("ort-cpu", options=quick) & EVERY == {"determinism"}


def test_a_file_without_a_reference_is_held_to_its_properties_in_float64_too() -> None:
    alone = Target(CAUSAL, given=GIVEN, has_reference=False)
    assert regimes_of("onnx-float64", alone) == {"causality", "batch-invariance"}
    assert "normal" in regimes_of("ort-cpu", alone)


def test_a_file_that_comes_with_its_outputs_is_fed_with_nothing_drawn() -> None:
    case = Target(subject(), given=GIVEN, examples=(Point("b2-t9", "case"),), examples_only=True)
    assert {c.regime for c in plan(case, OPTIONS)} == {"case"}


def test_a_shape_written_otherwise_plans_the_same_cells() -> None:
    plain, padded = (dataclasses.replace(OPTIONS, shapes=(s,)) for s in ("b2-t5", "b02-t05"))
    assert plan(TARGET, padded) == plan(TARGET, plain)
    assert {c.shape for c in plan(TARGET, plain)} == {"b2-t5"}


def test_a_shape_given_twice_is_planned_once() -> None:
    twice = dataclasses.replace(OPTIONS, shapes=("b2-t5", "b2-t5"))
    assert plan(TARGET, twice) == plan(TARGET, dataclasses.replace(OPTIONS, shapes=("b2-t5",)))


def test_a_shape_that_does_not_fit_is_an_error() -> None:
    with pytest.raises(UsageError):
        plan(TARGET, dataclasses.replace(OPTIONS, shapes=("b2",)))


def test_quick_plans_the_core_and_no_levels() -> None:
    quick = dataclasses.replace(OPTIONS, quick=True)
    assert not regimes_of("ort-cpu-basic", options=quick)
    shapes = {c.shape for c in plan(TARGET, quick)}
    assert shapes == {p.shape for p in grid.core(CAUSAL)}


def test_a_cell_filter_keeps_what_it_names_and_nothing_else() -> None:
    cells = plan(TARGET, OPTIONS)
    wanted = cells[len(cells) // 2]
    assert plan(TARGET, dataclasses.replace(OPTIONS, cells=(wanted.id,))) == (wanted,)
    some = plan(TARGET, dataclasses.replace(OPTIONS, cells=("*/ort-cpu/*", "*/causality")))
    assert set(some) == {c for c in cells if c.runtime == "ort-cpu" or c.regime == "causality"}
    assert plan(TARGET, dataclasses.replace(OPTIONS, cells=("*/ORT-CPU/*",))) == ()


def test_real_inputs_are_planned_beside_the_grid_but_not_for_the_oracle() -> None:
    target = dataclasses.replace(TARGET, examples=(Point("b2-t9", "sentences"),))
    asking = {c.runtime for c in plan(target, OPTIONS) if c.regime == "sentences"}
    assert asking == set(RUNTIMES) - {"torch-float64"}


@pytest.mark.parametrize(
    ("runtime", "regime", "question"),
    [
        ("torch-float64", "normal", "oracle"),
        ("torch-eager", "normal", "arithmetic"),
        ("onnx-float64", "normal", "meaning"),
        ("onnx-float64", "causality", "property"),
        ("ort-cpu", "causality", "property"),
        ("ort-cpu", "normal", "arithmetic"),
        ("ort-cuda", "saturated", "arithmetic"),
    ],
)
def test_which_question_a_cell_asks(runtime: str, regime: str, question: str) -> None:
    assert question_of(cell(regime, runtime=runtime), CAUSAL) == question


def test_no_regime_is_called_like_a_property() -> None:
    every = subject((TensorSpec("x", ("batch", 3)), mask("additive", "float", ("batch", "sequence"))))
    names = {*SCALES, "outlier", "zero-rows", "mask-full", *(f"mask-{p}{f}" for p in MASK_PATTERNS for f in FILLS)}
    assert set(regimes(every)) == names
    assert not names & set(invariants.PROPERTIES)


CELLS = tuple(cell(r) for r in ("normal", "tiny", "saturated"))
SUBJECTS: dict[str, Subject] = {"subject": CAUSAL}


def test_reconciling_keeps_the_order_of_the_plan() -> None:
    came = [verdict(Status.PASS, c) for c in reversed(CELLS)]
    assert [v.cell for v in reconcile(CELLS, came, SUBJECTS)] == list(CELLS)


def test_what_never_ran_is_missing() -> None:
    found = reconcile(CELLS, [verdict(Status.PASS, CELLS[1])], SUBJECTS)
    assert [v.status for v in found] == [Status.MISSING, Status.PASS, Status.MISSING]
    assert found[0].question == "arithmetic"
    assert CELLS[0].id in found[0].command
    assert [v.status for v in reconcile(CELLS, [], SUBJECTS)] == [Status.MISSING] * 3


def test_a_verdict_that_nobody_planned_is_an_error() -> None:
    with pytest.raises(UsageError, match="not planned"):
        reconcile(CELLS[:1], [verdict(Status.PASS, c) for c in CELLS[:2]], SUBJECTS)


@pytest.mark.parametrize("second", [Status.PASS, Status.ARITHMETIC])
def test_two_verdicts_for_one_cell_are_an_error(second: Status) -> None:
    came: list[Verdict] = [verdict(Status.PASS, CELLS[0]), verdict(second, CELLS[0])]
    with pytest.raises(UsageError, match="two verdicts"):
        reconcile(CELLS, came, SUBJECTS)


def test_another_artifact_is_another_cell() -> None:
    other = dataclasses.replace(CELLS[0], artifact=dataclasses.replace(KEY, opset=18))
    with pytest.raises(UsageError, match="not planned"):
        reconcile(CELLS, [verdict(Status.PASS, other)], SUBJECTS)
