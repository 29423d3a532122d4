"""What the order of the tokens does: nothing without positions, something with them."""

from __future__ import annotations

import numpy as np

from onnxparity.case import Subject, TensorSpec
from onnxparity.feeding.feeds import generator
from onnxparity.invariants.setting import Setting, lacks, taken
from onnxparity.numerics.compare import Comparison
from onnxparity.protocols import Array, Feeds, Outputs

__all__ = ["permutation_equivariance", "permutation_invariance", "position_sensitivity", "set_axis"]


def permutation_equivariance(setting: Setting) -> Comparison:
    """Without positions, permuted tokens give permuted outputs: f(P x) = P f(x).

    Source: seed 003, 2.6 (self-attention alone is equivariant to any order); Lee et al. 2019, reference 2 of seed 004.
    """
    symbol = _sequence(setting.subject)
    if not any(symbol in output.dims for output in setting.subject.outputs):
        raise lacks(setting.subject, f"has no output along {symbol!r}, so none can be permuted with its inputs")
    return _permuted(setting, symbol)


def permutation_invariance(setting: Setting) -> Comparison:
    """The order of what is attended to does not matter: f(x, P s) = f(x, s), for a source with its mask, or a set
    that is pooled.

    Source: seed 004, part 1 (o_i is a sum over j); Lee et al. 2019, reference 2 of seed 004.
    """
    symbol = set_axis(setting.subject)
    if symbol is None:
        raise lacks(setting.subject, "has neither a source nor a set that is pooled")
    return _permuted(setting, symbol)


def position_sensitivity(setting: Setting) -> Comparison:
    """With positions the order matters: one token everywhere gives outputs that differ by place, or earlier tokens
    in another order move the last output.

    The first shows absolute positions, the second relative ones; attention without positions does neither, with or
    without a causal mask. In a stack of causal layers the mask alone tells places apart, so that the loss of
    positions does not show there.
    Source: seed 003, 2.6 (x_t = e_t + p_t, since attention alone cannot tell places apart).
    """
    symbol = _sequence(setting.subject)
    want, got, noise = (
        {**place, **order} for place, order in zip(_by_place(setting, symbol), _by_order(setting, symbol), strict=True)
    )
    return setting.moved(want, got, noise, what="the order of the tokens")


def set_axis(subject: Subject) -> str | None:
    """The axis whose order must not matter: the source, else a sequence along which no output runs."""
    source, sequence = subject.axis("source"), subject.axis("sequence")
    if source is not None and _ordered(subject, source.symbol):
        return source.symbol
    pooled = sequence is not None and not any(sequence.symbol in output.dims for output in subject.outputs)
    return sequence.symbol if sequence is not None and pooled and _ordered(subject, sequence.symbol) else None


def _sequence(subject: Subject) -> str:
    axis = subject.axis("sequence")
    if axis is None or not _ordered(subject, axis.symbol):
        raise lacks(subject, "has no inputs along a sequence axis")
    return axis.symbol


def _ordered(subject: Subject, symbol: str) -> list[TensorSpec]:
    """The inputs whose order is changed: positions stay where they are."""
    return [spec for spec in subject.inputs if symbol in spec.dims and spec.role != "positions"]


def _permuted(setting: Setting, symbol: str) -> Comparison:
    subject, order = setting.subject, _shuffled(setting, setting.sizes[symbol])
    want, noise = setting.run(setting.feeds), setting.noise(setting.feeds)
    got = setting.run(_reordered(setting, symbol, order))
    dims = {output.name: output.dims for output in subject.outputs}
    moved = {name: taken(value, dims[name], symbol, order) for name, value in want.items()}
    return setting.same(
        moved, got, {name: taken(value, dims[name][:-1], symbol, order) for name, value in noise.items()}
    )


def _reordered(setting: Setting, symbol: str, order: Array) -> Feeds:
    changed = {s.name: taken(setting.feeds[s.name], s.dims, symbol, order) for s in _ordered(setting.subject, symbol)}
    return {**setting.feeds, **changed}


def _shuffled(setting: Setting, size: int) -> Array:
    """An order that moves every place, without being the reverse."""
    order: Array = generator(setting.subject.name, "order", size).permutation(size)
    return order if np.all(order != np.arange(size)) else np.roll(np.arange(size), 1)


def _by_place(setting: Setting, symbol: str) -> tuple[Outputs, Outputs, Outputs]:
    """Outputs where every token is the first one: those of the first place, and those of all."""
    first = np.zeros(setting.sizes[symbol], np.int64)
    alike = _reordered(setting, symbol, first)
    dims = {output.name: output.dims for output in setting.subject.outputs if output.dims.count(symbol) == 1}
    outputs, noise = setting.run(alike), setting.noise(alike)
    got = {name: outputs[name] for name in dims}
    want = {name: taken(value, dims[name], symbol, first) for name, value in got.items()}
    return _labelled(want, "by place"), _labelled(got, "by place"), _labelled({n: noise[n] for n in dims}, "by place")


def _by_order(setting: Setting, symbol: str) -> tuple[Outputs, Outputs, Outputs]:
    """Outputs of the last place, and those that have no place, before and after the rest has been shuffled."""
    last = setting.sizes[symbol] - 1
    end = np.array([last])
    dims = {output.name: output.dims for output in setting.subject.outputs if output.dims.count(symbol) < 2}
    before, after = (
        {name: taken(outputs[name], dims[name], symbol, end) for name in dims}
        for outputs in (
            setting.run(setting.feeds),
            setting.run(_reordered(setting, symbol, np.append(_shuffled(setting, last), last))),
        )
    )
    whole = setting.noise(setting.feeds)
    noise = {name: taken(whole[name], dims[name][:-1], symbol, end) for name in dims}
    return _labelled(before, "by order"), _labelled(after, "by order"), _labelled(noise, "by order")


def _labelled(values: Outputs, how: str) -> Outputs:
    return {f"{name} ({how})": value for name, value in values.items()}
