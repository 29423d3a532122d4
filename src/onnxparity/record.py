"""The report as data: one versioned JSON document is the truth, every rendering shows only what is in it."""

from __future__ import annotations

import dataclasses
import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from onnxparity.artifact import Artifact, FileInput
from onnxparity.case import Axis, OutputSpec, Subject, TensorSpec
from onnxparity.errors import UsageError
from onnxparity.gate import CONFORMS, DOES_NOT, INCOMPLETE, conclude
from onnxparity.location import Location, Node, TensorStatistics
from onnxparity.outcome import GREEN, SEVERITY, Expectation, OutputMetrics, Status, Verdict, Worst
from onnxparity.plan import ArtifactKey, Cell
from onnxparity.protocols import Availability, Placement

__all__ = ["SCHEMA", "ArtifactSummary", "Latency", "Report", "summarise", "verdict_from_json", "verdict_to_json"]

SCHEMA = "onnxparity-report/1"
PLAIN_FIELDS: Mapping[str, type] = {
    "tool_version": str,
    "command": str,
    "created": str,
    "environment": dict,
    "conforms": bool,
    "exit_code": int,
    "conclusion": str,
}


@dataclass(frozen=True)
class Latency:
    """One timed series. Shown as a number only where the same artifact and runtime conform."""

    artifact: ArtifactKey
    runtime: str
    shape: str
    samples_ms: tuple[float, ...]
    """Raw samples in the order they were taken; empty where the cell did not conform and was not timed."""
    p50_ms: float | None
    p90_ms: float | None
    p99_ms: float | None
    warmup_runs: int
    turns: int
    """Number of interleaved blocks the samples were taken in."""
    threads: int | None
    """Threads inside one operator; None where the runtime does not say."""
    conforms: bool
    note: str = ""
    """Why there is no number, or what to know about it."""


@dataclass(frozen=True)
class ArtifactSummary:
    """One row of the verdict table: everything that was found for one artifact."""

    artifact: ArtifactKey
    status: Status
    """PASS, XFAIL where only expected failures remain, or the first red status by severity."""
    cells: int
    green: int
    statuses: Mapping[str, int]
    meaning_ratio: float | None
    """Worst error/budget over the cells that ask each question; None where none was measured."""
    arithmetic_ratio: float | None
    property_ratio: float | None
    worst_cell: str
    """Id of the first cell that is not green, else of the one nearest to its limit."""
    message: str
    """That cell's message."""


@dataclass(frozen=True)
class Report:
    """Everything one run found."""

    tool_version: str
    command: str
    created: str
    """ISO 8601, UTC."""
    seconds: float
    environment: Mapping[str, Any]  # Any: JSON values
    subjects: tuple[Subject, ...]
    artifacts: tuple[Artifact, ...]
    runtimes: tuple[Availability, ...]
    placements: Mapping[str, tuple[Placement, ...]]
    """By `artifact id/runtime`, for the runtimes that tell."""
    verdicts: tuple[Verdict, ...]
    """In the order of the plan; one for every planned cell."""
    summary: tuple[ArtifactSummary, ...]
    latency: tuple[Latency, ...]
    conforms: bool
    exit_code: int
    conclusion: str
    """One sentence: what the verdict is and why."""
    locations: tuple[Location, ...] = ()
    """Where the red cells come from, one for each group that fails alike."""
    limits: tuple[str, ...] = ()
    """What this run cannot say, such as anything about CUDA where no device was there."""

    @property
    def counts(self) -> dict[str, int]:
        """Verdicts by status."""
        return dict(Counter(str(v.status) for v in self.verdicts))

    def to_json(self) -> dict[str, Any]:
        """The document, with only JSON types; non-finite numbers as the strings NaN, Infinity, -Infinity."""
        document: dict[str, Any] = {"schema": SCHEMA, "counts": self.counts}
        document |= {f.name: _plain(getattr(self, f.name)) for f in dataclasses.fields(self) if f.name != "verdicts"}
        document["verdicts"] = [verdict_to_json(v) for v in self.verdicts]
        return document

    def write(self, path: Path) -> None:
        """Writes the document; the folder must exist."""
        path.write_text(json.dumps(self.to_json(), allow_nan=False) + "\n", encoding="utf-8")

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Report:
        """The report behind a document. Raises UsageError where it is not one of ours, or greener than its verdicts."""
        if not isinstance(document, Mapping) or document.get("schema") != SCHEMA:
            got = document.get("schema") if isinstance(document, Mapping) else type(document).__name__
            raise UsageError("not an onnxparity report", expected=f'"schema": "{SCHEMA}"', got=repr(got))
        try:
            report = cls(
                **{name: _of(kind, document[name]) for name, kind in PLAIN_FIELDS.items()},
                seconds=float(document["seconds"]),
                subjects=tuple(_subject(s) for s in document["subjects"]),
                artifacts=tuple(_artifact(a) for a in document["artifacts"]),
                runtimes=tuple(Availability(**a) for a in document["runtimes"]),
                placements={k: tuple(Placement(**p) for p in v) for k, v in document["placements"].items()},
                verdicts=tuple(verdict_from_json(v) for v in document["verdicts"]),
                summary=tuple(_summary(s) for s in document["summary"]),
                latency=tuple(_latency(x) for x in document["latency"]),
                locations=tuple(_location(x) for x in document["locations"]),
                limits=_texts(document["limits"]),
            )
            _check_conclusion(report)
            return report
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise UsageError(
                "a damaged onnxparity report",
                expected=f"the fields of {SCHEMA}",
                got=f"{type(error).__name__}: {error}",
                remedy="write the report again with `onnxparity verify --out DIR`",
            ) from error

    @classmethod
    def read(cls, path: Path) -> Report:
        """Raises UsageError for a missing file, for one that is not JSON and for a foreign document."""
        try:
            document = json.loads(path.read_text(encoding="utf-8"))
        except OSError as error:
            raise UsageError(f"cannot read {path}", got=error.strerror or str(error)) from error
        except (UnicodeDecodeError, json.JSONDecodeError) as error:
            raise UsageError(
                f"{path} is not JSON", expected="a report written by `onnxparity verify`", got=str(error)
            ) from error
        return cls.from_json(document)


