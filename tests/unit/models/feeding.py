"""How these tests feed a subject at several sizes, run it, and say how far two results are apart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor, nn

from onnxparity.case import AxisRole, OutputSpec, Subject
from onnxparity.models.catalogue import entries
from onnxparity.models.entry import Entry, Weights
from onnxparity.protocols import Array

DRAWN = tuple(name for name, entry in entries().items() if entry.extra is None)
"""Subjects whose weights are drawn, and which need nothing installed; trained ones have tests of their own."""

LIMIT = 1e-12
"""Relative, per output vector, between two float64 computations of the same formula."""
SATURATED_LIMIT = 1e-11
"""For scores near 1000, whose own rounding (1e-13) an exponential passes on as a relative error."""

PATTERNS: tuple[Mapping[AxisRole, int], ...] = (
    {"batch": 1, "sequence": 1, "source": 1, "past": 1, "other": 1},
    {"batch": 2, "sequence": 5, "source": 7, "past": 3, "other": 4},
    {"batch": 3, "sequence": 17, "source": 4, "past": 9, "other": 5},
    {"batch": 2, "sequence": 1, "source": 6, "past": 8, "other": 7},
    {"batch": 1, "sequence": 33, "source": 1, "past": 1, "other": 2},
)


def shapes(subject: Subject) -> list[dict[str, int]]:
    """Sizes by axis symbol, inside what the subject promises to serve."""
    return [
        {a.symbol: min(max(p[a.role], a.low), p[a.role] if a.high is None else a.high) for a in subject.axes}
        for p in PATTERNS
    ]


def arguments(subject: Subject, feeds: Mapping[str, Array]) -> tuple[Tensor, ...]:
    """The feeds as tensors in the order of the subject's inputs."""
    return tuple(torch.from_numpy(feeds[spec.name]) for spec in subject.inputs)


def run(module: nn.Module, subject: Subject, feeds: Mapping[str, Array]) -> tuple[Tensor, ...]:
    """Every output in order."""
    got = module(*arguments(subject, feeds))
    return got if isinstance(got, tuple) else (got,)


def float64_weights(module: nn.Module) -> Weights:
    """The state_dict of a module, widened."""
    return {name: value.double().numpy() for name, value in module.state_dict().items()}


def oracle_outputs(entry: Entry, weights: Weights, feeds: Mapping[str, Array]) -> tuple[Array, ...]:
    """What the entry's oracle says; only for entries that have one."""
    assert entry.oracle is not None, f"{entry.subject.name} has no oracle"
    return entry.oracle(weights, feeds)


def distance(got: Sequence[Tensor], want: Sequence[Array]) -> float:
    """The largest difference over all output vectors (last axis), each relative to its vector's largest value.

    Infinite for another number of outputs, another shape or dtype, nothing at all, NaN, or anything but 0 for 0.
    """
    if len(got) != len(want) or not want:
        return np.inf
    return max(_apart(g.numpy(), w) for g, w in zip(got, want, strict=True))


def _apart(got: Array, want: Array) -> float:
    if got.shape != want.shape or got.dtype != want.dtype or got.size == 0:
        return np.inf
    if not (np.isfinite(got).all() and np.isfinite(want).all()):
        return np.inf
    error, size = np.abs(got - want).max(axis=-1), np.abs(want).max(axis=-1)
    relative = np.divide(error, size, out=np.where(error > 0, np.inf, 0.0), where=size > 0)
    return float(relative.max())


def dims_of(spec: OutputSpec, sizes: Mapping[str, int]) -> tuple[int | None, ...]:
    """The concrete dims of an output; a sum such as `past+sequence` is added up, None stays unknown."""
    return tuple(
        d if d is None or isinstance(d, int) else sum(int(p) if p.isdigit() else sizes[p] for p in d.split("+"))
        for d in spec.dims
    )
