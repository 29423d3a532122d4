"""ONNX Runtime on CUDA, or nothing: asked for CUDA without a device, ONNX Runtime gives a CPU session and no error."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Collection
from functools import cache

import onnxruntime

from onnxparity.artifact import Artifact
from onnxparity.errors import UnavailableError
from onnxparity.outcome import Question
from onnxparity.protocols import TF32, Availability, Placement
from onnxparity.runtimes.cuda_answer import CUDA, preload
from onnxparity.runtimes.host_nodes import host_data_nodes
from onnxparity.runtimes.ort import CPU, Level, OrtSession, open_session
from onnxparity.runtimes.ort_install import installed_builds

__all__ = ["OrtCuda", "OrtCudaSession", "OrtCudaTf32"]

PROBE_LIMIT = 120.0
"""Seconds; the first CUDA context on a busy machine takes several."""
COLOURS = re.compile(r"\x1b\[[0-9;]*m")
LOADER = re.compile(r"with error: (.+)")
DEVICE = re.compile(r"(CUDA failure \d+: [^;\n]+|CUDA error \S+: [^;\n]+|CUDNN\S* failure [^;\n]+)")
DRIVER = re.compile(r"libcuda\.so|nvcuda\.dll")
"""Comes with the NVIDIA driver; no Python package brings it."""
LIBRARIES = "pip install 'onnxruntime-gpu[cuda,cudnn]', or put the CUDA and cuDNN libraries on the loader's path"
BUILD = "pip uninstall onnxruntime, then pip install 'onnxruntime-gpu[cuda,cudnn]'"
HARDWARE = "run on a machine with an NVIDIA GPU and a driver for this CUDA version; nvidia-smi must list it"


class OrtCudaSession(OrtSession):
    """An artifact on the CUDA provider."""

    product_roundoff: float | None = None
    """See `protocols.CoarseProducts`."""
    fallbacks: tuple[Placement, ...] = ()
    """Nodes that handle data and yet run on the CPU; host-side shape arithmetic is there by design and not listed."""


class OrtCuda:
    """ONNX Runtime's CUDA provider, TF32 off unless asked for."""

    name = "ort-cuda"
    question: Question = "arithmetic"
    level: Level = "all"

    def __init__(self, *, device_id: int = 0, tf32: bool = False, intra_op_threads: int = 1) -> None:
        """tf32: lets float32 products round their factors to ten bits; the session says so, and is judged so."""
        self._device_id = device_id
        self._tf32 = tf32
        self._provider_options = {"device_id": str(device_id), "use_tf32": str(int(tf32))}
        self._threads = intra_op_threads

    def probe(self) -> Availability:
        """Runs a 2x2 product on the device in a child process and checks where it ran."""
        reason, remedy = _seen_in_child()
        return Availability(self.name, not reason, reason, str(onnxruntime.__version__), remedy)

    def load(self, artifact: Artifact) -> OrtCudaSession:
        """A session whose nodes run on the device.

        Raises:
            UnavailableError: the provider is not usable here, or the session would run on the CPU.
            LoadError: ONNX Runtime refuses the file.
        """
        return self.load_without(artifact, (), level=self.level)

    def load_without(
        self,
        artifact: Artifact,
        disabled: Collection[str],
        *,
        level: Level,
        verbose: bool = False,
        optimized_to: str = "",
    ) -> OrtCudaSession:
        """As `load`, at a level and without the graph optimisers of these names (see `ort_optimizers`)."""
        here = self.probe()
        if not here.available:
            raise _unavailable(here.reason, here.remedy)
        preload()
        opened, options = open_session(
            artifact,
            runtime=self.name,
            providers=[(CUDA, self._provider_options), CPU],
            level=level,
            intra_op_threads=self._threads,
            disabled=disabled,
            verbose=verbose,
            optimized_to=optimized_to,
        )
        session = OrtCudaSession(opened, runtime=self.name, options=options, device=("cuda", self._device_id))
        _refuse_fallback(session)
        session.product_roundoff = TF32 if self._tf32 else None
        session.fallbacks = host_data_nodes(artifact.path, session.placement() or (), host=CPU)
        return session


class OrtCudaTf32(OrtCuda):
    """ONNX Runtime's CUDA provider with TF32, as it comes when nobody switches it off."""

    name = "ort-cuda-tf32"

    def __init__(self, *, intra_op_threads: int = 1) -> None:
        super().__init__(tf32=True, intra_op_threads=intra_op_threads)


def _refuse_fallback(session: OrtSession) -> None:
    """A session that ONNX Runtime quietly built for the CPU is no CUDA session."""
    if CUDA not in session.providers:
        raise _unavailable(f"the session runs on {', '.join(session.providers)} only", HARDWARE)
    placed = session.placement()
    if placed is not None and all(node.provider != CUDA for node in placed):
        where = sorted({node.provider for node in placed}) or ["nowhere"]
        raise _unavailable(f"the provider took none of {len(placed)} nodes; they run on {', '.join(where)}", None)


def _unavailable(reason: str, remedy: str | None) -> UnavailableError:
    return UnavailableError(f"ort-cuda is not available: {reason}", expected=CUDA, got=reason, remedy=remedy or None)


@cache
def _seen_in_child() -> tuple[str, str]:
    """(reason, remedy), both empty where CUDA works. A child process, since the loader writes to the terminal."""
    command = [sys.executable, "-P", "-m", "onnxparity.runtimes.cuda_answer"]
    try:
        child = subprocess.run(command, capture_output=True, text=True, timeout=PROBE_LIMIT, errors="replace")
    except subprocess.TimeoutExpired:
        return f"the probe gave no answer within {PROBE_LIMIT:g} s", HARDWARE
    return _judge(child.returncode, child.stdout, COLOURS.sub("", child.stderr))


def _judge(returncode: int, stdout: str, stderr: str) -> tuple[str, str]:
    """(reason, remedy) from what the child saw and wrote."""
    try:
        seen = json.loads(stdout.strip().splitlines()[-1]) if returncode == 0 else None
    except (IndexError, json.JSONDecodeError):
        seen = None
    if seen is None:
        how = f"signal {-returncode}" if returncode < 0 else f"exit code {returncode}"
        return f"the probe died with {how}: {_words(stderr)}", _remedy(stderr)
    if not seen["built"]:
        return (
            f"this build of onnxruntime {onnxruntime.__version__} has no CUDA provider",
            installed_builds().remedy or BUILD,
        )
    if CUDA not in seen["providers"]:
        return _words(stderr), _remedy(stderr)
    if seen["placed"] is not None and seen["placed"] != [CUDA]:
        return f"the probe's node ran on {', '.join(seen['placed']) or 'nothing'}", HARDWARE
    if not seen["correct"]:
        return f"the 2x2 product gave {seen['got']} on the device", HARDWARE
    return "", ""


def _words(stderr: str) -> str:
    """The loader's own reason: the missing library, the CUDA failure, or its last line."""
    for pattern in (LOADER, DEVICE):
        if match := pattern.search(stderr):
            return match[1].strip()
    lines = [line for line in stderr.splitlines() if line.strip()]
    return lines[-1].strip() if lines else "the CUDA provider did not load and said nothing"


def _remedy(stderr: str) -> str:
    match = LOADER.search(stderr)
    of_driver = match is not None and DRIVER.search(match[1]) is not None
    return LIBRARIES if match and not of_driver else HARDWARE
