"""Feeds are checked before any runtime sees them: native code misreads what it does not refuse.

ONNX Runtime 1.31.1, for one, takes a big-endian float32 array and reads its bytes the wrong way round.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from onnxparity.artifact import FileInput
from onnxparity.case import FLOATING, Subject
from onnxparity.errors import SubjectError
from onnxparity.protocols import Array, Feeds

__all__ = ["declared_inputs", "prepare"]

TEXT = frozenset({"str", "string", "object"})


def declared_inputs(subject: Subject, dtype: str) -> tuple[FileInput, ...]:
    """The subject's inputs as a file of this dtype would declare them."""
    return tuple(FileInput(i.name, dtype if i.dtype == FLOATING else i.dtype, i.dims) for i in subject.inputs)


def prepare(inputs: Sequence[FileInput], feeds: Feeds) -> dict[str, Array]:
    """The feeds in the order of the inputs, each contiguous, aligned and in native byte order.

    Values, dtypes and shapes are never changed: an array that does not fit is an error.

    Raises:
        SubjectError: a name is missing or unknown, a dtype, rank or fixed dim does not fit, or one symbol
            stands for two sizes.
    """
    _check_names([i.name for i in inputs], feeds)
    sizes: dict[str, tuple[int, str]] = {}
    for spec in inputs:
        _check_dtype(spec, feeds[spec.name])
        _check_shape(spec, feeds[spec.name], sizes)
    return {spec.name: _plain(feeds[spec.name]) for spec in inputs}


def _check_names(wanted: Sequence[str], feeds: Feeds) -> None:
    missing, unknown = [n for n in wanted if n not in feeds], [n for n in feeds if n not in wanted]
    if missing or unknown:
        what = " and ".join(
            f"{kind} {', '.join(map(repr, names))}" for kind, names in (("no", missing), ("unknown", unknown)) if names
        )
        raise SubjectError(
            f"the feeds do not fit the inputs: {what}",
            expected=", ".join(wanted) or "no inputs",
            got=", ".join(feeds) or "no feeds",
            remedy="feed every input once, under the name it has here",
        )


def _check_dtype(spec: FileInput, array: Array) -> None:
    if not isinstance(array, np.ndarray):
        raise SubjectError(
            f"input {spec.name!r} was fed no array",
            expected=f"a NumPy array of {spec.dtype}",
            got=type(array).__name__,
            remedy=f"np.asarray(value, {spec.dtype!r})",
        )
    fits = array.dtype.kind in "OUS" if spec.dtype in TEXT else array.dtype.name == spec.dtype
    if not fits:
        raise SubjectError(
            f"input {spec.name!r} was fed the wrong dtype",
            expected=spec.dtype,
            got=array.dtype.name,
            remedy=f"feeds[{spec.name!r}].astype({spec.dtype!r}), where that loses nothing",
        )


def _check_shape(spec: FileInput, array: Array, sizes: dict[str, tuple[int, str]]) -> None:
    """Also notes what each symbol stands for, so that the next input is held to it."""
    fault = None
    if array.ndim != len(spec.dims):
        fault = f"rank {len(spec.dims)}", f"rank {array.ndim}"
    for axis, (dim, size) in enumerate(zip(spec.dims, array.shape, strict=False)):
        if fault:
            break
        if isinstance(dim, int) and dim != size:
            fault = f"{dim} on axis {axis}, which is fixed", str(size)
        elif isinstance(dim, str):
            known, owner = sizes.setdefault(dim, (size, spec.name))
            if known != size:
                fault = f"{dim} = {known} on axis {axis}, as in {owner!r}", f"{dim} = {size}"
    if fault:
        raise SubjectError(
            f"input {spec.name!r} was fed the wrong shape",
            expected=f"{_dims(spec.dims)}: {fault[0]}",
            got=f"{_dims(array.shape)}: {fault[1]}",
            remedy="feed shapes that fit the declared dims, or export with this axis dynamic",
        )


def _plain(array: Array) -> Array:
    """The same values as native code expects to find them in memory."""
    native = array.astype(array.dtype.newbyteorder("="), copy=False)
    return np.require(native, requirements=["C_CONTIGUOUS", "ALIGNED", "ENSUREARRAY"])


def _dims(dims: Sequence[int | str | None]) -> str:
    return "(" + ", ".join("?" if d is None else str(d) for d in dims) + ")"
