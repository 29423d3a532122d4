"""What the two workers are asked for when a red cell is led back to its cause, and what they answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from onnxparity.case import Subject
from onnxparity.examining import ExamineRequest
from onnxparity.grid import Point
from onnxparity.location import Node
from onnxparity.outcome import Verdict
from onnxparity.protocols import Array, Feeds

__all__ = ["Constant", "LocateRequest", "TraceRequest", "Traced", "TracedValue"]


@dataclass(frozen=True)
class Constant:
    """A number or table that one side computes with."""

    owner: str
    """Where it stands: `LayerNormalization 'node_3' attribute epsilon`, `parameter norm.weight`."""
    fingerprint: str
    """Of its content, see `protocols.ExactSession.fingerprints`."""
    text: str
    """Its value for a person: `1e-05`, or shape and range of a table."""
    value: float | None
    """The number, where it is a single one."""


@dataclass(frozen=True)
class TracedValue:
    """One value on the reference's side, as far as it is needed to find it again."""

    node: Node
    output: str
    shape: tuple[int, ...]
    signature: Array
    """See `locating.signature`."""


@dataclass(frozen=True)
class Traced:
    """Everything the reference computes on one set of feeds."""

    values: tuple[TracedValue, ...]
    constants: tuple[Constant, ...]


@dataclass(frozen=True)
class TraceRequest:
    """The job `trace`, for the worker with torch: yields one `Traced` of the module in float64."""

    subject: Subject
    dtype: str
    """Of the weights and feeds, see `examining.Bench.reference_dtype`."""
    point: Point
    directory: str
    examples: Mapping[str, Feeds] = field(default_factory=dict)


@dataclass(frozen=True)
class LocateRequest:
    """The job `locate`, for the worker without torch: yields one `location.Location`."""

    examine: ExamineRequest
    """As the cell was judged; its own `cells` are not used."""
    verdict: Verdict
    """The red verdict that is walked; its cell is at the smallest shape that fails."""
    traced: Traced | None
    """The module's side where the reference is a module and the question is meaning; None for a file,
    which the worker traces itself, and where there is no reference."""
    folder: str
    """Where the minimal reproduction is written."""
