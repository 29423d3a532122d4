"""Real inputs that the user brings (`--inputs`): read from .npz here, from `.pb` by the caller, and held against the
subject's description before anything runs. What does not fit is the user's mistake and never a verdict.
"""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn

import numpy as np

from onnxparity.case import FLOATING, Subject, TensorSpec, parts_of, size_of
from onnxparity.errors import UsageError
from onnxparity.plan import slug
from onnxparity.protocols import Array, Feeds, Outputs

__all__ = ["PREFIX", "InputSet", "by_regime", "read_npz", "set_name", "take"]

PREFIX = "given-"
"""Before the name of a set in cell ids, so that no file can be called like a regime or a property."""
NPZ_MAGIC = (b"PK\x03\x04", b"PK\x05\x06")
"""How a zip archive begins, and an empty one."""


@dataclass(frozen=True)
class InputSet:
    """One set of inputs, as it was found."""

    name: str
    """Its regime in cell ids."""
    source: str
    """As the user would look for it."""
    feeds: Mapping[str, Array]
    outputs: Mapping[str, Array] = field(default_factory=dict)
    """Recorded outputs, where there are some."""


def set_name(*parts: object) -> str:
    """The regime of a set: `given-sentences`, `given-sentences-1`."""
    return PREFIX + slug("-".join(map(str, parts)))


def read_npz(path: Path) -> tuple[InputSet, ...]:
    """The sets of an .npz file: arrays by input name; `name#K` for the K-th of several sets, where an array without
    a number belongs to all of them.

    Raises UsageError for what is no such file, is damaged or empty, or holds pickled objects, which could run code.
    """
    arrays = _arrays(path)
    if not arrays:
        _refuse(f"{path} holds no array", "an array for each input, by its name", "an empty archive", REWRITE)
    numbers = sorted({key.rpartition("#")[2] for key in arrays if _numbered(key)}, key=int)
    if not numbers:
        return (InputSet(set_name(path.stem), str(path), arrays),)
    common = {key: array for key, array in arrays.items() if not _numbered(key)}
    sets = []
    for number in numbers:
        own = {key.rpartition("#")[0]: a for key, a in arrays.items() if _numbered(key) and key.endswith(f"#{number}")}
        sets.append(InputSet(set_name(path.stem, number), f"{path}, set {number}", common | own))
    return tuple(sets)


REWRITE = "write it again with numpy.savez(FILE, input_name=array, ...)"


def _arrays(path: Path) -> dict[str, Array]:
    """Everything in the archive."""
    try:
        with path.open("rb") as file:
            head = file.read(4)
    except OSError as error:
        _refuse(f"cannot read {path}", "an .npz file or a folder of input_N.pb", str(error.strerror), "check the path")
    if not head:
        _refuse(f"{path} is empty", "an .npz file", "0 bytes", REWRITE)
    if head not in NPZ_MAGIC:
        _refuse(f"{path} is no .npz file", "a zip archive of arrays", f"a file that begins with {head!r}", REWRITE)
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as stored:  # NumPy leaves its own file open
            found = {name: stored[name] for name in stored.files}
    except ValueError as error:  # NumPy says so of pickled arrays, and of members that are no arrays
        if "pickle" in str(error):
            got, remedy = "an array of Python objects", "save arrays of numbers: array.astype('float32')"
            _refuse(f"{path} holds pickled objects, which are not read: they could run code", "numbers", got, remedy)
        _refuse(f"{path} is damaged", "arrays that can be read", str(error), REWRITE)
    except (OSError, EOFError, zipfile.BadZipFile, zlib.error, NotImplementedError) as error:
        _refuse(f"{path} is truncated or damaged", "a whole .npz file", f"{type(error).__name__}: {error}", REWRITE)
    if others := [name for name, value in found.items() if not isinstance(value, np.ndarray)]:  # NumPy gives the bytes
        _refuse(f"{path} holds something else than arrays", "arrays by input name", ", ".join(others), REWRITE)
    return found


