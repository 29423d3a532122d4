"""Exact values and budgets, kept between runs: what a deterministic evaluation gave for the same content.

A key holds all that decides the value: the artifact or module, the feeds, the draws, the source of the code that
evaluates, and the versions of what it rests on.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np

from onnxparity import environment
from onnxparity.cache import CacheDir
from onnxparity.protocols import Feeds, Outputs

__all__ = ["Values", "feeds_digest"]

KIND = "values"
SUFFIX = ".npz"
EVALUATORS = ("runtimes", "numerics", "feeds.py")
"""What decides a value, below this package's folder."""


class Values:
    """Computed once, then found again; without a cache, computed each time."""

    def __init__(self, *, use_cache: bool) -> None:
        self._use_cache = use_cache

    def known(self, *parts: str, compute: Callable[[], Outputs]) -> Outputs:
        """The arrays behind these parts of a key, from an earlier run or from `compute`."""
        if not self._use_cache:
            return compute()
        folder = CacheDir()
        key = hashlib.sha256("\n".join((_evaluators(), *parts)).encode()).hexdigest()
        found = folder.get(KIND, key, SUFFIX)
        if found is not None:
            with np.load(found, allow_pickle=False) as stored:
                return {name.removeprefix("value/"): stored[name] for name in stored.files}
        values = compute()
        if any(value.dtype.isbuiltin != 1 for value in values.values()):
            return values  # .npz cannot hold bfloat16
        stream = io.BytesIO()
        np.savez(stream, allow_pickle=False, **{f"value/{name}": value for name, value in values.items()})
        folder.put(KIND, key, SUFFIX, stream.getvalue())
        return values


def feeds_digest(feeds: Feeds) -> str:
    """SHA-256 over names, dtypes, shapes and bytes."""
    digest = hashlib.sha256()
    for name, value in sorted(feeds.items()):
        digest.update(f"{name} {value.dtype} {value.shape}\n".encode())
        digest.update(np.ascontiguousarray(value).tobytes())
    return digest.hexdigest()


@cache
def _evaluators() -> str:
    """Of the sources that evaluate, and the versions under them."""
    digest = hashlib.sha256(repr(sorted(environment.versions().items())).encode())
    here = Path(__file__).parent
    for name in EVALUATORS:
        path = here / name
        for source in sorted(path.rglob("*.py")) if path.is_dir() else [path]:
            digest.update(source.name.encode() + source.read_bytes())
    return digest.hexdigest()
