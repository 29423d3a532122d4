"""One family of errors, each saying what happened, what was expected, what was got, and the remedy.

Only `cli` turns them into exit codes; nothing here prints.
"""

from __future__ import annotations

from typing import ClassVar

__all__ = [
    "EvidenceError",
    "ExportError",
    "InternalError",
    "LintError",
    "LoadError",
    "OnnxParityError",
    "RunError",
    "SubjectError",
    "UnavailableError",
    "UsageError",
    "WorkerCrashedError",
    "WorkerTimeoutError",
]


class OnnxParityError(Exception):
    """Base of every error this package raises on purpose."""

    exit_code: ClassVar[int] = 2

    def __init__(
        self, what: str, *, expected: str | None = None, got: str | None = None, remedy: str | None = None
    ) -> None:
        self.what = what
        self.expected = expected
        self.got = got
        self.remedy = remedy
        super().__init__(str(self))

    def __str__(self) -> str:
        parts = [self.what]
        for label, text in (("expected", self.expected), ("got", self.got), ("remedy", self.remedy)):
            if text is not None:
                parts.append(f"  {label}: {text}")
        return "\n".join(parts)

    def __reduce__(self) -> tuple[object, ...]:
        """Survives pickling, since errors cross the boundary of worker processes."""
        return _rebuild, (type(self), self.what, self.expected, self.got, self.remedy)


def _rebuild(
    kind: type[OnnxParityError], what: str, expected: str | None, got: str | None, remedy: str | None
) -> OnnxParityError:
    return kind(what, expected=expected, got=got, remedy=remedy)


class UsageError(OnnxParityError):
    """The command line, a configuration or an input file is wrong."""


class SubjectError(OnnxParityError):
    """A subject cannot be built, described or fed."""


class ExportError(OnnxParityError):
    """No ONNX file came out, or not the one that was asked for (status EXPORT_ERROR)."""

    exit_code = 1


class LintError(OnnxParityError):
    """The file exists and is not what was asked for (status LINT_ERROR)."""

    exit_code = 1


class LoadError(OnnxParityError):
    """A runtime refused the file (status LOAD_ERROR)."""

    exit_code = 1


class RunError(OnnxParityError):
    """A runtime loaded the file and failed while running it (status RUN_ERROR)."""

    exit_code = 1


class UnavailableError(OnnxParityError):
    """A runtime is not there, with its loader's own reason (status UNAVAILABLE)."""

    exit_code = 3


class EvidenceError(OnnxParityError):
    """The evidence is incomplete: nothing ran, or what ran cannot be compared."""

    exit_code = 3


class WorkerCrashedError(OnnxParityError):
    """A worker process died (status CRASH); `got` carries its exit code or signal and its last words."""

    exit_code = 1


class WorkerTimeoutError(OnnxParityError):
    """A worker process ran past its limit and was ended (status TIMEOUT)."""

    exit_code = 1


class InternalError(OnnxParityError):
    """A fault of this package inside a worker process; `got` carries the traceback."""

    exit_code = 70
