"""One tensor against its exact value: how far out of budget it is, and what it looks like."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from onnxparity.location import TensorStatistics
from onnxparity.numerics.budget import CEILING, KAPPA, allowance, vector_error, vector_size
from onnxparity.numerics.floats import is_float
from onnxparity.numerics.masks import LARGEST_MASK, masked_as_infinite
from onnxparity.protocols import Array

__all__ = ["Judged", "Stash", "judge", "limits", "statistics"]

Side = Literal["got", "want", "input"]


@dataclass(frozen=True)
class Judged:
    """How far one tensor is from its exact value; error, noise and budget are those of its worst vector."""

    name: str
    ratio: float
    """Error over budget; at most 1 is in budget. Infinite where finiteness, or an integer, differs."""
    error: float
    """Largest difference relative to the vector's largest value."""
    noise: float
    budget: float
    out: int
    """Vectors (along the last axis) that are out of budget."""
    vectors: int
    lost: int
    """Elements that are finite on one side only, or infinite with the other sign."""


def judge(name: str, want: Array, got: Array, noise: Array, floor: float, *, inside: bool = True) -> Judged:
    """Judges a tensor as `numerics.compare` judges an output, but lets noise that is not finite excuse its vector.

    want: float64. noise: per vector. inside: it is no output of the model, so that masks count as minus infinity, in
    its noise too. Where a shape differs everything is out of budget.
    """
    if want.shape != got.shape:
        vectors = int(np.prod(want.shape[:-1]))
        return Judged(name, np.inf, np.inf, 0.0, 0.0, vectors, vectors, 0)
    want, got = np.atleast_1d(want), np.atleast_1d(got)
    if want.size == 0:
        return Judged(name, 0.0, 0.0, 0.0, 0.0, 0, 0, 0)
    noise = np.broadcast_to(noise, want.shape[:-1])
    if want.dtype != np.float64:
        wrong = np.any(want != got, axis=-1) & (noise == 0)  # a decision may fall the other way where it is noisy
        return Judged(name, np.inf if wrong.any() else 0.0, float(wrong.any()), 0.0, 0.0, _count(wrong), wrong.size, 0)
    got = np.asarray(got, np.float64)
    if inside:
        masks = np.isneginf(masked_as_infinite(want)) & (got <= LARGEST_MASK)
        want, got = np.where(masks, -np.inf, want), np.where(masks, -np.inf, got)
    finite = np.isfinite(want) & np.isfinite(got)
    lost = ~(finite | (np.isnan(want) & np.isnan(got)) | (want == got))
    with np.errstate(over="ignore"):
        difference = np.subtract(got, want, where=finite, out=np.zeros_like(want))
    error, budget = vector_error(difference, want), _budget(noise, floor)
    ratios = np.where(lost.any(axis=-1), np.inf, error / budget)
    worst = np.unravel_index(int(np.argmax(ratios)), ratios.shape)
    return Judged(
        name=name,
        ratio=float(ratios[worst]),
        error=float(error[worst]),
        noise=float(noise[worst]),
        budget=float(budget[worst]),
        out=_count(ratios > 1),
        vectors=int(ratios.size),
        lost=_count(lost),
    )


def limits(want: Array, noise: Array, floor: float, *, inside: bool = True) -> Array:
    """The largest difference that is in budget, absolute, by element; infinite for a mask inside the model."""
    if want.dtype != np.float64:
        return np.zeros(want.shape)
    rows = np.atleast_1d(masked_as_infinite(want) if inside else want)
    limit = (_budget(np.broadcast_to(noise, rows.shape[:-1]), floor) * vector_size(rows))[..., None]
    return np.where(np.isneginf(rows) & np.isfinite(np.atleast_1d(want)), np.inf, limit).reshape(want.shape)


def _budget(noise: Array, floor: float) -> Array:
    return allowance(np.where(np.isfinite(noise), noise, CEILING / KAPPA), floor)


def statistics(name: str, value: Array, side: Side, dtype: str = "") -> TensorStatistics:
    """Extremes, mean and root mean square of the finite values. dtype: as stored; empty for the array's own."""
    wide = np.asarray(value, np.float64)
    finite = wide[np.isfinite(wide)]
    some = finite.size > 0
    with np.errstate(over="ignore"):
        return TensorStatistics(
            name=name,
            shape=tuple(int(n) for n in value.shape),
            dtype=dtype or str(value.dtype),
            side=side,
            smallest=float(finite.min()) if some else None,
            largest=float(finite.max()) if some else None,
            mean=float(finite.mean()) if some else None,
            rms=float(np.sqrt(np.mean(finite * finite))) if some else None,
            nonfinite=int(wide.size - finite.size),
        )


class Stash:
    """Arrays by name, on disk: what a whole graph computes need not fit into memory."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="onnxparity-")
        self._places: dict[str, Path] = {}
        self._dtypes: dict[str, str] = {}
        self.sizes: dict[str, int] = {}
        """Bytes of each array as it is kept, in the order in which they came."""

    def keep(self, name: str, value: Array) -> None:
        """Floats are kept in float64, which holds every value of a narrower one; `.npy` has no bfloat16."""
        place = self._places.setdefault(name, Path(self._folder.name, f"{len(self._places)}.npy"))
        kept = value.astype(np.float64) if is_float(value.dtype) else value
        np.save(place, kept, allow_pickle=False)
        self._dtypes[name], self.sizes[name] = value.dtype.name, kept.nbytes

    def find(self, name: str) -> Array:
        """The array; raises KeyError where none was kept."""
        value: Array = np.load(self._places[name], allow_pickle=False)
        return value

    @property
    def dtypes(self) -> Mapping[str, str]:
        """The dtype that each array had when it was kept, in the order in which they came."""
        return self._dtypes

    def close(self) -> None:
        """Removes what was kept."""
        self._folder.cleanup()


def _count(mask: Array) -> int:
    return int(np.count_nonzero(mask))
