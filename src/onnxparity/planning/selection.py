"""From what the user typed to subjects: catalogue names and globs, `package.module:factory`, `FILE.onnx`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path

from onnxparity import invariants
from onnxparity.artifact import Artifact
from onnxparity.case import Subject, shape_id
from onnxparity.errors import SubjectError, UsageError, WorkerCrashedError, WorkerTimeoutError
from onnxparity.planning.grid import Point
from onnxparity.planning.planner import Target
from onnxparity.protocols import Feeds, Outputs
from onnxparity.running.worker import Worker

__all__ = ["OPERATOR_CASES", "DescribeRequest", "Described", "Selected", "describe", "select"]

DESCRIBE_LIMIT = 600.0
OPERATOR_CASES = "onnx-node:"
"""Before a glob over the operator cases that ship with the onnx package."""


@dataclass(frozen=True)
class DescribeRequest:
    """Texts to look up, as typed."""

    texts: tuple[str, ...]
    directory: str
    inputs: tuple[str, ...] = ()
    """Files and folders with real inputs, as typed."""
    fed: str | None = None
    """The one text that the inputs are for; None for each."""
    allow_nonfinite: bool = False
    roles: Mapping[str, str] = field(default_factory=dict)
    """Of inputs, outputs and axes of files, by name; see `export.roles`."""
    properties: tuple[str, ...] = ()
    """What files promise, as typed; see `assuming`."""
    assume: bool = True
    """Whether a file is held to more than that; not where a reference says what is promised."""


@dataclass(frozen=True)
class Described:
    """One subject, as the worker with torch found it."""

    text: str
    """What it was found by."""
    subject: Subject
    has_oracle: bool = False
    examples: Mapping[str, Feeds] = field(default_factory=dict)
    artifact: Artifact | None = None
    """Where the subject is a file."""
    companions: Mapping[str, Subject] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    """What was guessed or changed, for the report's limits."""
    left_out: str = ""
    """Why it cannot take part; only for subjects that a glob brought."""
    expected: Mapping[str, Outputs] = field(default_factory=dict)
    """Outputs that came with the examples, by example."""
    examples_only: bool = False
    """Whether the file is fed with its examples alone."""
    refused: Mapping[str, str] = field(default_factory=dict)
    """Dtypes in which the module itself does not run on its own example, with PyTorch's words."""


@dataclass(frozen=True)
class Selected:
    """A target of the plan with everything its work needs."""

    target: Target
    described: Described
    against: Described | None = None
    renamed: Mapping[str, str] = field(default_factory=dict)


def select(
    texts: Sequence[str],
    directory: Path,
    *,
    against: str | None = None,
    renamed: Mapping[str, str] | None = None,
    inputs: Sequence[str] = (),
    allow_nonfinite: bool = False,
    roles: Mapping[str, str] | None = None,
    properties: Sequence[str] = (),
) -> tuple[tuple[Selected, ...], tuple[str, ...]]:
    """The selected subjects and what to know of them (what was guessed, what was left out).

    `inputs` are real inputs, under the names of the reference where there is one (see `given_inputs`); `roles` and
    `properties` are what is said of files (see `export.roles` and `assuming`).

    Raises UsageError or SubjectError for an unknown name (with near matches), a missing or damaged file, a
    factory that does not load, and names of inputs that do not fit the reference.
    """
    if against is not None and not texts:  # else the reference would be held against itself
        raise UsageError("--against needs a file to hold against it", expected="FILE.onnx --against REFERENCE")
    wanted = tuple(texts) + ((against,) if against is not None else ())
    found = describe(
        wanted or ("*",),
        directory,
        inputs=inputs,
        fed=against,
        allow_nonfinite=allow_nonfinite,
        roles=roles or {},
        properties=properties,
        assume=against is None,
    )
    _check_said(found, roles or {}, properties)
    described = [d for d in found if not d.left_out and (d.text in texts or not texts)]
    notes = _left_out(found)
    notes += [f"{d.subject.name}: {note}" for d in described for note in d.notes]
    unique = {d.subject.name: d for d in described}
    if len(unique) < len({(d.subject.name, d.subject.origin) for d in described}):
        raise UsageError(
            "two subjects have the same name",
            got=", ".join(d.subject.origin for d in described),
            remedy="rename a file",
        )
    if against is not None:
        reference = _reference(found, against)
        notes += [f"{reference.subject.name}: {note}" for note in reference.notes]
        return tuple(_held_against(d, reference, renamed or {}) for d in unique.values()), tuple(notes)
    if renamed:
        raise UsageError("--map needs --against", remedy="name the reference with --against")
    notes += [_without_reference(d) for d in unique.values() if d.artifact is not None and not d.examples_only]
    return tuple(Selected(_target(d), d) for d in unique.values()), tuple(notes)


def _without_reference(described: Described) -> str:
    said = "meaning is judged at the recorded outputs alone" if described.expected else "nothing is said on meaning"
    return f"{described.subject.name}: no reference was given, so {said}; add --against REFERENCE"


def _left_out(found: Sequence[Described]) -> list[str]:
    """Which subjects cannot take part, by the reason."""
    reasons = dict.fromkeys(d.left_out for d in found if d.left_out)
    names = {reason: ", ".join(d.subject.name for d in found if d.left_out == reason) for reason in reasons}
    return [f"{each}: left out: {reason}" for reason, each in names.items()]


