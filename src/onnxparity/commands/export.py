"""`onnxparity export`: writes the ONNX file of a subject."""

from __future__ import annotations

import argparse
import dataclasses
import json
import shutil
import sys
import tempfile
from pathlib import Path

from onnxparity import gate
from onnxparity.artifact import Artifact
from onnxparity.errors import UsageError
from onnxparity.plan import ArtifactKey
from onnxparity.planning.selection import select
from onnxparity.running.authoring import Authored, AuthorRequest, Refused
from onnxparity.running.schedule import EXPORT_LIMIT
from onnxparity.running.worker import Worker

__all__ = ["export"]


def export(options: argparse.Namespace) -> int:
    """Exports one subject; exits 0. Raises ExportError or LintError where no file, or not the asked one, came out."""
    selected, _ = select([options.target], Path.cwd())
    if len(selected) != 1 or selected[0].described.artifact is not None:
        raise UsageError(
            f"{options.target} is not one PyTorch subject", expected="a catalogue name or package.module:factory"
        )
    subject = selected[0].target.subject
    key = ArtifactKey(subject.name, "dynamo", options.opset, options.dtype)
    target = options.out or Path(f"{subject.name}-{options.opset}-{options.dtype}.onnx")
    with tempfile.TemporaryDirectory(prefix="onnxparity-") as folder, Worker() as worker:
        request = AuthorRequest(subject, (key,), {}, (), folder, str(Path.cwd()))
        for item in worker.call("author", request, limit=EXPORT_LIMIT):
            if isinstance(item, Refused):
                raise item.error
            if isinstance(item, Authored):
                artifact = _copy(item.artifact, target)
    if options.json:
        print(json.dumps(dataclasses.asdict(artifact), indent=1))
    else:
        print(f"{target}: opset {artifact.opset_got}, {artifact.bytes:,} bytes, sha256 {artifact.sha256[:12]}")
        for warning in artifact.warnings:
            print(f"warning: {warning}", file=sys.stderr)
    return gate.CONFORMS


def _copy(artifact: Artifact, target: Path) -> Artifact:
    """The file, and its external data beside it under the names that the file refers to."""
    source = Path(artifact.path)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, target)
        if artifact.external_data:
            for beside in source.parent.iterdir():
                if beside != source and beside.is_file() and beside.suffix == ".data":
                    shutil.copyfile(beside, target.parent / beside.name)
    except OSError as error:
        raise UsageError(f"cannot write {target}", got=error.strerror, remedy="name another file with --out") from error
    return dataclasses.replace(artifact, path=str(target))