def _numbered(key: str) -> bool:
    name, _, number = key.rpartition("#")
    return bool(name) and number.isascii() and number.isdigit()


def by_regime(sets: Sequence[InputSet]) -> dict[str, InputSet]:
    """The sets by regime. Raises UsageError where two would have the same."""
    found: dict[str, InputSet] = {}
    for each in sets:
        if each.name in found:
            both = f"{found[each.name].source} and {each.source}"
            _refuse("two sets of inputs have the same name", "another name for each", both, "rename a file or folder")
        found[each.name] = each
    return found


def take(given: InputSet, subject: Subject, *, allow_nonfinite: bool = False) -> tuple[Feeds, Outputs]:
    """The feeds in the order of the subject's inputs, in native memory, and the recorded outputs.

    Values are never changed. `allow_nonfinite` lets NaN and infinity through; -inf in an additive mask always passes.

    Raises UsageError for a name that is missing or unknown, a dtype, rank, size or value that the subject's
    description does not take, one symbol with two sizes, and arrays without elements.
    """
    wanted = {spec.name: spec for spec in subject.inputs}
    _check_names(given.source, given.feeds, wanted, "input", subject)
    sizes: dict[str, tuple[int, str]] = {}
    for spec in subject.inputs:
        _check_dtype(given.source, spec, given.feeds[spec.name], subject)
        _check_rank(given.source, spec, given.feeds[spec.name])
        _note_sizes(given.source, spec, given.feeds[spec.name], sizes)
    _check_sizes(given, subject, {symbol: size for symbol, (size, _) in sizes.items()})
    for spec in subject.inputs:
        _check_values(given.source, spec, given.feeds[spec.name], subject, allow_nonfinite=allow_nonfinite)
    if given.outputs:
        _check_names(given.source, given.outputs, {o.name: o for o in subject.outputs}, "output", subject)
    return {name: _native(given.feeds[name]) for name in wanted}, {n: _native(a) for n, a in given.outputs.items()}


def _check_names(
    source: str, got: Mapping[str, Array], wanted: Mapping[str, object], kind: str, subject: Subject
) -> None:
    missing, unknown = [n for n in wanted if n not in got], [n for n in got if n not in wanted]
    faults = [
        f"{word} {', '.join(map(repr, names))}" for word, names in (("no", missing), ("unknown", unknown)) if names
    ]
    if faults:
        _refuse(
            f"{source} does not hold the {kind}s of {subject.name}: {' and '.join(faults)}",
            ", ".join(wanted) or f"no {kind}",
            ", ".join(got) or "nothing",
            f"give every {kind} once, under the name it has there",
        )


def _check_dtype(source: str, spec: TensorSpec, array: Array, subject: Subject) -> None:
    known = ("float32", "float16", *(d for d in subject.dtypes if d not in ("float32", "float16")))
    allowed = known if spec.dtype == FLOATING else (spec.dtype,)
    if array.dtype.name not in allowed:
        _refuse(
            f"{source}: input {spec.name!r} has the wrong dtype",
            " or ".join(allowed),
            array.dtype.name,
            f"array.astype({allowed[0]!r}), where that loses nothing",
        )


def _check_rank(source: str, spec: TensorSpec, array: Array) -> None:
    if array.ndim != len(spec.dims):
        got = f"rank {array.ndim}: {_dims(array.shape)}"
        remedy = f"reshape it to {_dims(spec.dims)}"
        _refuse(
            f"{source}: input {spec.name!r} has the wrong rank",
            f"rank {len(spec.dims)}: {_dims(spec.dims)}",
            got,
            remedy,
        )


