"""What a location says, in the words that every rendering shares."""

from __future__ import annotations

import re
from collections.abc import Mapping

from onnxparity.location import Location, Origin
from onnxparity.record import Report

__all__ = ["FIXED", "ORIGINS", "STATISTICS", "by_cell", "evidence", "facts", "headed", "link"]

FIXED = "fixed"
"""The shape id of a subject without dynamic axes, of which there is no smaller one."""

ORIGINS: Mapping[Origin, str] = {
    "injected": "this node is at fault: it is wrong even where its inputs are right",
    "propagated": "this node hands on what is wrong in its inputs already",
    "missing": "a node is missing before this one, which uses what should have passed through it",
    "optimizer": "a graph optimizer of the runtime is to blame",
    "unknown": "no single node could be named",
}
STATISTICS = ("tensor", "side", "dtype", "shape", "smallest", "largest", "mean", "rms", "not finite")
"""Columns of the table of tensors."""


def by_cell(report: Report) -> dict[str, tuple[int, Location]]:
    """The location that explains a cell, with its number in the report, from 1."""
    numbered = list(enumerate(report.locations, 1))
    return {cell: (n, location) for n, location in reversed(numbered) for cell in location.explains}


def headed(location: Location) -> str:
    """A few words for a title: operator and module, or what failed where no node could be named."""
    node = location.node
    if node is None:
        return f"{location.cell.runtime} on {location.cell.artifact.id}"
    return f"{node.operator} in {node.module}" if node.module else f"{node.operator} {node.name}".strip()


def evidence(location: Location) -> list[str]:
    """Further lines, less those that the message repeats."""
    return [line for line in location.evidence if line not in location.message]


def facts(location: Location) -> list[tuple[str, str]]:
    """Label and text of all that was found but the message, the evidence and the statistics; no empty text."""
    node, count = location.node, len(location.explains)
    rows = []
    if node is not None:
        rows += [("node", f"{node.operator} {node.name}".strip()), ("module", node.module), ("source", node.source)]
    rows.append(("origin", f"{location.origin} ({ORIGINS.get(location.origin, 'not known here')})"))
    rows.append(("optimizer", location.optimizer))
    if location.region:
        rows.append(
            ("region", f"{location.region} of {location.nodes} nodes, from the last good values to the outputs")
        )
    if location.smallest_shape != FIXED:
        rows.append(("smallest shape", f"{location.smallest_shape} still fails in the same way"))
    rows.append(("explains", f"{count} cell{'s' if count != 1 else ''} of {location.cell.runtime} on this artifact"))
    rows.append(("reproduction", location.reproduction))
    return [(label, text) for label, text in rows if text]


def link(reproduction: str) -> str:
    """The reproduction as an address relative to the report; empty for a text that is none: it may be anybody's."""
    return f"{reproduction}/" if re.fullmatch(r"reproductions/\w[\w.-]*", reproduction) else ""
