"""Cells: one subject × exporter × opset × dtype × runtime × shape × regime, each with a stable, typeable id."""

from __future__ import annotations

import re
from dataclasses import dataclass

__all__ = ["ArtifactKey", "Cell", "slug"]


def slug(text: str) -> str:
    """A name that can be typed and put in a cell id: lower case, digits, dashes, dots and underscores."""
    return re.sub(r"[^a-z0-9._]+", "-", text.lower()).strip("-") or "unnamed"


@dataclass(frozen=True, order=True)
class ArtifactKey:
    """Which artifact of a subject: by which exporter, at which opset, in which dtype."""

    subject: str
    exporter: str
    """`dynamo`, `file` (a given .onnx), or `torch` (the module itself, not exported)."""
    opset: int | None
    """None only for `torch`."""
    dtype: str

    @property
    def id(self) -> str:
        """Such as `causal-attention/dynamo-23/float16`."""
        form = self.exporter if self.opset is None else f"{self.exporter}-{self.opset}"
        return f"{self.subject}/{form}/{self.dtype}"


@dataclass(frozen=True, order=True)
class Cell:
    """One verdict's worth of work."""

    artifact: ArtifactKey
    runtime: str
    shape: str
    """A shape id, see `case.shape_id`."""
    regime: str
    """What kind of values is fed, or the property that is checked."""

    @property
    def id(self) -> str:
        """Such as `causal-attention/dynamo-23/float16/ort-cpu/b2-t17/saturated`."""
        return f"{self.artifact.id}/{self.runtime}/{self.shape}/{self.regime}"
