"""What an output may depend on: its past, its window, its own sample, what its mask keeps."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from onnxparity.case import OutputSpec, Subject, TensorSpec, parts_of
from onnxparity.errors import SubjectError
from onnxparity.feeding.feeds import draw
from onnxparity.invariants.setting import Setting, along, cut, cut_noise, lacks, redrawn
from onnxparity.numerics.compare import Comparison
from onnxparity.protocols import Array

__all__ = [
    "batch_invariance",
    "causality",
    "left_padding_invariance",
    "masked_content",
    "padded_symbol",
    "padding_invariance",
    "room",
    "window",
]

PADDED_BY = 5


def causality(setting: Setting) -> Comparison:
    """Later tokens cannot move earlier outputs: y_i = f(x_1 ... x_i).

    Source: seed 003, 2.8 (scores of j > i are -inf before the softmax, so their weights are 0).
    """
    symbol, inputs = _changeable(setting.subject)
    length = setting.sizes[symbol]
    middle = (length + 1) // 2
    return _unmoved(setting, symbol, inputs, changed=slice(middle, None), looked_at=slice(0, middle))


def window(setting: Setting) -> Comparison:
    """Tokens before the window cannot move an output: y_i = f(x_{i-w+1} ... x_i), with w the subject's window.

    Source: Beltagy et al. 2020, section 3.1; seed 004, part 5 (what a fixed window is that attention is not).
    """
    symbol, inputs = _changeable(setting.subject)
    size = setting.subject.window
    if size is None:
        raise lacks(setting.subject, "names no window", "give its size: --property window=SIZE")
    changed = max(1, (setting.sizes[symbol] - size + 1) // 2)
    return _unmoved(
        setting, symbol, inputs, changed=slice(0, changed), looked_at=slice(changed - 1 + size, setting.sizes[symbol])
    )


def _changeable(subject: Subject) -> tuple[str, list[TensorSpec]]:
    """The sequence axis, and the inputs along it that can be changed. Raises SubjectError where there are none."""
    axis = subject.axis("sequence")
    inputs = [s for s in subject.inputs if axis and axis.symbol in s.dims and s.role in ("features", "tokens")]
    if axis is None or not inputs:
        raise lacks(subject, "has no sequence axis along which tokens or features could change")
    return axis.symbol, inputs


def _unmoved(
    setting: Setting, symbol: str, inputs: list[TensorSpec], *, changed: slice, looked_at: slice
) -> Comparison:
    """Other inputs in one part of the sequence leave the outputs of another part alone."""
    other = dict(setting.feeds)
    for spec in inputs:
        other[spec.name] = redrawn(setting, spec, (slice(None),) * spec.dims.index(symbol) + (changed,))
    parts = list(along(setting.subject, symbol, looked_at))
    if not parts:
        raise lacks(setting.subject, f"has no output along {symbol!r}")
    want, got, noise = setting.run(setting.feeds), setting.run(other), setting.noise(setting.feeds)
    return setting.same(cut(want, parts), cut(got, parts), cut_noise(noise, want, parts))


def batch_invariance(setting: Setting) -> Comparison:
    """A sample's outputs do not depend on its neighbours in the batch: f([x; x'])_b = f([x_b]).

    Source: seed 003, 2.4 (z_i sums over the positions of its own sequence only).
    """
    axis = setting.subject.axis("batch")
    if axis is None or axis.low > 1:
        raise lacks(setting.subject, "has no batch axis that takes a sample alone")
    together, noise = setting.run(setting.feeds), setting.noise(setting.feeds)
    batched = list(along(setting.subject, axis.symbol, slice(None)))
    alone: dict[str, list[Array]] = {name: [] for name, _ in batched}
    for sample in range(setting.sizes[axis.symbol]):
        one = {s.name: _sample(setting.feeds[s.name], s.dims, axis.symbol, sample) for s in setting.subject.inputs}
        outputs = setting.run(one)
        for name, _ in batched:
            alone[name].append(outputs[name])
    joined = {name: np.concatenate(alone[name], axis=where[0]) for name, where in batched}
    return setting.same(cut(together, batched), joined, cut_noise(noise, together, batched))


def padding_invariance(setting: Setting) -> Comparison:
    """Masked padding on the right, whatever it holds and however much, does not move the valid positions.

    Source: seed 001 (masked scores are -inf before the softmax); seed 003, 2.8.
    """
    return _padded(setting, before=0, after=room(setting.subject, setting.sizes))


def left_padding_invariance(setting: Setting) -> Comparison:
    """Masked padding on the left does not move the valid positions: only without absolute positions, or where
    positions count kept tokens.

    Source: as `padding_invariance`; seed 003, 2.6 (attention alone does not know the order).
    """
    return _padded(setting, before=room(setting.subject, setting.sizes), after=0)


def masked_content(setting: Setting) -> Comparison:
    """What a masked position holds moves no other position: f(x, m)_i = f(x', m)_i where x and x' differ at j with
    m_j masked, i not j.

    It stands in the middle, so that a causal model must read its mask too: padding on the right it never sees.
    Source: seed 001 (masked scores are -inf before the softmax); seed 003, 2.8.
    """
    subject = setting.subject
    symbol = padded_symbol(subject)
    inputs = [s for s in subject.inputs if symbol in s.dims and s.role in ("features", "tokens")]
    if symbol is None or not inputs:
        raise lacks(subject, "has no mask over an axis along which tokens or features could change")
    length = setting.sizes[symbol]
    masked = length // 2
    feeds = {
        **setting.feeds,
        **{s.name: _holed(setting, s, symbol, masked) for s in subject.inputs if s.role == "mask"},
    }
    other = dict(feeds)
    for spec in inputs:
        other[spec.name] = redrawn(
            setting, spec, (slice(None),) * spec.dims.index(symbol) + (slice(masked, masked + 1),)
        )
    rest = np.delete(np.arange(length), masked)
    dims = {output.name: output.dims for output in subject.outputs}
    want, got = (
        {n: _without(setting, v, dims[n], symbol, rest) for n, v in setting.run(fed).items()} for fed in (feeds, other)
    )
    noise = {n: _without(setting, v, dims[n][:-1], symbol, rest) for n, v in setting.noise(feeds).items()}
    return setting.same(want, got, noise)


def _holed(setting: Setting, spec: TensorSpec, symbol: str, place: int) -> Array:
    """The mask with one key dropped; of past and new keys, a new one."""
    mask = np.array(setting.feeds[spec.name])
    if symbol in parts_of(spec.dims[-1]):
        mask[..., place - setting.sizes[symbol]] = _dropped(spec)
    return mask


def _without(setting: Setting, value: Array, dims: tuple[int | str | None, ...], symbol: str, rest: Array) -> Array:
    """The value at the other positions, along every dim that has the masked one."""
    for axis, dim in enumerate(dims):
        if dim is not None and symbol in parts_of(dim):
            before = setting.size(dim) - setting.sizes[symbol]
            value = np.take(value, np.concatenate([np.arange(before), before + rest]), axis=axis)
    return value


def _dropped(spec: TensorSpec) -> float | bool:
    """The value that masks a position."""
    return -np.inf if spec.mask_meaning == "additive" else spec.mask_meaning == "drop"


def room(subject: Subject, sizes: Mapping[str, int]) -> int:
    """By how much an input can be padded inside what the subject promises to serve."""
    axis = next((a for a in subject.axes if a.symbol == padded_symbol(subject)), None)
    if axis is None or axis.high is None:
        return PADDED_BY
    return min(PADDED_BY, axis.high - sizes[axis.symbol])


def _sample(value: Array, dims: tuple[int | str, ...], symbol: str, sample: int) -> Array:
    return np.take(value, [sample], axis=dims.index(symbol)) if symbol in dims else value


def _padded(setting: Setting, *, before: int, after: int) -> Comparison:
    subject = setting.subject
    symbol = padded_symbol(subject)
    if symbol is None:
        raise lacks(subject, "has no mask whose last dim is an axis to pad along")
    length = setting.sizes[symbol]
    padded = draw(subject, {**setting.sizes, symbol: length + before + after}, "normal", setting.dtype)
    for spec in subject.inputs:
        old = setting.feeds[spec.name]
        if spec.role == "mask":
            padded[spec.name] = _padded_mask(old, spec, symbol, before, after)
        elif spec.role == "positions" and symbol in spec.dims:  # they count kept tokens, on either side
            padded[spec.name] = _grown(old, spec, symbol, before, after)
        else:
            place = tuple(slice(before, before + length) if dim == symbol else slice(None) for dim in spec.dims)
            padded[spec.name][place] = old
    want, got, noise = setting.run(setting.feeds), setting.run(padded), setting.noise(setting.feeds)
    return setting.same(want, {o.name: _valid(setting, got[o.name], o, symbol, before) for o in subject.outputs}, noise)


def padded_symbol(subject: Subject) -> str | None:
    """The axis of the keys that a mask can drop; after a past, that of the new ones."""
    spec = subject.input("mask")
    parts = parts_of(spec.dims[-1]) if spec is not None and spec.dims else ()
    return parts[-1] if parts else None


def _padded_mask(old: Array, spec: TensorSpec, symbol: str, before: int, after: int) -> Array:
    """The mask with its new keys dropped; new queries see what their neighbour sees, so that no row is empty."""
    if before and len(parts_of(spec.dims[-1])) > 1:
        raise SubjectError(f"mask {spec.name!r} has the past on its left, where no padding can go")
    seen = _grown(old, spec, symbol, before, after, last=False)
    if symbol not in parts_of(spec.dims[-1]):
        return seen
    return np.pad(seen, [*[(0, 0)] * (old.ndim - 1), (before, after)], constant_values=_dropped(spec))


def _grown(old: Array, spec: TensorSpec, symbol: str, before: int, after: int, *, last: bool = True) -> Array:
    """The value with its edges repeated along the axis; its last dim only if asked."""
    widths = [(before, after) if dim == symbol else (0, 0) for dim in spec.dims]
    return np.pad(old, widths if last else [*widths[:-1], (0, 0)], mode="edge")


def _valid(setting: Setting, value: Array, output: OutputSpec, symbol: str, before: int) -> Array:
    """The part of an output that belongs to valid positions, along every dim that was padded."""
    for place, dim in enumerate(output.dims):
        if dim is not None and symbol in parts_of(dim):
            start = before if dim == symbol else 0
            value = value[(slice(None),) * place + (slice(start, start + setting.size(dim)),)]
    return value
