"""The document: what is written reads back the same, and nothing that is not a whole report is taken for one."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onnxparity.artifact import Artifact, FileInput
from onnxparity.case import OutputSpec, TensorSpec
from onnxparity.errors import UsageError
from onnxparity.gate import NO_EVIDENCE, conclude
from onnxparity.location import Location, Node, TensorStatistics
from onnxparity.outcome import GREEN as GREEN_STATUSES
from onnxparity.outcome import SEVERITY, OutputMetrics, Question, Status, Verdict, Worst
from onnxparity.plan import ArtifactKey
from onnxparity.protocols import Availability, Placement
from onnxparity.record import SCHEMA, Latency, Report, summarise, verdict_from_json, verdict_to_json
from tests.unit.hub.subjects import EXPECTED, KEY, cell, mask, subject, verdict

Document = dict[str, Any]  # Any: JSON values
NUMBERS = st.floats(allow_nan=False) | st.none()


def metrics(**changes: Any) -> OutputMetrics:  # Any: fields of OutputMetrics
    """Metrics with a number in every field, unless told otherwise."""
    numbers = dict.fromkeys(
        ("over_noise", "max_abs", "max_rel", "max_ulp", "rms", "cosine", "snr_db", "p50_abs", "p99_abs"), 0.5
    )
    fields = {"ratio": 0.5, "budget": 1e-7, "nonfinite_got": 0, "nonfinite_want": 0, **numbers, **changes}
    return OutputMetrics("y", "float32", (2, 3), 6, **fields)


def location() -> Location:
    """With something in every field, a number that JSON lacks among them."""
    node = Node("Softmax", "n", ("a", ""), ("b",), "encoder.0", "model.py:3: x.softmax(-1)")
    statistics = TensorStatistics("b", (2, 3), "float32", "got", -math.inf, 1.0, None, 0.5, 1)
    return Location(
        cell("tiny"), Status.MEANING, "wrong there", "injected", node, 3, 9, "b1-t2",
        ("epsilon 1e-05 against 1e-06",), (statistics,), "GeluFusion", "reproductions/1", (cell("tiny").id,),
    )  # fmt: skip


def report(verdicts: tuple[Verdict, ...]) -> Report:
    """A report with something in every field."""
    conclusion = conclude(verdicts)
    artifact = Artifact(
        KEY, "a b/é.onnx", "0" * 64, 10, True, 23, 23, 10, {"com.microsoft": 1},
        (FileInput("x", "float32", ("batch", None, 3)),), (FileInput("y", "float32", ()),),
        {"MatMul": 2}, 8, None, True, ("a warning",), "a producer",
    )  # fmt: skip
    return Report(
        tool_version="0.1.0",
        command="onnxparity verify ‘é’ <&>\n",
        created="2030-01-01T00:00:00+00:00",
        seconds=1.5,
        environment={"load": None, "packages": {"torch": None, "numpy": "2"}, "cores": 2},
        subjects=(
            subject(
                (TensorSpec("x", ("batch", "sequence", 3)), mask("additive", name="m")),
                (OutputSpec("y", ("batch", None, "sequence", 3), "logits"),),
                properties=("causality",),
                roles={"present": "past"},
            ),
        ),
        artifacts=(artifact, dataclasses.replace(artifact, seconds=1.0, warnings=())),
        runtimes=(Availability("ort-cuda", False, "no device: „x“", None, "buy one"),),
        placements={f"{KEY.id}/ort-cpu": (Placement("n", "MatMul", "CPUExecutionProvider"),)},
        verdicts=verdicts,
        summary=summarise(verdicts),
        latency=(
            Latency(KEY, "ort-cpu", "b1-t16", (0.1, 0.2), 0.1, 0.2, 0.2, 3, 8, None, True, ""),
            Latency(KEY, "ort-cuda", "b1-t16", (), None, None, None, 0, 0, None, False, "why"),
        ),
        conforms=conclusion.conforms,
        exit_code=conclusion.exit_code,
        conclusion=conclusion.sentence,
        locations=(location(),),
        limits=("nothing on CUDA",),
    )


GREEN = report((verdict(Status.PASS),))
RED = report((verdict(Status.PASS), verdict(Status.MEANING, cell("tiny"))))


def again(wanted: Report) -> Report:
    """Through the text of the document and back."""
    return Report.from_json(json.loads(json.dumps(wanted.to_json(), allow_nan=False)))


@pytest.mark.parametrize("status", Status)
def test_every_status_reads_back(status: Status) -> None:
    for verdicts in ((verdict(status),), (verdict(Status.PASS), verdict(status, cell("tiny")))):
        assert again(report(verdicts)) == report(verdicts)


@pytest.mark.parametrize("number", [math.inf, -math.inf, 0.0, 5e-324, 1e308])
def test_infinite_and_extreme_numbers_read_back(number: float) -> None:
    worst = Worst("y", (1, 2), number, -number)
    found = dataclasses.replace(
        verdict(Status.ARITHMETIC), ratio=number, worst=worst, outputs=(metrics(ratio=number, snr_db=number),)
    )
    assert again(report((found,))) == report((found,))


def test_nan_reads_back_as_nan() -> None:
    worst = Worst("y", (), math.nan, 1.0)
    found = dataclasses.replace(
        verdict(Status.NONFINITE), ratio=math.nan, worst=worst, outputs=(metrics(ratio=math.nan, rms=None),)
    )
    (back,) = again(report((found,))).verdicts
    assert back.ratio is not None and math.isnan(back.ratio)
    assert back.worst is not None and math.isnan(back.worst.got) and back.worst.index == ()
    assert math.isnan(back.outputs[0].ratio) and back.outputs[0].rms is None


def test_the_document_has_no_token_that_json_lacks() -> None:
    found = dataclasses.replace(verdict(Status.NONFINITE), ratio=math.nan, outputs=(metrics(ratio=math.inf),))
    unlikely = dataclasses.replace(report((found,)), environment={"load": math.nan}, seconds=math.inf)
    text = json.dumps(unlikely.to_json(), allow_nan=False)
    assert '"NaN"' in text and '"Infinity"' in text
    assert again(unlikely).seconds == math.inf


def test_latency_that_is_not_a_number_reads_back_as_a_number() -> None:
    row = Latency(KEY, "ort-cpu", "b1", (math.inf,), math.inf, None, None, 1, 1, 2, True)
    assert again(dataclasses.replace(GREEN, latency=(row,))).latency == (row,)


@given(
    message=st.text(),
    evidence=st.lists(st.text(), max_size=3),
    numbers=st.fixed_dictionaries(
        dict.fromkeys(("over_noise", "max_abs", "cosine", "snr_db", "kl_divergence"), NUMBERS)
    ),
    ratio=st.floats(allow_nan=False),
    index=st.lists(st.integers(0, 99), max_size=4),
    question=st.sampled_from(["oracle", "meaning", "arithmetic", "property"]),
    seconds=NUMBERS,
)
def test_any_verdict_reads_back(
    message: str,
    evidence: list[str],
    numbers: dict[str, float | None],
    ratio: float,
    index: list[int],
    question: Question,
    seconds: float | None,
) -> None:
    found = Verdict(
        cell(),
        Status.XFAIL,
        question,
        message,
        ratio,
        (metrics(**numbers),),
        Worst("y", tuple(index), ratio, 0.0),
        tuple(evidence),
        Status.MEANING,
        EXPECTED,
        seconds,
        message,
    )
    assert verdict_from_json(json.loads(json.dumps(verdict_to_json(found), allow_nan=False))) == found


def test_a_report_is_written_and_read(tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    RED.write(path)
    assert Report.read(path) == RED
    assert json.loads(path.read_text(encoding="utf-8"))["schema"] == SCHEMA


def test_counts_are_those_of_the_verdicts() -> None:
    assert RED.counts == RED.to_json()["counts"] == {"PASS": 1, "MEANING": 1}


@pytest.mark.parametrize("document", [None, 3, "x", [], [1], {}, {"schema": "onnxparity-report/2"}, {"schema": None}])
def test_a_foreign_document_is_an_error(document: Any) -> None:  # Any: any JSON value
    with pytest.raises(UsageError, match="not an onnxparity report"):
        Report.from_json(document)


FIELDS = sorted(set(RED.to_json()) - {"schema", "counts"})


@pytest.mark.parametrize("name", FIELDS)
def test_a_document_without_one_of_its_fields_is_an_error(name: str) -> None:
    document = RED.to_json()
    del document[name]
    with pytest.raises(UsageError, match="damaged"):
        Report.from_json(document)


@pytest.mark.parametrize("value", [None, 3, "PASS", [None], {"a": 1}])
@pytest.mark.parametrize("name", sorted(set(FIELDS) - {"environment"}))
def test_a_field_of_another_kind_is_an_error(name: str, value: Any) -> None:  # Any: any JSON value
    document = RED.to_json()
    if type(value) is type(document[name]) or (name, type(value)) == ("seconds", int):
        return
    document[name] = value
    with pytest.raises(UsageError, match="damaged"):
        Report.from_json(document)


def _drop(name: str) -> Callable[[Document], None]:
    def damage(verdict_document: Document) -> None:
        del verdict_document[name]

    return damage


def _put(name: str, value: Any) -> Callable[[Document], None]:  # Any: any JSON value
    def damage(verdict_document: Document) -> None:
        verdict_document[name] = value

    return damage


@pytest.mark.parametrize(
    "damage",
    [
        *(_drop(f.name) for f in dataclasses.fields(Verdict)),
        _put("status", "GREEN"),
        _put("ratio", None),
        _put("ratio", 1.5),
        _put("ratio", "NaN"),
        _put("ratio", "a lot"),
        _put("cell", {"artifact": {}}),
        _put("outputs", [{"output": "y"}]),
        _put("worst", {"output": "y"}),
        _put("found", "SOMETHING"),
        _put("id", "another/cell"),
    ],
)
def test_a_damaged_verdict_is_an_error(damage: Callable[[Document], None]) -> None:
    document = GREEN.to_json()
    damage(document["verdicts"][0])
    with pytest.raises(UsageError, match="damaged"):
        Report.from_json(document)


@pytest.mark.parametrize(
    "changes",
    [
        {"exit_code": 0},
        {"conforms": True},
        {"conforms": True, "exit_code": 0},
        {"exit_code": "0"},
        {"exit_code": False},
    ],
)
def test_a_document_that_calls_itself_green_and_is_not_is_an_error(changes: Document) -> None:
    with pytest.raises(UsageError, match="damaged"):
        Report.from_json({**RED.to_json(), **changes})


def test_a_green_document_that_lost_its_verdicts_is_an_error() -> None:
    with pytest.raises(UsageError, match="damaged"):
        Report.from_json({**GREEN.to_json(), "verdicts": [], "summary": []})


def test_a_document_may_be_stricter_than_its_verdicts() -> None:
    strict = dataclasses.replace(GREEN, conforms=False, exit_code=1, conclusion="an expectation matches nothing")
    assert again(strict) == strict


@pytest.mark.parametrize("text", [b"", b"{", b"\xff\xfe", b"[1, 2", b"\xef\xbb\xbf{}"])
def test_a_file_that_is_not_json_is_an_error(tmp_path: Path, text: bytes) -> None:
    path = tmp_path / "report.json"
    path.write_bytes(text)
    with pytest.raises(UsageError, match="is not JSON"):
        Report.read(path)


def test_a_missing_file_and_a_folder_are_errors(tmp_path: Path) -> None:
    for path in (tmp_path / "nothing.json", tmp_path):
        with pytest.raises(UsageError, match="cannot read"):
            Report.read(path)


@pytest.mark.parametrize("ratio", [None, math.nan, math.inf, 1.0000001])
def test_a_pass_without_a_ratio_of_at_most_one_cannot_be_made(ratio: float | None) -> None:
    with pytest.raises(ValueError, match="PASS"):
        dataclasses.replace(verdict(Status.PASS), ratio=ratio)


@pytest.mark.parametrize("status", [Status.XFAIL, Status.XPASS])
def test_an_expected_outcome_without_its_expectation_cannot_be_made(status: Status) -> None:
    with pytest.raises(ValueError, match="expectation"):
        dataclasses.replace(verdict(status), expectation=None)


def row(*statuses: Status) -> tuple[Status, str]:
    """Status and worst cell of the summary of one artifact."""
    (found,) = summarise([verdict(s, cell(f"r{n}")) for n, s in enumerate(statuses)])
    return found.status, found.worst_cell.rsplit("/", 1)[1]


def test_a_summary_shows_the_gravest_status_wherever_it_stands() -> None:
    assert row(Status.PASS, Status.UNAVAILABLE, Status.MEANING) == (Status.MEANING, "r2")
    assert row(Status.MISSING, Status.XPASS) == (Status.XPASS, "r1")
    assert row(Status.ARITHMETIC, Status.MEANING, Status.MEANING) == (Status.MEANING, "r1")
    assert row(Status.XFAIL, Status.SKIP) == (Status.SKIP, "r1")
    assert row(Status.PASS, Status.XFAIL, Status.PASS) == (Status.XFAIL, "r1")
    assert row(Status.PASS, Status.PASS) == (Status.PASS, "r0")


def test_severity_orders_every_status_that_is_not_green_and_faults_before_missing_evidence() -> None:
    assert sorted(SEVERITY) == sorted(set(Status) - GREEN_STATUSES)
    assert set(SEVERITY[-len(NO_EVIDENCE) :]) == NO_EVIDENCE


@pytest.mark.parametrize("status", Status)
def test_a_summary_is_green_only_where_every_verdict_is(status: Status) -> None:
    (found,) = summarise([verdict(Status.PASS), verdict(status, cell("tiny"))])
    assert found.green == (2 if status in (Status.PASS, Status.XFAIL) else 1)
    assert (found.status is Status.PASS) == (status is Status.PASS)
    assert found.cells == sum(found.statuses.values()) == 2


def test_a_summary_shows_the_worst_ratio_of_each_question() -> None:
    def measured(question: Question, ratio: float, name: str) -> Verdict:
        status = Status.PASS if ratio <= 1 else Status.ARITHMETIC
        return dataclasses.replace(verdict(status, cell(name), question), ratio=ratio)

    verdicts = [
        measured("arithmetic", 0.2, "a"),
        measured("arithmetic", 7.0, "b"),
        measured("meaning", 0.3, "c"),
        measured("oracle", 0.4, "d"),
    ]
    (found,) = summarise(verdicts)
    assert (found.meaning_ratio, found.arithmetic_ratio, found.property_ratio) == (0.4, 7.0, None)
    (lost,) = summarise([*verdicts, measured("arithmetic", math.nan, "e")])
    assert lost.arithmetic_ratio is not None and math.isnan(lost.arithmetic_ratio)


def test_a_summary_has_a_row_for_every_artifact_in_order() -> None:
    other = ArtifactKey("subject", "dynamo", 18, "float32")
    verdicts = [verdict(Status.PASS, cell(key=k)) for k in (other, KEY)]
    assert [s.artifact for s in summarise(verdicts)] == [other, KEY]
    assert summarise([]) == ()
