"""Run in a child process by `cuda_dryrun`, with the shim in the place of CUDA: two sessions that are never run.

    python -m onnxparity.runtimes.cuda_dryrun_child MODEL WEIGHTS_FOLDER OPTIMIZED

The first is opened as the file is, the second optimised, and its graph goes to OPTIMIZED. Prints one line of JSON on
stdout; ONNX Runtime's log of the second, which says where each node is put and why, goes to stderr.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import onnxruntime

from onnxparity.runtimes.cuda_answer import CUDA
from onnxparity.runtimes.ort import CPU, ERRORS

__all__ = ["answer"]

VERBOSE, ERROR = 0, 3
INLINE_BYTES = "1024"
"""Larger weights go beside the optimised graph, which could not be written as one file from 2 GiB on."""


def answer(model: str, weights: str, optimized: str) -> dict[str, object]:
    """What the partitioner said. weights: the folder of external data where the model is a copy elsewhere, or empty."""
    try:
        before: list[list[str]] | None = _assigned(_open(model, weights, ""))
    except ERRORS:
        before = None  # the optimised session, which is the one that would be run, tells what is wrong
    try:
        session = _open(model, weights, optimized)
    except ERRORS as error:
        return {"error": str(error)}
    return {"error": None, "providers": session.get_providers(), "before": before, "assigned": _assigned(session)}


def _open(model: str, weights: str, optimized: str) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = VERBOSE if optimized else ERROR
    options.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
    if optimized:
        options.optimized_model_filepath = optimized
        beside = Path(optimized).name + ".data"
        options.add_session_config_entry("session.optimized_model_external_initializers_file_name", beside)
        options.add_session_config_entry(
            "session.optimized_model_external_initializers_min_size_in_bytes", INLINE_BYTES
        )
    else:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    given: str | bytes = model
    if weights:
        options.add_session_config_entry("session.model_external_initializers_file_folder_path", weights)
        given = Path(model).read_bytes()
    return onnxruntime.InferenceSession(given, options, providers=[CUDA, CPU], enable_fallback=0)


def _assigned(session: onnxruntime.InferenceSession) -> list[list[str]]:
    parts = session.get_provider_graph_assignment_info()
    return [[part.ep_name, node.domain, node.op_type, node.name] for part in parts for node in part.get_nodes()]


if __name__ == "__main__":
    print(json.dumps(answer(*sys.argv[1:4])))
