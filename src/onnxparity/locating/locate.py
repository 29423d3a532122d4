"""The job `locate`: from one red verdict to the first node at fault."""

from __future__ import annotations

from collections.abc import Iterator

from onnxparity import plugins
from onnxparity.errors import OnnxParityError
from onnxparity.judging.examining import Bench
from onnxparity.locating.arithmetic import locate_arithmetic
from onnxparity.locating.meaning import locate_meaning
from onnxparity.locating.properties import locate_property
from onnxparity.locating.requests import LocateRequest
from onnxparity.locating.unknown import unknown
from onnxparity.location import Location
from onnxparity.outcome import Status

__all__ = ["locate"]


def locate(request: LocateRequest) -> Iterator[Location]:
    """Yields one location. Never raises: where nothing can be told its origin is `unknown` and its message says why."""
    try:
        yield _located(request)
    except OnnxParityError as error:
        yield unknown(request, f"it could not be located: {error.what.splitlines()[0]}")
    except Exception as error:  # the boundary: a fault while looking for one must not cost the verdict
        yield unknown(request, f"it could not be located: {type(error).__name__}: {error}".splitlines()[0])


def _located(request: LocateRequest) -> Location:
    bench, verdict = Bench(request.examine), request.verdict
    if verdict.status is Status.PROPERTY or verdict.question == "property":
        return locate_property(bench, request)
    if verdict.status is Status.MEANING or verdict.cell.runtime == plugins.MEANING:
        return locate_meaning(bench, request)
    if verdict.status in (Status.ARITHMETIC, Status.NONFINITE):
        return locate_arithmetic(bench, request)
    return unknown(request, f"a cell that is {verdict.status} leads back to no node")
