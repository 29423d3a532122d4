"""Latency: whoever is not on turn is stopped, samples stay in order, and what fails is a series with its error."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pytest

from onnxparity.artifact import Artifact
from onnxparity.case import Axis
from onnxparity.errors import LoadError, RunError, SubjectError
from onnxparity.export.given import read_given
from onnxparity.running.worker import Worker
from onnxparity.speed import timing
from onnxparity.speed.timing import TimeRequest, curve, interleave, percentiles, time_blocks
from tests.tiny_models import save_tiny
from tests.unit.hub.subjects import SEQUENCE, subject


@dataclass
class Clock:
    """What the stubbed workers do: each run takes the milliseconds that its runtime's name says, or a little less."""

    log: list[tuple[str, str]] = field(default_factory=list)
    fails: dict[str, tuple[int, Exception]] = field(default_factory=dict)
    """By runtime: at which call it fails, and how."""
    drifts: bool = False
    """Whether blocks never agree."""
    running: set[str] = field(default_factory=set)
    number: Iterator[int] = field(default_factory=itertools.count)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """No worker is started."""
    told = Clock()

    class Stub:
        def __init__(self, *, threads: int | None) -> None:
            assert threads is None, "the runtime decides on its threads"
            self.name, self.calls = "", 0

        def call(self, job: str, request: tuple[TimeRequest | None, int], *, limit: float) -> Iterator[list[float]]:
            assert job == "time" and limit > 0
            wanted, runs = request
            if wanted is not None:
                self.name = wanted.runtime
                told.running.add(self.name)
            assert told.running <= {self.name}, "only one worker runs at a time"
            told.log.append((self.name, "bind" if wanted else str(runs)))
            self.calls += 1
            at, error = told.fails.get(self.name, (0, ValueError()))
            if self.calls == at:
                raise error
            step = next(told.number)
            yield [0.999 * float(self.name) * (1.5 ** (step % 2) if told.drifts else 1) + step * 1e-6] * runs

        def suspend(self) -> None:
            told.running.discard(self.name)

        def resume(self) -> None:
            if self.name:
                told.running.add(self.name)

        def close(self) -> None:
            told.running.discard(self.name)
            told.log.append((self.name, "closed"))

    monkeypatch.setattr(timing, "Worker", Stub)
    return told


def request(runtime: str, artifact: Artifact | None = None) -> TimeRequest:
    """A runtime that takes so many milliseconds."""
    return TimeRequest(subject(), runtime, "b1-t16", "float32", artifact, ".", 2)


def test_turns_alternate_and_samples_stay_in_the_order_they_were_taken(clock: Clock) -> None:
    fast, slow = interleave([request("3"), request("5")], turns=4, block_seconds=0.03)
    turns = [(name, what) for name, what in clock.log if what != "closed"][-8:]
    assert turns == [("3", "10"), ("5", "6")] * 4, "blocks of equal length, A B A B"
    assert (fast.runtime, fast.turns, len(fast.samples_ms)) == ("3", 4, 40)
    assert (slow.runtime, slow.turns, len(slow.samples_ms)) == ("5", 4, 24)
    for series in (fast, slow):
        assert list(series.samples_ms) == sorted(series.samples_ms)
        assert series.error == "" and series.warmup_runs > 0
    assert clock.running == set()
    assert [name for name, what in clock.log if what == "closed"] == ["3", "5"]


def test_warm_up_is_no_sample_and_ends_when_two_blocks_agree(clock: Clock) -> None:
    (series,) = interleave([request("5")], turns=2, block_seconds=0.03)
    assert clock.log == [("5", "bind"), ("5", "10"), ("5", "10"), ("5", "6"), ("5", "6"), ("5", "closed")]
    assert series.warmup_runs == 1 + 10 + 10
    assert len(series.samples_ms) == 12


@pytest.mark.parametrize(("milliseconds", "runs"), [("20", timing.LEAST_RUNS), ("300", 1)])
def test_a_slow_model_has_a_few_runs_in_a_block_and_a_very_slow_one_has_one(
    clock: Clock, milliseconds: str, runs: int
) -> None:
    (series,) = interleave([request(milliseconds)], turns=3)
    assert len(series.samples_ms) == 3 * runs


def test_warm_up_ends_even_where_blocks_never_agree(clock: Clock) -> None:
    clock.drifts = True
    (series,) = interleave([request("5")], turns=1)
    assert len([1 for _, what in clock.log if what == "10"]) <= timing.MAX_WARMUP
    assert series.samples_ms


