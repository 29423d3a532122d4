"""Which source files a module's behaviour comes from: the first-party ones, outside Python and site-packages."""

from __future__ import annotations

import ast
import hashlib
import site
import sys
import sysconfig
from collections.abc import Iterable, Iterator
from functools import lru_cache
from pathlib import Path

__all__ = ["first_party_sources", "source_digest"]

_OWN = "onnxparity"
_OWN_PARTS = ("onnxparity.models", "onnxparity.export")
"""What of this package decides what a file looks like. The rest is loaded in some runs and not in others."""


def first_party_sources(classes: Iterable[type]) -> list[Path]:
    """The files that the classes' behaviour may depend on, sorted, each once.

    For every class that is defined outside Python's own library and site-packages: its file; what that file
    imports, and so on; and every loaded module of the same package or below the working directory, which also
    covers what was imported by name at run time.
    """
    roots = {module for c in classes if (module := c.__module__) and _file_of(module)}
    packages = {module.partition(".")[0] for module in roots} - {_OWN, "__main__"}
    found: set[Path] = set()
    for name in list(sys.modules):
        file = _file_of(name)
        if file and (name in roots or name.partition(".")[0] in packages or _counts(name, file)):
            found.add(file)
    waiting = [file for module in roots if (file := _file_of(module))]
    seen: set[Path] = set()
    while waiting:
        if (file := waiting.pop()) not in seen:
            seen.add(file)
            waiting += [f for name in _imports(file, file.stat().st_mtime_ns) if (f := _file_of(name) or _search(name))]
    return sorted(found | {file for file in seen if not _is_own(file)})


def source_digest(files: Iterable[Path]) -> str:
    """SHA-256 over the names and contents of the files."""
    digest = hashlib.sha256()
    for file in files:
        digest.update(f"{file.name} {_file_digest(file, file.stat().st_mtime_ns, file.stat().st_size)}\n".encode())
    return digest.hexdigest()


def _counts(name: str, file: Path) -> bool:
    if name.partition(".")[0] == _OWN:
        return name.startswith(_OWN_PARTS)
    return file.is_relative_to(Path.cwd())


def _is_own(file: Path) -> bool:
    own = _file_of(_OWN)
    return own is not None and file.is_relative_to(own.parent)


def _file_of(module: str) -> Path | None:
    """The source file of a loaded module that is neither Python's nor installed, else None."""
    name = getattr(sys.modules.get(module), "__file__", None)
    return _first_party(name) if name and name.endswith(".py") else None


@lru_cache(maxsize=None)
def _first_party(name: str) -> Path | None:
    file = Path(name).resolve()
    return file if file.is_file() and not any(file.is_relative_to(root) for root in _installed()) else None


@lru_cache(maxsize=1)
def _installed() -> tuple[Path, ...]:
    paths = sysconfig.get_paths()
    named = [paths[kind] for kind in ("stdlib", "platstdlib", "purelib", "platlib")]
    return tuple(Path(p).resolve() for p in (*named, *site.getsitepackages(), site.getusersitepackages()))
