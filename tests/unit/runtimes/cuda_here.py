"""Whether the CUDA dry run can be asked here, told without asking it: a broken one must fail, not skip."""

from __future__ import annotations

import platform
import shutil
import sys
from pathlib import Path

import onnxruntime
import pytest

__all__ = ["needs_dry_run"]


def _why_not() -> str:
    if not sys.platform.startswith("linux") or platform.machine() != "x86_64":
        return "needs Linux on x86_64"
    if not (Path(onnxruntime.__file__).parent / "capi" / "libonnxruntime_providers_cuda.so").is_file():
        return "needs the package onnxruntime-gpu"
    if not str(onnxruntime.cuda_version).startswith("13."):
        return "needs an onnxruntime-gpu built for CUDA 13"
    if not any(map(shutil.which, ("cc", "gcc", "clang"))) or not shutil.which("nm"):
        return "needs a C compiler and nm"
    return ""


needs_dry_run = pytest.mark.skipif(bool(_why_not()), reason=_why_not() or "it can be asked here")
