"""Properties that need no reference: what an attention model must keep on every runtime.

Each check runs the session on feeds that it changes in one way, and compares two outputs of the same
session. Both carry honest rounding, so the budget is that of two runs (`budget.allowance`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np

from onnxparity.case import OutputSpec, Subject, TensorSpec
from onnxparity.errors import SubjectError
from onnxparity.feeds import draw, generator
from onnxparity.numerics.budget import KAPPA, vector_size
from onnxparity.numerics.compare import Comparison, compare
from onnxparity.outcome import Status
from onnxparity.protocols import Array, Feeds, Outputs

__all__ = ["PROPERTIES", "Setting", "check", "plannable"]

Run = Callable[[Feeds], Outputs]
PADDED_BY = 5


@dataclass(frozen=True)
class Setting:
    """What a property is checked on."""

    subject: Subject
    sizes: Mapping[str, int]
    dtype: str
    feeds: Feeds
    run: Run
    """One run of the session under test."""
    noise: Run
    """Honest rounding of that session per vector (`protocols.ExactSession.noise`)."""
    floor: float
    """One unit roundoff of what the session computes in."""
    companions: Mapping[str, Run] = field(default_factory=dict)
    """Sessions of companion subjects on the same runtime, by role."""

    def same(self, want: Outputs, got: Outputs, noise: Outputs) -> Comparison:
        """Two runs of one session against each other: twice the budget of one."""
        return compare(want, got, noise, floor=2 * self.floor, failure=Status.PROPERTY, kappa=2 * KAPPA)


def check(name: str, setting: Setting) -> Comparison:
    """Checks one property.

    Raises SubjectError for an unknown name, a subject that lacks what it needs, and sizes that leave nothing to check.
    """
    if name not in PROPERTIES:
        raise SubjectError(f"unknown property {name!r}", expected=", ".join(sorted(PROPERTIES)))
    if not plannable(name, setting.subject, setting.sizes):
        raise SubjectError(f"{name} has nothing to check at these sizes", got=str(dict(setting.sizes)))
    return PROPERTIES[name](setting)


def plannable(name: str, subject: Subject, sizes: Mapping[str, int]) -> bool:
    """Whether the sizes leave the property something to check: causality needs a later token.

    True where the subject cannot have the property at all, so that such a promise is seen to fail.
    """
    if name in ("padding-invariance", "left-padding-invariance"):
        return _room(subject, sizes) > 0
    axis = subject.axis("sequence") if name == "causality" else None
    axis = subject.axis("batch") if name == "batch-invariance" else axis
    return axis is None or sizes[axis.symbol] > 1


def causality(setting: Setting) -> Comparison:
    """Later tokens cannot move earlier outputs.

    Source: seed 003, 2.8 (scores of j > i are -inf before the softmax, so their weights are 0).
    """
    axis = setting.subject.axis("sequence")
    inputs = [s for s in setting.subject.inputs if axis and axis.symbol in s.dims and s.role in ("features", "tokens")]
    if axis is None or not inputs:
        raise SubjectError(f"{setting.subject.name} has no sequence axis to be causal along")
    cut = (setting.sizes[axis.symbol] + 1) // 2
    changed = dict(setting.feeds)
    for spec in inputs:
        changed[spec.name] = _redrawn_from(setting, spec, spec.dims.index(axis.symbol), cut)
    want, got, noise = setting.run(setting.feeds), setting.run(changed), setting.noise(setting.feeds)
    early = list(_along(setting.subject, axis.symbol, slice(0, cut)))
    if not early:
        raise SubjectError(f"{setting.subject.name}: no output runs along {axis.symbol!r}")
    return setting.same(_cut(want, early), _cut(got, early), _cut_noise(noise, want, early))


def batch_invariance(setting: Setting) -> Comparison:
    """A sample's outputs do not depend on its neighbours in the batch.

    Source: seed 003, 2.4 (z_i sums over the positions of its own sequence only).
    """
    axis = setting.subject.axis("batch")
    if axis is None or axis.low > 1:
        raise SubjectError(f"{setting.subject.name} has no batch axis that takes a sample alone")
    together, noise = setting.run(setting.feeds), setting.noise(setting.feeds)
    batched = list(_along(setting.subject, axis.symbol, slice(None)))
    alone: dict[str, list[Array]] = {name: [] for name, _ in batched}
    for sample in range(setting.sizes[axis.symbol]):
        one = {s.name: _sample(setting.feeds[s.name], s.dims, axis.symbol, sample) for s in setting.subject.inputs}
        outputs = setting.run(one)
        for name, _ in batched:
            alone[name].append(outputs[name])
    joined = {name: np.concatenate(alone[name], axis=where[0]) for name, where in batched}
    return setting.same(_cut(together, batched), joined, _cut_noise(noise, together, batched))


def padding_invariance(setting: Setting) -> Comparison:
    """Masked padding on the right, whatever it holds, does not move the valid positions.

    Source: seed 001 (masked scores are -inf before the softmax); seed 003, 2.8.
    """
    return _padded(setting, before=0, after=_room(setting.subject, setting.sizes))


def left_padding_invariance(setting: Setting) -> Comparison:
    """Masked padding on the left does not move the valid positions; only without absolute positions.

    Source: as `padding_invariance`; seed 003, 2.6 (attention alone does not know the order).
    """
    return _padded(setting, before=_room(setting.subject, setting.sizes), after=0)


def simplex(setting: Setting) -> Comparison:
    """Attention weights are non-negative and each row sums to 1.

    Source: seed 000, part 2.4 (A is a transition matrix); seed 004, parts 1 and 4.
    """
    names = [o.name for o in setting.subject.outputs if o.role == "weights"]
    if not names:
        raise SubjectError(f"{setting.subject.name} has no output with the role 'weights'")
    outputs, noise = setting.run(setting.feeds), setting.noise(setting.feeds)
    got: Outputs = {}
    want: Outputs = {}
    spread: Outputs = {}
    for name in names:
        weights = np.asarray(outputs[name], np.float64)
        got[f"{name} (row sum)"] = weights.sum(axis=-1, keepdims=True)
        want[f"{name} (row sum)"] = np.ones_like(weights[..., :1])
        keys = weights.shape[-1]
        # a sum of n terms rounds by n units at most, whatever the draws have seen; `same` multiplies by 2·KAPPA
        at_most = keys * setting.floor / (2 * KAPPA)
        spread[f"{name} (row sum)"] = np.maximum(noise[name] * vector_size(weights) * np.sqrt(keys), at_most)
        got[f"{name} (negative part)"] = np.minimum(weights, 0.0)
        want[f"{name} (negative part)"] = np.zeros_like(weights)
        spread[f"{name} (negative part)"] = np.zeros(weights.shape[:-1])
    return setting.same(want, got, spread)


def prefill_decode(setting: Setting) -> Comparison:
    """Decoding token by token with the KV cache gives what one pass over the whole sequence gives.

    Source: seed 003, 4.3 (parallel over the sequence in training, step by step at inference).
    """
    subject, prefill = setting.subject, setting.companions.get("prefill")
    tokens, sequence, past = subject.input("tokens"), subject.axis("sequence"), subject.axis("past")
    if prefill is None or tokens is None or sequence is None or past is None:
        raise SubjectError(f"{subject.name} needs tokens, a sequence axis, a past axis and a prefill companion")
    where, start, steps = tokens.dims.index(sequence.symbol), setting.sizes[past.symbol], setting.sizes[sequence.symbol]
    shape = [setting.sizes[d] if isinstance(d, str) else d for d in tokens.dims]
    shape[where] = start + steps
    whole = generator(subject.name, "prefill-decode", *shape).integers(tokens.low, tokens.high, shape, endpoint=True)
    whole = whole.astype(tokens.dtype)
    want = prefill({tokens.name: whole})
    state = prefill({tokens.name: np.take(whole, range(start), axis=where)})
    stepped: dict[str, list[Array]] = {}
    for step in range(steps):
        feeds = {tokens.name: np.take(whole, [start + step], axis=where)}
        feeds |= {taken: state[given] for given, taken in subject.roles.items()}
        state = setting.run(feeds)
        for name, _ in _along(subject, sequence.symbol, slice(None)):
            stepped.setdefault(name, []).append(state[name])
    late = list(_along(subject, sequence.symbol, slice(start, start + steps)))
    got = {name: np.concatenate(stepped[name], axis=axes[0]) for name, axes in late}
    got |= {name: state[name] for name in subject.roles}
    wanted = _cut(want, late) | {name: want[name] for name in subject.roles}
    return setting.same(wanted, got, _widest(setting.noise(setting.feeds), wanted))


PROPERTIES: Mapping[str, Callable[[Setting], Comparison]] = {
    "causality": causality,
    "batch-invariance": batch_invariance,
    "padding-invariance": padding_invariance,
    "left-padding-invariance": left_padding_invariance,
    "simplex": simplex,
    "prefill-decode": prefill_decode,
}

Where = tuple[int, slice]


def _along(subject: Subject, symbol: str, part: slice) -> Iterator[tuple[str, Where]]:
    """Outputs that run along an axis, with the first place it has in their dims."""
    for output in subject.outputs:
        if symbol in output.dims:
            yield output.name, (output.dims.index(symbol), part)


def _cut(values: Outputs, parts: list[tuple[str, Where]]) -> Outputs:
    return {name: values[name][(slice(None),) * axis + (part,)] for name, (axis, part) in parts}


def _cut_noise(noise: Outputs, values: Outputs, parts: list[tuple[str, Where]]) -> Outputs:
    """The same cut of the noise, which has no last axis."""
    cut: Outputs = {}
    for name, (axis, part) in parts:
        last = axis == values[name].ndim - 1
        cut[name] = noise[name] if last else noise[name][(slice(None),) * axis + (part,)]
    return cut


def _widest(noise: Outputs, values: Outputs) -> Outputs:
    """The largest noise of each output for every vector, where two runs have no vectors in common."""
    return {name: np.full(v.shape[:-1], np.max(noise[name], initial=0.0)) for name, v in values.items()}


def _redrawn_from(setting: Setting, spec: TensorSpec, axis: int, start: int) -> Array:
    """The input with other values from `start` on; integers move to another value that is allowed."""
    old = setting.feeds[spec.name]
    later = (slice(None),) * axis + (slice(start, None),)
    if spec.role == "tokens" and spec.low == spec.high:
        raise SubjectError(f"input {spec.name!r} has one value only, so nothing later can change")
    new = np.array(old)
    if spec.role == "tokens":
        span = spec.high - spec.low + 1
        new[later] = (old[later] - spec.low + max(1, span // 2)) % span + spec.low
    else:
        rng = generator(setting.subject.name, spec.name, "later")
        new[later] = rng.standard_normal(old[later].shape).astype(old.dtype)
    return new


def _sample(value: Array, dims: tuple[int | str, ...], symbol: str, sample: int) -> Array:
    return np.take(value, [sample], axis=dims.index(symbol)) if symbol in dims else value


def _padded(setting: Setting, *, before: int, after: int) -> Comparison:
    subject = setting.subject
    symbol = _padded_symbol(subject)
    if symbol is None:
        raise SubjectError(f"{subject.name} has no mask whose last dim is an axis to pad along")
    length = setting.sizes[symbol]
    padded = draw(subject, {**setting.sizes, symbol: length + before + after}, "normal", setting.dtype)
    for spec in subject.inputs:
        if spec.role == "mask":
            padded[spec.name] = _padded_mask(setting.feeds[spec.name], spec, symbol, before, after)
        else:
            place = tuple(slice(before, before + length) if dim == symbol else slice(None) for dim in spec.dims)
            padded[spec.name][place] = setting.feeds[spec.name]
    want, got, noise = setting.run(setting.feeds), setting.run(padded), setting.noise(setting.feeds)
    cut = {o.name: _valid(got[o.name], o, symbol, before, length) for o in subject.outputs}
    return setting.same(want, cut, noise)


def _padded_symbol(subject: Subject) -> str | None:
    """The axis of the keys that a mask can drop."""
    spec = subject.input("mask")
    last = spec.dims[-1] if spec is not None and spec.dims else None
    return last if isinstance(last, str) else None


def _room(subject: Subject, sizes: Mapping[str, int]) -> int:
    """By how much an input can be padded inside what the subject promises to serve."""
    axis = next((a for a in subject.axes if a.symbol == _padded_symbol(subject)), None)
    if axis is None or axis.high is None:
        return PADDED_BY
    return min(PADDED_BY, axis.high - sizes[axis.symbol])


def _padded_mask(old: Array, spec: TensorSpec, symbol: str, before: int, after: int) -> Array:
    """The mask with its new keys dropped; new queries see what their neighbour sees, so that no row is empty."""
    widths = [(before, after) if dim == symbol else (0, 0) for dim in spec.dims]
    seen = np.pad(old, [*widths[:-1], (0, 0)], mode="edge")
    if spec.dims[-1] != symbol:
        return seen
    return np.pad(seen, [*[(0, 0)] * (old.ndim - 1), widths[-1]], constant_values=_dropped(spec))


def _valid(value: Array, output: OutputSpec, symbol: str, before: int, length: int) -> Array:
    """The part of an output that belongs to valid positions, along every dim that was padded."""
    for axis, dim in enumerate(output.dims):
        if dim == symbol:
            value = value[(slice(None),) * axis + (slice(before, before + length),)]
    return value


def _dropped(spec: TensorSpec) -> float | bool:
    """The value that masks a position."""
    return -np.inf if spec.mask_meaning == "additive" else spec.mask_meaning == "drop"