@pytest.mark.parametrize(
    ("call", "error"),
    [(1, LoadError("it does not load\nmore", got="why")), (2, RunError("it fails")), (5, RunError("it fails late"))],
)
def test_what_fails_is_a_series_with_its_error_and_no_samples(clock: Clock, call: int, error: LoadError) -> None:
    clock.fails["3"] = (call, error)
    broken, sound = interleave([request("3"), request("5")], turns=4)
    assert (broken.samples_ms, broken.error) == ((), error.what.splitlines()[0])
    assert len(sound.samples_ms) == 24 and sound.error == ""
    assert sum(name == "3" for name, what in clock.log if what != "closed") == call, "it is not asked again"


def test_workers_are_ended_where_something_else_goes_wrong(clock: Clock) -> None:
    clock.fails["3"] = (4, KeyError("a fault of ours"))
    with pytest.raises(KeyError):
        interleave([request("3"), request("10")], turns=4)
    assert {name for name, what in clock.log if what == "closed"} == {"3", "10"}


def test_nothing_to_time_is_no_series(clock: Clock) -> None:
    assert interleave([]) == []


def test_percentiles_are_those_of_the_samples() -> None:
    assert percentiles([float(n) for n in range(101)]) == (50.0, 90.0, 99.0)
    assert percentiles([3.0]) == (3.0, 3.0, 3.0)
    with pytest.raises(ValueError, match="no samples"):
        percentiles([])


def test_the_curve_runs_along_every_axis_but_the_batch() -> None:
    assert curve(subject()) == [{"batch": 1, "sequence": n} for n in timing.LENGTHS]
    bounded = replace(SEQUENCE, low=20, high=70)
    assert [s["sequence"] for s in curve(subject(axes=(Axis("batch", "b", "batch", 2), bounded)))] == [20, 64, 70]
    assert {s["batch"] for s in curve(subject(axes=(Axis("batch", "b", "batch", 2), bounded)))} == {2}
    short = replace(SEQUENCE, high=16)
    assert curve(subject(axes=(Axis("batch", "b", "batch"), short))) == [{"batch": 1, "sequence": 16}], "once each"


@pytest.fixture
def tiny(tmp_path: Path) -> TimeRequest:
    """A file that ONNX Runtime runs."""
    read = read_given(save_tiny(tmp_path / "a.onnx"))
    return TimeRequest(read.subject, "ort-cpu", "b1-t16", "float32", read.artifact, str(tmp_path), 1)


def test_a_file_is_bound_once_and_timed_in_blocks(tiny: TimeRequest) -> None:
    (first,) = time_blocks((tiny, 3))
    (second,) = time_blocks((None, 5))
    assert (len(first), len(second)) == (3, 5)
    assert all(sample > 0 for sample in (*first, *second))


def test_a_file_of_other_names_is_fed_by_its_own(tmp_path: Path, tiny: TimeRequest) -> None:
    other = read_given(save_tiny(tmp_path / "b.onnx", names=("input", "output"))).artifact
    with pytest.raises(SubjectError):
        list(time_blocks((replace(tiny, artifact=other), 1)))
    (samples,) = time_blocks((replace(tiny, artifact=other, renamed={"x": "input", "y": "output"}), 2))
    assert len(samples) == 2


def test_a_module_is_timed_too(tiny: TimeRequest) -> None:
    from onnxparity.models import catalogue

    own = catalogue.find("layer-norm").subject
    eager = replace(tiny, subject=own, runtime="torch-eager", artifact=None)
    (samples,) = time_blocks((eager, 2))
    assert len(samples) == 2 and np.isfinite(samples).all()


def test_real_workers_take_turns(tiny: TimeRequest) -> None:
    assert tiny.artifact is not None
    missing = replace(tiny, artifact=replace(tiny.artifact, path="nothing.onnx"))
    timed, broken = interleave([tiny, missing], turns=2, block_seconds=0.001)
    assert timed.samples_ms and timed.error == ""
    assert broken.samples_ms == () and broken.error


def test_the_runs_that_wake_a_stopped_worker_are_not_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    called: list[int] = []
    now = iter(range(0, 10**12, 10**6))
    monkeypatch.setitem(timing._bound, "call", lambda: called.append(len(called)))
    monkeypatch.setattr("time.perf_counter_ns", lambda: next(now))
    (samples,) = timing.time_blocks((None, 5))
    assert len(called) == timing.WAKING_RUNS + 5
    assert samples == [1.0] * 5


def test_kept_workers_serve_the_next_shape_and_are_left_to_the_caller(clock: Clock) -> None:
    workers: dict[str, Worker] = {}
    for _ in range(2):
        interleave([request("3"), request("5")], turns=2, workers=workers)
    assert len(workers) == 2
    assert [name for name, what in clock.log if what == "bind"] == ["3", "5", "3", "5"]
    assert not any(what == "closed" for _, what in clock.log)
    assert not clock.running
