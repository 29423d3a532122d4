"""Showing the values of an ONNX evaluation as they come, and the numbers that the file computes with."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from onnxparity.location import Node
from onnxparity.protocols import Array, Visit
from onnxparity.runtimes.evaluation import Looked
from onnxparity.runtimes.node_metadata import described
from onnxparity.runtimes.scope import Scope, Step, Value

__all__ = ["Nodes", "looked_at"]


class Nodes:
    """The nodes behind the steps of a graph, described when first asked for."""

    def __init__(self, scope: Scope) -> None:
        self._scope = scope
        self._nodes: dict[int, Node] = {}

    def of(self, step: Step) -> Node:
        """The step's node, with its module and source line."""
        if not self._nodes:
            steps = list(self._steps())
            nodes = described([s.operator.onnx_node for s in steps])
            # the names that the step resolved: they are what its values go by
            named = (replace(n, inputs=s.inputs) for n, s in zip(nodes, steps, strict=True))
            self._nodes = dict(zip(map(id, steps), named, strict=True))
        return self._nodes[id(step)]

    def numbers(self) -> Iterator[tuple[Node, str, Array]]:
        """Each floating attribute: its node, its name and its value in float64, as the file stores it."""
        for step in self._steps():
            for name, value in step.attributes.items():
                array = np.asarray(value) if isinstance(value, (float, list, np.ndarray)) else None
                if array is not None and array.dtype == np.float64 and array.size:
                    yield self.of(step), name, array

    def _steps(self) -> Iterator[Step]:
        for scope in self._scope.everywhere():
            yield from scope.steps


def looked_at(nodes: Nodes, visit: Visit) -> Looked:
    """What `execute` calls after each step, to show its results."""

    def look(step: Step, results: Sequence[Value]) -> None:
        node = nodes.of(step)
        shown = [(n, v) for n, v in zip(step.outputs, results, strict=False) if n and isinstance(v, np.ndarray)]
        if len(shown) != len(node.outputs):  # a sequence or an absent optional is no tensor
            node = replace(node, outputs=tuple(name for name, _ in shown))
        visit(node, [value for _, value in shown])

    return look
