"""Arrays at rest: one .npz by name, bfloat16 included, which NumPy's own format would bring back as bytes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import IO

import numpy as np

from onnxparity.numerics.floats import BFLOAT16, named
from onnxparity.protocols import Array, Outputs

__all__ = ["read_arrays", "storable", "write_arrays"]

PREFIX = "value/"
"""Before each name, so that an output may be called `file`, as a parameter of `np.savez` is."""


def storable(array: Array) -> bool:
    """Whether it comes back as it was; strings and objects do not."""
    return array.dtype.isbuiltin == 1 or array.dtype.name == BFLOAT16


def write_arrays(target: Path | IO[bytes], arrays: Mapping[str, Array]) -> None:
    """Writes the arrays by name."""
    if isinstance(target, Path):
        target.parent.mkdir(parents=True, exist_ok=True)
    stored = {
        f"{BFLOAT16}/{name}" if value.dtype.name == BFLOAT16 else f"{PREFIX}{name}": _plain(value)
        for name, value in arrays.items()
    }
    np.savez(target, allow_pickle=False, **stored)


def read_arrays(path: Path) -> Outputs:
    """The arrays of `write_arrays`."""
    found: Outputs = {}
    with np.load(path, allow_pickle=False) as stored:  # NumPy before 2.1 stores `allow_pickle` as one more array
        for key in stored.files:
            kind, slash, name = key.partition("/")
            if slash and kind == BFLOAT16:
                found[name] = stored[key].view(named(BFLOAT16))
            elif key.startswith(PREFIX):
                found[name] = stored[key]
    return found


def _plain(value: Array) -> Array:
    return value.view(np.uint16) if value.dtype.name == BFLOAT16 else value
