"""The job `trace`: everything the module computes in float64 on one set of feeds, for a worker without torch."""

from __future__ import annotations

from collections.abc import Iterator

from onnxparity.locating.requests import Constant, Traced, TraceRequest
from onnxparity.locating.sides import INPUT, PARAMETER, Leaf, traced
from onnxparity.location import Node
from onnxparity.protocols import Array
from onnxparity.running.authoring import AuthorRequest, Built

__all__ = ["trace"]


def trace(request: TraceRequest) -> Iterator[Traced]:
    """Yields one `Traced`. Raises SubjectError and RunError as the module's own evaluation does."""
    author = AuthorRequest(request.subject, (), {}, (), "", request.directory, examples=request.examples)
    built = Built(author)
    session = built.exact(request.dtype)
    feeds = built.feeds(request.point, request.dtype)
    constants: list[Constant] = []

    def number(node: Node, name: str, value: Array) -> None:
        constants.append(Constant(node, name, float(value)))

    leaves: list[Leaf] = [(INPUT, name, value, 0.0) for name, value in feeds.items()]
    leaves += [(PARAMETER, name, value, 0.0) for name, value in session.weights()]
    found = traced(lambda visit: session.trace(feeds, visit, number), leaves)
    yield Traced(found.values, tuple(constants))