def _check_conclusion(report: Report) -> None:
    """Raises ValueError where the conclusion cannot be that of the verdicts; it may be stricter than they are."""
    found = conclude(report.verdicts)
    if report.exit_code not in (CONFORMS, DOES_NOT, INCOMPLETE) or report.conforms != (report.exit_code == CONFORMS):
        raise ValueError(f"conforms {report.conforms} with exit code {report.exit_code}")
    if report.conforms and not found.conforms:
        raise ValueError(f"it says that it conforms, and its verdicts say: {found.sentence}")


def summarise(verdicts: Sequence[Verdict]) -> tuple[ArtifactSummary, ...]:
    """One row per artifact, in order of first appearance."""
    groups: dict[ArtifactKey, list[Verdict]] = {}
    for verdict in verdicts:
        groups.setdefault(verdict.cell.artifact, []).append(verdict)
    return tuple(_summary_row(key, group) for key, group in groups.items())


def _summary_row(key: ArtifactKey, group: list[Verdict]) -> ArtifactSummary:
    def worst(*questions: str) -> float | None:
        ratios = [v.ratio for v in group if v.question in questions and v.ratio is not None and v.status in GREEN]
        ratios += [v.ratio for v in group if v.question in questions and v.ratio is not None and v.status not in GREEN]
        return max(ratios, key=lambda r: math.inf if math.isnan(r) else r, default=None)

    red = sorted((v for v in group if v.status not in GREEN), key=lambda v: SEVERITY.index(v.status))
    expected = [v for v in group if v.status is Status.XFAIL]
    measured = [v for v in group if v.ratio is not None]
    shown = red[0] if red else expected[0] if expected else max(measured, key=lambda v: v.ratio or 0.0)
    return ArtifactSummary(
        artifact=key,
        status=shown.status if red or expected else Status.PASS,
        cells=len(group),
        green=len(group) - len(red),
        statuses=dict(Counter(str(v.status) for v in group)),
        meaning_ratio=worst("meaning", "oracle"),
        arithmetic_ratio=worst("arithmetic"),
        property_ratio=worst("property"),
        worst_cell=shown.cell.id,
        message=shown.message,
    )


def verdict_to_json(verdict: Verdict) -> dict[str, Any]:
    """One line of the append-only results file, and one entry of the report."""
    return {"id": verdict.cell.id, **{f.name: _plain(getattr(verdict, f.name)) for f in dataclasses.fields(verdict)}}


