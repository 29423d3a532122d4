"""Samples that were taken elsewhere, handed to pytest-benchmark as its own rounds.

The samples come from worker processes that take turns (`onnxparity.speed.timing`). pytest-benchmark times one
function after the other in its own process, so its clock is replaced by the workers': each round moves the
clock by the next sample.
"""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["CLOCK", "Replay"]


class Replay:
    """A clock that moves by recorded samples, and the function whose rounds move it."""

    def __init__(self) -> None:
        self._left: list[float] = []
        self._now = 0.0

    def load(self, samples_ms: Sequence[float]) -> None:
        """Takes the samples to replay. Raises ValueError for none."""
        if not samples_ms:
            raise ValueError("no samples to replay")
        self._left = list(reversed(samples_ms))

    def advance(self) -> None:
        """One round: the clock moves by the next sample."""
        self._now += self._left.pop() / 1e3

    def __call__(self) -> float:
        """Seconds by the workers' clock."""
        return self._now


CLOCK = Replay()
