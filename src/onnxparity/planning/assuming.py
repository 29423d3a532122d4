"""What a bare file is held to: the properties asked for, those its roles imply, and those its own float64 keeps.

A guess that is wrong must not become a red cell, and one that is right must not go unchecked. So what follows from
a role that the file names (a batch, a mask) is promised, and all else is first tried in float64 at one shape, where
rounding is out of the way: what holds there is a claim that every runtime has to keep.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

from onnxparity import invariants, plugins
from onnxparity.artifact import Artifact
from onnxparity.case import Subject, parse_shape, parts_of
from onnxparity.errors import UsageError
from onnxparity.judging.examining import Bench, ExamineRequest
from onnxparity.judging.judge import judged
from onnxparity.outcome import Status, Verdict
from onnxparity.plan import Cell
from onnxparity.planning import grid

__all__ = ["asked", "flags", "promised"]

TRIED_UP_TO = 50_000_000
"""Parameters of the largest file on which guesses are tried in float64, which takes some ten evaluations."""


def asked(texts: Sequence[str]) -> tuple[tuple[str, ...], int | None]:
    """The properties of `--property`, and the size of the window that one of them may name: `window=128`.

    Raises UsageError for a name that there is not, with near matches, and a window that is no number above 0.
    """
    names, window = [], None
    for text in texts:
        name, equals, size = text.partition("=")
        if name not in invariants.PROPERTIES:
            known = ", ".join(sorted(invariants.PROPERTIES))
            raise UsageError(f"unknown property {name!r}", expected=known, remedy=invariants.near(name))
        if equals or name == "window":
            if name != "window" or not size.isdecimal() or int(size) < 1:
                raise UsageError(f"--property {text} says no size", expected="such as window=128")
            window = int(size)
        names.append(name)
    return tuple(dict.fromkeys(names)), window


def flags(roles: Mapping[str, str], properties: Sequence[str]) -> str:
    """What was said of a file, to be typed again."""
    said = [f"--role {shlex.quote(f'{name}={role}')}" for name, role in roles.items()]
    return " ".join([*said, *(f"--property {shlex.quote(text)}" for text in properties)])


def promised(
    subject: Subject, artifact: Artifact, properties: Sequence[str], notes: Sequence[str], *, assume: bool
) -> tuple[Subject, tuple[str, ...]]:
    """The subject with what it is held to, and what to know of it, after the notes so far.

    Args:
        properties: as typed after `--property`.
        notes: what was guessed when the file was read.
        assume: whether more than that is assumed; not where a reference says what is promised.

    Raises UsageError as `asked`.
    """
    names, window = asked(properties)
    subject = replace(subject, properties=names, window=window)
    if "prefill-decode" in names and subject.roles:
        subject = _from_nothing(subject)
    if not assume:
        return subject, tuple(notes)
    trial = _Trial(subject, artifact, list(notes))
    trial.implied()
    if (subject.parameters or 0) > TRIED_UP_TO:
        trial.notes.append("nothing further was tried in float64, since the file is large: name it with --property")
    else:
        trial.suggested()
    return trial.subject, tuple(trial.notes)


def _from_nothing(subject: Subject) -> Subject:
    """The subject as one that takes an empty past, and so is its own prefill."""
    return replace(subject, axes=tuple(replace(a, low=0) if a.role == "past" else a for a in subject.axes))


class _Trial:
    """A file whose promises are being found, with what is to be said of them."""

    def __init__(self, subject: Subject, artifact: Artifact, notes: list[str]) -> None:
        self.subject, self.artifact, self.notes = subject, artifact, notes

    def implied(self) -> None:
        """Promises what the batch and the mask imply; where only a guess names them, if it holds in float64."""
        batch, mask = self.subject.axis("batch"), self.subject.input("mask")
        along = batch is not None and any(batch.symbol in output.dims for output in self.subject.outputs)
        if batch is not None and along and batch.low <= 1:
            self._imply("batch-invariance", f"axis {batch.symbol!r}", guessed=self._by_place(batch.symbol))
        if mask is not None and mask.dims and parts_of(mask.dims[-1]):
            self._settle_mask()
            for name in ("padding-invariance", "masked-content"):
                self._imply(name, f"input {mask.name!r}", guessed=False)

    def suggested(self) -> None:
        """Promises causality, or else equivariance, and decoding step by step, where float64 keeps them."""
        sequence, past = self.subject.axis("sequence"), self.subject.axis("past")
        along = sequence is not None and any(sequence.symbol in output.dims for output in self.subject.outputs)
        if along and not self._suggest("causality", told=True):
            self._suggest("permutation-equivariance", told=False)
        if past is not None and self.subject.roles:
            whole = self.subject
            self.subject = _from_nothing(whole)
            if not self._suggest("prefill-decode", told=True):
                self.subject = whole

    def _imply(self, name: str, why: str, *, guessed: bool) -> None:
        if name in self.subject.properties or not self._plannable(name):
            return
        found = self._try(name) if guessed else None
        if found is not None and found.status is not Status.PASS:
            self.notes.append(f"{name} was not assumed of {why}, which is a guess: in float64 {found.message}")
            return
        self._promise(name)
        self.notes.append(f"{name} is assumed, because of {why}")

    def _suggest(self, name: str, *, told: bool) -> bool:
        """Whether the property holds in float64; it is then promised. What does not hold is told where it matters."""
        if name in self.subject.properties:
            return True
        if not self._plannable(name):
            return False
        found = self._try(name)
        holds = found.status is Status.PASS
        if holds:
            self._promise(name)
            self.notes.append(f"{name} holds in float64 at {found.cell.shape}, so each runtime is held to it")
        elif told:
            self.notes.append(f"{name} was not assumed: in float64 {found.message}; --property {name} demands it")
        return holds

    def _settle_mask(self) -> None:
        """A mask of 0 and 1 may keep or drop: it drops where padding leaves valid positions alone only then."""
        mask = self.subject.input("mask")
        if mask is None or mask.mask_meaning != "keep" or self._said(mask.name):
            return
        if (self.subject.parameters or 0) > TRIED_UP_TO or self._try("padding-invariance").status is Status.PASS:
            return
        kept = self.subject
        inputs = tuple(replace(s, mask_meaning="drop") if s.name == mask.name else s for s in kept.inputs)
        self.subject = replace(kept, inputs=inputs)
        if self._try("padding-invariance").status is Status.PASS:
            said = f"input {mask.name!r} is taken to drop where it is 1: in float64 padding then moves nothing"
            self.notes = [
                note for note in self.notes if not note.startswith(f"input {mask.name!r} is taken for a mask")
            ]
            self.notes.append(said)
        else:
            self.subject = kept

    def _try(self, name: str) -> Verdict:
        """The property of the file itself, in float64, at the core shape."""
        cell = Cell(self.artifact.key, plugins.MEANING, self._shape(), name)
        bench = Bench(ExamineRequest(self.subject, self.artifact, (cell,)))
        return judged(cell, "property", self.subject.origin, partial(bench.property, cell))

    def _plannable(self, name: str) -> bool:
        return invariants.plannable(name, self.subject, parse_shape(self.subject, self._shape()))

    def _shape(self) -> str:
        return grid.core(self.subject)[0].shape

    def _promise(self, name: str) -> None:
        self.subject = replace(self.subject, properties=(*self.subject.properties, name))

    def _by_place(self, symbol: str) -> bool:
        """Whether an axis was found by its place alone."""
        unnamed = any("without a name" in note and symbol in note for note in self.notes)
        return unnamed or any(note.startswith(f"axis {symbol!r} is taken for") for note in self.notes)

    def _said(self, name: str) -> bool:
        """Whether the user gave the role."""
        return any(note.startswith(f"{name!r} is ") for note in self.notes)
