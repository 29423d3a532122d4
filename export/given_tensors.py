"""Tensors as ONNX test data stores them: a folder of `input_N.pb`, with `output_N.pb` where outputs were recorded.

The layout is that of the onnx package's backend tests: one folder, or `test_data_set_K` folders side by side.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NoReturn

import onnx
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]  # protobuf ships no types
from onnx import numpy_helper

from onnxparity.errors import UsageError
from onnxparity.feeding.given_inputs import InputSet, set_name
from onnxparity.protocols import Array

__all__ = ["read_folder", "read_tensor"]

NUMBERED = re.compile(r"(input|output)_(\d+)\.pb")
LAYOUT = "input_0.pb, input_1.pb, ..., or folders test_data_set_0, ... that hold them"


def read_folder(path: Path, inputs: Sequence[str], outputs: Sequence[str]) -> tuple[InputSet, ...]:
    """The sets of a folder. Tensors are told by the names they carry, else by their number in the model's order.

    Args:
        inputs, outputs: the model's own names, in its order.

    Raises UsageError for a folder without such files, a gap or surplus in their numbers, and a file that is damaged.
    """
    folders = sorted((p for p in path.glob("test_data_set_*") if p.is_dir()), key=lambda p: (len(p.name), p.name))
    if not any(NUMBERED.fullmatch(p.name) for folder in (path, *folders) for p in folder.iterdir()):
        _refuse(f"{path} holds no inputs", LAYOUT, _listing(path), "name the folder that holds input_0.pb")
    sets = []
    for folder in folders or [path]:
        name = set_name(path.resolve().name, *([folder.name] if folders else []))
        sets.append(InputSet(name, str(folder), _read(folder, "input", inputs), _read(folder, "output", outputs)))
    return tuple(sets)


def _read(folder: Path, kind: str, names: Sequence[str]) -> Mapping[str, Array]:
    """Every tensor of a kind, by name; none where no output was recorded."""
    matches = [m for p in folder.iterdir() if (m := NUMBERED.fullmatch(p.name)) and m[1] == kind]
    numbers = sorted(int(m[2]) for m in matches)
    if kind == "output" and not numbers:
        return {}
    if numbers != list(range(len(names))):
        expected = f"{len(names)} files, for {', '.join(names)}"
        got = ", ".join(f"{kind}_{n}.pb" for n in numbers) or "none"
        _refuse(f"{folder} does not hold one file for each {kind}", expected, got, "give each of them, from 0 on")
    tensors = [read_tensor(folder / f"{kind}_{n}.pb") for n in numbers]
    carried = [name for name, _ in tensors]
    own = carried if sorted(carried) == sorted(names) else names
    return {name: array for name, (_, array) in zip(own, tensors, strict=True)}


def read_tensor(path: Path) -> tuple[str, Array]:
    """The name and the values of a serialised TensorProto. Raises UsageError where it is damaged or no such thing."""
    data = path.read_bytes()
    remedy = "write it again with onnx.numpy_helper.from_array(array, name).SerializeToString()"
    if not data:
        _refuse(f"{path} is empty", "a serialised TensorProto", "0 bytes", remedy)
    tensor = onnx.TensorProto()
    try:
        tensor.ParseFromString(data)
        if tensor.data_type == onnx.TensorProto.UNDEFINED or tensor.data_location == onnx.TensorProto.EXTERNAL:
            raise ValueError("it has no data type, or its values lie elsewhere")
        return tensor.name, numpy_helper.to_array(tensor)
    except (DecodeError, ValueError, TypeError, KeyError) as error:
        got = str(error).splitlines()[0] if str(error) else type(error).__name__
        _refuse(f"{path} is truncated or no tensor", "a serialised TensorProto", got, remedy)


def _listing(path: Path) -> str:
    names = sorted(p.name for p in path.iterdir())
    return ", ".join(names[:5]) + (", ..." if len(names) > 5 else "") if names else "an empty folder"


def _refuse(what: str, expected: str, got: str, remedy: str) -> NoReturn:
    raise UsageError(what, expected=expected, got=got, remedy=remedy)
