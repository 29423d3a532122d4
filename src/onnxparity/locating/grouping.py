"""Red cells that fail alike, so that one walk to the cause explains them all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from onnxparity.feeding.feeds import BEYOND
from onnxparity.judging.examining import ExamineRequest
from onnxparity.locating.shrinking import size_of
from onnxparity.outcome import Status, Verdict
from onnxparity.plan import ArtifactKey, slug

__all__ = ["LOCATED", "Group", "group"]

LOCATED = frozenset({Status.MEANING, Status.ARITHMETIC, Status.NONFINITE, Status.STRUCTURE, Status.PROPERTY})
"""Statuses behind which values stand, which can be followed through the graph."""
ORDER = ("meaning", "arithmetic", "property")


@dataclass(frozen=True)
class Group:
    """Red cells with the same artifact, runtime, status and question, and for a property the same one."""

    verdicts: tuple[Verdict, ...]
    walked: Verdict
    """The one whose shape is smallest; one with drawn values where there is any."""

    @property
    def name(self) -> str:
        """Typeable and stable, such as `causal-attention-dynamo-23-float32-ort-cpu-arithmetic`."""
        cell, status = self.walked.cell, str(self.walked.status)
        what = cell.regime if self.walked.question == "property" else status
        return slug(f"{cell.artifact.id}-{cell.runtime}-{what}")


def group(red: Sequence[Verdict], requests: Mapping[ArtifactKey, ExamineRequest]) -> tuple[Group, ...]:
    """The groups that can be walked: meaning first, the first of every artifact before the second of any.

    Left out are a property of an artifact that has another meaning, which explains it; what could not be evaluated
    at all; and the module's own cells, behind which no file stands.

    Args:
        red: verdicts that no expectation excuses.
        requests: how each artifact was judged.
    """
    other_meaning = {v.cell.artifact for v in red if v.question == "meaning" and v.status in LOCATED}
    found: dict[tuple[object, ...], list[Verdict]] = {}
    for verdict in red:
        key, is_property = verdict.cell.artifact, verdict.question == "property"
        if key not in requests or not _walkable(verdict) or (is_property and key in other_meaning):
            continue
        alike = (key, verdict.cell.runtime, verdict.status, verdict.question, is_property and verdict.cell.regime)
        found.setdefault(alike, []).append(verdict)
    return _in_turn([Group(tuple(each), _smallest(each, requests)) for each in found.values()])


def _walkable(verdict: Verdict) -> bool:
    """An error of running has no values to follow; where a runtime raised it, it has at least a smallest shape.

    Beyond the end of a table a model has no values that others could be held against, and nothing smaller is beyond.
    """
    raised = verdict.status is Status.RUN_ERROR and verdict.question == "arithmetic"
    return verdict.cell.regime != BEYOND and (verdict.status in LOCATED or raised)


def _smallest(verdicts: Sequence[Verdict], requests: Mapping[ArtifactKey, ExamineRequest]) -> Verdict:
    request = requests[verdicts[0].cell.artifact]

    def size(verdict: Verdict) -> tuple[object, ...]:
        cell = verdict.cell
        return cell.regime in request.examples, *size_of(request.subject, cell.shape), cell.regime != "normal"

    return min(verdicts, key=size)


def _in_turn(groups: Sequence[Group]) -> tuple[Group, ...]:
    """By question, errors of running last; among those alike, each artifact in its turn."""
    turns: dict[tuple[int, ArtifactKey], int] = {}
    ranks: list[tuple[int, int]] = []
    for each in groups:
        walked = each.walked
        urgency = ORDER.index(walked.question) if walked.status in LOCATED else len(ORDER)
        ranks.append((urgency, turns.get((urgency, walked.cell.artifact), 0)))
        turns[urgency, walked.cell.artifact] = ranks[-1][1] + 1
    return tuple(groups[n] for n in sorted(range(len(groups)), key=lambda n: ranks[n]))
