"""Latency of catalogue subjects and of the trained encoder, runtime by runtime: `make bench`.

A subject is verified and timed once, its runtimes in turns, each in its own worker; pytest-benchmark then stores,
groups and compares the raw samples. A runtime that did not pass parity has no number here: its test fails.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

import onnxparity
from onnxparity.record import Latency

from .replay import CLOCK

SUBJECTS = ("causal-attention", "encoder-block-post-norm", "minilm")
RUNTIMES = ("torch-eager", "ort-cpu", "ort-cuda")

pytestmark = pytest.mark.benchmark(timer=CLOCK)


@cache
def timed(subject: str, out: Path) -> tuple[Latency, ...]:
    """The latency rows of one subject, taken side by side."""
    report = onnxparity.verify(subject, quick=True, latency=(subject,), out=out)
    return report.latency


@pytest.mark.slow
@pytest.mark.parametrize("subject", SUBJECTS)
@pytest.mark.parametrize("runtime", RUNTIMES)
def test_latency(
    benchmark: BenchmarkFixture, subject: str, runtime: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    rows = [r for r in timed(subject, tmp_path_factory.getbasetemp() / subject) if r.runtime == runtime]
    if not rows:
        pytest.skip(f"{runtime} is not available here, or {subject} is not installed")
    assert all(r.conforms for r in rows), [r.note for r in rows if not r.conforms]
    longest = rows[-1]
    benchmark.group = f"{subject} {longest.shape}"
    benchmark.extra_info |= {"artifact": longest.artifact.id, "threads": longest.threads, "turns": longest.turns}
    CLOCK.load(longest.samples_ms)
    benchmark.pedantic(CLOCK.advance, rounds=len(longest.samples_ms))  # type: ignore[no-untyped-call]  # untyped there
    if benchmark.stats is not None:
        stored = benchmark.stats.stats.median * 1e3
        assert stored == pytest.approx(longest.p50_ms)
