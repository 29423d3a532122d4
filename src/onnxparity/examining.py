"""The job that judges one artifact: its meaning, its arithmetic on each runtime, its properties.

Runs in a worker without torch. Announces each cell before it starts, so that the caller knows which
one a dead worker was working on.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

import numpy as np

from onnxparity import invariants, plugins
from onnxparity.artifact import Artifact
from onnxparity.case import Subject, parse_shape
from onnxparity.errors import SubjectError
from onnxparity.feeds import regimes
from onnxparity.grid import Point
from onnxparity.judge import judged
from onnxparity.numerics.budget import DOUBLE_FLOOR, MEANING_FLOOR
from onnxparity.numerics.compare import Comparison, compare, further_apart, no_noise
from onnxparity.outcome import Question, Status, Verdict
from onnxparity.plan import ArtifactKey, Cell
from onnxparity.protocols import Array, ExactSession, Feeds, Outputs, Placement, Session
from onnxparity.references import References, feeds_at
from onnxparity.values import Values, feeds_digest

__all__ = ["ExamineRequest", "Placements", "Started", "examine"]

T = TypeVar("T")

DRAWS = 3
"""Monte Carlo draws behind each budget."""
CONFIRMING_DRAWS = 12
"""Draws behind the budget of a cell that would fail: a few miss the tails of a noise that saturates."""
WIDTHS = {"float16": 16, "float32": 32, "float64": 64}


@dataclass(frozen=True)
class Started:
    """Sent before the work on a cell begins, or on an artifact that is to be exported."""

    step: Cell | ArtifactKey


@dataclass(frozen=True)
class Placements:
    """Where a runtime ran the artifact's nodes."""

    runtime: str
    nodes: tuple[Placement, ...]


@dataclass(frozen=True)
class ExamineRequest:
    """One artifact with its cells, and what to hold it against."""

    subject: Subject
    artifact: Artifact
    cells: tuple[Cell, ...]
    references: References | None = None
    """The PyTorch module's values; None where there is no module."""
    against: Artifact | None = None
    """A reference file; None where the reference is a module or missing."""
    examples: Mapping[str, Feeds] = field(default_factory=dict)
    companions: Mapping[str, Artifact] = field(default_factory=dict)
    renamed: Mapping[str, str] = field(default_factory=dict)
    """Names of the artifact's inputs and outputs where they differ: reference's name to artifact's name."""
    origin: str = ""
    """What repeats a cell after `onnxparity verify`; empty for the subject's own origin."""
    use_cache: bool = True


def examine(request: ExamineRequest) -> Iterator[Started | Verdict | Placements]:
    """Judges every cell, each announced first."""
    bench = Bench(request)
    for cell in request.cells:
        yield Started(cell)
        question, work = bench.work(cell)
        yield judged(cell, question, request.origin or request.subject.origin, work)
    yield from bench.placements()


