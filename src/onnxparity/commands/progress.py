"""Progress on stderr: cells done, cells red, time left."""

from __future__ import annotations

from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TaskID, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.progress import Progress as Bar

from onnxparity.outcome import GREEN, Verdict
from onnxparity.running.pipeline import Listener

__all__ = ["Progress"]

PLAIN_EVERY = 1000
"""Cells between two lines where stderr is not a terminal, such as in a CI log."""


class Progress(Listener):
    """A bar on a terminal; a line now and then in a log."""

    def __init__(self) -> None:
        self._console = Console(stderr=True)
        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
        )
        self._bar = Bar(*columns, console=self._console, transient=True, disable=not self._console.is_terminal)
        self._task: TaskID | None = None
        self._total = self._done = self._red = 0

    def __enter__(self) -> Progress:
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()

    def planned(self, cells: int) -> None:
        """Draws the bar's full length."""
        self._total = cells
        self._task = self._bar.add_task("verifying", total=cells)

    def found(self, verdict: Verdict) -> None:
        """Moves the bar, and says when something is red."""
        self._done += 1
        self._red += verdict.status not in GREEN
        text = f"verifying, {self._red} red" if self._red else "verifying"
        if self._task is not None:
            self._bar.update(self._task, advance=1, description=text)
        if not self._console.is_terminal and (self._done % PLAIN_EVERY == 0 or self._done == self._total):
            self._console.print(f"{text}: {self._done} of {self._total} cells", highlight=False)

    def timing(self, what: str) -> None:
        """Says what is being timed."""
        if self._console.is_terminal and self._task is not None:
            self._bar.update(self._task, description=f"timing {what}")
