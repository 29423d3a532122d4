"""The score of a self-test: faults found of those planted, false alarms of clean cells, and how near either came."""

from __future__ import annotations

import bisect
import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from onnxparity.gate import CONFORMS, DOES_NOT, INCOMPLETE, NO_EVIDENCE
from onnxparity.location import Location
from onnxparity.outcome import GREEN, Status, Verdict
from onnxparity.selftesting.planting import Planted, Unplanted, names_it

__all__ = [
    "EDGES",
    "EXPECTED_RANGE",
    "SCHEMA",
    "Clean",
    "Fault",
    "Histogram",
    "KindScore",
    "Near",
    "Score",
    "judge_fault",
    "lacking",
    "unplanted",
]

SCHEMA = "onnxparity-selftest/1"
EXPECTED_RANGE = (0.05, 3.0)
"""Where honest error over honest rounding should lie, before `budget.KAPPA`."""
EDGES = tuple(10.0 ** (step / 4) for step in range(-12, 5))
"""Bins of the histogram: four to a decade, from 0.001 to 10."""


@dataclass(frozen=True)
class Near:
    """The cell that came nearest to its limit, on one side of it."""

    cell: str
    ratio: float


@dataclass(frozen=True)
class Fault:
    """What came of one planted fault."""

    name: str
    kind: str
    why: str
    found: bool
    status: str
    """Of the cell that found it best; else of the worst that did not."""
    nearest: Near | None
    """The cell that found it with the largest ratio; None where that is no number."""
    located: bool
    location: str
    """What was named: operator, node, module and source line; empty where nothing was."""


@dataclass(frozen=True)
class KindScore:
    """One row of the score."""

    kind: str
    planted: int
    found: int
    located: int


@dataclass(frozen=True)
class Histogram:
    """Error over honest rounding, the worst output of each clean cell."""

    edges: tuple[float, ...]
    counts: tuple[int, ...]
    """Below the first edge (a cell without any error among them), between each two, and above the last."""
    cells: int
    below: int
    """Cells under `EXPECTED_RANGE`: computed better than was expected, or exactly."""
    above: int
    """Cells over it."""

    @classmethod
    def of(cls, values: Sequence[float]) -> Histogram:
        """The histogram of these values."""
        counts = Counter(bisect.bisect_right(EDGES, value) for value in values)
        low, high = EXPECTED_RANGE
        return cls(
            edges=EDGES,
            counts=tuple(counts[place] for place in range(len(EDGES) + 1)),
            cells=len(values),
            below=sum(value < low for value in values),
            above=sum(value > high for value in values),
        )

    @property
    def outside(self) -> float | None:
        """The share outside `EXPECTED_RANGE`; None without any cell."""
        return (self.below + self.above) / self.cells if self.cells else None


@dataclass(frozen=True)
class Clean:
    """What came of the cells that must be green."""

    cells: int
    """All that were judged, without the expected failures."""
    alarms: tuple[str, ...]
    """Ids of those that were red, with their status."""
    expected: int
    """Known failures of a runtime or exporter, which are neither clean nor alarms."""
    equivalents: int
    """Cells of files that were changed without being made wrong."""
    nearest: Near | None
    over_noise: Histogram

    @classmethod
    def of(cls, verdicts: Sequence[Verdict], equivalents: int) -> Clean:
        """The score of these verdicts, `equivalents` of which are of changes that change nothing."""
        judged = [v for v in verdicts if v.status not in NO_EVIDENCE and v.status is not Status.XFAIL]
        green = [v for v in judged if v.status is Status.PASS or v.found is Status.PASS]
        return cls(
            cells=len(judged),
            alarms=tuple(f"{v.cell.id}: {v.status}" for v in judged if v not in green),
            expected=sum(v.status is Status.XFAIL for v in verdicts),
            equivalents=equivalents,
            nearest=max((Near(v.cell.id, v.ratio) for v in green if v.ratio is not None), key=_ratio, default=None),
            over_noise=Histogram.of([value for v in green if (value := _over_noise(v)) is not None]),
        )


