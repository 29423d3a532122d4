"""The whole way from a module's call to an operator, in the stack traces that an export leaves on its nodes.

torch.export keeps only frames of functions called `forward` (torch 2.13), so that the line of a helper, where a mask
or a table is made, is lost to whoever looks for it in the file.
"""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
from torch.fx.experimental.symbolic_shapes import uninteresting_files
from torch.fx.proxy import TracerBase

__all__ = ["whole_stacks"]

TORCH = str(Path(torch.__file__).parent)
CALL = str(Path(TORCH, "nn", "modules", "module.py"))


@contextmanager
def whole_stacks() -> Iterator[None]:
    """Inside, nodes keep every frame below the first call of a module, but for PyTorch's own machinery."""
    before = TracerBase._filter_traceback_frames
    TracerBase._filter_traceback_frames = _kept  # type: ignore[assignment,method-assign]  # meant to be overridden
    try:
        yield
    finally:
        TracerBase._filter_traceback_frames = before  # type: ignore[method-assign]  # as above


def _kept(self: TracerBase, stack: traceback.StackSummary) -> traceback.StackSummary:
    dull = uninteresting_files()
    start = next((place for place, frame in enumerate(stack) if frame.filename == CALL), len(stack))
    return traceback.StackSummary.from_list(
        [
            frame
            for frame in stack[start:]
            if frame.filename not in dull and (frame.name == "forward" or not frame.filename.startswith(TORCH))
        ]
    )
