"""What lies between the last values that both sides compute and the outputs that differ.

The walk goes back from each failing output and stops at values that the reference computes too. It does not follow
what only says how large a tensor is. Where it stops on all sides of a node, that node may be the one at fault.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from onnxparity.locating.matching import Matcher
from onnxparity.locating.sides import PARAMETER, Side, Value
from onnxparity.location import Node

__all__ = ["Region", "Walk"]

SIZES: Mapping[str, tuple[int, ...]] = {
    "CenterCropPad": (1,),
    "ConstantOfShape": (0,),
    "Expand": (1,),
    "Loop": (0,),
    "OneHot": (1,),
    "Pad": (1, 3),
    "Range": (0, 1, 2),
    "ReduceL1": (1,),
    "ReduceL2": (1,),
    "ReduceLogSumExp": (1,),
    "ReduceMax": (1,),
    "ReduceMean": (1,),
    "ReduceMin": (1,),
    "ReduceProd": (1,),
    "ReduceSum": (1,),
    "ReduceSumSquare": (1,),
    "Reshape": (1,),
    "Resize": (1, 2, 3),
    "Slice": (1, 2, 3, 4),
    "Split": (1,),
    "Squeeze": (1,),
    "Tile": (1,),
    "TopK": (1,),
    "Trilu": (1,),
    "Unsqueeze": (1,),
}
"""Inputs that say how large a result is or which part is taken, by place."""
ASKS_SIZE = frozenset({"Shape", "Size"})
TELLS = frozenset(
    {"Add", "Concat", "Conv", "Div", "Exp", "Expand", "Flatten", "Gemm", "Log", "MatMul", "Mul",
     "Reshape", "Sqrt", "Squeeze", "Sub", "Tanh", "Transpose", "Unsqueeze"}
)  # fmt: skip
"""Operators whose result is wrong where what they are given is: they select nothing, and no sign or size is lost."""


@dataclass(frozen=True)
class Region:
    """The nodes that compute something the reference does not, between what both have and the failing outputs."""

    nodes: tuple[Node, ...]
    """In order of evaluation."""
    sources: tuple[Node, ...]
    """Those of them that are given nothing but what the reference has too, or what nothing computes."""


class Walk:
    """Walks one candidate back."""

    def __init__(self, candidate: Side, matcher: Matcher) -> None:
        self.candidate, self.matcher = candidate, matcher
        self.makers = {name: node for node in candidate.nodes for name in node.outputs}
        self.users: dict[str, list[Node]] = defaultdict(list)
        for node in candidate.nodes:
            for name in data_inputs(node):
                self.users[name].append(node)
        self._order = {node: place for place, node in enumerate(candidate.nodes)}
        self.fed = self._fed()

    def order(self, node: Node) -> int:
        """Its place in the order of evaluation."""
        return self._order[node]

    def region(self, outputs: Iterable[str]) -> Region:
        """From these outputs back, whatever the reference has of them."""
        found: set[Node] = set()
        todo = [self.makers[name] for name in outputs if name in self.makers]
        while todo:
            node = todo.pop()
            if node in found:
                continue
            found.add(node)
            todo += [self.makers[name] for name in self.open_inputs(node)]
        ordered = tuple(node for node in self.candidate.nodes if node in found)
        sources = tuple(node for node in ordered if not any(True for _ in self.open_inputs(node)))
        return Region(ordered, sources)

    def open_inputs(self, node: Node) -> Iterator[str]:
        """What the node is given that a node computes and the reference does not have."""
        for name in data_inputs(node):
            if name in self.makers and not self.settled(name):
                yield name

    def settled(self, name: str) -> bool:
        """Whether the reference has the value, or there is nothing in it that could be wrong."""
        value = self.candidate.by_name.get(name)
        if value is None:
            return True
        if self.matcher.find(value) or (value.signature.size <= 1 and name not in self.fed):
            return True
        return self.vouched(name)

    def vouched(self, name: str) -> bool:
        """Whether a node that could not hide a fault in it gives what the reference has too."""
        for node in self.users[name]:
            if node.operator in TELLS and all(self._has(output) for output in node.outputs):
                return True
        return False

    def unknown_weights(self, node: Node) -> list[Value]:
        """Initializers of more than one element that the reference does not hold, not even by another size."""
        return [w for w in self._strange_weights(node) if self.matcher.scaled(w) is None]

    def scaled_weights(self, node: Node) -> list[tuple[Value, Value, float]]:
        """Initializers that the reference holds by another size only: each with the reference's own, and the factor."""
        found = ((w, self.matcher.scaled(w)) for w in self._strange_weights(node))
        return [(w, *multiple) for w, multiple in found if multiple is not None]

    def _strange_weights(self, node: Node) -> list[Value]:
        """Initializers of more than one element that the reference does not hold as they are."""
        given = (self.candidate.by_name.get(name) for name in data_inputs(node))
        weights = [v for v in given if v is not None and v.node.operator == PARAMETER and v.signature.size > 1]
        return [w for w in weights if not self.matcher.find(w)]

    def _has(self, name: str) -> bool:
        value = self.candidate.by_name.get(name)
        return value is not None and value.signature.size > 1 and bool(self.matcher.find(value))

    def _fed(self) -> set[str]:
        """What depends on the values of the inputs, not on their sizes alone."""
        fed = {v.name for v in self.candidate.values if v.node.operator == "input"}
        for node in self.candidate.nodes:
            if node.operator not in ASKS_SIZE and any(name in fed for name in node.inputs):
                fed.update(node.outputs)
        return fed


def data_inputs(node: Node) -> Iterator[str]:
    """The inputs whose values are computed with."""
    sizes = SIZES.get(node.operator, ())
    if node.operator not in ASKS_SIZE:
        yield from (name for place, name in enumerate(node.inputs) if name and place not in sizes)