def describe(
    texts: Sequence[str],
    directory: Path,
    *,
    inputs: Sequence[str] = (),
    fed: str | None = None,
    allow_nonfinite: bool = False,
    roles: Mapping[str, str] | None = None,
    properties: Sequence[str] = (),
    assume: bool = True,
) -> list[Described]:
    """What each text stands for, asked of a worker with torch. Raises as `select`."""
    request = DescribeRequest(
        tuple(texts), str(directory), tuple(inputs), fed, allow_nonfinite, roles or {}, tuple(properties), assume
    )
    try:
        with Worker() as worker:
            return list(worker.call("describe", request, limit=DESCRIBE_LIMIT))
    except (WorkerCrashedError, WorkerTimeoutError) as error:  # code of the user's runs there
        remedy = "make sure that a factory neither ends the process nor waits for anything"
        raise SubjectError(
            f"{', '.join(texts)} cannot be described: {error.what}", got=error.got, remedy=remedy
        ) from error


def _check_said(found: Sequence[Described], roles: Mapping[str, str], properties: Sequence[str]) -> None:
    """Raises UsageError for roles and properties that are said of no file, and so would do nothing."""
    files = [d.subject for d in found if d.artifact is not None and not d.examples_only]
    if not files and (roles or properties):
        remedy = "a catalogue entry states its own"
        raise UsageError("--role and --property are said of a FILE.onnx, and none was named", remedy=remedy)
    names = {spec.name for s in files for spec in s.inputs} | {output.name for s in files for output in s.outputs}
    names |= {axis.symbol for s in files for axis in s.axes}
    for name in roles:
        if name not in names:
            hint = f"did you mean {' or '.join(near)}?" if (near := get_close_matches(name, names)) else None
            raise UsageError(
                f"--role names {name!r}, which no file has", expected=", ".join(sorted(names)), remedy=hint
            )


def _reference(found: Sequence[Described], against: str) -> Described:
    """What --against names. Raises UsageError where a glob stands for several subjects, or for one left out."""
    named = {d.subject.name: d for d in found if d.text == against}
    if len(named) != 1:
        raise UsageError("--against names more than one subject", expected="one", got=", ".join(named))
    (reference,) = named.values()
    if reference.left_out:
        raise UsageError(f"the reference {against} cannot be used", got=reference.left_out)
    return reference


def _target(described: Described) -> Target:
    return Target(
        subject=described.subject,
        given=None if described.artifact is None else described.artifact.key,
        has_oracle=described.has_oracle,
        has_reference=described.artifact is None or described.examples_only,
        examples=_points(described),
        examples_only=described.examples_only,
        recorded=tuple(described.expected),
    )


def _points(described: Described) -> tuple[Point, ...]:
    """The points of the real inputs: their shape, and their name as the regime."""
    points = []
    for name, feeds in described.examples.items():
        sizes = {
            dim: feeds[spec.name].shape[place]
            for spec in described.subject.inputs
            for place, dim in enumerate(spec.dims)
            if isinstance(dim, str)
        }
        points.append(Point(shape_id(described.subject, sizes), name))
    return tuple(points)


def _held_against(candidate: Described, reference: Described, renamed: Mapping[str, str]) -> Selected:
    """A file with its reference: the reference says what can be fed and how outputs are called."""
    if candidate.examples_only:
        raise UsageError(f"{candidate.text} comes with its own outputs", remedy="leave --against out")
    if candidate.artifact is None:
        raise UsageError(
            f"--against holds a file against a reference, and {candidate.text} is not a file",
            expected="FILE.onnx",
            remedy="a PyTorch subject is always held against its own module; leave --against out",
        )
    ours = {i.name for i in candidate.artifact.inputs}
    theirs = {renamed.get(i.name, i.name) for i in reference.subject.inputs}
    unknown = sorted(
        set(renamed) - {i.name for i in reference.subject.inputs} - {o.name for o in reference.subject.outputs}
    )
    if unknown:
        raise UsageError(
            f"--map names {unknown}, which the reference does not have", expected=_names(reference.subject)
        )
    if ours != theirs:
        raise UsageError(
            f"the inputs of {candidate.text} are not those of the reference",
            expected=", ".join(sorted(theirs)),
            got=", ".join(sorted(ours)),
            remedy="name the pairs with --map REFERENCE_NAME=FILE_NAME",
        )
    target = Target(
        subject=_renamed_subject(candidate, reference),
        given=candidate.artifact.key,
        has_reference=True,
        examples=_points(reference),
    )
    return Selected(target, candidate, reference, renamed)


def _renamed_subject(candidate: Described, reference: Described) -> Subject:
    """The candidate as a subject that is fed like the reference."""
    theirs = reference.subject
    return Subject(
        name=candidate.subject.name,
        kind="onnx",
        origin=f"{candidate.subject.origin} --against {theirs.origin}",
        source=candidate.subject.source,
        summary=f"{candidate.subject.summary}, held against {theirs.name}",
        inputs=theirs.inputs,
        outputs=theirs.outputs,
        axes=theirs.axes,
        properties=_promised(candidate.subject, theirs),
        dtypes=candidate.subject.dtypes,
        parameters=candidate.subject.parameters,
        roles=theirs.roles,
        reads=theirs.reads,
        window=candidate.subject.window or theirs.window,
    )


def _promised(candidate: Subject, reference: Subject) -> tuple[str, ...]:
    """What was asked of the candidate, and what its reference promises without a companion of its own."""
    theirs = (p for p in reference.properties if p not in invariants.COMPANIONED)
    return tuple(dict.fromkeys((*candidate.properties, *theirs)))


def _names(subject: Subject) -> str:
    return ", ".join([i.name for i in subject.inputs] + [o.name for o in subject.outputs])
