"""The jobs that need PyTorch: describing subjects, exporting them, and evaluating the module itself.

Everything they find goes to workers without torch as files and plain data.
"""

from __future__ import annotations

import dataclasses
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from onnxparity.artifact import Artifact
from onnxparity.case import Subject
from onnxparity.errors import ExportError, OnnxParityError, SubjectError
from onnxparity.feeding.given_inputs import by_regime, read_npz, take
from onnxparity.feeding.references import References, feeds_at, write_arrays, write_failure
from onnxparity.feeding.values import Values, feeds_digest
from onnxparity.judging.draws import DRAWS, SERIES, larger, settled
from onnxparity.judging.examining import Started
from onnxparity.judging.fitness import TRAINING
from onnxparity.judging.judge import judged
from onnxparity.numerics.compare import Comparison, compare, further_apart, no_noise
from onnxparity.numerics.floats import cast
from onnxparity.outcome import Status, Verdict
from onnxparity.plan import ArtifactKey, Cell, slug
from onnxparity.planning.assuming import flags, promised
from onnxparity.planning.grid import Point
from onnxparity.planning.selection import OPERATOR_CASES, Described, DescribeRequest
from onnxparity.protocols import Feeds, Outputs

if TYPE_CHECKING:
    from torch import nn

    from onnxparity.models.subjects import Call, Source
    from onnxparity.runtimes.torch_eager import TorchSession
    from onnxparity.runtimes.torch_float64 import TorchFloat64Session

__all__ = ["AuthorRequest", "Authored", "Refused", "author", "describe"]

ORACLE_FLOOR = 1e-12
"""Relative difference that a module in float64 may always have from its NumPy oracle."""


@dataclass(frozen=True)
class AuthorRequest:
    """What is wanted of one subject."""

    subject: Subject
    keys: tuple[ArtifactKey, ...]
    points: Mapping[str, tuple[Point, ...]]
    """Points that need a reference value, by dtype."""
    torch_cells: tuple[Cell, ...]
    folder: str
    """Where reference values are written."""
    directory: str
    """The user's working directory, from which factories are imported."""
    use_cache: bool = True
    examples: Mapping[str, Feeds] = field(default_factory=dict)


@dataclass(frozen=True)
class Authored:
    """An artifact that came out."""

    artifact: Artifact


@dataclass(frozen=True)
class Refused:
    """An artifact that did not come out, or not as asked."""

    key: ArtifactKey
    error: OnnxParityError


def describe(request: DescribeRequest) -> Iterator[Described]:
    """What each text stands for: a file, a factory, a catalogue name or a glob over them."""
    for text in request.texts:
        feed = bool(request.inputs) and request.fed in (None, text)
        for described in _described(text, Path(request.directory), request):
            yield _with_inputs(described, request) if feed and not described.left_out else described


def _described(text: str, directory: Path, request: DescribeRequest) -> Iterator[Described]:
    if text.startswith(OPERATOR_CASES):
        yield from _described_cases(text)
    elif text.endswith(".onnx") or (directory / text).is_file():
        yield _described_file(text, directory, request)
    else:
        yield from _described_modules(text, directory)


def _with_inputs(described: Described, request: DescribeRequest) -> Described:
    """The subject with the user's inputs beside its own. Raises UsageError where they do not fit it."""
    from onnxparity.export.given_tensors import read_folder

    subject, directory = described.subject, Path(request.directory)
    inputs, outputs = [i.name for i in subject.inputs], [o.name for o in subject.outputs]
    paths = [directory / text for text in request.inputs]
    sets = [s for p in paths for s in (read_folder(p, inputs, outputs) if p.is_dir() else read_npz(p))]
    taken = {n: take(s, subject, allow_nonfinite=request.allow_nonfinite) for n, s in by_regime(sets).items()}
    return dataclasses.replace(
        described,
        examples={**described.examples, **{name: feeds for name, (feeds, _) in taken.items()}},
        expected={**described.expected, **{name: given for name, (_, given) in taken.items() if given}},
    )


def _described_file(text: str, directory: Path, request: DescribeRequest) -> Described:
    from onnxparity.export.given import read_given
    from onnxparity.export.roles import give_roles

    given = read_given(directory / text)
    origin = f"{shlex.quote(text)} {flags(request.roles, request.properties)}".strip()
    subject, notes = give_roles(dataclasses.replace(given.subject, origin=origin), request.roles, given.notes)
    subject, notes = promised(subject, given.artifact, request.properties, notes, assume=request.assume)
    return Described(text, subject, artifact=given.artifact, notes=(*notes, *_lint_notes(given.artifact, subject)))


def _lint_notes(artifact: Artifact, subject: Subject) -> tuple[str, ...]:
    """What a given file may have kept from training; what is live there fails its cells."""
    from onnxparity.export.lint import lint

    if not TRAINING & set(artifact.op_census):
        return ()
    found = [f for f in lint(artifact, subject) if f.rule == "training-node"]
    return tuple(f"{f.rule}: {f.message} ({f.evidence}); {f.remedy}" for f in found)


