"""Why a node gives NaN or infinity where float64 does not: which value leaves the range of its dtype."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

import numpy as np

from onnxparity.errors import OnnxParityError
from onnxparity.locating.replaying import Inside, Replay
from onnxparity.numerics.floats import DIGITS, lowest, named
from onnxparity.protocols import Array

__all__ = ["overflow"]


def overflow(inside: Inside, place: int, replay: Replay) -> str | None:
    """Such as `scores reach 131072, float16 ends at 65504: 12 of 128 rows`; None where nothing leaves the range."""
    node = inside.whole.nodes[place]
    dtype = inside.stored_dtype(next(n for n in node.output if n in inside.exact.dtypes))
    if dtype not in DIGITS:
        return None
    end = -lowest(named(dtype))
    for label, value in _values(inside, place, replay):
        size = np.abs(np.atleast_1d(value))
        beyond = np.isfinite(size) & (size > end)
        if beyond.any():
            rows = beyond.any(axis=-1)
            largest = float(size[beyond].max())
            return f"{label} reach {largest:.6g}, {dtype} ends at {end:.6g}: {int(rows.sum())} of {rows.size} rows"
    return None


def _values(inside: Inside, place: int, replay: Replay) -> Iterator[tuple[str, Array]]:
    """What the node computes, in float64: inside it first, then its results."""
    from onnxparity.runtimes.inner_parts import inner_parts

    node = inside.whole.nodes[place]
    with suppress(OnnxParityError):  # the results still tell
        yield from inner_parts(node, replay.part.model, replay.part.feeds).items()
    for name in node.output:
        if name in replay.part.want and replay.part.want[name].dtype == np.float64:
            yield name, replay.part.want[name]
