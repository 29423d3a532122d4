"""Roles of a given file's inputs, outputs and axes: what follows from names and shapes, and what the user says.

A file names its tensors and some sizes. Which of them is a cache that comes back as another output, which counts
the tokens, what a mask means: that is guessed here with a note for each guess, and whatever is given is taken.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from typing import TypeVar, get_args

from onnxparity.case import Axis, AxisRole, MaskMeaning, OutputRole, OutputSpec, Role, Subject, TensorSpec, parts_of
from onnxparity.errors import UsageError

T = TypeVar("T", bound=str)

__all__ = ["ANYWHERE", "counts_tokens", "give_roles", "pair_caches"]

ANYWHERE = (1 << 31) - 1
"""The largest position that is fed where no table bounds it; past any sequence, and inside every integer dtype."""

_INPUT_ROLES: tuple[Role, ...] = tuple(role for role in get_args(Role) if role != "mask")
_OUTPUT_ROLES: tuple[OutputRole, ...] = get_args(OutputRole)
_AXIS_ROLES: tuple[AxisRole, ...] = get_args(AxisRole)
_MASKS: Mapping[str, MaskMeaning] = {f"mask-{meaning}": meaning for meaning in get_args(MaskMeaning)}

_POSITIONS = re.compile(r"(?<![a-z])pos(ition)?(s|ids)?(?![a-z])")
_CACHE = re.compile(
    r"key_values?(?=[^a-z]|$)|past|present|cache|updated|next|new|(?<![a-z])(inputs?|in|outputs?|out)(?![a-z])"
)
_TOTAL = re.compile(r"total|attention|mask|kv|key|full")


def counts_tokens(name: str) -> bool:
    """Whether an integer input is taken for positions by its name: `position_ids`, `cache_position`."""
    return _POSITIONS.search(name.lower()) is not None


def pair_caches(subject: Subject, notes: list[str]) -> Subject:
    """The subject with each output that becomes an input at the next step, by name and shape.

    `present.0.key` becomes `past_key_values.0.key`: what is left of their names when `past`, `present` and the like
    are taken out is the same, and so are their dims but for the length, which grows by the sequence.
    """
    past, sequence = subject.axis("past"), subject.axis("sequence")
    inputs = {_bare(s.name): s for s in subject.inputs if s.role == "past" and past and past.symbol in s.dims}
    if not inputs or past is None or sequence is None:
        return subject
    grown = f"{past.symbol}+{sequence.symbol}"
    roles: dict[str, str] = {}
    outputs: list[OutputSpec] = []
    for output in subject.outputs:
        taken = inputs.get(_bare(output.name)) if output.role in ("present", "features") else None
        if taken is not None and _grows(taken, output, past.symbol):
            roles[output.name] = taken.name
            dims = tuple(grown if dim == past.symbol else dim for dim in taken.dims)
            output = OutputSpec(output.name, dims, "present")
        outputs.append(output)
    notes += [f"output {given!r} is taken for what input {took!r} is at the next step" for given, took in roles.items()]
    inputs_now = tuple(_over_all_keys(spec, subject, past, sequence, notes) for spec in subject.inputs)
    return _known_axes(replace(subject, inputs=inputs_now, outputs=tuple(outputs), roles=roles))


def _bare(name: str) -> str:
    """What tells caches apart: the layer's number, key or value."""
    words = re.findall(r"[a-z]+|[0-9]+", _CACHE.sub(" ", name.lower()))
    return " ".join(word[0] if word in ("key", "keys", "value", "values") else word for word in words)


def _grows(spec: TensorSpec, output: OutputSpec, past: str) -> bool:
    """Whether an output has the dims of a cache, apart from its length."""
    if len(spec.dims) != len(output.dims):
        return False
    return all(b is None or a in (b, past) for a, b in zip(spec.dims, output.dims, strict=True))


