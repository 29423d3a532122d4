"""The cell's boundary: whatever happens inside becomes a verdict, and only a comparison can pass."""

from __future__ import annotations

import dataclasses
import shlex

import pytest

from onnxparity import errors
from onnxparity.errors import OnnxParityError
from onnxparity.feeding.feeds import OVERFLOW
from onnxparity.grammar import parser
from onnxparity.judging.judge import STATUS_OF, command, failed, judged
from onnxparity.numerics.compare import Comparison
from onnxparity.outcome import Status
from onnxparity.plan import ArtifactKey, Cell
from onnxparity.planning.planner import Options, Target, plan
from tests.unit.hub.subjects import KEY, cell, subject

STATUSES = {
    "EvidenceError": Status.RUN_ERROR,
    "ExportError": Status.EXPORT_ERROR,
    "InternalError": Status.RUN_ERROR,
    "LintError": Status.LINT_ERROR,
    "LoadError": Status.LOAD_ERROR,
    "OnnxParityError": Status.RUN_ERROR,
    "RunError": Status.RUN_ERROR,
    "SubjectError": Status.RUN_ERROR,
    "UnavailableError": Status.UNAVAILABLE,
    "UsageError": Status.RUN_ERROR,
    "WorkerCrashedError": Status.RUN_ERROR,
    "WorkerTimeoutError": Status.RUN_ERROR,
}


def raising(error: BaseException) -> Comparison:
    """Work that comes to nothing."""
    raise error


def test_the_table_names_every_error() -> None:
    assert set(STATUSES) == set(errors.__all__)
    assert len({kind for kind, _ in STATUS_OF}) == len(STATUS_OF)


@pytest.mark.parametrize("name", sorted(STATUSES))
def test_an_error_of_the_family_has_its_status_and_says_why(name: str) -> None:
    kind: type[OnnxParityError] = getattr(errors, name)
    error = kind("line one\nline two", expected="e", got="g", remedy="r")
    found = judged(cell(), "arithmetic", "subject", lambda: raising(error))
    assert found.status is STATUSES[name]
    assert found.message == "line one"
    assert found.evidence == ("expected: e", "got: g", "remedy: r")
    assert found.ratio is None


@pytest.mark.parametrize(
    "error", [ValueError("a\nb"), KeyError("y"), MemoryError(), RecursionError(), AssertionError(), ValueError("")]
)
def test_any_other_exception_is_a_run_error_that_names_it(error: Exception) -> None:
    found = judged(cell(), "meaning", "subject", lambda: raising(error))
    assert found.status is Status.RUN_ERROR
    assert found.message.startswith(type(error).__name__)
    assert found.question == "meaning"


def test_an_interrupt_is_no_verdict() -> None:
    with pytest.raises(KeyboardInterrupt):
        judged(cell(), "meaning", "subject", lambda: raising(KeyboardInterrupt()))


def test_a_comparison_becomes_the_verdict_it_is() -> None:
    passed = judged(cell(), "arithmetic", "subject", lambda: Comparison(Status.PASS, "good", 0.5, evidence=("e",)))
    assert (passed.status, passed.message, passed.ratio, passed.evidence) == (Status.PASS, "good", 0.5, ("e",))
    assert passed.seconds is not None and passed.seconds >= 0
    wrong = judged(cell(), "arithmetic", "subject", lambda: Comparison(Status.ARITHMETIC, "bad", 3.0))
    assert (wrong.status, wrong.ratio) == (Status.ARITHMETIC, 3.0)


@pytest.mark.parametrize("ratio", [None, float("nan"), 1.5])
def test_a_comparison_that_passes_without_a_good_ratio_does_not_pass(ratio: float | None) -> None:
    found = judged(cell(), "arithmetic", "subject", lambda: Comparison(Status.PASS, "good", ratio))
    assert found.status is Status.RUN_ERROR


def test_an_error_without_words_still_has_a_message() -> None:
    assert failed(cell(), "property", "subject", Status.CRASH, OnnxParityError("")).message == "OnnxParityError"


CELLS = (
    cell(),
    cell("causality"),
    cell(key=ArtifactKey("subject", "dynamo", 21, "float16"), shape="b3-t11"),
    cell(key=ArtifactKey("subject", "torch", None, "float16"), runtime="torch-eager"),
    cell(key=ArtifactKey("subject", "torch", None, "float64"), runtime="torch-float64", shape="b1-t1"),
    cell(runtime="openvino"),
)


@pytest.mark.parametrize("wanted", CELLS, ids=lambda c: c.id)
def test_the_command_plans_its_cell_and_no_other(wanted: Cell) -> None:
    program, *arguments = shlex.split(command(wanted, "subject"))
    assert program == "onnxparity"
    options = parser().parse_args(arguments)
    assert options.targets == ["subject"]
    runtimes = ("torch-float64", "onnx-float64", *(options.runtime or ()))
    asked = Options(
        tuple(options.opset or (18, 23)),
        ("float32", "float16"),
        runtimes,
        tuple(options.shape),
        cells=tuple(options.cell),
    )
    target = Target(subject(properties=("causality",)), has_oracle=True)
    assert plan(target, asked) == (wanted,)


def test_a_regime_that_is_only_tried_when_asked_for_is_asked_for() -> None:
    half = dataclasses.replace(KEY, dtype="float16")
    assert command(cell(OVERFLOW, key=half), "mine").endswith(f"--regime {OVERFLOW}")
    assert "--regime" not in command(cell(OVERFLOW), "mine")
    assert "--regime" not in command(cell("saturated", key=half), "mine")
