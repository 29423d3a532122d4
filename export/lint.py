"""Lint: is the file what was asked for, as far as that can be told without running it?

A rule is one function under `@rule`, in `rules`; it yields findings and knows nothing of the others. An error makes
LINT_ERROR of every cell of the artifact, a warning is shown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import onnx
from onnx import ModelProto, TensorProto

from onnxparity.artifact import Artifact
from onnxparity.case import Subject
from onnxparity.export.artifact import load_model
from onnxparity.export.graph import constants, dtype_name, elem_type, graphs

__all__ = ["RULES", "Context", "Finding", "Rule", "Severity", "lint", "rule"]

Severity = Literal["error", "warning"]

_SMALL = 1024
"""Bytes up to which the data of an initializer is kept for the rules; shapes and flags are smaller."""


@dataclass(frozen=True)
class Finding:
    """One thing that is not as it was asked for."""

    rule: str
    severity: Severity
    message: str
    """What, in one line."""
    evidence: str
    """Where: the names in the file."""
    remedy: str


@dataclass(frozen=True)
class Context:
    """What a rule looks at."""

    artifact: Artifact
    subject: Subject
    model: ModelProto
    """The file, with the data of large initializers left out."""
    constants: dict[str, TensorProto] = field(default_factory=dict)
    """Initializers and Constant nodes of the main graph, by name."""
    types: dict[str, int] = field(default_factory=dict)
    """Element type of every value whose type is known, by name."""


Rule = Callable[[Context], Iterator[Finding]]

RULES: dict[str, Rule] = {}
"""Every rule by its id."""


def rule(name: str) -> Callable[[Rule], Rule]:
    """Registers a rule under its id. Raises ValueError where the id is taken."""

    def register(function: Rule) -> Rule:
        if name in RULES:
            raise ValueError(f"there is a lint rule {name!r} already: {RULES[name].__name__}")
        RULES[name] = function
        return function

    return register


def lint(artifact: Artifact, subject: Subject) -> tuple[Finding, ...]:
    """What every rule finds, errors first. Raises UsageError where the file cannot be read."""
    # Here, because the rules register themselves with this module.
    import onnxparity.export.rules  # noqa: F401

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
