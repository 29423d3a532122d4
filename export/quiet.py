"""Catching what torch and onnxscript would print, log and warn, so that it ends up in the record instead."""

from __future__ import annotations

import io
import logging
import re
import sysconfig
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, redirect_stderr, redirect_stdout

__all__ = ["quiet"]

_ROOTS = ("torch", "onnxscript", "onnx_ir", "onnx")
_NOISE = re.compile(
    r"torchvision is not installed"
    # Said at each opset below 18; the opset check says it as an error.
    r"|Setting ONNX exporter to use operator set version"
)
_LIBRARIES = tuple(sysconfig.get_path(kind) for kind in ("purelib", "platlib", "stdlib"))
_Show = Callable[..., None]  # `...`: the signature of warnings.showwarning
_ADVICE_TO_LIBRARIES = (DeprecationWarning, PendingDeprecationWarning, FutureWarning)


@contextmanager
def quiet() -> Iterator[list[str]]:
    """Yields the list that what is said inside goes to, one line each, without repetitions.

    Python warnings, log records from WARNING up of torch, onnxscript and onnx, and whatever is printed. Deprecations
    that one library tells another are dropped: the user can do nothing about them.
    """
    said: list[str] = []
    printed = io.StringIO()
    with ExitStack() as stack:
        stack.enter_context(warnings.catch_warnings())
        warnings.simplefilter("always")
        warnings.showwarning = _hearing(said)
        stack.enter_context(_loggers(said))
        stack.enter_context(redirect_stdout(printed))
        stack.enter_context(redirect_stderr(printed))
        try:
            yield said
        finally:
            said += [f"printed: {line}" for line in printed.getvalue().splitlines() if line.strip()]
            said[:] = dict.fromkeys(line for line in said if not _NOISE.search(line))


def _hearing(said: list[str]) -> _Show:
    def show(
        message: Warning | str,
        category: type[Warning],
        filename: str,
        lineno: int,
        file: object = None,
        line: str | None = None,
    ) -> None:
        if not (issubclass(category, _ADVICE_TO_LIBRARIES) and filename.startswith(_LIBRARIES)):
            said.append(f"{category.__name__}: {_one_line(str(message))}")

    return show


class _Collector(logging.Handler):
    def __init__(self, said: list[str]) -> None:
        super().__init__(logging.WARNING)
        self._said = said

    def emit(self, record: logging.LogRecord) -> None:
        text = _one_line(record.getMessage())
        error = record.exc_info[1] if record.exc_info else None
        why = f" ({type(error).__name__}: {_one_line(str(error))})" if error else ""
        self._said.append(f"{record.name}: {text}{why}")


@contextmanager
def _loggers(said: list[str]) -> Iterator[None]:
    """torch gives dozens of its loggers a handler of their own, so each has to be redirected."""
    names = [name for name in list(logging.root.manager.loggerDict) if name.partition(".")[0] in _ROOTS]
    loggers = [logging.getLogger(name) for name in dict.fromkeys((*_ROOTS, *names))]
    redirected = [logger for logger in loggers if logger.handlers or logger.name in _ROOTS]
    before = [(logger, logger.handlers, logger.propagate) for logger in redirected]
    collector = _Collector(said)
    for logger in redirected:
        logger.handlers, logger.propagate = [collector], False
    try:
        yield
    finally:
        for logger, handlers, propagate in before:
            logger.handlers, logger.propagate = handlers, propagate


def _one_line(text: str) -> str:
    return " ".join(text.split())[:500]
