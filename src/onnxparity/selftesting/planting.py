"""The job that plants faults: wrong files with what a right location of each fault is, for workers that only judge.

Runs in the worker with torch. `selftest` asks for it and scores what comes of the files.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING

from onnxparity.artifact import Artifact
from onnxparity.case import Subject
from onnxparity.errors import OnnxParityError, UsageError
from onnxparity.location import Node
from onnxparity.outcome import Expectation, Status
from onnxparity.plan import ArtifactKey

if TYPE_CHECKING:
    from onnx import ModelProto

    from onnxparity.models.fault import Mutant

__all__ = ["SHOWN", "PlantRequest", "Planted", "Unplanted", "Where", "names_it", "plant"]

SHOWN = frozenset({Status.MEANING, Status.ARITHMETIC, Status.NONFINITE, Status.PROPERTY})
"""How a fault may show where it does not say otherwise: a file that no longer runs has been damaged, not spoiled."""


@dataclass(frozen=True)
class Where:
    """A right location. Every field that is given must fit the node."""

    module: str = ""
    """The last parts of its module path."""
    operators: tuple[str, ...] = ()
    line: str = ""
    """The text of its source line."""
    nodes: tuple[str, ...] = ()
    """Its name."""

    def __post_init__(self) -> None:
        if not (self.module or self.operators or self.line or self.nodes):
            raise ValueError("a location that names nothing would fit every node")


@dataclass(frozen=True)
class PlantRequest:
    """Which faults are wanted, and the share of them that this worker plants."""

    kinds: tuple[str, ...]
    """Globs over kinds; empty for all."""
    folder: str
    quick: bool = False
    """Only the faults that stand for the rest, at one opset each."""
    share: tuple[int, int] = (0, 1)
    """Which part of how many, so that several workers can divide the work."""
    use_cache: bool = True


@dataclass(frozen=True)
class Planted:
    """One wrong file, or one that must not be taken for wrong."""

    name: str
    kind: str
    why: str
    """Why it is wrong; where it is equivalent, the proof."""
    equivalent: bool
    subject: Subject
    """What it was made from, and is held against."""
    artifact: Artifact
    against: Artifact | None
    """The right file, where the reference is not the module."""
    where: tuple[Where, ...]
    points: tuple[str, ...]
    """Shapes and regimes that it shows at, besides the grid's core."""
    shows: frozenset[Status]
    known: tuple[Expectation, ...] = ()
    """Failures of the right file, which show nothing."""


@dataclass(frozen=True)
class Unplanted:
    """A fault that could not be planted."""

    name: str
    kind: str
    error: OnnxParityError


def names_it(node: Node, wanted: Sequence[Where]) -> bool:
    """Whether a node is one of the right locations."""
    return any(_fits(node, where) for where in wanted)


def _fits(node: Node, where: Where) -> bool:
    path, parts = node.module.split("."), where.module.split(".")
    return (
        (not where.module or path[-len(parts) :] == parts)
        and (not where.operators or node.operator in where.operators)
        and (not where.line or where.line in node.source)
        and (not where.nodes or node.name in where.nodes)
    )


def plant(request: PlantRequest) -> Iterator[Planted | Unplanted]:
    """Every wanted fault in a file of its own, at each of its opsets.

    Raises UsageError for a kind that there is not.
    """
    import torch

    from onnxparity.models.mutants import MUTANTS, QUICK

    torch.set_num_threads(1)
    number, workers = request.share
    wanted = [m for m in _chosen(MUTANTS, request) if not request.quick or m.name in QUICK]
    counts = Counter(m.subject for m in wanted)
    subjects = sorted(counts, key=lambda subject: (-counts[subject], subject))  # so that the shares are alike
    for subject in subjects[number::workers]:
        field = Field(subject, request)
        for mutant in (m for m in wanted if m.subject == subject):
            yield from field.planted(mutant)


