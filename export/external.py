"""External data: which files a model names, that they are there and whole, and that they stay beside it."""

from __future__ import annotations

from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import NoReturn

from onnx import ModelProto, TensorProto

from onnxparity.errors import UsageError
from onnxparity.export.graph import tensor_bytes, tensors

__all__ = ["external_files"]


def external_files(model: ModelProto, path: Path) -> tuple[Path, ...]:
    """The files that hold tensors of the model at `path`, sorted by location, each checked to hold them.

    Raises UsageError for a file that is missing, too short, or outside the folder of the model (ONNX IR
    specification, "External Tensor Data": the location is relative to the model's folder).
    """
    found: dict[str, Path] = {}
    for tensor in tensors(model):
        if tensor.data_location == TensorProto.EXTERNAL:
            entries = {entry.key: entry.value for entry in tensor.external_data}
            location = entries.get("location", "")
            found[location] = _inside(location, tensor, path)
            _holds(found[location], entries, tensor, path)
    return tuple(found[location] for location in sorted(found))


def _inside(location: str, tensor: TensorProto, path: Path) -> Path:
    windows = PureWindowsPath(location)
    absolute = PurePosixPath(location).is_absolute() or windows.is_absolute() or windows.drive
    target = path.parent / location
    leaves = absolute or ".." in windows.parts or not target.resolve().is_relative_to(path.parent.resolve())
    if not location or leaves:
        raise UsageError(
            f"{path}: the data of {tensor.name!r} lies outside the model's folder",
            expected=f"a file inside {path.parent}",
            got=location or "no location",
            remedy="copy the data file next to the model and save the model with that name",
        )
    return target


def _holds(target: Path, entries: dict[str, str], tensor: TensorProto, path: Path) -> None:
    needed = tensor_bytes(tensor)
    try:
        offset, length = int(entries.get("offset", 0)), int(entries.get("length", needed))
    except ValueError:
        _broken(path, tensor, "numbers for offset and length", f"{entries}")
    if not target.is_file():
        _broken(path, tensor, f"the file {target.name} beside the model", "no such file")
    if offset < 0 or length < needed:
        _broken(
            path, tensor, f"at least {needed} bytes for dims {list(tensor.dims)}", f"length {length} at offset {offset}"
        )
    if offset + length > (size := target.stat().st_size):
        _broken(path, tensor, f"at least {offset + length} bytes in {target.name}", f"{size} bytes: truncated")


def _broken(path: Path, tensor: TensorProto, expected: str, got: str) -> NoReturn:
    raise UsageError(
        f"{path}: the external data of {tensor.name!r} is not usable",
        expected=expected,
        got=got,
        remedy="copy the data file again together with the model, or export again",
    )
