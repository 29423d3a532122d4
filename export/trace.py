"""Following values through a graph: what an integer input indexes, and which input's size a number comes from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from onnx import ModelProto, NodeProto, TensorProto

from onnxparity.export.graph import constants, dims, graph_inputs, read_values

__all__ = ["Dataflow", "SizeOf"]

_SAME_VALUES = frozenset(
    {"Cast", "Reshape", "Unsqueeze", "Squeeze", "Identity", "Flatten", "Transpose", "Expand", "Slice"}
)
"""Operators that hand integers on as they are, maybe fewer, more often, or in another shape."""
_SAME_ROWS = frozenset({"Cast", "Identity", "DequantizeLinear", "QuantizeLinear", "Mul", "Sub"})
"""Operators that make a table of quantised values; the values come in first, scale or zero point after."""
_TABLES: Mapping[str, Mapping[int, int]] = {
    "Gather": {1: 0},
    "GatherBlockQuantized": {1: 0},
    "EmbedLayerNormalization": {0: 2, 1: 4, 8: 3},
}
"""Operators that look up rows: where the indices come in, and which input is the table."""

SizeOf = tuple[str, int]
"""An input and which of its dims."""


@dataclass
class Dataflow:
    """Who makes and who takes each value of the main graph."""

    model: ModelProto
    makers: dict[str, NodeProto] = field(default_factory=dict)
    takers: dict[str, list[tuple[NodeProto, int]]] = field(default_factory=dict)
    constants: dict[str, TensorProto] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.constants = constants(self.model)
        for node in self.model.graph.node:
            self.makers |= {name: node for name in node.output if name}
            for place, name in enumerate(node.input):
                self.takers.setdefault(name, []).append((node, place))

    def rows_indexed_by(self, name: str) -> int | None:
        """Rows of the smallest table that the values of `name` index, or None where there is none in sight."""
        rows: list[int] = []
        waiting, seen = [name], {name}
        while waiting:
            for node, place in self.takers.get(waiting.pop(), []):
                table = _TABLES.get(node.op_type, {}).get(place)
                if table is not None and table < len(node.input) and not _axis(node):
                    rows += [n for n in (self._rows(node.input[table]),) if n is not None]
                elif node.op_type in _SAME_VALUES and place == 0 and node.output[0] not in seen:
                    seen.add(node.output[0])
                    waiting.append(node.output[0])
        return min(rows, default=None)

    def _rows(self, name: str) -> int | None:
        while name not in self.constants:
            maker = self.makers.get(name)
            if maker is None or maker.op_type not in _SAME_ROWS:
                return None
            name = maker.input[0]
        shape = self.constants[name].dims
        return int(shape[0]) if len(shape) > 1 else None

    def table_limits(self) -> dict[SizeOf, int]:
        """Sizes of inputs that cut a constant table: {(input, dim): rows}. A larger size gets too few rows.

        Position tables are cut to the length of the sequence, `table[:, :length]`; the table's own length is
        then the longest sequence.
        """
        limits: dict[SizeOf, int] = {}
        for node in self.model.graph.node:
            if node.op_type != "Slice" or len(node.input) < 3 or node.input[0] not in self.constants:
                continue
            table, size = self.constants[node.input[0]], self._size_behind(node.input[2])
            axis = self._slice_axis(node)
            if size is not None and axis is not None and -len(table.dims) <= axis < len(table.dims):
                limits[size] = min(limits.get(size, 1 << 62), int(table.dims[axis]))
        return limits

    def _slice_axis(self, node: NodeProto) -> int | None:
        if len(node.input) < 4 or not node.input[3]:
            return 0
        axes = read_values(self.constants.get(node.input[3]))
        return int(axes.reshape(-1)[0].item()) if axes is not None and axes.size == 1 else None

    def _size_behind(self, name: str) -> SizeOf | None:
        """The input dim that the number in `name` is, when it is nothing but that."""
        index: int | None = None
        while (maker := self.makers.get(name)) is not None:
            if maker.op_type == "Shape":
                start = next((a.i for a in maker.attribute if a.name == "start"), 0)
                return self._input_dim(maker.input[0], start + (index or 0))
            if maker.op_type == "Gather" and index is None:
                picked = read_values(self.constants.get(maker.input[1]))
                if picked is None or picked.size != 1:
                    return None
                index = int(picked.reshape(-1)[0].item())
            elif maker.op_type not in ("Cast", "Unsqueeze", "Squeeze", "Reshape", "Identity"):
                return None
            name = maker.input[0]
        return None

    def _input_dim(self, name: str, place: int) -> SizeOf | None:
        for value in graph_inputs(self.model.graph):
            if value.name == name:
                rank = len(dims(value))
                return (name, place % rank) if -rank <= place < rank else None
        return None


def _axis(node: NodeProto) -> int:
    return int(next((a.i for a in node.attribute if a.name in ("axis", "gather_axis")), 0))
