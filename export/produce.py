"""One call from a module to an artifact that is what was asked for: exported or from the cache, and linted."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from torch import nn

from onnxparity.artifact import Artifact
from onnxparity.case import Subject
from onnxparity.errors import LintError, UsageError
from onnxparity.export.cached import ArtifactCache, CachedExporter
from onnxparity.export.dynamo import DynamoExporter
from onnxparity.export.lint import lint
from onnxparity.plan import ArtifactKey
from onnxparity.protocols import Exporter

__all__ = ["EXPORTERS", "Producer"]

EXPORTERS: Mapping[str, type[DynamoExporter]] = {DynamoExporter.name: DynamoExporter}


class Producer:
    """Writes the artifacts of one subject after the other; keeps the last captured program for the next opset."""

    def __init__(self, *, use_cache: bool = True) -> None:
        self._cache = ArtifactCache() if use_cache else None
        self._exporters: dict[str, Exporter] = {}

    def produce(
        self,
        module: nn.Module,
        example: Sequence[Any],  # Any: torch.Tensor, or what else forward takes
        subject: Subject,
        key: ArtifactKey,
        folder: Path,
        *,
        dynamic_shapes: Any = None,  # Any: torch.export's own nested structure
        kwargs: Mapping[str, Any] | None = None,  # Any: as in example
        program: str | None = None,
    ) -> Artifact:
        """Writes `folder/opset-dtype/model.onnx`; what lint warns of joins the artifact's warnings.

        program: the `program_key` of module and example, so that it is not computed again for each opset.

        Raises ExportError where no file, or not the asked one, came out; LintError for the first lint error;
        UsageError for an unknown exporter.
        """
        path = folder / f"{key.opset}-{key.dtype}" / "model.onnx"
        path.parent.mkdir(parents=True, exist_ok=True)
        exporter = self._exporter(key.exporter)
        if self._cache is not None:
            cached = CachedExporter(exporter, self._cache)
            artifact = cached.export(
                module, example, subject, key, path, dynamic_shapes=dynamic_shapes, kwargs=kwargs, program=program
            )
        else:
            artifact = exporter.export(
                module, example, subject, key, path, dynamic_shapes=dynamic_shapes, kwargs=kwargs
            )
        findings = lint(artifact, subject)
        for finding in findings:
            if finding.severity == "error":
                raise LintError(f"{finding.rule}: {finding.message}", got=finding.evidence, remedy=finding.remedy)
        notes = tuple(f"{f.rule}: {f.message}" for f in findings)
        return dataclasses.replace(artifact, warnings=(*artifact.warnings, *notes))

    def _exporter(self, name: str) -> Exporter:
        if name not in EXPORTERS:
            raise UsageError(f"unknown exporter {name!r}", expected=", ".join(EXPORTERS))
        if name not in self._exporters:
            self._exporters[name] = EXPORTERS[name]()
        return self._exporters[name]