def _over_all_keys(spec: TensorSpec, subject: Subject, past: Axis, sequence: Axis, notes: list[str]) -> TensorSpec:
    """A mask whose last dim is named after all keys, such as `total_sequence_length`, covers past and new ones."""
    last = spec.dims[-1] if spec.dims else None
    shared = [s for s in subject.inputs if s.role != "mask" and last in s.dims]
    if spec.role != "mask" or not isinstance(last, str) or shared or not _TOTAL.search(last.lower()):
        return spec
    notes.append(f"input {spec.name!r}: the dim {last!r} is taken for {past.symbol!r} and {sequence.symbol!r} together")
    return replace(spec, dims=(*spec.dims[:-1], f"{past.symbol}+{sequence.symbol}"))


def _known_axes(subject: Subject) -> Subject:
    """Without axes that no input has any more."""
    used = {part for spec in subject.inputs for dim in spec.dims for part in parts_of(dim)}
    return replace(subject, axes=tuple(axis for axis in subject.axes if axis.symbol in used))


def give_roles(subject: Subject, roles: Mapping[str, str], notes: Sequence[str]) -> tuple[Subject, tuple[str, ...]]:
    """The subject with the roles that its inputs, outputs and axes have by `--role`, and the notes that still hold.

    Args:
        roles: by name. Inputs: tokens, features, positions, past, other, mask-keep, mask-drop, mask-additive.
            Outputs: features, weights, scores, logits, other, present:INPUT (what INPUT is at the next step),
            mean:INPUT (a weighted mean of its rows). Axes: batch, sequence, source, past, other.
            Names that the subject does not have are left to other subjects.

    Raises UsageError for a role that there is not, with near matches.
    """
    inputs = tuple(_input(spec, roles[spec.name]) if spec.name in roles else spec for spec in subject.inputs)
    outputs, becomes, reads = [], dict(subject.roles), dict(subject.reads)
    for output in subject.outputs:
        kind, _, other = roles.get(output.name, output.role).partition(":")
        if other:
            _check_input(subject, output.name, other)
        if kind == "present" and other:
            becomes[output.name] = other
        elif kind == "mean" and other:
            reads[output.name], kind = other, output.role
        outputs.append(replace(output, role=_one_of(output.name, kind, _OUTPUT_ROLES)))
    axes = tuple(
        replace(axis, role=_one_of(axis.symbol, roles[axis.symbol], _AXIS_ROLES))
        if axis.symbol in roles and axis.symbol not in _tensors(subject)
        else axis
        for axis in subject.axes
    )
    given = replace(subject, inputs=inputs, outputs=tuple(outputs), axes=axes, roles=becomes, reads=reads)
    named = _tensors(subject) | {axis.symbol for axis in subject.axes}
    about = tuple(f"{what} {name!r}" for name in roles for what in ("input", "output", "axis"))
    kept = [note for note in notes if not note.startswith(about)]
    said = [f"{name!r} is {role}, as --role says" for name, role in roles.items() if name in named]
    return given, (*kept, *said)


def _input(spec: TensorSpec, role: str) -> TensorSpec:
    if role in _MASKS:
        return replace(spec, role="mask", mask_meaning=_MASKS[role])
    _one_of(spec.name, role, (*_INPUT_ROLES, *_MASKS))  # so that an error names the masks too
    chosen = _one_of(spec.name, role, _INPUT_ROLES)
    high = ANYWHERE if chosen == "positions" and spec.high <= 1 else spec.high
    return replace(spec, role=chosen, mask_meaning=None, high=high)


def _one_of(name: str, role: str, known: Sequence[T]) -> T:
    for each in known:
        if each == role:
            return each
    names: list[str] = [*known]
    near = get_close_matches(role, names)
    hint = f"did you mean {' or '.join(near)}?" if near else None
    raise UsageError(f"{name!r} cannot be {role!r}", expected=", ".join(names), got=role, remedy=hint)


def _check_input(subject: Subject, output: str, name: str) -> None:
    names = [spec.name for spec in subject.inputs]
    if name not in names:
        raise UsageError(f"the role of output {output!r} names no input", expected=", ".join(names), got=name)


def _tensors(subject: Subject) -> set[str]:
    return {spec.name for spec in subject.inputs} | {output.name for output in subject.outputs}
