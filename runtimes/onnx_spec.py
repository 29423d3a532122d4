"""The runtime `onnx-spec`: the arithmetic that the ONNX operators prescribe, in the dtypes the file stores.

It shows what a runtime that widens halves behind the scenes would hide: a softmax in half inside a float32
graph, or a float16 model that only works because the CPU provider computes it in float32.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import version

import numpy as np
from ml_dtypes import bfloat16
from onnx import ModelProto

from onnxparity.artifact import Artifact
from onnxparity.outcome import Question
from onnxparity.protocols import Availability, Feeds, Outputs, Placement, Visit
from onnxparity.runtimes.evaluation import Exact, execute
from onnxparity.runtimes.feeding import prepare
from onnxparity.runtimes.float64_graph import load_model
from onnxparity.runtimes.known_answer import FEEDS, WANT, matmul_model
from onnxparity.runtimes.onnx_trace import Nodes, looked_at
from onnxparity.runtimes.scope import Scope, Step, Value, compiled

__all__ = ["OnnxSpecRuntime", "OnnxSpecSession", "StoredGraph"]

_FLOATS = frozenset({np.dtype(np.float16), np.dtype(bfloat16), np.dtype(np.float32), np.dtype(np.float64)})
_CHANGES_DTYPE = frozenset({"Cast", "CastLike", "DequantizeLinear", "LayerNormalization"})
"""Operators whose floating results need not have the dtype of their floating inputs."""


class StoredGraph:
    """An ONNX model evaluated in its own dtypes. Raises LoadError for operators that are not in the table."""

    def __init__(self, model: ModelProto) -> None:
        """The model is used up: hand over one of your own."""
        self._scope: Scope = compiled(model, promoted=False)
        self._arithmetic = Stored(promoted=False)
        self._folded: dict[str, Value] = {c.name: c.value for c in self._scope.constants}
        with np.errstate(all="ignore"):
            execute(self._scope.fixed, self._folded, self._arithmetic)
        self._nodes = Nodes(self._scope)

    def run(self, feeds: Feeds) -> Outputs:
        """Every output by name. Raises RunError where a node cannot be evaluated."""
        values = self._folded | dict(feeds)
        with np.errstate(all="ignore"):
            execute(self._scope.live, values, self._arithmetic)
        return {name: values[name] for name in self._scope.outputs}

    def trace(self, feeds: Feeds, visit: Visit) -> Outputs:
        """As `run`, and shows every value on the way, those that constants alone determine included."""
        values = {c.name: c.value for c in self._scope.constants} | dict(feeds)
        with np.errstate(all="ignore"):
            execute(self._scope.steps, values, self._arithmetic, looked_at(self._nodes, visit))
        return {name: values[name] for name in self._scope.outputs}


class Stored(Exact):
    """Results in the dtype of the operands: NumPy takes bfloat16 with a Python number to float32."""

    def call(self, step: Step, arguments: Sequence[Value]) -> Sequence[Value]:
        """The node's results, rounded to the dtype that the operator declares."""
        results = super().call(step, arguments)
        kinds = {a.dtype for a in arguments if isinstance(a, np.ndarray)} & _FLOATS
        if step.op in _CHANGES_DTYPE or len(kinds) != 1:
            return results
        (kind,) = kinds
        return [r.astype(kind, copy=False) if getattr(r, "dtype", None) in _FLOATS else r for r in results]


class OnnxSpecSession:
    """A file in the dtypes that it stores (a `TracingSession`)."""

    def __init__(self, graph: StoredGraph, artifact: Artifact) -> None:
        self._graph, self._inputs = graph, artifact.inputs

    def run(self, feeds: Feeds) -> Outputs:
        """Every output by name. Raises RunError, and SubjectError for feeds that do not fit."""
        return self._graph.run(prepare(self._inputs, feeds))

    def trace(self, feeds: Feeds, visit: Visit) -> Outputs:
        """As `run`, showing every value (see `protocols.TracingSession`)."""
        return self._graph.trace(prepare(self._inputs, feeds), visit)

    def placement(self) -> tuple[Placement, ...] | None:
        """None: nothing here is placed anywhere."""
        return None


class OnnxSpecRuntime:
    """Operator by operator in NumPy, in the stored dtypes."""

    name = "onnx-spec"
    question: Question = "arithmetic"

    def probe(self) -> Availability:
        """Runs a 2x2 product."""
        try:
            (got,) = StoredGraph(ModelProto.FromString(matmul_model())).run(FEEDS).values()
        except Exception as error:  # a probe never raises: what goes wrong is the reason
            return Availability(self.name, False, f"{type(error).__name__}: {error}", version("onnx"))
        right = got.dtype == WANT.dtype and np.array_equal(got, WANT)
        reason = "" if right else f"2x2 product gave {got.tolist()} in {got.dtype}, not {WANT.tolist()}"
        return Availability(self.name, right, reason, version("onnx"))

    def load(self, artifact: Artifact) -> OnnxSpecSession:
        """Raises LoadError where the file cannot be read or holds operators that are not in the table."""
        return OnnxSpecSession(StoredGraph(load_model(artifact.path)), artifact)
