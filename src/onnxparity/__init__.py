"""Export, run and verify Transformers from PyTorch to ONNX Runtime.

>>> import onnxparity
>>> report = onnxparity.verify("causal-attention", quick=True)
>>> report.conforms
True
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from onnxparity.errors import OnnxParityError
from onnxparity.outcome import Status, Verdict
from onnxparity.record import Report

if TYPE_CHECKING:
    from onnxparity.api import verify

__all__ = ["OnnxParityError", "Report", "Status", "Verdict", "__version__", "verify"]

__version__ = "0.1.0"


def __getattr__(name: str) -> object:
    """`verify` is imported when it is first used, since its modules import this package's version."""
    if name == "verify":
        from onnxparity.api import verify

        return verify
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
