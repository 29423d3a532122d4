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
from threading import Lock

import numpy as np

from onnxparity import environment
from onnxparity.cache import CacheDir
from onnxparity.feeding.arrays import read_arrays, storable, write_arrays
from onnxparity.protocols import Feeds, Outputs

__all__ = ["Values", "feeds_digest"]

KIND = "values"
SUFFIX = ".npz"
EVALUATORS = ("runtimes", "numerics", "feeding/feeds.py")
"""What decides a value, below this package's folder."""


KEPT_BYTES = 1 << 28
"""What is kept in memory of the last values, besides the very last."""


class Values:
    """Computed once, then found again: the last ones in memory, with a cache all of them on disk.

    Serves several threads, which never ask for the same value at the same time.
    """

    def __init__(self, *, use_cache: bool) -> None:
        self._use_cache = use_cache
        self._kept: dict[tuple[str, ...], Outputs] = {}
        self._lock = Lock()

    def known(self, *parts: str, compute: Callable[[], Outputs]) -> Outputs:
        """The arrays behind these parts of a key, from before or from `compute`."""
        with self._lock:
            found = self._kept.get(parts)
        if found is None:
            found = self._stored(parts, compute)
            self._keep(parts, found)
        return dict(found)

    def _keep(self, parts: tuple[str, ...], values: Outputs) -> None:
        with self._lock:
            self._kept[parts] = values
            while len(self._kept) > 1 and sum(map(_bytes, self._kept.values())) > KEPT_BYTES:
                del self._kept[next(iter(self._kept))]

    def _stored(self, parts: tuple[str, ...], compute: Callable[[], Outputs]) -> Outputs:
        if not self._use_cache:
            return compute()
        folder = CacheDir()
        key = hashlib.sha256("\n".join((_evaluators(), *parts)).encode()).hexdigest()
        found = folder.get(KIND, key, SUFFIX)
        if found is not None:
            return read_arrays(found)
        values = compute()
        if not all(map(storable, values.values())):
            return values
        stream = io.BytesIO()
        write_arrays(stream, values)
        folder.put(KIND, key, SUFFIX, stream.getvalue())
        return values


def _bytes(values: Outputs) -> int:
    return sum(value.nbytes for value in values.values())


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
    here = Path(__file__).parent.parent
    for name in EVALUATORS:
        path = here / name
        for source in sorted(path.rglob("*.py")) if path.is_dir() else [path]:
            digest.update(source.name.encode() + source.read_bytes())
    return digest.hexdigest()
