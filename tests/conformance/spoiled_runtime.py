"""A runtime as a plug-in would bring it, with one operator wrong at a time."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from onnxparity.artifact import Artifact
from onnxparity.outcome import Question
from onnxparity.protocols import Availability, Feeds, Outputs, Placement, Session
from onnxparity.runtimes.onnx_spec import OnnxSpecRuntime

__all__ = ["Spoiled", "SpoiledDtype", "SpoiledShape"]


@dataclass(frozen=True)
class Altered:
    """A session whose outputs are not what they should be."""

    session: Session
    fault: str

    def run(self, feeds: Feeds) -> Outputs:
        """The outputs with their fault."""
        outputs = self.session.run(feeds)
        if self.fault == "dtype":
            return {name: value.astype(np.float64) for name, value in outputs.items()}
        if self.fault == "shape":
            return {name: value[None] for name, value in outputs.items()}
        return {name: value * value.dtype.type(1 + 1e-4) for name, value in outputs.items()}

    def placement(self) -> tuple[Placement, ...] | None:
        """As the session."""
        return None


class Spoiled:
    """The specification's arithmetic with a Gelu that is one part in ten thousand too large."""

    name = "spoiled"
    question: Question = "arithmetic"
    operator, fault = "Gelu", "value"

    def probe(self) -> Availability:
        """There, as far as a product can tell."""
        return replace(OnnxSpecRuntime().probe(), runtime=self.name)

    def load(self, artifact: Artifact) -> Session:
        """Raises LoadError as `onnx-spec`."""
        session = OnnxSpecRuntime().load(artifact)
        return Altered(session, self.fault) if self.operator in artifact.op_census else session


class SpoiledDtype(Spoiled):
    """Answers in float64."""

    fault = "dtype"


class SpoiledShape(Spoiled):
    """Answers with one dim too many."""

    fault = "shape"