def _note_sizes(source: str, spec: TensorSpec, array: Array, sizes: dict[str, tuple[int, str]]) -> None:
    """Notes what each symbol stands for, and holds fixed dims and what is known already against it."""
    for place, (dim, size) in enumerate(zip(spec.dims, array.shape, strict=True)):
        expected, owner = (dim, "") if isinstance(dim, int) else sizes.get(dim, (size, ""))
        if expected != size:
            because = f"as in {owner!r}" if owner else "which is fixed"
            _wrong_shape(
                source,
                spec,
                array,
                f"{dim} = {expected} in dim {place}, {because}" if owner else f"{expected} in dim {place}, {because}",
            )
        if isinstance(dim, str) and parts_of(dim) == (dim,):
            sizes.setdefault(dim, (size, spec.name))


def _check_sizes(given: InputSet, subject: Subject, sizes: Mapping[str, int]) -> None:
    """Sums fit their parts, and every axis is within what the subject serves."""
    for axis in subject.axes:
        size = sizes.get(axis.symbol, axis.low)
        if size < axis.low or (axis.high is not None and size > axis.high):
            bounds = f"{axis.low} to {'any size' if axis.high is None else axis.high}"
            remedy = "cut or pad the inputs to a size that it serves"
            _refuse(f"{given.source}: {axis.symbol} is out of range for {subject.name}", bounds, str(size), remedy)
    for spec in subject.inputs:
        for dim, size in zip(spec.dims, given.feeds[spec.name].shape, strict=True):
            if isinstance(dim, str) and all(part in sizes for part in parts_of(dim)) and size != size_of(dim, sizes):
                parts = ", ".join(f"{part} = {sizes[part]}" for part in parts_of(dim))
                _wrong_shape(given.source, spec, given.feeds[spec.name], f"{dim} = {size_of(dim, sizes)}, with {parts}")


def _check_values(source: str, spec: TensorSpec, array: Array, subject: Subject, *, allow_nonfinite: bool) -> None:
    empty = [a for a in subject.axes if a.low == 0 and a.symbol in spec.dims]
    if not array.size and not empty:
        remedy = "give at least one element in every dim"
        _refuse(
            f"{source}: input {spec.name!r} has no element, so nothing would be compared",
            "at least one element",
            f"shape {_dims(array.shape)}",
            remedy,
        )
    if array.dtype.kind in "iu" and spec.role == "tokens" and subject.kind != "factory" and array.size:
        _check_range(source, spec, array)
    if array.dtype.kind in "fV" and not allow_nonfinite:
        fine = np.isfinite(array) | (np.isneginf(array) if spec.mask_meaning == "additive" else False)
        if not np.all(fine):
            index = tuple(int(i) for i in np.argwhere(~fine)[0])
            got = f"{int(np.sum(~fine))} of {array.size} elements are not, the first at {index}: {array[index]}"
            remedy = "mend the inputs, or say that they are meant with --allow-nonfinite"
            _refuse(f"{source}: input {spec.name!r} holds NaN or infinity", "finite numbers", got, remedy)


def _check_range(source: str, spec: TensorSpec, array: Array) -> None:
    low, high = int(array.min()), int(array.max())
    if low < spec.low or high > spec.high:
        remedy = "give indices into the table that this model has"
        _refuse(
            f"{source}: input {spec.name!r} indexes outside its table",
            f"{spec.low} to {spec.high}",
            f"{low} to {high}",
            remedy,
        )


def _wrong_shape(source: str, spec: TensorSpec, array: Array, expected: str) -> NoReturn:
    _refuse(
        f"{source}: input {spec.name!r} has the wrong shape",
        f"{_dims(spec.dims)}: {expected}",
        _dims(array.shape),
        "give shapes that fit the declared dims, the same size for the same symbol",
    )


def _native(array: Array) -> Array:
    return np.ascontiguousarray(array.astype(array.dtype.newbyteorder("="), copy=False)).reshape(array.shape)


def _dims(dims: Sequence[int | str]) -> str:
    return "(" + ", ".join(map(str, dims)) + ")"


def _refuse(what: str, expected: str, got: str, remedy: str) -> NoReturn:
    raise UsageError(what, expected=expected, got=got, remedy=remedy)
