"""Jobs for a worker under test: named `worker_jobs:function`, since the child has this folder on its path."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterator

from onnxparity.errors import UsageError


def echo(request: object) -> Iterator[object]:
    """The request, and who answered."""
    yield request
    yield os.getpid()


def count(limit: int) -> Iterator[int]:
    """0, 1, 2 …"""
    yield from range(limit)


def modules(jobs: tuple[tuple[str, object], ...]) -> Iterator[str]:
    """Names of what is loaded after these jobs ran here."""
    from onnxparity.running.jobs import JOBS

    for job, request in jobs:
        list(JOBS[job](request))
    yield from sorted(sys.modules)


def environment(names: tuple[str, ...]) -> Iterator[str | None]:
    """Variables as the worker sees them."""
    yield from map(os.environ.get, names)


def refuse(what: str) -> Iterator[object]:
    """Raises one of this package's own errors, after an item."""
    yield "first"
    raise UsageError(what, expected="a", got="b", remedy="c")


def stumble(kind: type[Exception]) -> Iterator[object]:
    """Raises any other exception."""
    yield "first"
    raise kind("stumbled")


def unpicklable(_: object) -> Iterator[object]:
    """Yields what cannot be sent."""
    yield "first"
    yield lambda: None


class Sealed:
    """Of a module that the caller cannot import."""


def sealed(_: object) -> Iterator[object]:
    """Yields what cannot be received, and then more."""
    yield Sealed()
    yield "after"


def leave(code: int) -> Iterator[object]:
    """Ends the process at once."""
    yield "first"
    sys.stderr.write(f"about to leave with {code}\n")
    sys.stderr.flush()
    os._exit(code)


def stop(code: int) -> Iterator[object]:
    """Ends the interpreter."""
    yield "first"
    sys.exit(code)


def abort(words: str) -> Iterator[object]:
    """Dies as native code does."""
    print(words, flush=True)
    os.abort()
    yield words


def killed(number: int) -> Iterator[object]:
    """Dies by a signal, without a word."""
    os.kill(os.getpid(), number)
    yield signal.SIGKILL


def sleep(seconds: float) -> Iterator[object]:
    """Comes to nothing for a while."""
    yield "first"
    time.sleep(seconds)
    yield "late"


def hang_up(seconds: float) -> Iterator[object]:
    """Closes every descriptor but lives on."""
    os.closerange(3, 256)
    time.sleep(seconds)
    yield seconds
