"""Which nodes on the CPU of a GPU session handle data, and which only do the arithmetic of shapes.

ONNX Runtime keeps Shape and what is computed from it on the host by design: that is no fallback. A node
handles data where a value of a graph input reaches it by another way than through Shape or Size.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from onnxparity.protocols import Placement

if TYPE_CHECKING:
    from onnx import GraphProto, NodeProto

__all__ = ["host_data_nodes"]

OF_SHAPE = frozenset({"Shape", "Size"})


def host_data_nodes(path: str, placements: Sequence[Placement], *, host: str) -> tuple[Placement, ...]:
    """The placements on `host` that handle data.

    A node that the file does not have under this name, such as one that an optimiser made, counts as handling
    data unless every node of its kind in the file is shape arithmetic.
    """
    on_host = [p for p in placements if p.provider == host]
    if not on_host:
        return ()
    import onnx

    handling: dict[tuple[str, str], bool] = {}
    by_kind: dict[str, bool] = {}
    for operator, name, data in _walk(onnx.load(path, load_external_data=False).graph, set()):
        by_kind[operator] = by_kind.get(operator, False) or data
        if name:
            handling[operator, name] = handling.get((operator, name), False) or data
    return tuple(p for p in on_host if handling.get((p.operator, p.node), by_kind.get(p.operator, True)))


def _walk(graph: GraphProto, data: set[str]) -> Iterable[tuple[str, str, bool]]:
    """(operator, name, handles data) of each node, subgraphs included; `data` names outer values that are data."""
    held = {t.name for t in graph.initializer}
    data = data | {i.name for i in graph.input if i.name not in held}
    for node in graph.node:
        nested = [a.g for a in node.attribute if a.HasField("g")] + [g for a in node.attribute for g in a.graphs]
        inner = [seen for sub in nested for seen in _walk(sub, data)]
        touches = any(name in data for name in node.input) or any(seen[2] for seen in inner)
        yields = touches and not _only_shape(node)
        if yields:
            data |= set(node.output)
        yield (f"{node.domain}:{node.op_type}" if node.domain else node.op_type), node.name, yields
        yield from inner


def _only_shape(node: NodeProto) -> bool:
    return node.op_type in OF_SHAPE and not node.domain
