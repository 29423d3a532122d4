"""What every property check works with: the session under test, its inputs, and two ways of judging two runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np

from onnxparity.case import Subject, TensorSpec, size_of
from onnxparity.errors import SubjectError
from onnxparity.feeding.feeds import generator
from onnxparity.numerics.budget import KAPPA, vector_error
from onnxparity.numerics.compare import Comparison, compare
from onnxparity.outcome import Status
from onnxparity.protocols import Array, Feeds, Outputs

__all__ = ["Run", "Setting", "Where", "along", "cut", "cut_noise", "lacks", "redrawn", "taken", "widest"]

Run = Callable[[Feeds], Outputs]
Where = tuple[int, slice]


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
    again: Callable[[], Run] | None = None
    """Opens another session of the same artifact on the same runtime; None where there is no other."""
    levels: Mapping[str, Run] = field(default_factory=dict)
    """Sessions of the same artifact at the runtime's other optimisation levels, by the runtime's name there."""

    def same(self, want: Outputs, got: Outputs, noise: Outputs) -> Comparison:
        """Two runs of one session against each other: twice the budget of one."""
        return compare(want, got, noise, floor=2 * self.floor, failure=Status.PROPERTY, kappa=2 * KAPPA)

    def moved(self, want: Outputs, got: Outputs, noise: Outputs, *, what: str) -> Comparison:
        """Two runs that must differ: some vector by more than twice the budget of one.

        The ratio is that budget over the difference, so that at most 1 passes here too. `what` is the change that
        must show.
        """
        found = self.same(want, got, noise)
        if found.status not in (Status.PASS, Status.PROPERTY) or found.ratio is None:
            return found
        ratio = 1 / found.ratio if found.ratio > 0 else np.inf
        if found.status is Status.PROPERTY:
            return Comparison(Status.PASS, f"{what} moves the outputs by {found.ratio:.3g} times their budget", ratio)
        message = f"{what} must move the outputs, and they stay within {found.ratio:.2g} of their budget"
        return Comparison(Status.PROPERTY, message, ratio, worst=found.worst)

    def at_most(self, error: Array, value: Array) -> Array:
        """Noise that makes `same` allow this error of each element, whatever the draws have seen."""
        return vector_error(error, value) / (2 * KAPPA)

    def size(self, dim: int | str) -> int:
        """The size of a dim here."""
        return size_of(dim, self.sizes)


def lacks(subject: Subject, what: str, remedy: str | None = None) -> SubjectError:
    """The error of a property that the subject has nothing for."""
    return SubjectError(f"{subject.name} {what}", remedy=remedy)


def along(subject: Subject, symbol: str, part: slice) -> Iterator[tuple[str, Where]]:
    """Outputs that run along an axis, with the first place it has in their dims."""
    for output in subject.outputs:
        if symbol in output.dims:
            yield output.name, (output.dims.index(symbol), part)


def cut(values: Outputs, parts: list[tuple[str, Where]]) -> Outputs:
    """The parts of the outputs, and no other output."""
    return {name: values[name][(slice(None),) * axis + (part,)] for name, (axis, part) in parts}


def cut_noise(noise: Outputs, values: Outputs, parts: list[tuple[str, Where]]) -> Outputs:
    """The same cut of the noise, which has no last axis."""
    found: Outputs = {}
    for name, (axis, part) in parts:
        last = axis == values[name].ndim - 1
        found[name] = noise[name] if last else noise[name][(slice(None),) * axis + (part,)]
    return found


def widest(noise: Outputs, values: Outputs) -> Outputs:
    """The largest noise of each output for every vector, where two runs have no vectors in common."""
    return {name: np.full(v.shape[:-1], np.max(noise[name], initial=0.0)) for name, v in values.items()}


def taken(value: Array, dims: tuple[int | str | None, ...], symbol: str, order: Array) -> Array:
    """The value with this order along every dim that is the axis."""
    for place, dim in enumerate(dims):
        if dim == symbol:
            value = np.take(value, order, axis=place)
    return value


def redrawn(setting: Setting, spec: TensorSpec, part: tuple[slice, ...]) -> Array:
    """The input with other values in a part of it; integers move to another value that is allowed.

    Raises SubjectError where there is no other.
    """
    old = setting.feeds[spec.name]
    if spec.role == "tokens" and spec.low == spec.high:
        raise SubjectError(f"input {spec.name!r} has one value only, so nothing in it can change")
    new = np.array(old)
    if spec.role == "tokens":
        span = spec.high - spec.low + 1
        new[part] = (old[part] - spec.low + max(1, span // 2)) % span + spec.low
    else:
        rng = generator(setting.subject.name, spec.name, "other")
        new[part] = rng.standard_normal(old[part].shape).astype(old.dtype)
    return new
