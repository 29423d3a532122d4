"""What a worker can be asked to do, by name. Each job is imported when it is first asked for, so that a worker
that only judges artifacts never loads torch."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from onnxparity import plugins
from onnxparity.protocols import Availability

__all__ = ["JOBS"]

Job = Callable[[Any], Iterator[Any]]  # Any: each job has its own request and items, typed where it is defined


def _describe(request: Any) -> Iterator[Any]:
    from onnxparity.running.authoring import describe

    return describe(request)


def _author(request: Any) -> Iterator[Any]:
    from onnxparity.running.authoring import author

    return author(request)


def _examine(request: Any) -> Iterator[Any]:
    from onnxparity.judging.examining import examine

    return examine(request)


def _trace(request: Any) -> Iterator[Any]:
    from onnxparity.locating.tracing import trace

    return trace(request)


def _locate(request: Any) -> Iterator[Any]:
    from onnxparity.locating.locate import locate

    return locate(request)


def _plant(request: Any) -> Iterator[Any]:
    from onnxparity.selftesting.planting import plant

    return plant(request)


def _time(request: Any) -> Iterator[Any]:
    from onnxparity.speed.timing import time_blocks

    return time_blocks(request)


def _probe(names: tuple[str, ...]) -> Iterator[Availability]:
    return map(plugins.probe, names)


JOBS: Mapping[str, Job] = {
    "describe": _describe,
    "author": _author,
    "examine": _examine,
    "trace": _trace,
    "locate": _locate,
    "plant": _plant,
    "time": _time,
    "probe": _probe,
}
