"""The float64 evaluation shown once more with the constants of one side rounded differently."""

from __future__ import annotations

import numpy as np

from onnxparity.protocols import Feeds, Outputs, Visit
from onnxparity.runtimes.float64_graph import Float64Graph, widened
from onnxparity.runtimes.monte_carlo import StorageErrors, recorded

__all__ = ["moved_constants"]


def moved_constants(graph: Float64Graph, feeds: Feeds, visit: Visit, *, shared: frozenset[str], seed: int) -> Outputs:
    """One draw of `monte_carlo.constant_noise`, which visits every value as it comes. Raises RunError."""
    tape, _ = recorded(graph, feeds)
    moving = StorageErrors(shared, graph.fixed_names(), np.random.default_rng([seed, 0]), tape)
    with np.errstate(all="ignore"):
        values = graph.evaluate({name: moving.feed(v) for name, v in widened(feeds).items()}, moving, visit)
    return {name: values[name] for name in graph.scope.outputs}
