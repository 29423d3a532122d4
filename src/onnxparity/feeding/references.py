"""Reference values on disk: what the PyTorch module gives in float64 at each point, for workers without torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from onnxparity.case import Subject, parse_shape
from onnxparity.errors import SubjectError
from onnxparity.feeding.arrays import read_arrays, write_arrays
from onnxparity.feeding.feeds import draw, regimes
from onnxparity.planning.grid import Point
from onnxparity.protocols import Feeds, Outputs

__all__ = ["References", "feeds_at", "read_arrays", "write_arrays"]


@dataclass(frozen=True)
class References:
    """Where a subject's reference values lie, and what they share with the artifacts."""

    folder: str
    fingerprints: Mapping[str, frozenset[str]]
    """Content hashes of the module's weights, by dtype (see `protocols.ExactSession.fingerprints`)."""
    dtypes: Mapping[str, Mapping[str, str]]
    """Dtype of each output of the module itself, by cell dtype and output name."""
    contents: Mapping[str, str]
    """A digest of the module's code, settings and weights, by dtype."""

    def path(self, dtype: str, point: Point) -> Path:
        """The file with the outputs in float64 for one dtype (of the weights and feeds) and point."""
        return Path(self.folder) / dtype / f"{point.shape}-{point.regime}.npz"

    def want(self, dtype: str, point: Point) -> Outputs:
        """Outputs in float64. Raises SubjectError where the module could not be evaluated there."""
        path = self.path(dtype, point)
        if not path.is_file():
            raise SubjectError(f"the reference has no value at {point.shape}/{point.regime}", got=_why(path))
        return read_arrays(path)


def write_failure(path: Path, reason: str) -> None:
    """Leaves the reason where a value would be."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.with_suffix(".txt").write_text(reason, encoding="utf-8")


def feeds_at(subject: Subject, point: Point, dtype: str, examples: Mapping[str, Feeds]) -> Feeds:
    """Feeds of a point: the example of that name, or drawn values.

    Raises SubjectError for an example that is called like a regime: it would be fed at every shape of that regime.
    """
    if point.regime in examples and point.regime in regimes(subject):
        raise SubjectError(
            f"an example of {subject.name} is called {point.regime!r}, as a regime is", remedy="rename the example"
        )
    if point.regime in examples:
        return examples[point.regime]
    return draw(subject, parse_shape(subject, point.shape), point.regime, dtype)


def _why(path: Path) -> str:
    note = path.with_suffix(".txt")
    return note.read_text(encoding="utf-8") if note.is_file() else "it was never computed"
