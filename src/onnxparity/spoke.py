"""Guard of the folders at the root: `import models` would make a second copy of `onnxparity.models`."""

from __future__ import annotations

__all__ = ["must_be"]


def must_be(name: str, expected: str) -> None:
    """Raises ImportError where a folder is imported under another name than its own."""
    if name != expected:
        raise ImportError(f"import {expected}, not {name}: a second copy would not share its registrations")