def _described_cases(text: str) -> Iterator[Described]:
    """The operator cases of the onnx package that a glob stands for. Raises SubjectError for a single unusable one."""
    from onnxparity.export.operator_cases import matching, written
    from onnxparity.runtimes.operator_table import is_known

    glob = text.removeprefix(OPERATOR_CASES)
    for case in matching(glob):
        name, origin = slug(OPERATOR_CASES + case.name), OPERATOR_CASES + case.name
        unknown = [o for o in case.operators if not is_known(o)]
        why = case.unusable or (f"no float64 meaning is known for {', '.join(unknown)}" if unknown else "")
        if why and case.name == glob:
            raise SubjectError(f"{origin} cannot be verified", got=why)
        if why:
            yield Described(text, Subject(name, "onnx", origin, "", "", (), ()), left_out=why)
            continue
        subject, artifact = written(case, name, origin)
        yield Described(
            text, subject, examples=case.feeds, artifact=artifact, expected=case.expected, examples_only=True
        )


def _described_modules(text: str, directory: Path) -> Iterator[Described]:
    from onnxparity.models.narrow import refused_dtypes
    from onnxparity.models.subjects import bring, is_factory, matching

    names = (text,) if is_factory(text) else matching(text)
    for name in names:
        try:
            source = bring(name, directory)
            parameters = sum(p.numel() for p in source.build().parameters())
        except OnnxParityError as error:
            if name == text:
                raise
            yield Described(text, _bare(name), left_out=": ".join(filter(None, (error.what, error.remedy))))
            continue
        refused = refused_dtypes(source) if is_factory(name) else {}
        dtypes = tuple(d for d in source.subject.dtypes if d not in refused)
        subject = dataclasses.replace(source.subject, parameters=parameters, dtypes=dtypes)
        companions = {role: bring(other, directory).subject for role, other in subject.companions.items()}
        yield Described(
            text,
            subject,
            source.oracle is not None,
            source.examples or {},
            companions=companions,
            notes=source.notes,
            refused=refused,
        )


def _bare(name: str) -> Subject:
    from onnxparity.models import catalogue

    return catalogue.find(name).subject


def author(request: AuthorRequest) -> Iterator[Authored | Refused | References | Started | Verdict]:
    """Exports every key, evaluates the module at every point, judges the module's own cells."""
    built = Built(request)
    for key in request.keys:
        yield Started(key)
        yield built.artifact(key)
    if request.points:
        yield built.references()
    for cell in request.torch_cells:
        yield Started(cell)
        if cell.runtime == "torch-float64":
            yield judged(cell, "oracle", request.subject.origin, partial(built.oracle, cell))
        else:
            yield judged(cell, "arithmetic", request.subject.origin, partial(built.eager, cell))