class Bench:
    """The sessions and exact values of one artifact, made when first needed."""

    def __init__(self, request: ExamineRequest) -> None:
        self.request = request
        self.values = Values(use_cache=request.use_cache)
        self.sessions: dict[tuple[str, str], Session] = {}
        self.exact_values: dict[Point, tuple[Outputs, Outputs]] = {}
        against = () if request.against is None else request.against.inputs
        self.against_dtypes = {i.name: i.dtype for i in against}
        self.logits = frozenset(
            request.renamed.get(o.name, o.name) for o in request.subject.outputs if o.role == "logits"
        )

    def work(self, cell: Cell) -> tuple[Question, partial[Comparison]]:
        """The question a cell asks, and the call that answers it."""
        point = Point(cell.shape, cell.regime)
        if cell.regime in invariants.PROPERTIES and cell.regime not in regimes(self.request.subject):
            return "property", partial(self.property, cell)
        if cell.runtime == plugins.MEANING:
            return "meaning", partial(self.meaning, point)
        return "arithmetic", partial(self.arithmetic, cell.runtime, point)

    def meaning(self, point: Point) -> Comparison:
        """The artifact in float64 against the reference in float64."""
        request, feeds = self.request, self.feeds(point)
        got = self.exact_run(feeds)
        if request.against is not None:
            other = self.exact(request.against)
            shared = self.exact().fingerprints() & other.fingerprints()
            own = self.unrename_feeds(feeds)
            want = self.rename(other.run(own))
            theirs = self.rename(other.constant_noise(own, shared=shared, draws=DRAWS, seed=0))
        elif request.references is not None:
            shared = request.references.fingerprints[self.reference_dtype()]
            want = self.rename(request.references.want(self.reference_dtype(), point))
            theirs = {}
        else:
            raise SubjectError("there is no reference to hold the meaning against", remedy="give one with --against")
        noise = no_noise(want)
        if further_apart(want, got, MEANING_FLOOR / 8):
            ours = self.constant_noise(feeds, shared)
            noise = {name: np.maximum(ours[name], theirs.get(name, 0.0)) for name in want if name in ours}
        return compare(want, got, noise, floor=MEANING_FLOOR, failure=Status.MEANING, logits=self.logits)

    def arithmetic(self, runtime: str, point: Point) -> Comparison:
        """A runtime's outputs against the artifact's own float64 value."""
        want, noise = self.exact_at(point)
        feeds = self.feeds(point)
        got = self.spec_run(feeds) if runtime == plugins.SPEC else self.session(runtime).run(feeds)
        dtypes = {o.name: o.dtype for o in self.request.artifact.outputs}
        if self.request.references is not None:
            dtypes |= self.rename(self.request.references.dtypes[self.reference_dtype()])

        def against(noise: Outputs) -> Comparison:
            return compare(
                want,
                got,
                noise,
                floor=self.unit_roundoff(),
                failure=Status.ARITHMETIC,
                dtypes=dtypes,
                logits=self.logits,
            )

        found = against(noise)
        return against(self.noise(feeds, CONFIRMING_DRAWS)) if found.status is Status.ARITHMETIC else found

    def property(self, cell: Cell) -> Comparison:
        """A property of one runtime's own outputs."""
        request, roundoff = self.request, self.unit_roundoff()
        in_double = cell.runtime == plugins.MEANING
        share = 2.0**-53 / roundoff if in_double else 1.0
        setting = invariants.Setting(
            subject=request.subject,
            sizes=parse_shape(request.subject, cell.shape),
            dtype=cell.artifact.dtype,
            feeds=self.drawn(Point(cell.shape, "normal")),
            # In float64 nothing is cast: a cache rounded between two steps would not be float64's.
            run=lambda feeds: self.back(
                self.session(cell.runtime).run(self.rename(feeds) if in_double else self.cast(self.rename(feeds)))
            ),
            noise=lambda feeds: {
                name: value * share for name, value in self.back(self.noise(self.cast(self.rename(feeds)))).items()
            },
            floor=DOUBLE_FLOOR if in_double else roundoff,
            companions={
                role: lambda feeds, a=artifact: self.session(cell.runtime, a).run(feeds)  # type: ignore[misc]  # a default argument binds the loop's value
                for role, artifact in request.companions.items()
            },
        )
        return invariants.check(cell.regime, setting)

    def exact(self, artifact: Artifact | None = None) -> ExactSession:
        """The float64 evaluation of the artifact, or of another one."""
        session = self.session(plugins.MEANING, artifact)
        if not isinstance(session, ExactSession):
            raise TypeError(f"runtime {plugins.MEANING} must offer an ExactSession, got {type(session).__name__}")
        return session

    def exact_at(self, point: Point) -> tuple[Outputs, Outputs]:
        """The artifact's float64 outputs and their Monte Carlo noise at a point."""
        if point not in self.exact_values:
            feeds = self.feeds(point)
            self.exact_values[point] = self.exact_run(feeds), self.noise(feeds)
        return self.exact_values[point]

    def exact_run(self, feeds: Feeds) -> Outputs:
        """The artifact's float64 outputs."""
        return self.values.known(
            "exact", self.request.artifact.sha256, feeds_digest(feeds), compute=lambda: self.exact().run(feeds)
        )

    def spec_run(self, feeds: Feeds) -> Outputs:
        """The specification's outputs in the stored dtypes; as deterministic as float64, so kept like it."""
        sha256 = self.request.artifact.sha256
        return self.values.known(
            plugins.SPEC, sha256, feeds_digest(feeds), compute=lambda: self.session(plugins.SPEC).run(feeds)
        )

    def noise(self, feeds: Feeds, draws: int = DRAWS) -> Outputs:
        """Honest rounding of the artifact's dtype on these feeds."""
        return self.values.known(
            f"noise {draws}",
            self.request.artifact.sha256,
            feeds_digest(feeds),
            compute=lambda: self.exact().noise(feeds, draws=draws, seed=0),
        )

    def constant_noise(self, feeds: Feeds, shared: frozenset[str]) -> Outputs:
        """What the constants explain that the reference does not have."""
        return self.values.known(
            f"constants {DRAWS}",
            self.request.artifact.sha256,
            feeds_digest(feeds),
            *sorted(shared),
            compute=lambda: self.exact().constant_noise(feeds, shared=shared, draws=DRAWS, seed=0),
        )

    def unit_roundoff(self) -> float:
        """Of the artifact's dtype; the file is not loaded where an earlier run knows it."""
        name = "unit_roundoff"
        known = self.values.known(
            name, self.request.artifact.sha256, compute=lambda: {name: np.asarray(self.exact().unit_roundoff)}
        )
        return float(known[name])

    def session(self, runtime: str, artifact: Artifact | None = None) -> Session:
        """A loaded session, kept for the other cells."""
        artifact = artifact or self.request.artifact
        key = (runtime, artifact.path)
        if key not in self.sessions:
            self.sessions[key] = plugins.runtime(runtime).load(artifact)
        return self.sessions[key]

    def placements(self) -> Iterator[Placements]:
        """Where the loaded sessions ran their nodes, for those that tell."""
        for (runtime, path), session in self.sessions.items():
            nodes = session.placement() if path == self.request.artifact.path else None
            if nodes is not None:
                yield Placements(runtime, nodes)

    def feeds(self, point: Point) -> Feeds:
        """Feeds of a point under the artifact's own names and dtypes."""
        return self.cast(self.rename(self.drawn(point)))

    def drawn(self, point: Point) -> Feeds:
        """Feeds of a point under the reference's names, with values that both sides can hold."""
        request = self.request
        dtypes = [a.key.dtype for a in (request.artifact, request.against) if a is not None]
        narrower = min(dtypes, key=lambda dtype: WIDTHS.get(dtype, 0))
        feeds = feeds_at(request.subject, point, narrower, request.examples)
        return {name: _cast(value, self.against_dtypes.get(name)) for name, value in feeds.items()}

    def cast(self, feeds: Feeds) -> Feeds:
        """Floating feeds in the dtypes that the artifact declares."""
        declared = {i.name: i.dtype for i in self.request.artifact.inputs}
        return {name: _cast(value, declared.get(name)) for name, value in feeds.items()}

    def unrename_feeds(self, feeds: Feeds) -> Feeds:
        """The same feeds under the reference file's names and dtypes."""
        return {name: _cast(value, self.against_dtypes.get(name)) for name, value in self.back(feeds).items()}

    def rename(self, values: Mapping[str, T]) -> dict[str, T]:
        """Values by the artifact's names, from the reference's."""
        return {self.request.renamed.get(name, name): value for name, value in values.items()}

    def back(self, values: Mapping[str, T]) -> dict[str, T]:
        """Values by the reference's names, from the artifact's."""
        names = {ours: theirs for theirs, ours in self.request.renamed.items()}
        return {names.get(name, name): value for name, value in values.items()}

    def reference_dtype(self) -> str:
        """The dtype of the module that the artifact is held against: its own where the module was exported."""
        references = self.request.references
        own = self.request.artifact.key.dtype
        return own if references is not None and own in references.fingerprints else "float32"


def _cast(value: Array, dtype: str | None) -> Array:
    wanted = dtype in WIDTHS and value.dtype.kind == "f"
    return value.astype(dtype) if wanted and dtype is not None else value
