"""The jobs that need PyTorch: describing subjects, exporting them, and evaluating the module itself.

Everything they find goes to workers without torch as files and plain data.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from onnxparity.artifact import Artifact
from onnxparity.case import Subject
from onnxparity.errors import LintError, OnnxParityError
from onnxparity.examining import Started
from onnxparity.grid import Point
from onnxparity.judge import judged
from onnxparity.outcome import Verdict
from onnxparity.plan import ArtifactKey, Cell
from onnxparity.protocols import Feeds
from onnxparity.references import References

if TYPE_CHECKING:
    from torch import nn

__all__ = ["AuthorRequest", "Authored", "Refused", "author"]

ORACLE_FLOOR = 1e-12
"""Relative difference that a module in float64 may have from its NumPy oracle."""


@dataclass(frozen=True)
class AuthorRequest:
    """What is wanted of one subject."""

    subject: Subject
    keys: tuple[ArtifactKey, ...]
    points: Mapping[str, tuple[Point, ...]]
    """Points that need a reference value, by dtype."""
    torch_cells: tuple[Cell, ...]
    folder: str
    """Where reference values are written."""
    directory: str
    """The user's working directory, from which factories are imported."""
    use_cache: bool = True
    examples: Mapping[str, Feeds] = field(default_factory=dict)


@dataclass(frozen=True)
class Authored:
    """An artifact that came out."""

    artifact: Artifact


@dataclass(frozen=True)
class Refused:
    """An artifact that did not come out, or not as asked."""

    key: ArtifactKey
    error: OnnxParityError


def author(request: AuthorRequest) -> Iterator[Authored | Refused | References | Started | Verdict]:
    """Exports every key, evaluates the module at every point, judges the module's own cells."""
    built = Built(request)
    for key in request.keys:
        yield built.artifact(key)
    if request.points:
        yield built.references()
    for cell in request.torch_cells:
        yield Started(cell)
        if cell.runtime == "torch-float64":
            yield judged(cell, "oracle", request.subject.origin, partial(built.oracle, cell))
        else:
            yield judged(cell, "arithmetic", request.subject.origin, partial(built.eager, cell))


class Built:
    """The module of one subject in each dtype, built when first needed."""

    def __init__(self, request: AuthorRequest) -> None:
        import torch

        from onnxparity.models.subjects import bring

        torch.set_num_threads(1)
        self.request = request
        self.brought = bring(request.subject.origin, Path(request.directory))
        self.modules: dict[str, nn.Module] = {}
        self.sessions: dict[str, Any] = {}  # Any: torch sessions, typed where they are made

    def module(self, dtype: str) -> nn.Module:
        """The module with its floating weights in a dtype."""
        import torch

        if dtype not in self.modules:
            self.modules[dtype] = self.brought.build().to(getattr(torch, dtype))
        return self.modules[dtype]

    def artifact(self, key: ArtifactKey) -> Authored | Refused:
        """Exports one key, or takes it from the cache; lint errors refuse it."""
        from onnxparity.export.produce import produce

        try:
            artifact, findings = produce(
                self.module(key.dtype),
                self.example(key.dtype),
                self.request.subject,
                key,
                kwargs_of=self.brought,
                use_cache=self.request.use_cache,
            )
        except OnnxParityError as error:
            return Refused(key, error)
        except Exception as error:  # an exporter's boundary: whatever it raises is this key's result
            return Refused(key, _export_error(error))
        faults = [f for f in findings if f.severity == "error"]
        if faults:
            first = faults[0]
            return Refused(key, LintError(f"{first.id}: {first.message}", got=first.evidence, remedy=first.remedy))
        return Authored(artifact)
