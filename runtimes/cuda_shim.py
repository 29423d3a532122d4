"""A library in the place of CUDA's, built for the ONNX Runtime that is installed: see `cuda_shim.c`.

It is built by the system's C compiler on first use and kept in the cache, one for each build of ONNX Runtime, compiler
and source. Only a child process that is thrown away may load it.
"""

from __future__ import annotations

import hashlib
import importlib.resources
import mmap
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import onnxruntime

from onnxparity.cache import CacheDir
from onnxparity.errors import UnavailableError

__all__ = ["CUDA_MAJOR", "NAMES", "shim", "unavailable"]

CUDA_MAJOR = 13
"""The CUDA whose structures `cuda_shim.c` fills in."""
NAMES = "libcudart.so.13 libcublas.so.13 libcublasLt.so.13 libcudnn.so.9 libcurand.so.10 libcufft.so.12 libcuda.so.1"
"""What the loader is asked for, whatever of it this build of the provider needs."""
BUILD_LIMIT = 120.0
"""Seconds; it takes about two."""
IMPORTED = re.compile(r"\bU (?P<name>(?:__)?cu(?:da|blas|rand|dnn|fft|Tensor|[A-Z])\w*)", re.MULTILINE)
OPENED = re.compile(rb"\0(cudnn[A-Z]\w+)(?=\0)")
"""cuDNN is opened while running, so the names asked of it stand in the library as text."""
DEFINED = re.compile(r"^API [\w *]+?\**(\w+)\(", re.MULTILINE)


def shim(folder: Path, cache: CacheDir) -> Path:
    """The library, from the cache or built in `folder`, which lasts as long as it is used.

    Raises UnavailableError, with reason and remedy, where it cannot be built or would not fit.
    """
    provider = _provider()
    compiler, nm = _tool("cc", "gcc", "clang"), _tool("nm")
    source = importlib.resources.files("onnxparity.runtimes").joinpath("cuda_shim.c").read_text(encoding="utf-8")
    made_of = (source, onnxruntime.__version__, onnxruntime.get_build_info(), _output([compiler, "--version"]))
    key = hashlib.sha256("\n".join((*made_of, str(provider.stat().st_size))).encode()).hexdigest()
    if found := cache.get("cuda-shim", key, ".so"):
        return found
    built = _build(folder, source, compiler=compiler, wanted=_wanted(provider, nm))
    return cache.put("cuda-shim", key, ".so", built.read_bytes()) or built


def unavailable(reason: str, remedy: str | None = None) -> UnavailableError:
    """The dry run cannot be asked here."""
    return UnavailableError(f"the CUDA dry run is not available: {reason}", got=reason, remedy=remedy)


def _provider() -> Path:
    """The CUDA provider of the installed ONNX Runtime. Raises UnavailableError where there is none that fits."""
    if not sys.platform.startswith("linux") or platform.machine() != "x86_64":
        here = f"{platform.system()} on {platform.machine()}"
        raise unavailable(f"it needs Linux on x86_64, and this is {here}", "ask on such a machine; it needs no GPU")
    library = Path(onnxruntime.__file__).parent / "capi" / "libonnxruntime_providers_cuda.so"
    if not library.is_file():
        package = "this package of onnxruntime has no CUDA provider"
        raise unavailable(package, "pip uninstall onnxruntime, then pip install onnxruntime-gpu; it needs no GPU")
    cuda = str(getattr(onnxruntime, "cuda_version", "") or "unknown")
    if cuda.split(".")[0] != str(CUDA_MAJOR):
        built = f"this onnxruntime-gpu {onnxruntime.__version__} is built for CUDA {cuda}"
        raise unavailable(
            f"{built}, and only CUDA {CUDA_MAJOR} is known here", "pip install 'onnxruntime-gpu>=1.31' (CUDA 13)"
        )
    return library


def _tool(*names: str) -> str:
    for name in names:
        if path := shutil.which(name):
            return path
    what = "C compiler" if "cc" in names else names[0]
    raise unavailable(f"there is no {what} ({', '.join(names)})", "apt-get install gcc libc6-dev binutils")


def _wanted(provider: Path, nm: str) -> frozenset[str]:
    """Names of CUDA's functions that the provider imports or opens."""
    imported = {m["name"] for m in IMPORTED.finditer(_output([nm, "-D", "--undefined-only", str(provider)]))}
    with provider.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as text:
        opened = {name.decode() for name in OPENED.findall(text)}
    if "cudaGetDeviceCount" not in imported:
        raise unavailable(
            f"the CUDA provider of onnxruntime {onnxruntime.__version__} does not import CUDA's runtime as expected"
        )
    return frozenset(imported | opened)


def _build(folder: Path, source: str, *, compiler: str, wanted: frozenset[str]) -> Path:
    stubs = sorted(wanted - set(DEFINED.findall(source)))
    main, rest, library = folder / "cuda_shim.c", folder / "stubs.c", folder / "cuda_shim.so"
    main.write_text(source, encoding="utf-8")
    rest.write_text("".join(f"long {name}(void) {{ return 0; }}\n" for name in stubs), encoding="utf-8")
    # -w: a compiler knows some of these names and would have other types for them
    _output([compiler, "-w", "-fno-builtin", "-shared", "-fPIC", "-O1", "-o", *map(str, (library, main, rest))])
    return library


def _output(command: Sequence[str]) -> str:
    """What it prints. Raises UnavailableError with its own last words where it fails."""
    name = Path(command[0]).name
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=BUILD_LIMIT)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise unavailable(f"{name} gave no answer: {error}") from error
    if done.returncode:
        words = "\n".join(done.stderr.strip().splitlines()[-5:]) or f"exit code {done.returncode}"
        raise unavailable(f"{name} failed: {words}", "apt-get install gcc libc6-dev binutils")
    return done.stdout
