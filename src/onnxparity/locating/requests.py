"""What the two workers are asked for when a red cell is led back to its cause, and what they answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from onnxparity.case import Subject
from onnxparity.judging.examining import ExamineRequest
from onnxparity.location import Node
from onnxparity.outcome import Verdict
from onnxparity.planning.grid import Point
from onnxparity.protocols import Array, Feeds

__all__ = ["Constant", "LocateRequest", "TraceRequest", "Traced", "TracedValue"]


@dataclass(frozen=True)
class Constant:
    """A number that one side computes with: an attribute, a scalar initializer, a Python number."""

    node: Node
    """The node or call that uses it."""
    name: str
    """Such as `epsilon`, or the name of an initializer."""
    value: float


@dataclass(frozen=True)
class TracedValue:
    """One value of one side, as far as it is needed to find it again."""

    node: Node
    """Operator `parameter` for a weight, `output` for an output of the model, `input` for an input."""
    output: str
    shape: tuple[int, ...]
    signature: Array
    """See `locating.signature`."""
    spread: float = 0.0
    """How far the signature moves when the constants that only this side has are rounded differently."""


@dataclass(frozen=True)
class Traced:
    """Everything one side computes on one set of feeds, in the order of evaluation; weights and inputs first."""

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
