"""Files for the conformance tests: a catalogue subject, or one with a fault planted in it, at an opset."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import nn

from onnxparity.export.dynamo import DynamoExporter
from onnxparity.feeding.feeds import example
from onnxparity.models import catalogue
from onnxparity.plan import ArtifactKey

__all__ = ["export"]


def export(name: str, module: nn.Module, opset: int, path: Path, dtype: str = "float32") -> Path:
    """Exports the module in the place of the catalogue subject's own."""
    subject = catalogue.find(name).subject
    arguments = [torch.from_numpy(value) for value in example(subject, dtype).values()]
    key = ArtifactKey(name, "dynamo", opset, dtype)
    DynamoExporter().export(module.to(getattr(torch, dtype)), arguments, subject, key, path)
    return path
