"""Which of several nodes where the walk ends is the one at fault."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain

from onnxparity.locating.counterpart import VIEWS, kind
from onnxparity.locating.differences import size_text
from onnxparity.locating.region import Region, Walk, data_inputs
from onnxparity.locating.sides import Side
from onnxparity.locating.signature import long_dims
from onnxparity.location import Node

__all__ = ["Choice", "choose"]

RESHAPES = ("Flatten", "Reshape", "Squeeze", "Unsqueeze")
SCALES = ("div", "mul")
NEAR = 2
"""Nodes after a source within which a weight that the reference does not hold is the better explanation."""


@dataclass(frozen=True)
class Choice:
    """The node at fault."""

    node: Node
    why: str = ""
    """Why it and not the place where the walk ends; empty where it is that place."""


def choose(walk: Walk, region: Region, reference: Side) -> Choice:
    """The node at fault.

    The first node, at or just after a place where the walk ends, that takes a weight which the reference does not
    hold; else the first place where the walk ends. Where that one is given the right values along the wrong axes, the
    node that turned them; where it is given what the reference computes in another module than the candidate, the
    node that computes it: two projections have been exchanged.
    """
    inside = set(region.nodes)
    near, frontier = list(region.sources), list(region.sources)
    for _ in range(NEAR):
        frontier = [u for n in frontier for name in n.outputs for u in walk.users[name] if u in inside]
        near += frontier
    spoiled = [node for node in region.nodes if node in set(near) and walk.unknown_weights(node)]
    if spoiled:
        return Choice(spoiled[0])
    first = (region.sources or region.nodes)[0]
    return next(chain(_turned(walk, first), _misplaced(walk, first), _exchanged(walk, first, reference)), Choice(first))


def _turned(walk: Walk, node: Node) -> Iterator[Choice]:
    """The transpose before a reshape whose result is in another order, since a reshape keeps the order."""
    if node.operator in RESHAPES and walk.matcher.find(walk.candidate.by_name[node.outputs[0]]).permuted:
        maker = walk.makers.get(node.inputs[0])
        if maker is not None and maker.operator == "Transpose":
            yield Choice(maker, f"it leaves {node.operator} {node.name} with the right values in the wrong order")


def _misplaced(walk: Walk, node: Node) -> Iterator[Choice]:
    """What turns the right values along the wrong axes on their way to `node`: a mask of (B, 1, T, 1) for
    (B, 1, 1, T)."""
    turned = next((n for n in data_inputs(node) if _is_misplaced(walk, n)), None)
    while turned is not None:
        maker = walk.makers[turned]
        turned = next((n for n in data_inputs(maker) if _is_misplaced(walk, n)), None)
        if turned is None:
            value = walk.candidate.by_name[maker.outputs[0]]
            shapes = {v.shape for v in walk.matcher.find(value).same if len(v.shape) == len(value.shape)}
            theirs = " or ".join(sorted(map(size_text, shapes)))
            yield Choice(maker, f"it gives {size_text(value.shape)} values that the reference has as {theirs}")


def _is_misplaced(walk: Walk, name: str) -> bool:
    """Whether the reference has the values with as many axes, and never with these."""
    value = walk.candidate.by_name.get(name)
    if name not in walk.makers or value is None or value.signature.size <= 1:
        return False
    held = [v.shape for v in walk.matcher.find(value).same if long_dims(v.shape) == long_dims(value.shape)]
    return value.shape not in held and any(len(shape) == len(value.shape) for shape in held)


def _exchanged(walk: Walk, node: Node, reference: Side) -> Iterator[Choice]:
    """Nodes that give `node` what the reference computes in another module, in order of evaluation."""
    modules = {v.node.module for v in reference.values if v.computed}
    makers = [walk.makers[name] for name in data_inputs(node) if name in walk.makers]
    for maker in sorted(filter(None, (_through_views(walk, m) for m in makers)), key=walk.order):
        held = walk.matcher.find(walk.candidate.by_name[maker.outputs[0]]).same
        theirs = {v.node.module for v in held if v.computed}
        if maker.module in modules and theirs and all(_apart(maker.module, other) for other in theirs):
            yield Choice(maker, f"its result is what the reference computes in {sorted(theirs)[0]}")


def _through_views(walk: Walk, node: Node) -> Node | None:
    """The node behind those that only hand values on or scale them; None where that is an input or a weight."""
    while True:
        large = [n for n in data_inputs(node) if n in walk.candidate.by_name]
        large = [n for n in large if walk.candidate.by_name[n].signature.size > 1]
        if kind(node) not in VIEWS and (kind(node) not in SCALES or len(large) != 1):
            return node
        if not large or large[0] not in walk.makers:
            return None
        node = walk.makers[large[0]]


def _apart(module: str, other: str) -> bool:
    """Whether neither is inside the other."""
    return not f"{module}.".startswith(f"{other}.") and not f"{other}.".startswith(f"{module}.") and bool(other)
