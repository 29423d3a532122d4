"""Outputs that came with the inputs: somebody else's word on what a file gives, and what may differ from it."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from onnxparity.numerics.budget import KAPPA
from onnxparity.numerics.compare import Comparison, compare
from onnxparity.numerics.floats import DIGITS
from onnxparity.outcome import Status
from onnxparity.protocols import Array, Outputs

__all__ = ["against_given", "misfit", "with_storage"]

ROUNDOFF = {dtype: 2.0**-digits for dtype, digits in DIGITS.items()}


def against_given(given: Mapping[str, Array], exact: Outputs, noise: Outputs, *, floor: float) -> Comparison:
    """The file's float64 value against outputs that were computed and stored in the file's own dtypes.

    Args:
        given: as stored, by output name.
        exact: what the float64 evaluation gives.
        noise: honest rounding of the file's dtypes (see `protocols.ExactSession.noise`): they computed in those too.
        floor: unit roundoff of the file.
    """
    want = {name: value.astype(np.float64) if value.dtype.name in ROUNDOFF else value for name, value in given.items()}
    room = with_storage(noise, {name: value.dtype.name for name, value in given.items()}, floor)
    dtypes = {name: str(value.dtype) for name, value in want.items()}
    return compare(want, exact, room, floor=floor, failure=Status.MEANING, dtypes=dtypes)


def with_storage(noise: Outputs, dtypes: Mapping[str, str], roundoff: float) -> Outputs:
    """The noise, wider by one rounding for each output whose own dtype is coarser than what is computed in.

    A float32 graph that casts its output to half cannot be nearer to its float64 value than a half is; float64
    evaluation leaves that cast out.
    """
    return {
        name: np.asarray(value + ROUNDOFF[dtypes[name]] / KAPPA)
        if ROUNDOFF.get(dtypes.get(name, ""), 0.0) > roundoff
        else value
        for name, value in noise.items()
    }


def misfit(given: Mapping[str, Array], got: Outputs) -> Comparison | None:
    """Where a runtime's outputs have other names, shapes or dtypes than those that were given; None where they fit."""
    if set(given) != set(got):
        missing, extra = sorted(set(given) - set(got)), sorted(set(got) - set(given))
        return Comparison(
            Status.STRUCTURE, f"outputs differ: missing {missing or 'none'}, unexpected {extra or 'none'}"
        )
    faults = [
        f"{name}: {got[name].dtype} {got[name].shape}, given is {value.dtype} {value.shape}"
        for name, value in given.items()
        if (str(got[name].dtype), got[name].shape) != (str(value.dtype), value.shape)
    ]
    return Comparison(Status.STRUCTURE, faults[0], evidence=tuple(faults[1:])) if faults else None
