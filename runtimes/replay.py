"""The float64 value and the honest rounding of every value inside a graph, and of one part of it by itself.

Values are handed over as they come, so that memory stays at what one evaluation holds, plus one number per vector.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

import numpy as np
from onnx import ModelProto

from onnxparity.errors import RunError
from onnxparity.location import Node
from onnxparity.numerics.masks import masked_as_infinite
from onnxparity.protocols import Array, Feeds, Outputs, Visit
from onnxparity.runtimes.float64_graph import Float64Graph, widened
from onnxparity.runtimes.monte_carlo import Recorder, RoundingErrors, Tape, change_of
from onnxparity.runtimes.promotion import Constant
from onnxparity.runtimes.scope import Value

__all__ = ["Fixed", "exact_and_noise", "exact_of_part"]

Keep = Callable[[str, Array], None]
Find = Callable[[str], Array]


class Fixed(RoundingErrors):
    """Only what the nodes compute moves: inputs and constants are what they are."""

    def feed(self, value: Value) -> Value:
        """The value itself."""
        return value

    def constant(self, constant: Constant) -> Value:
        """The constant itself."""
        return constant.value


def exact_and_noise(
    graph: Float64Graph,
    feeds: Feeds,
    names: Collection[str],
    *,
    draws: int,
    seed: int,
    keep: Keep,
    find: Find,
    product_roundoff: float | None = None,
) -> Outputs:
    """Honest rounding per vector of these tensors, by name, as `monte_carlo.noise` measures that of the outputs.

    Masks count as minus infinity (see `numerics.masks`).

    keep: is handed the float64 value of each, of feeds and outputs too. find: gives it back. Nothing else outlives an
    evaluation. A tensor whose shape depends on rounded data, and one that a draw took to NaN or infinity, has infinite
    noise. product_roundoff: as in `monte_carlo.noise`.
    """
    tape, worst = Tape(), Outputs()
    with np.errstate(all="ignore"):
        inputs = widened(feeds)
        for name, value in inputs.items():
            keep(name, value)
        values = graph.evaluate(inputs, Recorder(tape), _each(names, keep))
        for name in graph.scope.outputs:
            if name not in names and name not in inputs:
                keep(name, values[name])  # an output that no node makes: a constant
        for draw in range(draws):
            rng = np.random.default_rng([seed, draw])
            moving = RoundingErrors(graph.unit_roundoff, rng, tape, product_roundoff)

            def note(name: str, moved: Array) -> None:
                worst[name] = np.maximum(worst.get(name, 0.0), _movement(name, moved, find(name)))

            graph.evaluate({n: moving.feed(v) for n, v in inputs.items()}, moving, _each(names, note))
    return worst


def exact_of_part(
    model: ModelProto,
    feeds: Feeds,
    *,
    unit_roundoff: float,
    draws: int,
    seed: int,
    product_roundoff: float | None = None,
) -> tuple[Outputs, Outputs]:
    """Float64 outputs of a part on given inputs, and the noise of its own arithmetic: the inputs do not move.

    unit_roundoff: of the dtype that the whole graph computes in. A part that computes in a narrower one is held to it.
    The model is used up. Raises LoadError or RunError as `Float64Graph`.
    """
    graph = Float64Graph(model)
    tape, worst = Tape(), Outputs()
    with np.errstate(all="ignore"):
        inputs = widened(feeds)
        values = graph.evaluate(inputs, Recorder(tape))
        exact = {name: values[name] for name in graph.scope.outputs}
        for draw in range(draws):
            rng = np.random.default_rng([seed, draw])
            moved = graph.evaluate(inputs, Fixed(unit_roundoff, rng, tape, product_roundoff))
            for name, value in exact.items():
                worst[name] = np.maximum(worst.get(name, 0.0), _movement(name, moved[name], value))
    return exact, worst


def _each(names: Collection[str], take: Keep) -> Visit:
    """Hands over each of these values; what a subgraph computes at each turn goes by other names."""

    def visit(node: Node, results: Sequence[Array]) -> None:
        for name, value in zip(node.outputs, results, strict=True):
            if name in names:
                take(name, value)

    return visit


def _movement(name: str, moved: Array, exact: Array) -> Array:
    """As `monte_carlo.change_of`, with masks as minus infinity; infinite where the shapes differ."""
    try:
        return change_of(name, moved, masked_as_infinite(exact))
    except RunError:
        return np.full(np.atleast_1d(exact).shape[:-1], np.inf)
