"""What every exported file must pass: ONNX's own checker, and strict shape inference with data propagation."""

from __future__ import annotations

import tempfile
from pathlib import Path

import onnx

from onnxparity.errors import ExportError, LintError

__all__ = ["check_file"]


def check_file(path: Path, *, external: bool) -> None:
    """Raises ExportError where the checker refuses the file, LintError where its shapes contradict each other.

    `external` says that weights lie beside the file; it is then never loaded whole, so that protobuf's limit
    of 2 GiB is not met.
    """
    try:
        # As a path, because only then the checker looks at external data.
        onnx.checker.check_model(str(path), full_check=True)
        if external:
            _infer_on_disk(path)
        else:
            onnx.shape_inference.infer_shapes(onnx.load(path), check_type=True, strict_mode=True, data_prop=True)
    except onnx.checker.ValidationError as error:
        raise ExportError(
            f"{path.name} is not a valid ONNX file",
            expected="onnx.checker.check_model(full_check=True) accepts it",
            got=_first_lines(error),
            remedy="try another opset, and report it to the exporter with this text",
        ) from error
    except onnx.shape_inference.InferenceError as error:
        raise LintError(
            f"the shapes or types in {path.name} contradict each other",
            expected="strict shape inference with data propagation succeeds",
            got=_first_lines(error),
            remedy="try another opset, or export with fewer dynamic dims to see which one is at fault",
        ) from error


def _infer_on_disk(path: Path) -> None:
    # Beside the model, since the copy must find the external data by its relative location.
    with tempfile.NamedTemporaryFile(dir=path.parent, suffix=".onnx") as copy:
        onnx.shape_inference.infer_shapes_path(str(path), copy.name, check_type=True, strict_mode=True, data_prop=True)


def _first_lines(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return " / ".join(lines[:3])[:600]