class Built:
    """The module of one subject in each dtype, built when first needed."""

    def __init__(self, request: AuthorRequest) -> None:
        import torch

        from onnxparity.export.produce import Producer
        from onnxparity.models.subjects import bring

        torch.set_num_threads(1)
        self.producer = Producer(use_cache=request.use_cache)
        self.request = request
        self.source: Source = bring(request.subject.origin, Path(request.directory))
        self.values = Values(use_cache=request.use_cache)
        self.contents: dict[str, str] = {}
        self.calls: dict[str, Call] = {}
        self.modules: dict[str, nn.Module] = {}
        self.exact_sessions: dict[str, TorchFloat64Session] = {}
        self.eager_sessions: dict[str, TorchSession] = {}
        self.logits = frozenset(o.name for o in request.subject.outputs if o.role == "logits")

    def module(self, dtype: str) -> nn.Module:
        """The module with its floating weights in a dtype."""
        import torch

        if dtype not in self.modules:
            self.modules[dtype] = self.source.build().to(getattr(torch, dtype))
        return self.modules[dtype]

    def call(self, dtype: str) -> Call:
        """What an export in a dtype is traced with."""
        if dtype not in self.calls:
            self.calls[dtype] = self.source.call(dtype)
        return self.calls[dtype]

    def exact(self, dtype: str) -> TorchFloat64Session:
        """The module truly in float64, its weights rounded to a dtype."""
        from onnxparity.runtimes.torch_float64 import TorchFloat64Session

        if dtype not in self.exact_sessions:
            flat = self.source.flat(self.module(dtype))
            self.exact_sessions[dtype] = TorchFloat64Session(flat, self.request.subject, dtype)
        return self.exact_sessions[dtype]

    def session(self, dtype: str) -> TorchSession:
        """The module run eagerly in a dtype."""
        from onnxparity.runtimes.torch_eager import TorchSession

        if dtype not in self.eager_sessions:
            flat = self.source.flat(self.module(dtype))
            self.eager_sessions[dtype] = TorchSession(flat, self.request.subject, dtype)
        return self.eager_sessions[dtype]

    def artifact(self, key: ArtifactKey) -> Authored | Refused:
        """Exports one key, or takes it from the cache; lint errors refuse it."""
        try:
            call = self.call(key.dtype)
            artifact = self.producer.produce(
                self.module(key.dtype),
                call.args,
                self.request.subject,
                key,
                Path(self.request.folder) / slug(self.request.subject.name),
                kwargs=call.kwargs,
                dynamic_shapes=call.dynamic_shapes,
                program=self.content(key.dtype),
            )
            return Authored(artifact)
        except OnnxParityError as error:
            return Refused(key, error)
        except Exception as error:  # an exporter's boundary: whatever it raises is this key's result
            return Refused(key, ExportError(f"{key.exporter} raised {type(error).__name__}", got=str(error)))

    def references(self) -> References:
        """The module's values in float64 at every point, on disk; where it fails, the reason lies there instead."""
        fingerprints, dtypes = {}, {}
        for dtype, points in self.request.points.items():
            exact = self.exact(dtype)
            fingerprints[dtype] = exact.fingerprints()
            found = References(self.request.folder, {}, {}, {})
            for point in points:
                path = found.path(dtype, point)
                try:
                    write_arrays(path, self.exact_run(dtype, self.feeds(point, dtype)))
                except OnnxParityError as error:
                    write_failure(path, str(error))
            dtypes[dtype] = self._output_dtypes(dtype, points)
        contents = {dtype: self.content(dtype) for dtype in self.request.points}
        return References(self.request.folder, fingerprints, dtypes, contents)

    def oracle(self, cell: Cell) -> Comparison:
        """The module in float64 against its NumPy oracle."""
        feeds = self.feeds(Point(cell.shape, cell.regime), "float64")
        assert self.source.oracle is not None  # only planned where there is one
        weights = {name: value.numpy() for name, value in self.module("float64").state_dict().items()}
        values = self.source.oracle(weights, feeds)
        names = [o.name for o in self.request.subject.outputs]
        want: Outputs = dict(zip(names, values, strict=True))
        got = self.exact_run("float64", feeds)
        apart = further_apart(want, got, ORACLE_FLOOR)
        noise = self.noise("float64", feeds) if apart else no_noise(want)
        return compare(want, got, noise, floor=ORACLE_FLOOR, failure=Status.MEANING, logits=self.logits)

    def eager(self, cell: Cell) -> Comparison:
        """The module run eagerly in its dtype against its own float64 value: what that dtype allows at all."""
        dtype, point = cell.artifact.dtype, Point(cell.shape, cell.regime)
        feeds = self.feeds(point, dtype)
        want, got = self.exact_run(dtype, feeds), self.session(dtype).run(feeds)

        def against(draws: int) -> Comparison:
            floor, noise = self.exact(dtype).unit_roundoff, self.noise(dtype, feeds, draws)
            return compare(want, got, noise, floor=floor, failure=Status.ARITHMETIC, logits=self.logits)

        return settled(against)

    def exact_run(self, dtype: str, feeds: Feeds) -> Outputs:
        """The module's outputs in float64, its weights rounded to a dtype."""
        return self.values.known(
            "module", dtype, self.content(dtype), feeds_digest(feeds), compute=lambda: self.exact(dtype).run(feeds)
        )

    def noise(self, dtype: str, feeds: Feeds, draws: int = DRAWS) -> Outputs:
        """Honest rounding of a dtype in the module."""
        fewer = SERIES[draws]
        more = self.values.known(
            f"module noise {fewer} to {draws}",
            dtype,
            self.content(dtype),
            feeds_digest(feeds),
            compute=lambda: self.exact(dtype).noise(feeds, draws=draws - fewer, seed=fewer),
        )
        return larger(more, self.noise(dtype, feeds, fewer)) if fewer else more

    def content(self, dtype: str) -> str:
        """A digest of the module in a dtype: code, settings and weights."""
        from onnxparity.export.fingerprint import program_key

        if dtype not in self.contents:
            call = self.call(dtype)
            self.contents[dtype] = program_key(
                self.module(dtype),
                call.args,
                self.request.subject,
                dynamic_shapes=call.dynamic_shapes,
                kwargs=call.kwargs,
            )
        return self.contents[dtype]

    def feeds(self, point: Point, dtype: str) -> Feeds:
        """Feeds of a point in a dtype."""
        drawn = feeds_at(self.request.subject, point, dtype, self.request.examples)
        return {name: cast(value, dtype) for name, value in drawn.items()}

    def _output_dtypes(self, dtype: str, points: tuple[Point, ...]) -> dict[str, str]:
        """Dtypes of the module's own outputs; empty where it does not run in this dtype."""
        try:
            return {name: str(v.dtype) for name, v in self.session(dtype).run(self.feeds(points[0], dtype)).items()}
        except OnnxParityError:
            return {}
