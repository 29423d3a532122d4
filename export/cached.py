"""An exporter that looks into the cache first: the same module exported twice is exported once."""

from __future__ import annotations

import dataclasses
import os
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from torch import nn

from onnxparity.artifact import Artifact
from onnxparity.cache import CacheDir
from onnxparity.case import Subject
from onnxparity.errors import UsageError
from onnxparity.export.artifact import load_model, read_artifact
from onnxparity.export.dynamo import OpsetError
from onnxparity.export.external import external_files
from onnxparity.export.fingerprint import cache_key
from onnxparity.plan import ArtifactKey
from onnxparity.protocols import Exporter

__all__ = ["ArtifactCache", "CachedExporter"]

_ARTIFACT, _REFUSAL, _MODEL = "artifact", "refusal", "model.onnx"


class ArtifactCache:
    """Exported files by `cache_key`, and the opsets that an exporter refused."""

    def __init__(self, directory: CacheDir | None = None) -> None:
        self.directory = directory or CacheDir()

    def lookup(self, digest: str, key: ArtifactKey) -> Artifact | None:
        """The artifact where it lies in the cache, its hash verified, or None. That file is not to be changed."""
        entry = self.directory.load(_ARTIFACT, digest)
        if entry is None:
            return None
        try:
            asked, warnings = int(entry.meta["opset_asked"]), tuple(map(str, entry.meta["warnings"]))
            path = entry.folder / _MODEL
            return read_artifact(path, key, opset_asked=asked, seconds=None, cached=True, warnings=warnings)
        except (UsageError, KeyError, TypeError, ValueError) as error:
            self.directory.discard(entry.folder, str(error).splitlines()[0])
            return None

    def store(self, digest: str, artifact: Artifact) -> str | None:
        """Copies the artifact's files; None where that went well, else why it did not."""
        path = Path(artifact.path)
        data = external_files(load_model(path), path)
        if any(file.parent != path.parent for file in data):
            return "not cached: its external data is in a folder of its own"
        self.directory.problem = None
        files = {_MODEL: path, **{file.name: file for file in data}}
        meta = {"key": artifact.key.id, "opset_asked": artifact.opset_asked, "warnings": list(artifact.warnings)}
        self.directory.save(_ARTIFACT, digest, files, meta)
        return self.directory.problem

    def refusal(self, digest: str) -> OpsetError | None:
        """The exporter's own answer of an earlier run, where it was another opset than the asked one."""
        entry = self.directory.load(_REFUSAL, digest)
        if entry is None or set(entry.meta) != {"what", "expected", "got", "remedy"}:
            return None
        return OpsetError(entry.meta["what"], **{k: v for k, v in entry.meta.items() if k != "what"})

    def store_refusal(self, digest: str, error: OpsetError) -> None:
        """Remembers it, since it costs as much as an export to hear it again."""
        meta = {"what": error.what, "expected": error.expected, "got": error.got, "remedy": error.remedy}
        self.directory.save(_REFUSAL, digest, {}, meta)


class CachedExporter:
    """Any exporter, behind the cache. What the cache cannot do is a warning in the artifact, never an error."""

    def __init__(self, exporter: Exporter, cache: ArtifactCache | None = None) -> None:
        self._exporter = exporter
        self._cache = cache or ArtifactCache()

    @property
    def name(self) -> str:
        """That of the exporter behind it."""
        return self._exporter.name

    def export(
        self,
        module: nn.Module,
        example: Sequence[Any],  # Any: torch.Tensor, or what else forward takes
        subject: Subject,
        key: ArtifactKey,
        path: Path,
        *,
        dynamic_shapes: Any = None,  # Any: torch.export's own nested structure
        kwargs: Mapping[str, Any] | None = None,  # Any: as in example
        program: str | None = None,
    ) -> Artifact:
        """Writes `path`, from the cache where it can. Raises what the exporter raises.

        program: the `program_key` of these arguments, where the caller has it already.
        """
        self._cache.directory.problem = None
        digest = cache_key(
            module,
            example,
            subject,
            key,
            self.name,
            dynamic_shapes,
            kwargs=kwargs,
            options=getattr(self._exporter, "options", ()),
            exporter=type(self._exporter),
            program=program,
        )
        if (found := self._cache.lookup(digest, key)) is not None:
            return _restore(found, path)
        if (refusal := self._cache.refusal(digest)) is not None:
            path.unlink(missing_ok=True)
            raise refusal
        damaged = self._cache.directory.problem
        try:
            artifact = self._exporter.export(
                module, example, subject, key, path, dynamic_shapes=dynamic_shapes, kwargs=kwargs
            )
        except OpsetError as error:
            self._cache.store_refusal(digest, error)
            raise
        notes = [note for note in (damaged, self._cache.store(digest, artifact)) if note]
        return dataclasses.replace(artifact, warnings=(*artifact.warnings, *notes))


def _restore(found: Artifact, path: Path) -> Artifact:
    """Copies a cached file and its data to `path`, each complete or not at all."""
    source = Path(found.path)
    path.parent.mkdir(parents=True, exist_ok=True)
    data = external_files(load_model(source), source)
    for file, target in (*((d, path.parent / d.name) for d in data), (source, path)):
        handle, scratch = tempfile.mkstemp(dir=path.parent, prefix=".new-")
        os.close(handle)
        shutil.copyfile(file, scratch)
        os.chmod(scratch, file.stat().st_mode)
        os.replace(scratch, target)
    return dataclasses.replace(found, path=str(path))