def _chosen(mutants: Sequence[Mutant], request: PlantRequest) -> list[Mutant]:
    """Raises UsageError for a glob that no kind fits."""
    kinds = sorted({m.kind for m in mutants})
    for glob in request.kinds:
        if not any(fnmatchcase(kind, glob) for kind in kinds):
            raise UsageError(f"no fault is of kind {glob!r}", expected=", ".join(kinds))
    return [m for m in mutants if not request.kinds or any(fnmatchcase(m.kind, glob) for glob in request.kinds)]


class Field:
    """One subject, whose clean files are exported once for all the faults that are planted in files."""

    def __init__(self, subject: str, request: PlantRequest) -> None:
        from onnxparity.export.produce import Producer
        from onnxparity.models.subjects import bring

        self.source = bring(subject, Path.cwd())
        self.request = request
        self.producer = Producer(use_cache=request.use_cache)
        self.clean: dict[ArtifactKey, Path] = {}

    def planted(self, mutant: Mutant) -> Iterator[Planted | Unplanted]:
        """The fault at each opset; an opset at which it cannot be planted is told and does not stop the rest."""
        for opset in (
            mutant.opsets[len(mutant.name) % len(mutant.opsets) :][:1] if self.request.quick else mutant.opsets
        ):
            try:
                yield self._planted(mutant, opset)
            except OnnxParityError as error:
                yield Unplanted(f"{mutant.name}-{opset}", mutant.kind, error)

    def _planted(self, mutant: Mutant, opset: int) -> Planted:
        key = ArtifactKey(self.source.subject.name, "dynamo", opset, mutant.dtype)
        name = f"{mutant.name}-{opset}"
        if mutant.form == "module":
            module = self.source.build()
            where = mutant.plant(module)
            made, against = self._exported(module, key, name), None
            artifact = self._named(Path(made.path), name, key)
        else:
            artifact, against, where = self._in_file(mutant, key, name)
        return Planted(
            name=name,
            kind=mutant.kind,
            why=mutant.why,
            equivalent=mutant.equivalent,
            subject=self.source.subject,
            artifact=artifact,
            against=against,
            where=tuple(where),
            points=mutant.points,
            shows=mutant.shows,
            known=mutant.known,
        )

    def _in_file(
        self, mutant: Mutant, key: ArtifactKey, name: str
    ) -> tuple[Artifact, Artifact | None, tuple[Where, ...]]:
        """A fault planted in the clean file, or in what a right tool makes of it, which is then the reference."""
        import onnx

        if key not in self.clean:
            self.clean[key] = Path(self._exported(self.source.build(), key, f"clean-{key.subject}-{key.opset}").path)
        model, against = onnx.load(self.clean[key]), None
        if mutant.prepare is not None:
            mutant.prepare(model)
            right = _saved(model, Path(self.request.folder) / f"{name}-right.onnx")
            against = self._named(right, f"{name}-right", key)
        where = mutant.plant(model)
        faulty = _saved(model, Path(self.request.folder) / f"{name}.onnx")
        return self._named(faulty, name, key), against, tuple(where)

    def _exported(self, module: object, key: ArtifactKey, name: str) -> Artifact:
        import torch
        from torch import nn

        assert isinstance(module, nn.Module)
        call = self.source.call(key.dtype)
        typed = module.to(getattr(torch, key.dtype))
        folder = Path(self.request.folder) / name
        return self.producer.produce(typed, call.args, self.source.subject, key, folder, kwargs=call.kwargs)

    def _named(self, path: Path, name: str, key: ArtifactKey) -> Artifact:
        """The file as one that was given, under the fault's name."""
        from onnxparity.export.given import read_given

        given = read_given(path, name).artifact
        return dataclasses.replace(given, key=dataclasses.replace(given.key, dtype=key.dtype))


def _saved(model: ModelProto, path: Path) -> Path:
    """Checked first, so that a damaged file is not taken for a spoiled one."""
    import onnx

    try:
        onnx.checker.check_model(model, full_check=True)
    except Exception as error:  # the checker's boundary: whatever it raises, the plant made no valid file
        raise UsageError(f"planting {path.stem} gave no valid file", got=str(error)) from error
    path.parent.mkdir(parents=True, exist_ok=True)
    onnx.save(model, path)
    return path
