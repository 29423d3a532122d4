"""One side of a comparison of meaning: everything it computes on one set of feeds, reduced to signatures.

Memory: values are reduced as they come and dropped; see `signature` for what is kept of each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Protocol, runtime_checkable

from onnxparity.locating.requests import Constant, Traced, TracedValue
from onnxparity.locating.signature import Signature, distance, signature
from onnxparity.location import Node
from onnxparity.protocols import Array, Feeds, Outputs, TracingSession, Visit

__all__ = ["INPUT", "OUTPUT", "PARAMETER", "Exhaustive", "Side", "Value", "given", "side_of", "traced"]

INPUT, PARAMETER, OUTPUT = "input", "parameter", "output"
"""Operators of values that no node computes."""
Leaf = tuple[str, str, Array, float]
"""Operator (`input` or `parameter`), name, value and spread of what no node computes."""
Number = tuple[Node | None, str, Array, float]
"""See `Exhaustive.numbers`."""
MOVES = 2
"""Evaluations with other roundings of the constants that only one side has."""


@runtime_checkable
class Exhaustive(TracingSession, Protocol):
    """A float64 evaluation of a file that shows everything it computes with."""

    def fingerprints(self) -> frozenset[str]:
        """See `protocols.ExactSession`."""
        ...

    def trace_moved(self, feeds: Feeds, visit: Visit, *, shared: frozenset[str], seed: int) -> Outputs:
        """As `trace`, where the constants whose fingerprint is not in `shared` move by their own roundoff."""
        ...

    def numbers(self) -> Iterator[Number]:
        """Node, name, value and unit roundoff of each floating attribute; without a node, each initializer."""
        ...


@dataclass(frozen=True, eq=False)
class Value:
    """One value of one side."""

    place: int
    """In the order of evaluation."""
    node: Node
    name: str
    shape: tuple[int, ...]
    signature: Signature
    spread: float

    @property
    def computed(self) -> bool:
        """Whether a node gives it, so that it is no input, weight or second name of an output."""
        return self.node.operator not in (INPUT, PARAMETER, OUTPUT)


@dataclass(frozen=True)
class Side:
    """Everything one side computes."""

    values: tuple[Value, ...]
    """Inputs and weights, then results in the order of evaluation, then the outputs under their own names."""
    constants: tuple[Constant, ...]
    outputs: dict[str, Value] = field(default_factory=dict)

    @cached_property
    def by_name(self) -> dict[str, Value]:
        """Values that others are computed from, the first of each name."""
        return {v.name: v for v in reversed(self.values) if v.node.operator != OUTPUT}

    @cached_property
    def nodes(self) -> tuple[Node, ...]:
        """In the order of evaluation, each once."""
        return tuple(dict.fromkeys(v.node for v in self.values if v.computed))


def traced(
    trace: Callable[[Visit], Outputs],
    leaves: Iterable[tuple[str, str, Array, float]],
    constants: Sequence[Constant] = (),
) -> Traced:
    """Reduces an evaluation to signatures as it goes.

    leaves: operator (`input` or `parameter`), name, value and spread of what no node computes.
    """
    values = [_value(Node(kind, name, (), (name,)), name, value, spread) for kind, name, value, spread in leaves]

    def visit(node: Node, results: Sequence[Array]) -> None:
        values.extend(_value(node, name, value) for name, value in zip(node.outputs, results, strict=True))

    outputs = trace(visit)
    values.extend(_value(Node(OUTPUT, name, (), (name,)), name, value) for name, value in outputs.items())
    return Traced(tuple(values), ())


def side_of(session: Exhaustive, feeds: Feeds, *, shared: frozenset[str]) -> Side:
    """A file's side. shared: fingerprints of the constants that the other side holds too. Raises as `run`."""
    inputs = [(INPUT, name, value, 0.0) for name, value in feeds.items()]
    numbers = list(session.numbers())
    weights = [(PARAMETER, name, value, roundoff) for node, name, value, roundoff in numbers if node is None]
    exact = traced(partial(session.trace, feeds), [*inputs, *weights])
    spreads = [0.0] * len(exact.values)
    start = len(inputs) + len(weights)
    for seed in range(MOVES):
        moved = traced(partial(session.trace_moved, feeds, shared=shared, seed=seed), ())
        for k, (was, now) in enumerate(zip(exact.values[start:], moved.values, strict=True), start):
            spreads[k] = max(spreads[k], _moved(was, now))
    spreads[:start] = [v.spread for v in exact.values[:start]]
    values = tuple(replace(v, spread=spread) for v, spread in zip(exact.values, spreads, strict=True))
    return given(Traced(values, (*_attributes(numbers), *_scalars(exact.values, numbers))))


def given(all_of_it: Traced) -> Side:
    """A side from what was traced of it, perhaps by another process."""
    values = tuple(
        Value(k, v.node, v.output, v.shape, Signature.of(v.signature, v.shape), v.spread)
        for k, v in enumerate(all_of_it.values)
    )
    return Side(values, all_of_it.constants, {v.name: v for v in values if v.node.operator == OUTPUT})


def _value(node: Node, name: str, value: Array, spread: float = 0.0) -> TracedValue:
    return TracedValue(node, name, tuple(int(n) for n in value.shape), signature(value), spread)


def _moved(was: TracedValue, now: TracedValue) -> float:
    found = distance(Signature.of(now.signature, now.shape), Signature.of(was.signature, was.shape))
    return max(found.content, found.order)


def _attributes(numbers: Iterable[Number]) -> Iterator[Constant]:
    for node, name, value, _ in numbers:
        if node is not None and value.size == 1:
            yield Constant(node, name, float(value.reshape(-1)[0]))


def _scalars(values: Sequence[TracedValue], numbers: Iterable[Number]) -> Iterator[Constant]:
    """Scalar initializers, with each node that takes them."""
    scalars = {
        name: float(value.reshape(-1)[0])
        for node, name, value, roundoff in numbers
        if node is None and value.size == 1 and roundoff
    }
    for node in dict.fromkeys(v.node for v in values):
        yield from (Constant(node, name, scalars[name]) for name in node.inputs if name in scalars)
