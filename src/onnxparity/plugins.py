"""Runtimes by name: those of this package, and any that another package registers as an entry point.

A plug-in that does not load is an unavailable runtime with its reason, never a silent absence.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable
from difflib import get_close_matches
from functools import cache
from importlib.metadata import entry_points
from typing import cast

from onnxparity.errors import UnavailableError, UsageError
from onnxparity.outcome import Question
from onnxparity.protocols import Availability, Runtime

__all__ = [
    "DEFAULT_RUNTIMES",
    "LEVELLED",
    "LEVELS",
    "MEANING",
    "NO_KERNELS",
    "TORCH_RUNTIMES",
    "check_name",
    "names",
    "probe",
    "question",
    "runtime",
]

MEANING = "onnx-float64"
"""The runtime whose cells ask for the meaning; planned whenever there is a reference."""
SPEC = "onnx-spec"
"""The specification's own arithmetic, evaluated by this package."""
LEVELLED = "ort-cpu"
LEVELS = ("ort-cpu-extended", "ort-cpu-basic", "ort-cpu-disabled")
"""LEVELLED at its other optimisation levels."""
TORCH_RUNTIMES = ("torch-float64", "torch-eager")
"""Run the module itself, in a worker with torch."""
DEFAULT_RUNTIMES = (*TORCH_RUNTIMES, MEANING, SPEC, "ort-cpu", *LEVELS, "ort-cuda")
OPTIONAL = ("ort-cuda", "openvino")
"""Left out of a default run where they are not there, and told as a limit; all others are then red."""
NO_KERNELS = dict.fromkeys(("ort-cpu", *LEVELS), ("bfloat16",))
"""Dtypes that a runtime is known to refuse: ONNX Runtime 1.31 loads no MatMul, Gemm or Add in bfloat16 on the CPU."""
GROUP = "onnxparity.runtimes"

BUILT_IN = {
    MEANING: "onnxparity.runtimes.onnx_float64:OnnxFloat64Runtime",
    SPEC: "onnxparity.runtimes.onnx_spec:OnnxSpecRuntime",
    "ort-cpu": "onnxparity.runtimes.ort_cpu:OrtCpu",
    "ort-cpu-extended": "onnxparity.runtimes.ort_cpu:OrtCpuExtended",
    "ort-cpu-basic": "onnxparity.runtimes.ort_cpu:OrtCpuBasic",
    "ort-cpu-disabled": "onnxparity.runtimes.ort_cpu:OrtCpuDisabled",
    "ort-cuda": "onnxparity.runtimes.ort_cuda:OrtCuda",
    "ort-cuda-tf32": "onnxparity.runtimes.ort_cuda:OrtCudaTf32",
    "openvino": "onnxparity.runtimes.openvino:OpenVino",
}


@cache
def names() -> tuple[str, ...]:
    """Every runtime that can be asked for. Raises UsageError where a plug-in takes a name that is in use."""
    brought = [point.name for point in entry_points(group=GROUP)]
    known = [*TORCH_RUNTIMES, *BUILT_IN, *brought]
    twice = sorted({name for name in known if known.count(name) > 1})
    if twice:
        raise UsageError(f"runtimes registered twice: {', '.join(twice)}", remedy="uninstall one of the packages")
    return tuple(known)


def check_name(name: str) -> str:
    """The name itself. Raises UsageError with near matches where nothing is called that."""
    if name not in names():
        near = get_close_matches(name, names())
        hint = f"did you mean {' or '.join(near)}?" if near else None
        raise UsageError(f"unknown runtime {name!r}", expected=", ".join(names()), remedy=hint)
    return name


@cache
def runtime(name: str, threads: int | None = None) -> Runtime:
    """The runtime of that name. Raises UnavailableError where it cannot even be imported.

    threads: inside one operator, for runtimes whose constructor takes `intra_op_threads`; None for their default.
    """
    target = BUILT_IN.get(check_name(name))
    try:
        if target is None:
            (point,) = entry_points(group=GROUP, name=name)
            factory = cast(Callable[..., Runtime], point.load())
        else:
            module, _, attribute = target.partition(":")
            factory = cast(Callable[..., Runtime], getattr(importlib.import_module(module), attribute))
        takes_threads = threads is not None and "intra_op_threads" in inspect.signature(factory).parameters
        return factory(intra_op_threads=threads) if takes_threads else factory()
    except Exception as error:  # whatever a plug-in raises while loading is the reason why it is not there
        raise UnavailableError(f"runtime {name} does not load", got=f"{type(error).__name__}: {error}") from error


def question(name: str) -> Question:
    """Which question a runtime's cells ask."""
    if name == "torch-float64":
        return "oracle"
    return "meaning" if name == MEANING else "arithmetic"


def probe(name: str) -> Availability:
    """Whether it can be used here, and why not. Never raises for a known name."""
    try:
        return runtime(name).probe()
    except UnavailableError as error:
        return Availability(name, False, error.got or error.what, None)
