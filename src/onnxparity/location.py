"""Where a failure comes from: the first node at fault, what is wrong there, and how to see it again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from onnxparity.outcome import Status
from onnxparity.plan import Cell

__all__ = ["Location", "Node", "Origin", "TensorStatistics"]

Origin = Literal["injected", "propagated", "missing", "optimizer", "unknown"]
"""What is wrong at the node: its own meaning or arithmetic (`injected`), what it was given (`propagated`), a node
that should stand before it (`missing`: it is the first that consumes what should have passed through), a graph
optimiser of the runtime that replaced it (`optimizer`), or nothing that could be told (`unknown`)."""


@dataclass(frozen=True)
class Node:
    """One node of a graph, or one operator call of a PyTorch module."""

    operator: str
    """Such as `Softmax`, or `aten.softmax.int`."""
    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    module: str = ""
    """The module it belongs to, such as `encoder.layers.0.attention`; empty where nothing says."""
    source: str = ""
    """The user's own line, such as `attention.py:41: scores = q @ k.transpose(-2, -1)`; empty where nothing says."""


@dataclass(frozen=True)
class TensorStatistics:
    """What one tensor at the fault looks like. Not measured is None, never 0."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    side: Literal["got", "want", "input"]
    """What the candidate or runtime has, what the reference or float64 has, or what goes into the node."""
    smallest: float | None
    largest: float | None
    mean: float | None
    rms: float | None
    nonfinite: int


@dataclass(frozen=True)
class Location:
    """What a red cell leads back to."""

    cell: Cell
    """The cell that the walk started from: of those that failed alike the one whose shape is smallest."""
    status: Status
    """How that cell failed."""
    message: str
    """One sentence: what is wrong, where."""
    origin: Origin
    node: Node | None
    """The first node at fault; None where no region was found."""
    region: int
    """Nodes between the last good values and the outputs."""
    nodes: int
    """Nodes in the graph."""
    smallest_shape: str
    """The smallest shape that still fails in the same way, as a shape id; often not part of the plan."""
    evidence: tuple[str, ...] = ()
    """Further lines: constants that differ with both values, error and noise at the node, the value that left the
    dtype's range."""
    statistics: tuple[TensorStatistics, ...] = ()
    optimizer: str = ""
    """The graph optimiser of the runtime that is to blame; empty where none is."""
    reproduction: str = ""
    """Folder of the minimal reproduction, below the report's own; empty where none could be written."""
    explains: tuple[str, ...] = ()
    """Ids of the red cells that fail alike: same artifact, runtime and status."""
