"""What a run ran on: machine, interpreter, package versions, threads."""

from __future__ import annotations

import os
import platform
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import psutil

__all__ = ["PACKAGES", "describe", "versions"]

PACKAGES = (
    "onnxparity",
    "torch",
    "onnx",
    "onnxscript",
    "onnx-ir",
    "onnxruntime",
    "onnxruntime-gpu",
    "openvino",
    "numpy",
    "ml-dtypes",
)


def versions() -> dict[str, str | None]:
    """Installed versions; None for what is not installed."""
    return {name: _version(name) for name in PACKAGES}


def describe() -> dict[str, Any]:  # Any: JSON values
    """The environment as it goes into the report."""
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else None
    return {
        "platform": platform.platform(),
        "machine": platform.machine(),
        "processor": _processor(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "memory_bytes": psutil.virtual_memory().total,
        "load_1min": load,
        "python": platform.python_version(),
        "packages": versions(),
    }


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _processor() -> str:
    """The model's name where the system tells it."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as lines:
            return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), "")
    except OSError:
        return platform.processor()
