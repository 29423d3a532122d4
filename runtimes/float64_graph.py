"""The float64 value of an ONNX file: the graph promoted to float64 and evaluated as the operators say."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import onnx
from onnx import ModelProto

from onnxparity.errors import LoadError
from onnxparity.protocols import Feeds, Outputs, Visit
from onnxparity.runtimes.evaluation import NARROW, Arithmetic, Exact, execute
from onnxparity.runtimes.onnx_trace import Nodes, looked_at
from onnxparity.runtimes.promotion import ROUNDOFF, Constant, dominant_dtype
from onnxparity.runtimes.scope import Scope, Value, compiled

__all__ = ["Float64Graph", "load_model"]


class Float64Graph:
    """An ONNX model that is evaluated in float64.

    Raises LoadError where an operator has no known float64 meaning.
    """

    def __init__(self, model: ModelProto) -> None:
        """The model is used up: hand over one of your own."""
        self.unit_roundoff = ROUNDOFF[dominant_dtype(model)]
        self.scope: Scope = compiled(model, promoted=True)
        self._exact = Exact(promoted=True)
        self._folded = self.fold(self._exact)
        self.nodes = Nodes(self.scope)

    @classmethod
    def load(cls, path: str | Path) -> Float64Graph:
        """Reads the file with its external data."""
        return cls(load_model(path))

    @property
    def constants(self) -> tuple[Constant, ...]:
        """Every constant, those of subgraphs included."""
        return tuple(c for scope in self.scope.everywhere() for c in scope.constants)

    def run(self, feeds: Feeds, arithmetic: Exact | None = None) -> Outputs:
        """Every output by name, floats in float64; the feeds may be in any floating dtype.

        arithmetic: an exact one that notes something. Raises RunError where a node cannot be evaluated or leaves
        float64.
        """
        values = self._folded | widened(feeds)
        with np.errstate(all="ignore"):
            execute(self.scope.live, values, arithmetic or self._exact)
        return {name: values[name] for name in self.scope.outputs}

    def trace(self, feeds: Feeds, visit: Visit) -> Outputs:
        """As `run`, and shows every value on the way, those that constants alone determine included."""
        values = {c.name: c.value for c in self.scope.constants} | widened(feeds)
        with np.errstate(all="ignore"):
            execute(self.scope.steps, values, self._exact, looked_at(self.nodes, visit))
        return {name: values[name] for name in self.scope.outputs}

    def evaluate(
        self, inputs: Mapping[str, Value], arithmetic: Arithmetic, visit: Visit | None = None
    ) -> dict[str, Value]:
        """Outputs by name under another arithmetic, constants included; shows every value on the way."""
        values = {c.name: arithmetic.constant(c) for c in self.scope.constants} | dict(inputs)
        execute(self.scope.steps, values, arithmetic, None if visit is None else looked_at(self.nodes, visit))
        return values

    def fixed_names(self) -> frozenset[str]:
        """The values that depend on constants alone."""
        fixed = {c.name for c in self.constants}
        return frozenset(fixed | {n for s in self.scope.everywhere() for step in s.fixed for n in step.outputs})

    def fold(self, arithmetic: Exact) -> dict[str, Value]:
        """What the constants alone determine, as far as anything else needs it."""
        values = {c.name: c.value for c in self.scope.constants}
        with np.errstate(all="ignore"):
            execute(self.scope.fixed, values, arithmetic)
        return values


def load_model(path: str | Path) -> ModelProto:
    """The model with its external data in memory. Raises LoadError where the file is missing or damaged."""
    try:
        return onnx.load(str(path))
    except Exception as error:  # onnx raises protobuf, OS and its own errors
        raise LoadError(f"cannot read {path}", got=f"{type(error).__name__}: {error}") from error


def widened(feeds: Feeds) -> dict[str, Value]:
    """Feeds in half, bfloat16 and float32 in float64, all others as they are."""
    return {name: v.astype(np.float64) if v.dtype in NARROW else v for name, v in feeds.items()}
