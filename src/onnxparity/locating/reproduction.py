"""The minimal reproduction: a folder that shows a failure with nothing but ONNX Runtime and NumPy.

model.onnx            the smallest part that still fails (its weights beside it above 1 GiB)
inputs/input_N.pb     what is fed, in the order of the model's inputs, as in ONNX's own test data
outputs/output_N.pb   the exact values, rounded to the dtype of the output
data.npz              the same inputs, the exact values in float64, and the limit of each vector
reproduce.py          exits 1 while it fails, 0 once it does not
README.txt            three lines
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from onnxparity.errors import EvidenceError
from onnxparity.protocols import Feeds, Outputs

if TYPE_CHECKING:
    from onnx import ModelProto

__all__ = ["Failing", "Reproduction", "write"]

SECONDS = 120.0
"""How long the script may take when it is tried out."""
SCRIPT = """\
import sys
import numpy as np
import onnxruntime

data, options, failed = np.load("data.npz"), onnxruntime.SessionOptions(), 0
options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.{level}
session = onnxruntime.InferenceSession("model.onnx", options, providers={providers})
names = [output.name for output in session.get_outputs()]
for name, got in zip(names, session.run(names, {{i.name: data["input/" + i.name] for i in session.get_inputs()}})):
    want, limit = data["want/" + name], np.broadcast_to(data["limit/" + name], got.shape)
    same = (got == want) | (np.isnan(got) & np.isnan(want))
    error = np.where(same, 0, np.nan_to_num(np.abs(got.astype(float) - want), nan=np.inf, posinf=np.inf))
    worst, out = int(np.argmax(np.nan_to_num(error - limit, nan=-1))), int((error > limit).sum())
    print(f"{{name}}: error {{error.flat[worst]:.3g}}, limit {{limit.flat[worst]:.3g}}, {{out}} of {{got.size}} out")
    failed |= out > 0
sys.exit(int(failed))
"""


@dataclass(frozen=True)
class Failing:
    """A graph that fails: all that a reproduction needs."""

    model: ModelProto
    """With its weights in memory. A part of an artifact, see `runtimes.subgraph.Sliceable.cut`."""
    feeds: Feeds
    """By the names of the model's inputs, in their dtypes."""
    want: Outputs
    """Exact values by output name, floats in float64."""
    limits: Outputs
    """By output name: the largest difference that is in budget, absolute, to be broadcast against the output."""
    level: str = "all"
    """ONNX Runtime's optimisation level, as in `runtimes.ort.LEVELS`."""


@dataclass(frozen=True)
class Reproduction:
    """What was written."""

    folder: str
    fails: bool
    """Whether ONNX Runtime shows the failure here; a failure of another runtime may be that runtime's alone."""


def write(failing: Failing, folder: Path, runtime: str, *, what: str = "") -> Reproduction:
    """Writes the folder, in place of one that is there, and tries its script out.

    runtime: the one that failed. what: the failure in a line, for README.txt.
    Raises EvidenceError for values that NumPy's file format does not hold (bfloat16), OSError where the disk refuses.
    """
    _refuse_bfloat16(failing.feeds)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    _write_model(failing, folder)
    _write_data(failing, folder)
    _write_script(failing, folder, runtime)
    fails = _fails(folder)
    _write_readme(folder, runtime, what, fails)
    return Reproduction(str(folder), fails)


def _write_model(failing: Failing, folder: Path) -> None:
    """The model, and its inputs and exact outputs one by one."""
    from onnxparity.runtimes.subgraph import outputs_as_declared, save, write_tensor

    save(failing.model, folder / "model.onnx")
    given = [i.name for i in failing.model.graph.input if i.name in failing.feeds]
    for kind, values in (
        ("input", {name: failing.feeds[name] for name in given}),
        ("output", outputs_as_declared(failing.model, failing.want)),
    ):
        place = folder / f"{kind}s"
        place.mkdir()
        for number, (name, value) in enumerate(values.items()):
            write_tensor(place / f"{kind}_{number}.pb", name, value)


def _write_data(failing: Failing, folder: Path) -> None:
    arrays = {f"input/{name}": value for name, value in failing.feeds.items()}
    arrays |= {f"want/{name}": value for name, value in failing.want.items()}
    arrays |= {f"limit/{name}": np.asarray(failing.limits[name], np.float64) for name in failing.want}
    np.savez(folder / "data.npz", allow_pickle=False, **arrays)


def _write_script(failing: Failing, folder: Path, runtime: str) -> None:
    from onnxparity.runtimes.ort import LEVELS

    levels: Mapping[str, str] = {str(level): name for level, name in LEVELS.items()}
    providers = ["CUDAExecutionProvider"] * ("cuda" in runtime) + ["CPUExecutionProvider"]
    text = SCRIPT.format(level=levels[failing.level], providers=providers)
    (folder / "reproduce.py").write_text(text, encoding="utf-8")


def _fails(folder: Path) -> bool:
    """Whether the script says so here, in a process of its own that may crash."""
    command = [sys.executable, "-P", "reproduce.py"]
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, timeout=SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return False
    return done.returncode != 0


def _write_readme(folder: Path, runtime: str, what: str, fails: bool) -> None:
    seen = "fails here" if fails else f"passes here in onnxruntime: the failure is one of {runtime}"
    lines = (
        what or f"{runtime} is out of budget",
        f"python reproduce.py needs onnxruntime and numpy, exits 1 while this fails and 0 once it does not. It {seen}.",
        "data.npz: inputs, exact outputs in float64 and limits. inputs/, outputs/: the same as ONNX test data.",
    )
    (folder / "README.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")


def _refuse_bfloat16(feeds: Feeds) -> None:
    for name, value in feeds.items():
        if value.dtype.isbuiltin != 1:
            raise EvidenceError(
                f"input {name!r} cannot be stored for a reproduction",
                expected="a dtype that NumPy has of its own",
                got=str(value.dtype),
                remedy="reproduce it from the artifact with the cell's own command",
            )
