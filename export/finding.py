"""What a lint rule is: a function from a context to findings, registered under its id."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Literal

from onnx import ModelProto, TensorProto

from onnxparity.artifact import Artifact
from onnxparity.case import Subject

__all__ = ["RULES", "Context", "Finding", "Rule", "Severity", "rule"]

Severity = Literal["error", "warning"]


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