@dataclass(frozen=True)
class Score:
    """Everything one self-test found."""

    quick: bool
    faults: tuple[Fault, ...]
    clean: Clean
    incomplete: tuple[str, ...]
    """What did not run, and why."""
    seconds: float
    parts: Mapping[str, float] = field(default_factory=dict)
    """Seconds by step."""

    @property
    def kinds(self) -> tuple[KindScore, ...]:
        """Found and located by kind, in the order in which they were planted."""
        rows = []
        for kind in dict.fromkeys(f.kind for f in self.faults):
            ours = [f for f in self.faults if f.kind == kind]
            rows.append(KindScore(kind, len(ours), sum(f.found for f in ours), sum(f.located for f in ours)))
        return tuple(rows)

    @property
    def missed(self) -> tuple[Fault, ...]:
        """Faults that no cell showed."""
        return tuple(f for f in self.faults if not f.found)

    @property
    def found(self) -> int:
        """Faults that a cell showed."""
        return len(self.faults) - len(self.missed)

    @property
    def nearest(self) -> tuple[Fault, Near] | None:
        """The fault that came nearest to being missed: its best cell has the smallest ratio."""
        near = [(f, f.nearest) for f in self.faults if f.found and f.nearest is not None]
        return min(near, key=lambda pair: pair[1].ratio, default=None)

    @property
    def exit_code(self) -> int:
        """0 only where every fault was found and nothing clean was red; 3 where something did not run."""
        if self.missed or self.clean.alarms:
            return DOES_NOT
        return INCOMPLETE if self.incomplete or not self.clean.cells else CONFORMS

    @property
    def conclusion(self) -> str:
        """One sentence."""
        sentence = f"{self.found} of {len(self.faults)} planted faults found, "
        sentence += f"{len(self.clean.alarms)} false alarms in {self.clean.cells} clean cells"
        return f"{sentence}; {len(self.incomplete)} did not run" if self.incomplete else sentence

    def to_json(self) -> dict[str, Any]:  # Any: JSON values
        """The document, with only JSON types."""
        located = sum(f.located for f in self.faults)
        nearest = self.nearest
        return {
            "schema": SCHEMA,
            "quick": self.quick,
            "exit_code": self.exit_code,
            "conclusion": self.conclusion,
            "planted": len(self.faults),
            "found": self.found,
            "located": located,
            "located_share": located / self.found if self.found else None,
            "kinds": [asdict(kind) for kind in self.kinds],
            "faults": [asdict(fault) for fault in self.faults],
            "clean": asdict(self.clean) | {"outside_share": self.clean.over_noise.outside},
            "margin": {
                "clean": None if self.clean.nearest is None else asdict(self.clean.nearest),
                "fault": None if nearest is None else {"name": nearest[0].name, **asdict(nearest[1])},
            },
            "incomplete": list(self.incomplete),
            "seconds": self.seconds,
            "parts": dict(self.parts),
        }


def judge_fault(planted: Planted, verdicts: Sequence[Verdict], locations: Sequence[Location]) -> Fault:
    """Whether a fault was found and located. Its verdicts have had the clean file's known failures taken out."""
    red = [v for v in verdicts if v.status in planted.shows]
    other = [v for v in verdicts if v.status not in GREEN and v not in red]
    numbers = [Near(v.cell.id, v.ratio) for v in red if v.ratio is not None and math.isfinite(v.ratio)]
    nearest = max(numbers, key=_ratio, default=None)
    shown = [v for v in red if nearest is not None and v.cell.id == nearest.cell] or red or other
    told = [x for x in locations if x.status in planted.shows and x.node is not None]
    words = [] if told else [text for v in red for text in (v.message, *v.evidence) if _names(text, planted)]
    return Fault(
        name=planted.name,
        kind=planted.kind,
        why=planted.why,
        found=bool(red),
        status=str(shown[0].status) if shown else str(Status.PASS),
        nearest=nearest,
        located=bool(red and (words or (told and told[0].node is not None and names_it(told[0].node, planted.where)))),
        location=_words(told[0]) if told else words[0] if words else "",
    )


def lacking(name: str, verdicts: Sequence[Verdict]) -> list[str]:
    """Cells that say nothing, as one line each for what did not run."""
    return [f"{name}: {v.cell.id}: {v.status}: {v.message}" for v in verdicts if v.status in NO_EVIDENCE]


def unplanted(item: Unplanted) -> str:
    """A fault that could not be planted, in one line."""
    return f"{item.name}: not planted: {item.error.what}: {item.error.got or ''}".strip(": ")


def _names(text: str, planted: Planted) -> bool:
    """Whether an error's own words name a faulty node: where nothing ran there is no value to follow."""
    nodes = [node for where in planted.where for node in where.nodes]
    return any(re.search(rf"(?<!\w){re.escape(node)}(?!\w)", text) for node in nodes)


def _words(location: Location) -> str:
    node = location.node
    return "" if node is None else f"{node.operator} {node.name} in {node.module or 'the model'}, {node.source}"


def _ratio(near: Near) -> float:
    return near.ratio


def _over_noise(verdict: Verdict) -> float | None:
    return max((o.over_noise for o in verdict.outputs if o.over_noise is not None), default=None)
