"""Answers that must be the same: run after run, at every optimisation level, in another form of the same model."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import numpy as np

from onnxparity.case import Axis, TensorSpec
from onnxparity.feeding.feeds import draw
from onnxparity.invariants.setting import Setting, along, cut, lacks, widest
from onnxparity.numerics.compare import Comparison, compare
from onnxparity.outcome import Status
from onnxparity.protocols import Array, Feeds, Outputs

__all__ = ["associativity", "determinism", "level_equality", "prefill_decode", "reparametrisation"]

NOTHING = 2.0**-1000
"""A budget that no difference between two floating numbers of any dtype stays within."""


def determinism(setting: Setting) -> Comparison:
    """The same feeds give the same bits: run after run on one session, and on another session of the same file.

    Source: the ONNX specification's operators are functions of their inputs, apart from the random ones; two runs
    that differ cannot both be compared with anything.
    """
    if setting.again is None:
        raise lacks(setting.subject, "was given no second session to run")
    want = setting.run(setting.feeds)
    runs = {"second run": setting.run(setting.feeds), "second session": setting.again()(setting.feeds)}
    wanted, got = _each(want, runs)
    exact = {name: np.zeros(np.atleast_1d(value).shape[:-1]) for name, value in wanted.items()}
    found = compare(wanted, got, exact, floor=NOTHING, failure=Status.PROPERTY)
    other = [name for name, value in wanted.items() if name in got and value.tobytes() != got[name].tobytes()]
    if found.status is Status.PASS and other:  # zeros of another sign, NaN of another payload
        message = f"{other[0]} has other bits for equal numbers"
        return dataclasses.replace(found, status=Status.PROPERTY, ratio=np.inf, message=message)
    return found


def level_equality(setting: Setting) -> Comparison:
    """Graph optimisation changes no answer: every level's outputs are those of full optimisation, within twice the
    budget of one.

    Source: ONNX Runtime's documentation of graph optimisations (they preserve the graph's semantics).
    """
    if not setting.levels:
        raise lacks(setting.subject, "was given no session at another optimisation level")
    runs = {f"at {name}": run(setting.feeds) for name, run in setting.levels.items()}
    want, got = _each(setting.run(setting.feeds), runs)
    noise, _ = _each(setting.noise(setting.feeds), runs)
    return setting.same(want, got, noise)


def reparametrisation(setting: Setting) -> Comparison:
    """W_Q R and W_K R^-T, with the heads in another order, leave the outputs alone, though the attention weights that
    come out are others: equal weights are not needed for equal outputs.

    The companion `reparametrised` is the same model with such weights.
    Source: seed 004, part 6 (Brunner et al. 2020: different parametrisations give the same output with different
    attention weights); seed 004, part 2 (scores know W_Q^T W_K only).
    """
    names = [o.name for o in setting.subject.outputs if o.role == "weights"]
    want, got, noise = _companion(setting, "reparametrised")
    found = setting.same(*({n: v for n, v in values.items() if n not in names} for values in (want, got, noise)))
    if found.status is not Status.PASS or not names:
        return found
    weights = ({name: values[name] for name in names} for values in (want, got, noise))
    moved = setting.moved(*weights, what="the other parametrisation's order of heads")
    if moved.status is not Status.PASS:
        return moved
    return dataclasses.replace(found, evidence=(*found.evidence, f"{names[0]}: {moved.message}"))


def associativity(setting: Setting) -> Comparison:
    """Sums over keys may be taken once: phi(Q) (phi(K)^T V) = (phi(Q) phi(K)^T) V.

    The companion `quadratic` forms all pairs first.
    Source: Katharopoulos et al. 2020, equations 4 to 6; named in seed 000, part 6.
    """
    return setting.same(*_companion(setting, "quadratic"))


def prefill_decode(setting: Setting) -> Comparison:
    """Decoding token by token with the KV cache gives what one pass over the whole sequence gives.

    The pass is the companion `prefill`, or the same session with an empty past.
    Source: seed 003, 4.3 (parallel over the sequence in training, step by step at inference).
    """
    subject = setting.subject
    tokens, sequence, past = subject.input("tokens"), subject.axis("sequence"), subject.axis("past")
    if tokens is None or sequence is None or past is None or not subject.roles:
        remedy = "name what becomes the past: --role PRESENT=present:PAST"
        raise lacks(
            subject,
            "needs tokens, a sequence axis, a past axis, outputs that become it, and a prefill companion",
            remedy,
        )
    steps = _Steps(setting, sequence, past)
    start, stop = setting.sizes[past.symbol], setting.sizes[past.symbol] + setting.sizes[sequence.symbol]
    want, state = steps.at_once(stop), steps.at_once(start)
    stepped: dict[str, list[Array]] = {}
    for step in range(start, stop):
        state = setting.run(steps.feeds(step, step + 1, state))
        for name, _ in along(subject, sequence.symbol, slice(None)):
            stepped.setdefault(name, []).append(state[name])
    late = [(name, where) for name, where in along(subject, sequence.symbol, slice(start, stop)) if name in want]
    got = {name: np.concatenate(stepped[name], axis=axes[0]) for name, axes in late}
    got |= {name: state[name] for name in subject.roles}
    wanted = cut(want, late) | {name: want[name] for name in subject.roles}
    return setting.same(wanted, got, widest(setting.noise(setting.feeds), wanted))


class _Steps:
    """One drawn sequence, as a whole or step by step."""

    def __init__(self, setting: Setting, sequence: Axis, past: Axis) -> None:
        self.setting, self.subject, self.sequence, self.past = setting, setting.subject, sequence, past
        length = setting.sizes[past.symbol] + setting.sizes[sequence.symbol]
        self.whole = {s.name: self._drawn(s, length) for s in self.subject.inputs if sequence.symbol in s.dims}

    def at_once(self, length: int) -> Outputs:
        """The first tokens in one pass."""
        companion = self.setting.companions.get("prefill")
        if companion is not None:
            return companion({s.name: self._part(s, 0, length) for s in self._tokens()})
        if self.past.low > 0:
            remedy = "give the past axis a low of 0, where the model takes an empty cache"
            raise lacks(self.subject, "has no prefill companion, and takes no empty past", remedy)
        return self.setting.run(self.feeds(0, length, {}))

    def feeds(self, start: int, stop: int, state: Outputs) -> Feeds:
        """Tokens from start to stop after the past that `state` gives; none of it is an empty past."""
        sizes = {**self.setting.sizes, self.past.symbol: start, self.sequence.symbol: stop - start}
        fed = draw(self.subject, sizes, "normal", self.setting.dtype)  # masks keep all, positions go on
        fed |= {s.name: self._part(s, start, stop) for s in self._tokens()}
        return {**fed, **{taken: state[given] for given, taken in self.subject.roles.items() if given in state}}

    def _tokens(self) -> list[TensorSpec]:
        """What comes new with each token."""
        return [s for s in self.subject.inputs if s.name in self.whole and s.role in ("tokens", "features", "other")]

    def _part(self, spec: TensorSpec, start: int, stop: int) -> Array:
        return np.take(self.whole[spec.name], range(start, stop), axis=spec.dims.index(self.sequence.symbol))

    def _drawn(self, spec: TensorSpec, length: int) -> Array:
        sizes = {**self.setting.sizes, self.sequence.symbol: length}
        return draw(self.subject, sizes, "normal", self.setting.dtype)[spec.name]


def _companion(setting: Setting, role: str) -> tuple[Outputs, Outputs, Outputs]:
    """Outputs of the session, of its companion in a role, and the noise."""
    companion = setting.companions.get(role)
    if companion is None:
        raise lacks(setting.subject, f"has no companion {role!r} that was exported")
    return setting.run(setting.feeds), companion(setting.feeds), setting.noise(setting.feeds)


def _each(want: Outputs, runs: Mapping[str, Outputs]) -> tuple[Outputs, Outputs]:
    """What is wanted of several runs together, and what they gave, by output and run."""
    wanted = {f"{name} ({how})": value for how in runs for name, value in want.items()}
    return wanted, {f"{name} ({how})": value for how, outputs in runs.items() for name, value in outputs.items()}
