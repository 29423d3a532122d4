"""The JSON Schema of the document says what the dataclasses say, and refuses what they would not write."""

from __future__ import annotations

import copy
import dataclasses
import json
import typing
from importlib.resources import files
from types import ModuleType
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from onnxparity import case, location, outcome
from onnxparity.artifact import Artifact, FileInput
from onnxparity.case import Axis, OutputSpec, Subject, TensorSpec
from onnxparity.location import Location, Node, TensorStatistics
from onnxparity.outcome import Expectation, OutputMetrics, Status, Verdict, Worst
from onnxparity.plan import ArtifactKey, Cell
from onnxparity.protocols import Availability, Placement
from onnxparity.record import SCHEMA, ArtifactSummary, Latency, Report

Json = Any  # Any: JSON values
CLASSES: dict[str, type[Any]] = {  # Any: dataclasses have no common base
    "artifact": Artifact,
    "artifactKey": ArtifactKey,
    "availability": Availability,
    "axis": Axis,
    "cell": Cell,
    "expectation": Expectation,
    "fileInput": FileInput,
    "latency": Latency,
    "location": Location,
    "metrics": OutputMetrics,
    "node": Node,
    "output": OutputSpec,
    "placement": Placement,
    "statistics": TensorStatistics,
    "subject": Subject,
    "summary": ArtifactSummary,
    "tensor": TensorSpec,
    "verdict": Verdict,
    "worst": Worst,
}


@pytest.fixture(scope="module")
def schema() -> Json:
    return json.loads(files("onnxparity.reports").joinpath("schema.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def document(full: Report) -> Json:
    return json.loads(json.dumps(full.to_json(), allow_nan=False))


def problems(schema: Json, document: Json) -> list[str]:
    return [f"{e.json_path}: {e.message}" for e in Draft202012Validator(schema).iter_errors(document)]


def test_the_schema_is_a_schema(schema: Json) -> None:
    Draft202012Validator.check_schema(schema)


@pytest.mark.parametrize("name", ["full", "green", "incomplete", "empty"])
def test_every_report_fits(schema: Json, sample: ModuleType, name: str) -> None:
    document = json.loads(json.dumps(getattr(sample, name)().to_json(), allow_nan=False))
    assert problems(schema, document) == []


def test_the_schema_names_its_own_version(schema: Json) -> None:
    assert schema["properties"]["schema"] == {"const": SCHEMA}


@pytest.mark.parametrize("name", sorted(CLASSES))
def test_properties_are_the_fields_of_the_dataclass(schema: Json, name: str) -> None:
    definition = schema["$defs"][name]
    fields = {f.name for f in dataclasses.fields(CLASSES[name])}
    extra = {"id"} if name == "verdict" else set()
    assert set(definition["properties"]) == fields | extra
    assert set(definition["required"]) == set(definition["properties"])


def test_the_document_has_the_fields_of_the_report(schema: Json) -> None:
    fields = {f.name for f in dataclasses.fields(Report)}
    assert set(schema["properties"]) == fields | {"schema", "counts"}
    assert set(schema["required"]) == set(schema["properties"])


def test_every_object_with_properties_is_closed(schema: Json) -> None:
    objects = [schema, *schema["$defs"].values()]
    described = [o for o in objects if o.get("type") == "object"]
    assert len(described) == 1 + len(CLASSES)
    assert all(o["additionalProperties"] is False for o in described)


@pytest.mark.parametrize(
    ("place", "kinds"),
    [
        (("status",), [str(s) for s in Status]),
        (("question",), list(typing.get_args(outcome.Question))),
        (("axis", "role"), list(typing.get_args(case.AxisRole))),
        (("tensor", "role"), list(typing.get_args(case.Role))),
        (("tensor", "mask_meaning"), [*typing.get_args(case.MaskMeaning), None]),
        (("output", "role"), list(typing.get_args(case.OutputRole))),
        (("subject", "kind"), ["catalogue", "factory", "onnx"]),
        (("location", "origin"), list(typing.get_args(location.Origin))),
        (("statistics", "side"), ["got", "want", "input"]),
    ],
)
def test_enumerations_are_those_of_the_code(schema: Json, place: tuple[str, ...], kinds: list[str | None]) -> None:
    definition = schema["$defs"][place[0]]
    for name in place[1:]:
        definition = definition["properties"][name]
    assert definition["enum"] == kinds


BREAKAGES: dict[str, tuple[list[str | int], Json]] = {
    "another schema": (["schema"], "onnxparity-report/2"),
    "an unknown status": (["verdicts", 0, "status"], "OK"),
    "a pass with a ratio above one": (["verdicts", 0, "ratio"], 1.5),
    "a pass with NaN": (["verdicts", 0, "ratio"], "NaN"),
    "a pass without a ratio": (["verdicts", 0, "ratio"], None),
    "a number as another text": (["verdicts", 0, "ratio"], "nan"),
    "a claim to conform with failures": (["conforms"], True),
    "a conclusion that is empty": (["conclusion"], ""),
    "a failure with exit code 0": (["exit_code"], 0),
    "a short hash": (["artifacts", 0, "sha256"], "abc"),
    "an unavailable runtime without a reason": (["runtimes", 3, "reason"], ""),
    "negative time": (["latency", 0, "samples_ms", 0], -1.0),
    "a missing field": (["verdicts", 0, "seconds"], ...),
    "a new field": (["verdicts", 0, "cell", "stream"], 1),
    "a new field at the top": (["notes"], []),
}


@pytest.mark.parametrize("name", BREAKAGES)
def test_a_broken_document_is_refused(schema: Json, document: Json, name: str) -> None:
    path, value = BREAKAGES[name]
    broken = copy.deepcopy(document)
    target = broken
    for step in path[:-1]:
        target = target[step]
    if value is ...:
        del target[path[-1]]
    else:
        target[path[-1]] = value
    assert problems(schema, broken)


def test_an_expected_failure_without_its_expectation_is_refused(schema: Json, document: Json) -> None:
    broken = copy.deepcopy(document)
    next(v for v in broken["verdicts"] if v["status"] == "XFAIL")["expectation"] = None
    assert problems(schema, broken)


def test_an_empty_report_that_claims_to_conform_is_refused(schema: Json, empty: Report) -> None:
    claim = dataclasses.replace(empty, conforms=True, exit_code=0)
    assert problems(schema, json.loads(json.dumps(claim.to_json())))
