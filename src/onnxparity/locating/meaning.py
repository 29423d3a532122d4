"""Where the meaning changes: the first node of the candidate whose result the reference does not compute.

Both sides are evaluated in float64 on the inputs that failed and reduced to signatures; no names have to agree. From
the failing output the walk goes back through what the reference does not have (see `region`). Of the nodes where it
ends, the first in order of evaluation is at fault: its own meaning, or that of a node which the reference has before
it and the candidate has not.

Memory: both sides' values are reduced one by one (see `signature`); beside the evaluation itself nothing is held but
`signature.NUMBERS` and 128 floats an axis for each value.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from onnxparity.errors import OnnxParityError
from onnxparity.judging.examining import Bench
from onnxparity.locating.choosing import Choice, choose
from onnxparity.locating.counterpart import Counterpart, Finder
from onnxparity.locating.differences import (
    numbers_that_differ,
    table_that_differs,
    title,
    value_text,
)
from onnxparity.locating.matching import FLOORS, Matcher
from onnxparity.locating.region import Region, Walk, data_inputs
from onnxparity.locating.reproducing_meaning import reproduce_meaning
from onnxparity.locating.requests import LocateRequest
from onnxparity.locating.sides import Exhaustive, Side, Value, given, side_of
from onnxparity.locating.unknown import unknown
from onnxparity.location import Location, Node, Origin, TensorStatistics
from onnxparity.numerics.budget import MEANING_FLOOR, allowance, vector_error
from onnxparity.planning.grid import Point
from onnxparity.protocols import Outputs

__all__ = ["Found", "locate_meaning", "locate_sides"]


@dataclass(frozen=True)
class Found:
    """The node at fault, and what is known of it."""

    node: Node
    region: Region
    origin: Origin
    message: str
    evidence: tuple[str, ...]
    statistics: tuple[TensorStatistics, ...]


def locate_meaning(bench: Bench, request: LocateRequest) -> Location:
    """The first node at fault of a cell whose meaning differs, by the files or the module that it was judged with.

    Raises OnnxParityError where a side cannot be evaluated again.
    """
    verdict = request.verdict
    feeds = bench.feeds(Point(verdict.cell.shape, verdict.cell.regime))
    if verdict.cell.regime in bench.request.expected:
        return unknown(request, "the reference is given as outputs only, so that nothing on the way can be compared")
    session = bench.exact()
    if not isinstance(session, Exhaustive):
        return unknown(request, f"{type(session).__name__} does not show what it computes on the way")
    reference = _reference(bench, request, session)
    if reference is None:
        return unknown(request, "there is no reference whose values could be compared")
    shared = _shared(bench, session)
    candidate = side_of(session, feeds, shared=shared)
    failing = tuple(m.output for m in verdict.outputs if not m.ratio <= 1) or tuple(candidate.outputs)
    found = locate_sides(candidate, reference, failing)
    if isinstance(found, str):
        return replace(unknown(request, found), nodes=len(candidate.nodes))
    return Location(
        cell=verdict.cell,
        status=verdict.status,
        message=found.message,
        origin=found.origin,
        node=found.node,
        region=len(found.region.nodes),
        nodes=len(candidate.nodes),
        smallest_shape=verdict.cell.shape,
        evidence=(*found.evidence, *_share(bench, request)),
        statistics=found.statistics,
        reproduction=_reproduced(bench, request, found),
        explains=(verdict.cell.id,),
    )


def _reproduced(bench: Bench, request: LocateRequest, found: Found) -> str:
    """Its folder; empty where none could be written."""
    what = f"{request.verdict.cell.id}: {found.message}"
    try:
        return reproduce_meaning(bench, request, found.region.nodes, what=what)
    except Exception:  # the boundary: a reproduction that fails must not cost the location
        return ""


def locate_sides(candidate: Side, reference: Side, failing: Sequence[str]) -> Found | str:
    """The node at fault; a sentence where none can be named."""
    strange = sorted(set(candidate.outputs) ^ set(reference.outputs))
    if strange:
        return f"outputs {', '.join(strange)} stand on one side only, so that nothing says what they should be"
    for floor in FLOORS:
        matcher = Matcher(reference, floor)
        bad = [n for n in failing if not matcher.same(candidate.outputs[n], reference.outputs[n])]
        walk = Walk(candidate, matcher)
        region = walk.region(bad)
        if region.nodes:
            return _found(choose(walk, region, reference), walk, region, reference, bad)
    if all(name not in walk.makers for name in failing):
        return "the outputs are inputs or constants that no node computes"
    return "the sides differ by less than can be followed from value to value on these inputs"


def _found(choice: Choice, walk: Walk, region: Region, reference: Side, bad: Sequence[str]) -> Found:
    """What is known of the node at fault."""
    node = choice.node
    candidate, matcher = walk.candidate, walk.matcher
    finder = Finder(reference, matcher)
    counterpart = finder.of(candidate, node)
    missing: tuple[Node, ...] = ()
    choice = _of_another_output(choice, walk, reference, bad)
    passed = [candidate.by_name[n] for n in node.outputs if n in bad and matcher.find(candidate.by_name[n])]
    if passed:  # the output is what the reference has on its way to its own
        counterpart = finder.after(matcher.find(passed[0]).same[0])
    if counterpart is not None:
        missing = (counterpart.node,) if passed else counterpart.missing
    lines = _evidence(node, walk, region, finder, counterpart, missing)
    lines = (choice.why, *lines) if choice.why else lines
    missing = () if choice.why else missing
    origin: Origin = "missing" if missing else "injected"
    if missing:
        what = (
            f"{_named(missing)} of the reference is missing before it"
            if not passed
            else (f"the reference goes on from there with {_named(missing)}")
        )
    else:
        what = lines[0] if lines else "the reference does not compute its result"
    place = f" in {node.module}" if node.module else ""
    source = f" ({node.source})" if node.source else ""
    message = f"{node.operator} {node.name or node.outputs[0]}{place}{source}: {what}"
    return Found(node, region, origin, message, lines, _statistics(node, candidate, counterpart))


def _of_another_output(choice: Choice, walk: Walk, reference: Side, bad: Sequence[str]) -> Choice:
    """The choice, told where its result is an output that the reference gives under another name."""
    for name in set(choice.node.outputs) & set(bad):
        for other, value in reference.outputs.items():
            if other != name and walk.matcher.same(walk.candidate.outputs[name], value):
                return Choice(choice.node, f"it gives output {name}, and its result is the reference's output {other}")
    return choice


def _evidence(
    node: Node,
    walk: Walk,
    region: Region,
    finder: Finder,
    counterpart: Counterpart | None,
    missing: Sequence[Node],
) -> tuple[str, ...]:
    """Numbers and tables that differ, what the result is to the reference, and what the reference does there."""
    candidate, matcher, reference = walk.candidate, walk.matcher, finder.reference
    near = {node, *(user for name in node.outputs for user in walk.users[name] if user in region.nodes)}
    there = finder.around(counterpart) if counterpart else set()
    weights = {w.name: w for at in (node, *near) for w in walk.unknown_weights(at)}
    pairs, alone = numbers_that_differ(candidate, reference, near, there)
    lines = [*pairs, *(table_that_differs(w, matcher) for w in weights.values())]
    lines += _relation(node, walk, counterpart)
    if not lines:  # a folded scale is no fault by itself, but where nothing else differs
        lines += [
            f"table {w.name!r} is {factor:.6g} times the reference's {value_text(other)}"
            for w, other, factor in walk.scaled_weights(node)
        ]
    if missing:
        lines.append(f"the reference has before it: {', '.join(map(title, missing))}")
    if counterpart is not None and counterpart.instead and not weights:
        given = ", ".join(map(value_text, counterpart.instead))
        lines.append(f"the reference gives it what the candidate does not: {given}")
    if counterpart is not None:
        lines.append(f"the reference computes there: {title(counterpart.node)}")
    return (*lines, *alone)


def _named(nodes: Sequence[Node]) -> str:
    return ", ".join(f"{n.operator}" + (f" ({n.source})" if n.source else "") for n in nodes)


def _relation(node: Node, walk: Walk, counterpart: Counterpart | None) -> list[str]:
    """Whether the reference has the result in another order, or in another size."""
    result, matcher = walk.candidate.by_name[node.outputs[0]], walk.matcher
    found = matcher.find(result)
    if found.permuted:
        return [f"its result holds the values of the reference's {value_text(found.permuted[0])} in another order"]
    if found:
        return []
    scaled = matcher.scaled(result, counterpart.value if counterpart else None)
    if scaled is not None:
        return [f"its result is {scaled[1]:.6g} times the reference's {value_text(scaled[0])}"]
    return []


def _statistics(node: Node, candidate: Side, counterpart: Counterpart | None) -> tuple[TensorStatistics, ...]:
    inputs = [candidate.by_name[n] for n in data_inputs(node) if n in candidate.by_name]
    rows = [_row(v, "input") for v in dict.fromkeys(inputs)]
    rows += [_row(candidate.by_name[n], "got") for n in node.outputs]
    return (*rows, *((_row(counterpart.value, "want"),) if counterpart else ()))


def _row(value: Value, side: Literal["got", "want", "input"]) -> TensorStatistics:
    found = value.signature
    total, squares, largest, smallest = found.plain
    count = found.size - found.lost
    known = count > 0
    return TensorStatistics(
        name=value.name,
        shape=value.shape,
        dtype="float64",
        side=side,
        smallest=smallest if known else None,
        largest=largest if known else None,
        mean=total / count if known else None,
        rms=float(np.sqrt(squares / count)) if known else None,
        nonfinite=int(found.lost),
    )


def _reference(bench: Bench, request: LocateRequest, session: Exhaustive) -> Side | None:
    """The module as it was traced, or the reference file."""
    if request.traced is not None:
        side = given(request.traced)
        return replace(side, outputs=bench.rename(side.outputs))
    if bench.request.against is None:
        return None
    other = bench.exact(bench.request.against)
    if not isinstance(other, Exhaustive):
        return None
    verdict = request.verdict
    feeds = bench.unrename_feeds(bench.feeds(Point(verdict.cell.shape, verdict.cell.regime)))
    side = side_of(other, feeds, shared=session.fingerprints() & other.fingerprints())
    return replace(side, outputs=bench.rename(side.outputs))


def _shared(bench: Bench, session: Exhaustive) -> frozenset[str]:
    """Fingerprints of the constants that both sides hold."""
    request = bench.request
    if request.against is not None:
        return session.fingerprints() & bench.exact(request.against).fingerprints()
    if request.references is None:
        return frozenset()
    return session.fingerprints() & request.references.fingerprints[bench.reference_dtype()]


def _share(bench: Bench, request: LocateRequest) -> tuple[str, ...]:
    """How many vectors of each failing output are out of budget."""
    point = Point(request.verdict.cell.shape, request.verdict.cell.regime)
    try:
        feeds = bench.feeds(point)
        got, want, noise = bench.exact_run(feeds), _want(bench, point), bench.explained(feeds)
    except OnnxParityError:  # evidence only: the location stands without it
        return ()
    lines = []
    for name, exact in want.items():
        if name in got and got[name].shape == exact.shape and exact.dtype.kind == "f" and exact.size:
            with np.errstate(invalid="ignore"):
                apart = np.where(got[name] == exact, 0.0, got[name] - exact)
            wrong = ~(vector_error(apart, exact) <= allowance(noise[name], MEANING_FLOOR))
            if wrong.any():
                lines.append(f"{np.count_nonzero(wrong)} of {wrong.size} vectors of {name} are out of budget")
    return tuple(lines)


def _want(bench: Bench, point: Point) -> Outputs:
    """The reference's outputs under the artifact's names."""
    request = bench.request
    if request.against is not None:
        return bench.rename(bench.exact_run(bench.unrename_feeds(bench.feeds(point)), request.against))
    assert request.references is not None
    return bench.rename(request.references.want(bench.reference_dtype(), point))
