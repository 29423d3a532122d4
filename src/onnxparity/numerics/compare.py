"""The comparison that decides: names, then shapes, then dtypes, then finiteness, then values in float64.

Nothing is zipped, nothing is averaged: one wrong vector decides, and comparing nothing is a failure.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from onnxparity.numerics.budget import KAPPA, allowance, vector_error
from onnxparity.numerics.metrics import measure
from onnxparity.outcome import OutputMetrics, Status, Worst
from onnxparity.protocols import Array

__all__ = ["Comparison", "compare", "further_apart", "no_noise", "worst_vector"]

ALL_EQUAL = 0.0
SMALLEST_NOISE = float(np.finfo(np.float64).tiny)
"""Below it a ratio says nothing."""


@dataclass(frozen=True)
class Comparison:
    """What two sets of outputs have to say about each other."""

    status: Status
    """PASS, STRUCTURE, NONFINITE, or the status given for values that are out of budget."""
    message: str
    ratio: float | None = None
    outputs: tuple[OutputMetrics, ...] = ()
    worst: Worst | None = None
    evidence: tuple[str, ...] = ()


def compare(
    want: Mapping[str, Array],
    got: Mapping[str, Array],
    noise: Mapping[str, Array],
    *,
    floor: float,
    failure: Status,
    dtypes: Mapping[str, str] | None = None,
    logits: Set[str] = frozenset(),
    kappa: float = KAPPA,
) -> Comparison:
    """Judges `got` against the exact values `want`.

    Args:
        want: exact values by output name, floats in float64.
        got: what is judged.
        noise: honest rounding per vector by output name (see `protocols.ExactSession.noise`).
        floor: relative difference that is always allowed (one unit roundoff, or MEANING_FLOOR).
        failure: the status where values are out of budget.
        dtypes: the dtype each output must have; None or none at all compares only floating against integer kind.
        logits: names of outputs for which top-1 agreement and KL divergence are recorded.
        kappa: room above the noise.

    Raises ValueError where noise is not finite or does not fit its output, KeyError where a floating output has none.
    """
    structure = _structure(want, got, dtypes or {})
    if structure:
        return Comparison(Status.STRUCTURE, structure[0], evidence=structure[1:])
    judged = [
        _judge(name, want[name], got[name], noise[name], floor, kappa, name in logits)
        if _floating(want[name])
        else _judge_exactly(name, want[name], got[name], noise.get(name))
        for name in want
    ]
    metrics = tuple(j.metrics for j in judged)
    decisive = max(judged, key=lambda j: np.inf if np.isnan(j.metrics.ratio) else j.metrics.ratio)
    worst_metrics, worst = decisive.metrics, decisive.worst
    faults = [j.fault for j in judged if j.fault]
    if faults:
        status, message = Status.NONFINITE, faults[0]
    elif worst_metrics.ratio <= 1:
        status, message = (
            Status.PASS,
            f"largest error is {worst_metrics.ratio:.2g} of its budget ({worst_metrics.output})",
        )
    else:
        status, message = failure, _out_of_budget(worst_metrics)
    both = sum(m.nonfinite_want for m in metrics)
    known = (f"{both} elements are NaN or infinite on both sides",) if both and not faults else ()
    excused = tuple(j.note for j in judged if j.note)
    return Comparison(status, message, worst_metrics.ratio, metrics, worst, (*faults[1:], *known, *excused))


def no_noise(want: Mapping[str, Array]) -> dict[str, Array]:
    """Noise for a comparison in which nothing may round."""
    return {name: np.zeros(np.atleast_1d(value).shape[:-1]) for name, value in want.items()}


def further_apart(want: Mapping[str, Array], got: Mapping[str, Array], limit: float) -> bool:
    """Whether any vector differs by more than the limit, so that it pays to measure a budget.

    False where the structure differs, since no budget mends that.
    """
    if set(want) != set(got) or any(want[n].shape != got[n].shape for n in want):
        return False
    with np.errstate(invalid="ignore"):
        return not all(
            np.all(vector_error(np.where(want[n] == got[n], 0.0, got[n] - want[n]), want[n]) <= limit)
            for n in want
            if _floating(want[n]) and want[n].size
        )


def worst_vector(ratios: npt.NDArray[np.float64]) -> tuple[int, ...]:
    """Index of the largest ratio, where NaN is the largest of all."""
    flat = int(np.argmax(np.where(np.isnan(ratios), np.inf, ratios)))
    return tuple(int(i) for i in np.unravel_index(flat, ratios.shape))


@dataclass(frozen=True)
class _Judged:
    """What one output has to say."""

    metrics: OutputMetrics
    worst: Worst
    fault: str = ""
    """Where finiteness differs, or nothing is finite."""
    note: str = ""
    """What was let pass, and why."""


def _structure(want: Mapping[str, Array], got: Mapping[str, Array], dtypes: Mapping[str, str]) -> tuple[str, ...]:
    """What is wrong before any value is read; empty where nothing is."""
    if not want and not got:
        return ("nothing was compared: there are no outputs",)
    if set(want) != set(got):
        missing, extra = sorted(set(want) - set(got)), sorted(set(got) - set(want))
        return (f"outputs differ: missing {missing or 'none'}, unexpected {extra or 'none'}",)
    faults = [f"{n}: shape {_shape(got[n])}, expected {_shape(want[n])}" for n in want if got[n].shape != want[n].shape]
    faults += [f"{n}: nothing was compared, the output is empty: {_shape(got[n])}" for n in want if want[n].size == 0]
    for name in want:
        expected = dtypes.get(name)
        if dtypes and expected is None:
            faults.append(f"{name}: dtype {got[name].dtype}, and nothing says which it must be")
        elif expected is not None and str(got[name].dtype) != expected:
            faults.append(f"{name}: dtype {got[name].dtype}, expected {expected}")
        elif _floating(want[name]) != _floating(got[name]):
            faults.append(f"{name}: dtype {got[name].dtype} against {want[name].dtype}")
    return tuple(faults)


def _judge(name: str, want: Array, got: Array, noise: Array, floor: float, kappa: float, logits: bool) -> _Judged:
    """A floating output: one vector out of budget, or not finite on one side only, is enough."""
    a, b = np.asarray(want, np.float64), np.asarray(got, np.float64)
    finite = np.isfinite(a) & np.isfinite(b)
    differs = ~(finite | (np.isnan(a) & np.isnan(b)) | (a == b))
    with np.errstate(over="ignore"):  # an infinite difference is out of every budget
        difference = np.subtract(b, a, where=finite, out=np.zeros_like(a))
    noise = np.broadcast_to(noise, np.atleast_1d(a).shape[:-1])
    budget, error = allowance(noise, floor, kappa=kappa), vector_error(difference, a)
    ratios = np.where(np.atleast_1d(differs).any(axis=-1), np.inf, error / budget)
    vector = worst_vector(ratios)
    index = _worst_element(np.atleast_1d(difference)[vector], np.atleast_1d(differs)[vector])
    place = (*vector, index) if a.ndim else ()
    fault = _nonfinite(name, a, b, differs) if differs.any() else "" if finite.any() else _all_lost(name, a)
    over_noise = float(error[vector] / noise[vector]) if noise[vector] > SMALLEST_NOISE else None
    metrics = measure(
        name, want, got, float(ratios[vector]), float(budget[vector]), logits=logits, over_noise=over_noise
    )
    return _Judged(metrics, Worst(name, place, float(b[place]), float(a[place])), fault)


def _worst_element(difference: npt.NDArray[np.float64], differs: npt.NDArray[np.bool_]) -> int:
    return int(np.argmax(np.where(differs, np.inf, np.abs(difference))))


def _judge_exactly(name: str, want: Array, got: Array, noise: Array | None) -> _Judged:
    """Integers and booleans must be equal, except in vectors where rounding alone decides (noise above 0)."""
    unequal = np.atleast_1d((want != got) & ~((want != want) & (got != got)))  # 8-bit floats have NaN too
    tie = np.broadcast_to(0.0 if noise is None else noise, unequal.shape[:-1])
    if not np.all(np.isfinite(tie)):
        raise ValueError(f"the noise of {name} is not finite: it would excuse any difference")
    wrong = unequal & (tie == 0)[..., None]
    ratio = np.inf if wrong.any() else ALL_EQUAL
    flat = int(np.argmax(wrong))
    place = tuple(int(i) for i in np.unravel_index(flat, unequal.shape)) if want.ndim else ()
    excused = int(np.count_nonzero(unequal & ~wrong))
    note = f"{name}: {excused} of {want.size} integers differ where rounding alone decides" if excused else ""
    metrics = measure(name, want, got, float(ratio), 0.0, logits=False)
    return _Judged(metrics, Worst(name, place, float(got[place]), float(want[place])), note=note)


def _nonfinite(name: str, want: Array, got: Array, differs: npt.NDArray[np.bool_]) -> str:
    place = tuple(int(i) for i in np.argwhere(differs)[0])
    count = int(np.count_nonzero(differs))
    return (
        f"{name}: {count} of {want.size} elements are not finite, and not the same on both sides; "
        f"first at {list(place)}: got {got[place]}, want {want[place]}"
    )


def _all_lost(name: str, want: Array) -> str:
    return f"{name}: nothing was compared, all {want.size} elements are NaN or infinite on both sides"


def _out_of_budget(m: OutputMetrics) -> str:
    relative = "" if m.max_rel is None else f"; off by {m.max_rel:.2g} relative to its vector"
    return f"{m.output} is {m.ratio:.3g} times its budget{relative}"


def _floating(value: Array) -> bool:
    return value.dtype.kind == "f" or value.dtype.name == "bfloat16"


def _shape(value: Array) -> str:
    return "x".join(str(n) for n in value.shape) or "scalar"
