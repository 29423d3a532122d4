"""What is to be done for one subject, what comes of it, and what a verdict of it rests on."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field

from onnxparity import expectations, plugins
from onnxparity.artifact import Artifact
from onnxparity.case import Subject
from onnxparity.errors import OnnxParityError
from onnxparity.feeding.references import References, write_failure
from onnxparity.feeding.values import feeds_digest
from onnxparity.gate import NO_EVIDENCE
from onnxparity.judging.examining import ExamineRequest
from onnxparity.location import Location
from onnxparity.outcome import GREEN, Expectation, Verdict
from onnxparity.plan import Cell
from onnxparity.planning.grid import Point
from onnxparity.planning.planner import question_of
from onnxparity.protocols import Feeds, Outputs, Placement

__all__ = ["Found", "SubjectWork", "basis_of", "is_red", "lost_references", "reference_points", "request_of"]


@dataclass(frozen=True)
class SubjectWork:
    """Everything that is to be done for one subject."""

    subject: Subject
    cells: tuple[Cell, ...]
    folder: str
    directory: str
    given: Artifact | None = None
    """The artifact where it was given as a file."""
    against: Artifact | None = None
    reference: Subject | None = None
    """The PyTorch subject a given file is held against."""
    examples: Mapping[str, Feeds] = field(default_factory=dict)
    companions: Mapping[str, Subject] = field(default_factory=dict)
    renamed: Mapping[str, str] = field(default_factory=dict)
    use_cache: bool = True
    expected: Mapping[str, Outputs] = field(default_factory=dict)
    """Outputs that came with the examples, by example."""
    done: Mapping[str, tuple[Verdict, ...]] = field(default_factory=dict)
    """Verdicts of an interrupted run, by what they rest on (see `basis_of`)."""
    excused: tuple[Expectation, ...] = ()
    """Known failures, which are not led back to their cause."""
    out: str = ""
    """The report's folder, where reproductions go; empty where no failure is led back to its cause."""


@dataclass(frozen=True)
class Found:
    """What came of a step: verdicts, an artifact, placements, a cause."""

    verdict: Verdict | None = None
    artifact: Artifact | None = None
    placement: tuple[str, tuple[Placement, ...]] | None = None
    basis: str | None = None
    """What the verdict rests on, see `basis_of`; None for the module's own, which are always judged again, and for
    one of an interrupted run, which is already on record."""
    location: Location | None = None
    """What a group of red cells leads back to."""
    limit: str | None = None
    """Why there is no location."""


def request_of(
    work: SubjectWork, artifact: Artifact, references: References | None, companions: Mapping[str, Artifact]
) -> ExamineRequest:
    """How an artifact's cells are judged; the cells themselves are not in it."""
    return ExamineRequest(
        subject=work.reference or work.subject,
        artifact=artifact,
        cells=(),
        references=references,
        against=work.against,
        examples=work.examples,
        companions=companions,
        renamed=work.renamed,
        origin=work.subject.origin,
        use_cache=work.use_cache,
        expected=work.expected,
    )


def is_red(verdict: Verdict, work: SubjectWork) -> bool:
    """Whether it fails, and nobody expects it to."""
    return expectations.apply(verdict, work.excused).status not in GREEN | NO_EVIDENCE


def reference_points(work: SubjectWork) -> dict[str, tuple[Point, ...]]:
    """Where the module is needed, by its dtype: at every meaning cell's point, and else at one point, since the
    arithmetic cells of a dtype are held against the module's own output dtypes."""
    points: dict[str, dict[Point, None]] = {}
    if work.given is not None and work.reference is None:
        return {}
    for cell in work.cells:
        question = question_of(cell, work.reference or work.subject)
        if question == "property" or cell.runtime in plugins.TORCH_RUNTIMES:
            continue
        found = points.setdefault(cell.artifact.dtype, {})
        if question == "meaning" or not found:
            found[Point(cell.shape, cell.regime)] = None
    return {dtype: tuple(found) for dtype, found in points.items()}


def lost_references(folder: str, points: Mapping[str, tuple[Point, ...]], error: OnnxParityError) -> References:
    """References without any value: where each would lie, its meaning cell finds the reason."""
    nothing: Mapping[str, frozenset[str]] = {dtype: frozenset() for dtype in points}
    lost = References(folder, nothing, {dtype: {} for dtype in points}, dict.fromkeys(points, f"lost: {error}"))
    for dtype, each in points.items():
        for point in each:
            path = lost.path(dtype, point)
            path.unlink(missing_ok=True)  # a value without its fingerprints would be judged too kindly
            write_failure(path, str(error))
    return lost


def basis_of(
    artifact: Artifact, work: SubjectWork, references: References | None, companions: Mapping[str, Artifact]
) -> str:
    """A digest of all that a verdict rests on: the file, what it is held against, its companions, the names."""
    parts = [artifact.sha256, repr(sorted(work.renamed.items()))]
    parts += [] if work.against is None else [work.against.sha256]
    parts += [] if references is None else [repr(sorted(references.contents.items()))]
    parts += [f"{name} {feeds_digest(feeds)}" for name, feeds in sorted(work.examples.items())]
    parts += [f"{name} {feeds_digest(outputs)}" for name, outputs in sorted(work.expected.items())]
    parts += [f"{role} {companion.sha256}" for role, companion in sorted(companions.items())]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()
