"""Run in a child process by `ort_cuda`: does the CUDA provider compute a known answer on the device?

    python -m onnxparity.runtimes.cuda_answer

Prints one line of JSON on stdout; whatever the native loader has to say goes to stderr, where the caller reads it.
"""

from __future__ import annotations

import contextlib
import json
import sys

import numpy as np
import onnxruntime

from onnxparity.runtimes.known_answer import FEEDS, WANT, matmul_model

__all__ = ["CUDA", "answer", "preload"]

CUDA = "CUDAExecutionProvider"


def preload() -> None:
    """Loads CUDA and cuDNN from NVIDIA's Python packages, where ONNX Runtime offers that (1.21 and later)."""
    load = getattr(onnxruntime, "preload_dlls", None)
    if load is not None:
        with contextlib.redirect_stdout(sys.stderr):  # it prints what it does not find
            load()


def answer() -> dict[str, object]:
    """What was seen: is the provider in this build, on which providers did the session and the node run, is c = a·b."""
    if CUDA not in onnxruntime.get_available_providers():
        return {"built": False}
    preload()
    options = onnxruntime.SessionOptions()
    options.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
    session = onnxruntime.InferenceSession(matmul_model(), options, providers=[CUDA], enable_fallback=0)
    ask = getattr(session, "get_provider_graph_assignment_info", None)
    placed = None if ask is None else [part.ep_name for part in ask() for _ in part.get_nodes()]
    (got,) = session.run(None, dict(FEEDS))
    return {
        "built": True,
        "providers": session.get_providers(),
        "placed": placed,
        "correct": bool(np.array_equal(got, WANT)),
        "got": got.tolist(),
    }


if __name__ == "__main__":
    print(json.dumps(answer()))
