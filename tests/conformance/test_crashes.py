"""A runtime that aborts or hangs costs its own cells; the rest of the run is judged and told."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.tiny_models import save_tiny

DEADLY = '''
import os
import threading

from onnxparity.protocols import Availability
from onnxparity.runtimes.ort_cpu import OrtCpu


class Deadly:
    """ONNX Runtime, but it aborts on a single token, and hangs on large values."""

    name, question = "deadly", "arithmetic"

    def probe(self):
        return Availability("deadly", True, "", "1")

    def load(self, artifact):
        session = OrtCpu().load(artifact)
        run = session.run

        def deadly(feeds):
            (x,) = feeds.values()
            if x.shape[1] == 1:
                os.abort()
            if abs(x).max() > 20:
                threading.Event().wait()
            return run(feeds)

        session.run = deadly
        return session


class Broken:
    """It takes its worker down when it is only asked whether it is there."""

    def __init__(self):
        os.abort()
'''
ENTRY_POINTS = "[onnxparity.runtimes]\ndeadly = deadly:Deadly\nbroken = deadly:Broken\nabsent = no_such_module:Absent\n"
LIMIT = "8"
"""Seconds a cell may take: more than starting a worker takes on a busy machine."""


@pytest.fixture(scope="module")
def plugged(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """An environment in which another package has registered three runtimes."""
    site = tmp_path_factory.mktemp("site")
    (site / "deadly.py").write_text(DEADLY)
    info = site / "deadly-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: deadly\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(ENTRY_POINTS)
    return {**os.environ, "PYTHONPATH": str(site), "ONNXPARITY_CACHE": str(site / "cache")}


def test_every_cell_has_its_verdict_whatever_a_runtime_does(plugged: dict[str, str], tmp_path: Path) -> None:
    save_tiny(tmp_path / "good.onnx")
    save_tiny(tmp_path / "same.onnx")
    runtimes = [word for name in ("deadly", "broken", "absent", "ort-cpu") for word in ("--runtime", name)]
    typed = ("verify", "good.onnx", "--against", "same.onnx", "--quick", "--latency", "none", "--limit", LIMIT)
    done = subprocess.run(
        [sys.executable, "-m", "onnxparity", *typed, *runtimes, "--json", "-"],
        cwd=tmp_path,
        env=plugged,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1, done.stderr
    document = json.loads(done.stdout)
    found = {(v["cell"]["runtime"], v["cell"]["shape"], v["cell"]["regime"]): v for v in document["verdicts"]}
    statuses = {where: v["status"] for where, v in found.items()}
    points = [("b2-t17", "normal"), ("b2-t17", "saturated"), ("b1-t1", "normal")]
    assert {where: s for where, s in statuses.items() if where[0] == "deadly"} == {
        ("deadly", *points[0]): "PASS",
        ("deadly", *points[1]): "TIMEOUT",
        ("deadly", *points[2]): "CRASH",
        ("deadly", "b2-t17", "determinism"): "PASS",
    }
    for sound in ("onnx-float64", "ort-cpu"):
        assert [statuses[(sound, *point)] for point in points] == ["PASS"] * 3
    assert [statuses[("absent", *point)] for point in points] == ["UNAVAILABLE"] * 3
    assert [statuses[("broken", *point)] for point in points] == ["CRASH"] * 3
    assert "signal 6" in found[("deadly", *points[2])]["message"]
    assert f"within {LIMIT} s" in found[("deadly", *points[1])]["message"]
    assert "remedy: raise --limit" in found[("deadly", *points[1])]["evidence"]
    reasons = {r["runtime"]: r["reason"] for r in document["runtimes"] if not r["available"]}
    assert "the worker died in probe: signal 6" in reasons["broken"]
    assert "no_such_module" in reasons["absent"]
    assert {limit.split()[0] for limit in document["limits"]} == {"broken", "absent"}
