"""The record of one exported file: what was asked, what came out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from onnxparity.plan import ArtifactKey

__all__ = ["Artifact", "FileInput"]


@dataclass(frozen=True)
class FileInput:
    """One input or output as the file declares it."""

    name: str
    dtype: str
    """A NumPy dtype name, `bfloat16` where NumPy has none."""
    dims: tuple[int | str | None, ...]
    """A number, the file's own symbol, or None where the file says nothing."""


@dataclass(frozen=True)
class Artifact:
    """An ONNX file with its provenance."""

    key: ArtifactKey
    path: str
    """Empty in a report for one that was made for that run alone; `onnxparity export` writes it again."""
    sha256: str
    """Of the file and, where there is one, its external data."""
    bytes: int
    """The file and its external data together."""
    external_data: bool
    opset_asked: int
    opset_got: int
    ir_version: int
    domains: Mapping[str, int]
    """Opset imports other than the default domain."""
    inputs: tuple[FileInput, ...]
    outputs: tuple[FileInput, ...]
    op_census: Mapping[str, int]
    """Nodes by operator, subgraphs and functions included."""
    initializer_bytes: int
    seconds: float | None
    """What the export took; None for a file that was given or came from the cache."""
    cached: bool
    warnings: tuple[str, ...] = ()
    producer: str = ""
