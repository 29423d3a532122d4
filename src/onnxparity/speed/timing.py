"""Latency: each runtime in its own worker, taking turns in short blocks while the others are stopped.

Idle threads of one library spin on the cores of the next (eight runtimes in one process made torch eager
eleven times slower than it is alone), so whoever is not on turn is suspended, and turns A B A B cancel drift.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, cast

import numpy as np

from onnxparity.artifact import Artifact
from onnxparity.case import Axis, Subject, parse_shape
from onnxparity.errors import OnnxParityError
from onnxparity.feeding.feeds import draw
from onnxparity.running.worker import Worker

__all__ = ["Series", "TimeRequest", "curve", "interleave", "percentiles", "time_blocks"]

BLOCK_SECONDS = 0.03
"""About how long one turn lasts; short enough that drift hits every runtime alike."""
TURNS = 8
LEAST_RUNS, SLOW_SECONDS = 4, 0.25
"""Runs in a block however short the block was meant to be, unless one run takes longer than this."""
WARMUP_SECONDS = 0.05
STEADY = 0.05
"""Warm-up ends where two blocks in a row have medians this close, or after MAX_WARMUP blocks."""
MAX_WARMUP = 20
LOAD_LIMIT = 300.0
WAKING_RUNS = 2
"""Runs at the head of a block that are not timed: the first one after a worker was stopped waits for its threads
(seen: 40 ms for a block of 0.2 ms in torch eager)."""
LENGTHS = (16, 64, 128)


@dataclass(frozen=True)
class TimeRequest:
    """What one worker is to time."""

    subject: Subject
    runtime: str
    shape: str
    dtype: str
    artifact: Artifact | None
    """None for the module itself."""
    directory: str
    threads: int
    renamed: Mapping[str, str] = field(default_factory=dict)
    """Names of the artifact's inputs where they differ: subject's name to artifact's name."""


@dataclass(frozen=True)
class Series:
    """Raw samples of one runtime, in the order they were taken."""

    runtime: str
    samples_ms: tuple[float, ...]
    warmup_runs: int
    turns: int
    error: str = ""
    """Why there are no samples."""


def percentiles(samples_ms: Sequence[float]) -> tuple[float, float, float]:
    """The 50th, 90th and 99th percentile in milliseconds. Raises ValueError for no samples."""
    if not samples_ms:
        raise ValueError("no samples, so no percentiles")
    p50, p90, p99 = np.quantile(np.asarray(samples_ms), (0.5, 0.9, 0.99))
    return float(p50), float(p90), float(p99)


def interleave(
    requests: Sequence[TimeRequest],
    *,
    turns: int = TURNS,
    block_seconds: float = BLOCK_SECONDS,
    workers: dict[str, Worker] | None = None,
) -> list[Series]:
    """Times every request in its own worker, in turns; only the worker on turn runs.

    A request that cannot be loaded or run gives a Series with its error and no samples.

    workers: by runtime and place, kept for the next call (and closed by the caller), so that a curve over many shapes
        starts each runtime's process once; None for workers of this call's own.
    """
    kept = workers if workers is not None else {}
    names = [r.runtime for r in requests]
    slots = [f"{name} {names[:place].count(name)}" for place, name in enumerate(names)]
    for slot in slots:
        if slot not in kept:
            kept[slot] = Worker(threads=None)
    timers = [_Timer(request, kept[slot]) for request, slot in zip(requests, slots, strict=True)]
    try:
        for timer in timers:
            timer.warm_up(block_seconds)
        for _ in range(turns):
            for timer in timers:
                timer.take_turn()
        return [timer.series(turns) for timer in timers]
    finally:
        if workers is None:
            for worker in kept.values():
                worker.close()


class _Timer:
    """One worker with a bound call, stopped except on its turn."""

    def __init__(self, request: TimeRequest, worker: Worker) -> None:
        self.request = request
        self.worker = worker
        self.samples: list[float] = []
        self.warmup = 0
        self.runs = 1
        self.error = ""

    def warm_up(self, block_seconds: float) -> None:
        """Loads, then runs until two blocks agree, and settles how many runs make a block."""
        first = self._block(1, self.request)
        if not first:
            return
        self.warmup += 1
        previous = None
        for _ in range(MAX_WARMUP):
            block = self._block(max(2, int(WARMUP_SECONDS / max(first[0] / 1e3, 1e-6))))
            if not block:
                return
            self.warmup += len(block)
            median = float(np.median(block))
            least = LEAST_RUNS if median < SLOW_SECONDS * 1e3 else 1
            self.runs = max(least, int(block_seconds * 1e3 / max(median, 1e-3)))
            if previous is not None and abs(median - previous) <= STEADY * previous:
                return
            previous = median

    def take_turn(self) -> None:
        """One block of samples."""
        if not self.error:
            self.samples += self._block(self.runs)

    def series(self, turns: int) -> Series:
        """What was taken; nothing at all where a turn failed."""
        samples = () if self.error else tuple(self.samples)
        return Series(self.request.runtime, samples, self.warmup, turns, self.error)

    def _block(self, runs: int, request: TimeRequest | None = None) -> list[float]:
        """Samples in ms; empty, with the error kept, where the worker could not."""
        try:
            self.worker.resume()
            (block,) = self.worker.call("time", (request, runs), limit=LOAD_LIMIT)
            self.worker.suspend()
        except OnnxParityError as error:
            self.error = error.what.splitlines()[0]
            self.worker.close()  # else its idle threads spin beside whoever is on turn
            return []
        return list(block)


_bound: dict[str, Callable[[], Any]] = {}  # Any: whatever the runtime's call returns is dropped


def time_blocks(request: tuple[TimeRequest | None, int]) -> Iterator[list[float]]:
    """The worker's side: binds the request where one is given, then yields `runs` samples in ms."""
    wanted, runs = request
    if wanted is not None:
        _bound["call"] = _bind(wanted)
    call, clock = _bound["call"], time.perf_counter_ns
    samples = []
    for _ in range(WAKING_RUNS):
        call()
    gc.disable()
    for _ in range(runs):
        before = clock()
        call()
        samples.append((clock() - before) / 1e6)
    gc.enable()
    yield samples


def _bind(request: TimeRequest) -> Callable[[], Any]:
    """A call with its inputs in place, so that a sample holds the model and nothing else."""
    feeds = draw(request.subject, parse_shape(request.subject, request.shape), "normal", request.dtype)
    if request.artifact is None:
        from onnxparity.models.subjects import bring
        from onnxparity.runtimes import torch_eager

        source = bring(request.subject.origin, Path(request.directory))
        module = source.flat(source.build())
        return torch_eager.bind(module, request.subject, request.dtype, feeds, threads=request.threads)
    from onnxparity import plugins

    feeds = {request.renamed.get(name, name): value for name, value in feeds.items()}
    session = plugins.runtime(request.runtime, request.threads).load(request.artifact)
    bind = getattr(session, "bind", None)
    return partial(session.run, feeds) if bind is None else cast(Callable[[], Any], bind(feeds))


def curve(subject: Subject, lengths: Sequence[int] = LENGTHS) -> list[dict[str, int]]:
    """Sizes along which latency is measured: batch 1, every other axis at each length, inside its bounds."""
    sizes: list[dict[str, int]] = []
    for length in lengths:
        each = {a.symbol: _within(a, 1 if a.role == "batch" else length) for a in subject.axes}
        if each not in sizes:
            sizes.append(each)
    return sizes


def _within(axis: Axis, size: int) -> int:
    return max(axis.low, size if axis.high is None else min(size, axis.high))
