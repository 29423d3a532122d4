"""Where a property of the outputs is lost: the first node whose result changes although what it is given does not.

The two runs that the property compares are made again in float64 with every value shown. Of each value only the part
that the property is about is held against the other run: the early positions for causality, a sample's own share for
batch invariance, the valid positions for padding, those out of reach for a window. Which axes those are is told by
their sizes in the two runs.

Memory: as `signature`, for each of the parts of a value that may be meant.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations
from typing import TypeVar

import numpy as np

from onnxparity import plugins
from onnxparity.artifact import Artifact
from onnxparity.judging.examining import Bench, ExamineRequest
from onnxparity.locating.arithmetic import locate_arithmetic
from onnxparity.locating.region import data_inputs
from onnxparity.locating.requests import LocateRequest
from onnxparity.locating.signature import Signature, distance, signature
from onnxparity.locating.unknown import unknown
from onnxparity.location import Location, Node
from onnxparity.numerics.budget import DOUBLE_FLOOR
from onnxparity.numerics.compare import Comparison
from onnxparity.outcome import Status
from onnxparity.protocols import Array, ExactSession, Feeds, Outputs, Placement, Session, TracingSession

__all__ = ["locate_property"]

T = TypeVar("T")
Shape = tuple[int, ...]
Key = tuple[str, int]
"""Name of a value and how many times it has been computed before: inside a loop more than once."""
Parts = Callable[[Array, Shape], Sequence[Array]]
"""Of a value and its shape in the other run: the parts that may be meant, the same number in both runs."""


@dataclass(frozen=True)
class _Pair:
    """Two runs, and what must be the same in both."""

    first: Feeds
    second: Feeds
    of_first: Parts
    of_second: Parts


class _Fed:
    """A session that notes what it is fed."""

    def __init__(self, session: Session, fed: list[Feeds]) -> None:
        self._session, self._fed = session, fed

    def run(self, feeds: Feeds) -> Outputs:
        """As the session's own."""
        self._fed.append(dict(feeds))
        return self._session.run(feeds)

    def placement(self) -> tuple[Placement, ...] | None:
        """As the session's own."""
        return self._session.placement()


class _Recording(Bench):
    """A bench that notes what a property feeds to the float64 evaluation."""

    def __init__(self, request: ExamineRequest) -> None:
        super().__init__(request)
        self.fed: list[Feeds] = []

    def session(self, runtime: str, artifact: Artifact | None = None) -> Session:
        """As the bench's own, noted where the artifact itself is run."""
        session = super().session(runtime, artifact)
        return session if artifact is not None or runtime != plugins.MEANING else _Fed(session, self.fed)

    def exact(self, artifact: Artifact | None = None) -> ExactSession:
        """The session itself."""
        session = super().session(plugins.MEANING, artifact)
        assert isinstance(session, ExactSession)
        return session


def locate_property(bench: Bench, request: LocateRequest) -> Location:
    """The node where the property is lost; that of the runtime's arithmetic where it holds in float64.

    Raises OnnxParityError where the artifact cannot be evaluated again.
    """
    cell = request.verdict.cell
    recording = _Recording(bench.request)
    found = recording.property(replace(cell, runtime=plugins.MEANING))
    if found.status not in (Status.PROPERTY, Status.NONFINITE, Status.STRUCTURE):
        if cell.runtime == plugins.MEANING:
            return unknown(request, f"{cell.regime} failed and does not fail when it is checked again")
        return locate_arithmetic(bench, request)
    pair = _pair(cell.regime, recording, found)
    session = recording.exact()
    if isinstance(pair, str) or not isinstance(session, TracingSession):
        return unknown(request, pair if isinstance(pair, str) else "the evaluation does not show its values")
    failing = [bench.request.renamed.get(m.output, m.output) for m in found.outputs if not m.ratio <= 1]
    return _located(request, _Lost(session, pair), failing)


def _pair(name: str, recording: _Recording, found: Comparison) -> _Pair | str:
    """The two runs of a property, or why they cannot be followed."""
    subject, fed = recording.request.subject, recording.fed
    if len(fed) < 2:
        return f"{name} is a property of one run, so that there is nothing to hold its values against"
    first, second = fed[0], fed[1]
    if name in ("causality", "window"):
        axis = subject.axis("sequence")
        places = {s.name: s.dims.index(axis.symbol) for s in subject.inputs if axis and axis.symbol in s.dims}
        names = {recording.request.renamed.get(n, n): place for n, place in places.items()}
        changed = _changed(first, second, names)
        meant = (
            slice(0, changed.start) if name == "causality" else slice(changed.stop - 1 + (subject.window or 0), None)
        )
        far = partial(_far, length=changed.step, meant=meant)
        return _Pair(first, second, far, far)
    if name == "batch-invariance":
        sample = 0 if found.worst is None else _sample_of(found, recording)
        return _Pair(first, fed[1 + sample], partial(_share, sample=sample), _whole)
    if name in ("padding-invariance", "left-padding-invariance"):
        grown = max(b - a for n in first for a, b in zip(first[n].shape, second[n].shape, strict=True))
        before = grown if name.startswith("left") else 0
        return _Pair(first, second, partial(_unpadded, by=grown), partial(_valid, before=before, by=grown))
    return f"nothing says which values {name} leaves alone on the way to the outputs"


def _located(request: LocateRequest, lost: _Lost, failing: Sequence[str]) -> Location:
    cell = request.verdict.cell
    node, region = lost.node(failing), lost.region(failing)
    if node is None:
        return unknown(request, f"no node could be told to lose {cell.regime}")
    place = (f" in {node.module}" if node.module else "") + (f" ({node.source})" if node.source else "")
    return Location(
        cell=cell,
        status=request.verdict.status,
        message=f"{node.operator} {node.name}{place} is the first node that loses {cell.regime}: "
        f"what it is given does not change, and its result does",
        origin="injected",
        node=node,
        region=len(region),
        nodes=len(lost.nodes),
        smallest_shape=cell.shape,
        explains=(cell.id,),
    )