def verdict_from_json(document: Mapping[str, Any]) -> Verdict:
    """The inverse of `verdict_to_json`. Raises KeyError, TypeError or ValueError where it is damaged."""
    cell = _cell(document["cell"])
    if document["id"] != cell.id:
        raise ValueError(f"the verdict of {cell.id} calls itself {document['id']}")
    expectation = document["expectation"]
    return Verdict(
        cell=cell,
        status=Status(document["status"]),
        question=document["question"],
        message=document["message"],
        ratio=_number(document["ratio"]),
        outputs=tuple(_metrics(m) for m in document["outputs"]),
        worst=_worst(document["worst"]),
        evidence=_texts(document["evidence"]),
        found=None if document["found"] is None else Status(document["found"]),
        expectation=None
        if expectation is None
        else Expectation(
            **{**expectation, "status": Status(expectation["status"]), "unless": tuple(expectation["unless"])}
        ),
        seconds=_number(document["seconds"]),
        command=document["command"],
    )


def _cell(document: Mapping[str, Any]) -> Cell:
    return Cell(**{**document, "artifact": ArtifactKey(**document["artifact"])})


def _plain(value: Any) -> Any:
    """Only JSON types, and no NaN tokens, which JSON does not have."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: _plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(v) for v in value]
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return str(value) if isinstance(value, Status) else value


def _number(value: Any) -> float | None:
    return None if value is None else float(value)


def _of(kind: type, value: Any) -> Any:  # Any: JSON values
    """The value itself. Raises TypeError for one of another kind, also for a bool where a number is wanted."""
    if type(value) is not kind:
        raise TypeError(f"{value!r} is no {kind.__name__}")
    return value


def _texts(values: Any) -> tuple[str, ...]:  # Any: JSON values
    return tuple(_of(str, value) for value in _of(list, values))


def _metrics(document: Mapping[str, Any]) -> OutputMetrics:
    numbers: dict[str, Any] = {
        k: _number(v) if isinstance(v, str) and k not in ("output", "dtype") else v for k, v in document.items()
    }
    return OutputMetrics(**{**numbers, "shape": tuple(document["shape"])})


def _worst(document: Mapping[str, Any] | None) -> Worst | None:
    if document is None:
        return None
    return Worst(document["output"], tuple(document["index"]), float(document["got"]), float(document["want"]))


def _subject(document: Mapping[str, Any]) -> Subject:
    return Subject(
        **{
            **document,
            "inputs": tuple(TensorSpec(**{**i, "dims": tuple(i["dims"])}) for i in document["inputs"]),
            "outputs": tuple(OutputSpec(**{**o, "dims": tuple(o["dims"])}) for o in document["outputs"]),
            "axes": tuple(Axis(**a) for a in document["axes"]),
            **{name: tuple(document[name]) for name in ("properties", "dtypes")},
        }
    )


def _artifact(document: Mapping[str, Any]) -> Artifact:
    def files(entries: list[dict[str, Any]]) -> tuple[FileInput, ...]:
        return tuple(FileInput(e["name"], e["dtype"], tuple(e["dims"])) for e in entries)

    return Artifact(
        **{
            **document,
            "key": ArtifactKey(**document["key"]),
            "inputs": files(document["inputs"]),
            "outputs": files(document["outputs"]),
            "warnings": _texts(document["warnings"]),
        }
    )


def _summary(document: Mapping[str, Any]) -> ArtifactSummary:
    numbers = {k: _number(document[k]) for k in ("meaning_ratio", "arithmetic_ratio", "property_ratio")}
    key = ArtifactKey(**document["artifact"])
    return ArtifactSummary(**{**document, **numbers, "artifact": key, "status": Status(document["status"])})


def _location(document: Mapping[str, Any]) -> Location:
    return Location(
        **{
            **document,
            "cell": _cell(document["cell"]),
            "status": Status(document["status"]),
            "node": None if document["node"] is None else _node(document["node"]),
            "statistics": tuple(_statistics(s) for s in document["statistics"]),
            **{name: _texts(document[name]) for name in ("evidence", "explains")},
        }
    )


def _node(document: Mapping[str, Any]) -> Node:
    return Node(**{**document, **{name: _texts(document[name]) for name in ("inputs", "outputs")}})


def _statistics(document: Mapping[str, Any]) -> TensorStatistics:
    numbers = {k: _number(document[k]) for k in ("smallest", "largest", "mean", "rms")}
    return TensorStatistics(**{**document, **numbers, "shape": tuple(document["shape"])})


def _latency(document: Mapping[str, Any]) -> Latency:
    numbers = {k: _number(document[k]) for k in ("p50_ms", "p90_ms", "p99_ms")}
    samples = tuple(float(sample) for sample in _of(list, document["samples_ms"]))
    return Latency(**{**document, **numbers, "artifact": ArtifactKey(**document["artifact"]), "samples_ms": samples})
