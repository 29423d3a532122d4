"""The runtime `onnx-float64`: what an ONNX file means, with rounding out of the way."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from importlib.metadata import version

import numpy as np
from onnx import ModelProto

from onnxparity.artifact import Artifact
from onnxparity.location import Node
from onnxparity.outcome import Question
from onnxparity.protocols import Array, Availability, Feeds, Outputs, Placement, Visit
from onnxparity.runtimes.feeding import prepare
from onnxparity.runtimes.float64_graph import Float64Graph
from onnxparity.runtimes.known_answer import FEEDS, matmul_model
from onnxparity.runtimes.monte_carlo import ATTRIBUTE_ROUNDOFF, constant_noise, fingerprints, noise, recorded
from onnxparity.runtimes.onnx_moved import moved_constants

__all__ = ["OnnxFloat64Runtime", "OnnxFloat64Session"]

FLOATS = frozenset({"float16", "bfloat16", "float32", "float64"})


class OnnxFloat64Session:
    """A file evaluated in float64, with the size of honest rounding (an `ExactSession` and `TracingSession`)."""

    def __init__(self, graph: Float64Graph, artifact: Artifact) -> None:
        self.unit_roundoff = graph.unit_roundoff
        self._graph = graph
        self._inputs = tuple(replace(i, dtype="float64") if i.dtype in FLOATS else i for i in artifact.inputs)

    def run(self, feeds: Feeds) -> Outputs:
        """Every output by name, floats in float64, for floating feeds in any dtype.

        Raises RunError, and SubjectError for feeds that do not fit.
        """
        return dict(recorded(self._graph, self._prepared(feeds))[1])  # for the noise that is asked for next

    def trace(self, feeds: Feeds, visit: Visit) -> Outputs:
        """As `run`, showing every value (see `protocols.TracingSession`)."""
        return self._graph.trace(self._prepared(feeds), visit)

    def trace_moved(self, feeds: Feeds, visit: Visit, *, shared: frozenset[str], seed: int) -> Outputs:
        """As `trace`, where the constants whose fingerprint is not in `shared` move by their own roundoff."""
        return moved_constants(self._graph, self._prepared(feeds), visit, shared=shared, seed=seed)

    def numbers(self) -> Iterator[tuple[Node | None, str, Array, float]]:
        """What the file computes with: node, name, value and unit roundoff of each floating attribute; without a
        node, each initializer and constant (roundoff 0 for what is no float)."""
        yield from ((None, c.name, c.value, c.roundoff) for c in self._graph.constants)
        yield from ((node, name, value, ATTRIBUTE_ROUNDOFF) for node, name, value in self._graph.nodes.numbers())

    def placement(self) -> tuple[Placement, ...] | None:
        """None: nothing here is placed anywhere."""
        return None

    def noise(self, feeds: Feeds, *, draws: int, seed: int, product_roundoff: float | None = None) -> Outputs:
        """See `monte_carlo.noise`."""
        return noise(self._graph, self._prepared(feeds), draws=draws, seed=seed, product_roundoff=product_roundoff)

    def fingerprints(self) -> frozenset[str]:
        """See `monte_carlo.fingerprints`."""
        return fingerprints(self._graph)

    def constant_noise(self, feeds: Feeds, *, shared: frozenset[str], draws: int, seed: int) -> Outputs:
        """See `monte_carlo.constant_noise`."""
        return constant_noise(self._graph, self._prepared(feeds), shared=shared, draws=draws, seed=seed)

    def _prepared(self, feeds: Feeds) -> Feeds:
        wide = {n: v.astype(np.float64) if v.dtype.name in FLOATS else v for n, v in feeds.items()}
        return prepare(self._inputs, wide)


class OnnxFloat64Runtime:
    """The graph promoted to float64 and evaluated op by op as the ONNX operators say."""

    name = "onnx-float64"
    question: Question = "meaning"

    def probe(self) -> Availability:
        """A 2x2 product of thirds, which float32 would not get right to 15 digits."""
        thirds = {name: value.astype(np.float64) / 3 for name, value in FEEDS.items()}
        try:
            (got,) = Float64Graph(ModelProto.FromString(matmul_model())).run(thirds).values()
        except Exception as error:  # a probe never raises: what goes wrong is the reason
            return Availability(self.name, False, f"{type(error).__name__}: {error}", version("onnx"))
        wrong = float(np.max(np.abs(got - thirds["a"] @ thirds["b"])))
        reason = "" if wrong < 1e-14 else f"a 2x2 product in float64 is off by {wrong:.3g}"
        return Availability(self.name, not reason, reason, version("onnx"))

    def load(self, artifact: Artifact) -> OnnxFloat64Session:
        """Raises LoadError where the file cannot be read or an operator has no known float64 meaning."""
        return OnnxFloat64Session(Float64Graph.load(artifact.path), artifact)
