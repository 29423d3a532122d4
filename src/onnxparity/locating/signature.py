"""A tensor reduced to a few numbers by which it is found again on the other side, whatever it is called there.

Two kinds of numbers stand in a signature. Those of the *content* (sums, extremes) survive a transpose and a reshape;
those of the *order* do not survive a permutation: projections of the flattened order, which a reshape keeps, and the
marginals along each axis, which a transpose keeps. So a value whose content is known and whose order is not has been
permuted: swapped heads, rolled positions, interleaved for repeated.

Memory: one value at a time, at most `COPIES` times its float64 size besides the value itself; what is kept of it are
at most `NUMBERS` + 2·64 floats for each axis.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from onnxparity.protocols import Array

__all__ = ["COPIES", "Distance", "Signature", "distance", "long_dims", "ratio_of", "scaled", "signature", "sizes_of"]

Float64 = npt.NDArray[np.float64]
COPIES = 5
BINS, SAMPLES, CHUNKS = 64, 16, 16
HEAD = 14
"""Counts of all, NaN, those beyond HUGE and below -HUGE, those not finite; of what is finite the sum, squares, largest
and smallest, for a person to read; of all, with what stands for values without a size, the sum, magnitudes, squares,
largest and smallest."""
NUMBERS = HEAD + SAMPLES + CHUNKS
HUGE = 2.0**100
"""Beyond this a value stands for infinity in a mask: which of the two an exporter writes makes no difference."""
NAN, INFINITE = 11.5, 7.25
"""What stands for values without a size, as multiples of the largest that has one."""


@dataclass(frozen=True)
class Distance:
    """How far two signatures are apart, relative to the size of what they add up."""

    content: float
    """Infinite where the number of elements or of values that are not finite differs."""
    order: float
    """Along the axes where one may be a transpose of the other, else in the flattened order."""


def signature(value: Array) -> Array:
    """The numbers of one value of any dtype and shape, see the module's own words; float64, one axis."""
    exact = np.asarray(value)
    if exact.dtype.kind == "c":
        exact = np.stack([exact.real, exact.imag], axis=-1)
    exact = np.array(exact, np.float64)  # a copy: it is changed in place
    counts = [exact.size, *map(np.count_nonzero, (np.isnan(exact), exact >= HUGE, exact <= -HUGE))]
    plain = (np.count_nonzero(~np.isfinite(exact)), *_plain(exact))
    _replace_what_has_no_size(exact)
    flat = exact.reshape(-1)
    largest, smallest = (float(flat.max()), float(flat.min())) if flat.size else (0.0, 0.0)
    sums = flat.sum(), np.abs(flat).sum(), np.vdot(flat, flat)
    parts = [np.array([*counts, *plain, *sums, largest, smallest])]
    parts += [flat[_places(flat.size)] if flat.size else np.zeros(SAMPLES), _projected(flat, CHUNKS)]
    squares = exact * exact
    for axis, size in enumerate(exact.shape):
        if size > 1:
            others = tuple(k for k in range(exact.ndim) if k != axis)
            parts += [_marginal(exact.sum(axis=others)), _marginal(squares.sum(axis=others))]
    return np.concatenate(parts)


@dataclass(frozen=True, eq=False)
class Signature:
    """A signature, read."""

    size: float
    nonfinite: tuple[float, float, float]
    """NaN, infinite or as good as that, and the same below zero."""
    lost: float
    """NaN and true infinities."""
    plain: tuple[float, float, float, float]
    """Sum, squares, largest and smallest of what is finite."""
    total: float
    magnitudes: float
    squares: float
    largest: float
    smallest: float
    samples: Float64
    chunks: Float64
    axes: tuple[tuple[int, Float64, Float64], ...]
    """Size, marginal of the values and of their squares along each axis of more than one element."""

    @classmethod
    def of(cls, numbers: Array, shape: tuple[int, ...]) -> Signature:
        """Reads what `signature` wrote for a value of this shape (a complex one has an axis of 2 more)."""
        head = tuple(map(float, numbers[:HEAD]))
        size, nan, high, low = head[:4]
        total, magnitudes, squares, largest, smallest = head[9:]
        samples, chunks = numbers[HEAD : HEAD + SAMPLES], numbers[HEAD + SAMPLES : NUMBERS]
        axes, start = [], NUMBERS
        dims = (*shape, 2) if size == 2 * np.prod(shape, dtype=float) else shape
        for n in dims:
            if n > 1:
                width = min(n, BINS)
                axes.append((n, numbers[start : start + width], numbers[start + width : start + 2 * width]))
                start += 2 * width
        return cls(
            size=size,
            nonfinite=(nan, high, low),
            lost=head[4],
            plain=(head[5], head[6], head[7], head[8]),
            total=total,
            magnitudes=magnitudes,
            squares=squares,
            largest=largest,
            smallest=smallest,
            samples=samples,
            chunks=chunks,
            axes=tuple(axes),
        )

    @property
    def rms(self) -> float:
        """Root of the mean square; what has no size counts as what stands for it."""
        return float(np.sqrt(self.squares / self.size)) if self.size else 0.0