class _Lost:
    """Which values differ between the two runs where they must not."""

    def __init__(self, session: TracingSession, pair: _Pair) -> None:
        shapes_of_second, _ = _traced(session, pair.second, lambda value, key: tuple(value.shape))
        before, nodes = _traced(
            session, pair.first, lambda v, key: _reduced(pair.of_first(v, shapes_of_second.get(key, v.shape)))
        )
        shapes_of_first = {key: shape for key, (shape, _) in before.items()}
        after, _ = _traced(
            session, pair.second, lambda v, key: _reduced(pair.of_second(v, shapes_of_first.get(key, v.shape)))
        )
        self.nodes = nodes
        self.makers = {name: node for node in nodes for name in node.outputs}
        self.bad = {key[0] for key in before if not _kept(before[key][1], after.get(key, ((), ()))[1])}

    def region(self, failing: Sequence[str]) -> tuple[Node, ...]:
        """The nodes between what does not change and the outputs that do, in order of evaluation."""
        found, todo = set[Node](), [self.makers[n] for n in failing if n in self.makers]
        while todo:
            node = todo.pop()
            if node not in found:
                found.add(node)
                todo += [self.makers[n] for n in data_inputs(node) if n in self.bad and n in self.makers]
        return tuple(node for node in self.nodes if node in found)

    def node(self, failing: Sequence[str]) -> Node | None:
        """The first node whose result changes although nothing that it is given does."""
        if not any(name in self.bad for name in failing):
            return None
        return next((n for n in self.region(failing) if not any(name in self.bad for name in data_inputs(n))), None)


Reduced = tuple[Shape, tuple[Signature, ...]]


def _traced(
    session: TracingSession, feeds: Feeds, reduce: Callable[[Array, Key], T]
) -> tuple[dict[Key, T], tuple[Node, ...]]:
    """Each value of a run reduced as it comes, and the nodes in order."""
    found: dict[Key, T] = {}
    turns: dict[str, int] = defaultdict(int)
    nodes: dict[Node, None] = {}

    def visit(node: Node, results: Sequence[Array]) -> None:
        nodes[node] = None
        for name, value in zip(node.outputs, results, strict=True):
            found[name, turns[name]] = reduce(value, (name, turns[name]))
            turns[name] += 1

    session.trace(feeds, visit)
    return found, tuple(nodes)


def _reduced(parts: Sequence[Array]) -> Reduced:
    """The shape of the value itself, which is always the last part, and the signature of the others."""
    *meant, whole = parts
    return tuple(whole.shape), tuple(Signature.of(signature(part), part.shape) for part in meant)


def _kept(before: Sequence[Signature], after: Sequence[Signature]) -> bool:
    """Whether one of the parts that may be meant is the same in both runs."""
    if len(before) != len(after):
        return False
    found = (distance(b, a) for a, b in zip(before, after, strict=True))
    return any(max(d.content, d.order) <= DOUBLE_FLOOR for d in found)


def _far(value: Array, _: Shape, *, length: int, meant: slice) -> Sequence[Array]:
    """The positions that are far enough along each axis of the sequence's length, and along each two of them: before
    a mask is added, scores of such positions with each other are all that can be asked for."""
    axes = [k for k, n in enumerate(value.shape) if n == length]
    chosen = [(a,) for a in axes] + list(combinations(axes, 2))
    parts = [value[tuple(meant if k in some else slice(None) for k in range(value.ndim))] for some in chosen]
    return [*(parts or [value]), value]


def _whole(value: Array, _: Shape) -> Sequence[Array]:
    return [value, value]


def _share(value: Array, other: Shape, *, sample: int) -> Sequence[Array]:
    """One sample's share along every axis that is shorter where the sample is alone."""
    part = value
    if len(other) == value.ndim:
        for axis, (n, alone) in enumerate(zip(value.shape, other, strict=True)):
            if n != alone:
                part = part.take(range(sample * alone, min((sample + 1) * alone, n)), axis=axis)
    return [part, value]


def _unpadded(value: Array, other: Shape, *, by: int) -> Sequence[Array]:
    return [value, value]


def _valid(value: Array, other: Shape, *, before: int, by: int) -> Sequence[Array]:
    """The valid positions along every axis that was padded."""
    part = value
    if len(other) == value.ndim:
        for axis, (n, unpadded) in enumerate(zip(value.shape, other, strict=True)):
            if n - unpadded == by:
                part = part.take(range(before, before + unpadded), axis=axis)
    return [part, value]


def _changed(first: Feeds, second: Feeds, places: dict[str, int]) -> slice:
    """From the first to behind the last position at which the two differ; the step says how many there are."""
    found, length = set[int](), 0
    for name, axis in places.items():
        length = first[name].shape[axis]
        differs = np.moveaxis(first[name] != second[name], axis, 0).reshape(length, -1).any(axis=1)
        found.update(np.flatnonzero(differs).tolist())
    return slice(min(found, default=length), max(found, default=-1) + 1, length)


def _sample_of(found: Comparison, recording: _Recording) -> int:
    """The sample that the worst element belongs to."""
    assert found.worst is not None
    subject = recording.request.subject
    symbol = subject.axis("batch")
    output = next((o for o in subject.outputs if o.name == found.worst.output), None)
    if symbol is None or output is None or symbol.symbol not in output.dims:
        return 0
    return found.worst.index[output.dims.index(symbol.symbol)]
