"""The job that judges one artifact: its meaning, its arithmetic on each runtime, its properties.

Runs in a worker without torch. Announces each cell before it starts, so that the caller knows which
one a dead worker was working on.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from threading import Lock
from typing import TypeVar

import numpy as np

from onnxparity import invariants, plugins
from onnxparity.artifact import Artifact
from onnxparity.case import Subject, parse_shape
from onnxparity.errors import LoadError, SubjectError
from onnxparity.feeding.feeds import BEYOND, regimes
from onnxparity.feeding.given_outputs import against_given, misfit, with_storage
from onnxparity.feeding.references import References, feeds_at
from onnxparity.feeding.values import Values, feeds_digest
from onnxparity.judging.ahead import Ahead
from onnxparity.judging.draws import CONFIRMING_DRAWS, DRAWS, FIRST_DRAWS, SERIES, larger, settled
from onnxparity.judging.fitness import refuse_unfit
from onnxparity.judging.judge import judged
from onnxparity.numerics.budget import DOUBLE_FLOOR, MEANING_FLOOR
from onnxparity.numerics.compare import Comparison, compare, further_apart, no_noise
from onnxparity.numerics.floats import DIGITS, cast
from onnxparity.outcome import Question, Status, Verdict
from onnxparity.plan import ArtifactKey, Cell
from onnxparity.planning.beyond import refuses_or_agrees
from onnxparity.planning.grid import Point
from onnxparity.protocols import TF32, CoarseProducts, ExactSession, Feeds, Outputs, Placement, Session

__all__ = ["ExamineRequest", "Placements", "Started", "examine"]

T = TypeVar("T")


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
    expected: Mapping[str, Outputs] = field(default_factory=dict)
    """Outputs that came with the examples, by example; they are then the reference."""
    threads: int = 1
    """In which exact values and noise are computed ahead of the cells that need them."""


def examine(request: ExamineRequest) -> Iterator[Started | Verdict | Placements]:
    """Judges every cell, each announced first."""
    bench = Bench(request)
    with Ahead(bench.prepare, tuple(bench.points), threads=request.threads) as ahead:
        for point, cells in bench.points.items():
            for cell in cells:
                yield Started(cell)
                ahead.reach(point)
                question, _ = bench.work(cell)
                yield judged(cell, question, request.origin or request.subject.origin, partial(bench.answer, cell))
    yield from bench.placements()


class Bench:
    """The sessions and exact values of one artifact, made when first needed."""

    def __init__(self, request: ExamineRequest) -> None:
        self.request = request
        self.values = Values(use_cache=request.use_cache)
        self.sessions: dict[tuple[str, str], Session] = {}
        self.loading = Lock()
        self.points: dict[Point, list[Cell]] = {}
        for cell in request.cells:
            self.points.setdefault(Point(cell.shape, cell.regime), []).append(cell)
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
            return "meaning", partial(self.beyond if cell.regime == BEYOND else self.meaning, point)
        if cell.regime == BEYOND:
            return "arithmetic", partial(self.beyond, point, cell.runtime)
        return "arithmetic", partial(self.arithmetic, cell.runtime, point)

    def answer(self, cell: Cell) -> Comparison:
        """The answer to a cell's question. Raises LintError for a file that is not worth asking."""
        request = self.request
        if not request.expected:  # outputs that came with a file say that it is meant to be as it is
            refuse_unfit(request.artifact, request.subject, cell, request.renamed)
        return self.work(cell)[1]()

    def prepare(self, point: Point) -> None:
        """What the cells at a point need that runs in NumPy alone: exact values, and the noise where one is needed."""
        questions = {self.work(cell)[0] for cell in self.points[point]} - {"property"}
        if not questions or point.regime == BEYOND:
            return
        feeds = self.feeds(point)
        self.exact_run(feeds)
        if "meaning" in questions and self.request.against is not None:
            self.exact_run(self.unrename_feeds(feeds), self.request.against)
        if "arithmetic" in questions:
            self.noise(feeds, FIRST_DRAWS)

    def beyond(self, point: Point, runtime: str = plugins.MEANING) -> Comparison:
        """The artifact, or one runtime, at a size beyond the subject's end."""
        feeds = self.feeds(point)
        if runtime == plugins.MEANING:
            return refuses_or_agrees(lambda: self.exact_run(feeds), lambda: self.meaning(point), failure=Status.MEANING)
        return refuses_or_agrees(
            lambda: self.session(runtime).run(feeds),
            lambda: self.arithmetic(runtime, point),
            failure=Status.ARITHMETIC,
        )

    def meaning(self, point: Point) -> Comparison:
        """The artifact in float64 against the reference in float64."""
        request, feeds = self.request, self.feeds(point)
        recorded = point.regime in request.expected
        if recorded and request.against is None and request.references is None:
            return self.as_given(point)
        got = self.exact_run(feeds)
        if request.against is not None:
            want = self.rename(self.exact_run(self.unrename_feeds(feeds), request.against))
        elif request.references is not None:
            want = self.rename(request.references.want(self.reference_dtype(), point))
        else:
            raise SubjectError("there is no reference to hold the meaning against", remedy="give one with --against")
        apart = further_apart(want, got, MEANING_FLOOR / 8)
        noise = self.explained(feeds) if apart else no_noise(want)
        noise = {name: value for name, value in noise.items() if name in want}
        found = compare(want, got, noise, floor=MEANING_FLOOR, failure=Status.MEANING, logits=self.logits)
        return self.as_given(point) if recorded and found.status is Status.PASS else found

    def as_given(self, point: Point) -> Comparison:
        """The artifact in float64 against the outputs that came with its inputs."""
        given, feeds = self.rename(self.request.expected[point.regime]), self.feeds(point)

        def against(draws: int) -> Comparison:
            noise = self.noise(feeds, draws)
            return against_given(given, self.exact_run(feeds), noise, floor=self.unit_roundoff())

        found = against(DRAWS)
        return against(CONFIRMING_DRAWS) if found.status is Status.MEANING else found

    def explained(self, feeds: Feeds) -> Outputs:
        """How far the two sides may be apart, by the rounding of the constants that stand on one side only."""
        request = self.request
        if request.against is None:
            assert request.references is not None
            return self.constant_noise(feeds, request.references.fingerprints[self.reference_dtype()])
        other = self.exact(request.against)
        shared = self.exact().fingerprints() & other.fingerprints()
        own = self.unrename_feeds(feeds)
        theirs = self.rename(other.constant_noise(own, shared=shared, draws=DRAWS, seed=0))
        ours = self.constant_noise(feeds, shared)
        return larger(ours, theirs)

    def arithmetic(self, runtime: str, point: Point) -> Comparison:
        """A runtime's outputs against the artifact's own float64 value."""
        feeds = self.feeds(point)
        want = self.exact_run(feeds)
        got = self.spec_run(feeds) if runtime == plugins.SPEC else self.session(runtime).run(feeds)
        coarse = None if runtime == plugins.SPEC else self.product_roundoff(runtime)
        alone = self.request.against is None and self.request.references is None  # another's dtypes may be its own
        recorded = self.request.expected.get(point.regime) if alone else None
        if recorded is not None and (fault := misfit(recorded, got)):
            return fault
        dtypes = {o.name: o.dtype for o in self.request.artifact.outputs}
        if self.request.references is not None:
            dtypes |= self.rename(self.request.references.dtypes[self.reference_dtype()])

        def against(draws: int) -> Comparison:
            return compare(
                want,
                got,
                with_storage(self.noise(feeds, draws, coarse), dtypes, self.unit_roundoff()),
                floor=self.unit_roundoff(),
                failure=Status.ARITHMETIC,
                dtypes=dtypes,
                logits=self.logits,
            )

        found = settled(against)
        return found if coarse is None else replace(found, evidence=(*found.evidence, _said(runtime, coarse)))

    def property(self, cell: Cell) -> Comparison:
        """A property of one runtime's own outputs."""
        request, roundoff = self.request, self.unit_roundoff()
        in_double = cell.runtime == plugins.MEANING
        share = 2.0**-53 / roundoff if in_double else 1.0

        def run_on(session: Session) -> invariants.Run:
            # In float64 nothing is cast: a cache rounded between two steps would not be float64's.
            return lambda feeds: self.back(
                session.run(self.rename(feeds) if in_double else self.cast(self.rename(feeds)))
            )

        levels = plugins.LEVELS if cell.regime == "level-equality" else ()
        setting = invariants.Setting(
            subject=request.subject,
            sizes=parse_shape(request.subject, cell.shape),
            dtype=cell.artifact.dtype,
            feeds=self.drawn(Point(cell.shape, "normal")),
            run=run_on(self.session(cell.runtime)),
            noise=lambda feeds: {
                name: value * share for name, value in self.back(self.noise(self.cast(self.rename(feeds)))).items()
            },
            floor=DOUBLE_FLOOR if in_double else roundoff,
            companions={
                role: lambda feeds, a=artifact: self.session(cell.runtime, a).run(feeds)  # type: ignore[misc]  # a default argument binds the loop's value
                for role, artifact in request.companions.items()
            },
            again=lambda: run_on(plugins.runtime(cell.runtime).load(request.artifact)),
            levels={level: run_on(self.session(level)) for level in levels},
        )
        found = invariants.check(cell.regime, setting)
        if in_double and found.status is Status.PROPERTY:
            return replace(found, evidence=(*found.evidence, "this is float64: the file itself does not keep it"))
        return found

    def exact(self, artifact: Artifact | None = None) -> ExactSession:
        """The float64 evaluation of the artifact, or of another one."""
        session = self.session(plugins.MEANING, artifact)
        if not isinstance(session, ExactSession):
            raise TypeError(f"runtime {plugins.MEANING} must offer an ExactSession, got {type(session).__name__}")
        return session

    def exact_run(self, feeds: Feeds, artifact: Artifact | None = None) -> Outputs:
        """The float64 outputs of the artifact, or of another one."""
        sha256 = (artifact or self.request.artifact).sha256
        return self.values.known("exact", sha256, feeds_digest(feeds), compute=lambda: self.exact(artifact).run(feeds))

    def spec_run(self, feeds: Feeds) -> Outputs:
        """The specification's outputs in the stored dtypes; as deterministic as float64, so kept like it."""
        sha256 = self.request.artifact.sha256
        return self.values.known(
            plugins.SPEC, sha256, feeds_digest(feeds), compute=lambda: self.session(plugins.SPEC).run(feeds)
        )

    def noise(self, feeds: Feeds, draws: int = DRAWS, coarse: float | None = None) -> Outputs:
        """Honest rounding of the artifact's dtype on these feeds: the largest of this many draws.

        coarse: see `protocols.CoarseProducts`.
        """
        fewer = SERIES[draws]
        more = self.values.known(
            f"noise {fewer} to {draws}" if coarse is None else f"noise {fewer} to {draws} at {coarse}",
            self.request.artifact.sha256,
            feeds_digest(feeds),
            compute=lambda: self.exact().noise(feeds, draws=draws - fewer, seed=fewer, product_roundoff=coarse),
        )
        return larger(more, self.noise(feeds, fewer, coarse)) if fewer else more

    def product_roundoff(self, runtime: str) -> float | None:
        """To which a runtime rounds the factors of products, by its own word. Raises LoadError for a word too wide."""
        session = self.session(runtime)
        said = session.product_roundoff if isinstance(session, CoarseProducts) else None
        if said is not None and not 0 < said <= TF32:
            raise LoadError(
                f"{runtime} says that it rounds the factors of products to {said:g}",
                expected=f"at most {TF32:g}, which is TF32",
                got=f"{said:g}",
                remedy="judge a runtime that computes in half precision on a file in half precision",
            )
        return said

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
        with self.loading:
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
        narrower = min(dtypes, key=lambda dtype: DIGITS.get(dtype, 0))
        feeds = feeds_at(request.subject, point, narrower, request.examples)
        return {name: cast(value, self.against_dtypes.get(name)) for name, value in feeds.items()}

    def cast(self, feeds: Feeds) -> Feeds:
        """Floating feeds in the dtypes that the artifact declares."""
        declared = {i.name: i.dtype for i in self.request.artifact.inputs}
        return {name: cast(value, declared.get(name)) for name, value in feeds.items()}

    def unrename_feeds(self, feeds: Feeds) -> Feeds:
        """The same feeds under the reference file's names and dtypes."""
        return {name: cast(value, self.against_dtypes.get(name)) for name, value in self.back(feeds).items()}

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


def _said(runtime: str, coarse: float) -> str:
    return f"{runtime} says that it rounds the factors of matrix products to a unit roundoff of {coarse:.2g} (TF32)"