def distance(a: Signature, b: Signature) -> Distance:
    """How far apart two values are, at the least, relative to `b`."""
    if a.size != b.size or a.nonfinite != b.nonfinite:
        return Distance(np.inf, np.inf)
    if not b.squares:
        return Distance(np.inf, np.inf) if a.squares else Distance(0.0, 0.0)
    size, rms = b.size, b.rms
    tops = max(abs(a.largest - b.largest), abs(a.smallest - b.smallest)) / max(abs(b.largest), abs(b.smallest))
    sums = max(abs(a.total - b.total), abs(a.magnitudes - b.magnitudes)) / (size * rms)
    content = max(tops, sums, abs(a.squares - b.squares) / (2 * b.squares))
    ours, theirs = [n for n, *_ in a.axes], [n for n, *_ in b.axes]
    if ours != theirs and sorted(ours) == sorted(theirs):
        return Distance(content, _axes_apart(a, b, rms))
    # two of the same shape have one order: a square that was transposed is another one
    return Distance(content, float(np.max(np.abs(a.chunks - b.chunks))) / (rms * max(size / CHUNKS, 1.0)))


def long_dims(shape: tuple[int, ...]) -> tuple[int, ...]:
    """The dims of more than one element, in their own order."""
    return tuple(n for n in shape if n > 1)


def sizes_of(shape: tuple[int, ...]) -> tuple[int, ...]:
    """The dims of more than one element in order of size: equal for all transposes of a shape."""
    return tuple(sorted(long_dims(shape)))


def ratio_of(a: Signature, b: Signature) -> float | None:
    """The factor that b's size must be multiplied with to be a's; None where one of them is nothing."""
    if not a.squares or not b.squares or a.nonfinite != b.nonfinite or any(b.nonfinite):
        return None
    size = float(np.sqrt(a.squares / b.squares))
    same = np.vdot(a.samples, b.samples) if np.vdot(a.samples, b.samples) else a.total * b.total
    return -size if same < 0 else size


def scaled(b: Signature, factor: float) -> Signature:
    """The signature of the value times a factor."""
    tops = sorted((b.largest * factor, b.smallest * factor))
    return replace(
        b,
        total=b.total * factor,
        magnitudes=b.magnitudes * abs(factor),
        squares=b.squares * factor**2,
        largest=tops[1],
        smallest=tops[0],
        samples=b.samples * factor,
        chunks=b.chunks * factor,
        axes=tuple((n, values * factor, squares * factor**2) for n, values, squares in b.axes),
    )


def _plain(value: Float64) -> tuple[float, float, float, float]:
    """Sum, squares, largest and smallest of what is finite; NaN where nothing is."""
    finite = value if np.isfinite(value).all() else value[np.isfinite(value)]
    if not finite.size:
        return (np.nan,) * 4
    with np.errstate(over="ignore"):
        return float(finite.sum()), float(np.vdot(finite, finite)), float(finite.max()), float(finite.min())


def _replace_what_has_no_size(value: Float64) -> None:
    """NaN, infinities and what stands for them become multiples of the largest other value, in place."""
    huge = ~(np.abs(value) < HUGE)
    if not huge.any():
        return
    unit = float(np.max(np.abs(value), where=~huge, initial=0.0)) or 1.0
    stands = np.where(np.isnan(value), NAN, np.where(value < 0, -INFINITE, INFINITE))
    np.copyto(value, unit * stands, where=huge)


def _axes_apart(a: Signature, b: Signature, rms: float) -> float:
    """Distance along the axes, each of a's against the nearest of b's with the same size that is left."""
    left, worst = list(b.axes), 0.0
    for n, values, squares in a.axes:
        each = b.size / n * max(n / BINS, 1.0)
        found = [
            (
                max(
                    float(np.max(np.abs(values - v))) / (each * rms),
                    float(np.max(np.abs(squares - s))) / (2 * each * rms**2),
                ),
                k,
            )
            for k, (m, v, s) in enumerate(left)
            if m == n
        ]
        nearest, place = min(found)
        worst = max(worst, nearest)
        del left[place]
    return worst


def _places(size: int) -> npt.NDArray[np.int64]:
    return np.linspace(0, size - 1, SAMPLES).astype(np.int64)


def _marginal(sums: Float64) -> Float64:
    """As it is up to 64 elements, else projected piece by piece."""
    return sums if sums.size <= BINS else _projected(sums, BINS)


def _projected(flat: Float64, pieces: int) -> Float64:
    """Each of so many equal pieces against fixed weights, so that its elements cannot change places unseen."""
    edges = [flat.size * k // pieces for k in range(pieces + 1)]
    weights = _weights(-(-flat.size // pieces))
    return np.array([np.vdot(flat[a:b], weights[: b - a]) for a, b in pairwise(edges)])


@lru_cache(maxsize=4)
def _weights(size: int) -> Float64:
    """Between 0.5 and 1.5, the same at each place whatever the size."""
    return np.random.default_rng(0).random(size) + 0.5
