"""Lint: is the file what was asked for, as far as that can be told without running it?

An error makes LINT_ERROR of every cell of the artifact, a warning is shown.
"""

from __future__ import annotations

from pathlib import Path

import onnx
from onnx import ModelProto, TensorProto

from onnxparity.artifact import Artifact
from onnxparity.case import Subject
from onnxparity.export import rules  # noqa: F401  # its rules register themselves
from onnxparity.export.artifact import load_model
from onnxparity.export.finding import RULES, Context, Finding
from onnxparity.export.graph import constants, dtype_name, elem_type, graphs

__all__ = ["Finding", "lint"]

_SMALL = 1024
"""Bytes up to which the data of an initializer is kept for the rules; shapes and flags are smaller."""


def lint(artifact: Artifact, subject: Subject) -> tuple[Finding, ...]:
    """What every rule in `rules` finds, errors first. Raises UsageError where the file cannot be read."""
    model = load_model(Path(artifact.path))
    for graph in graphs(model):
        for tensor in graph.initializer:
            if len(tensor.raw_data) > _SMALL:
                tensor.ClearField("raw_data")
                tensor.data_location = TensorProto.EXTERNAL
    context = Context(artifact, subject, model, constants(model), _types(model))
    found = [finding for check in RULES.values() for finding in check(context)]
    return tuple(sorted(found, key=lambda finding: finding.severity != "error"))


def _types(model: ModelProto) -> dict[str, int]:
    inferred = onnx.shape_inference.infer_shapes(model)
    found: dict[str, int] = {}
    for graph in graphs(inferred):
        for value in (*graph.input, *graph.value_info, *graph.output):
            if dtype_name(elem_type(value)) != "undefined":
                found[value.name] = elem_type(value)
        found |= {tensor.name: tensor.data_type for tensor in graph.initializer}
    return found
