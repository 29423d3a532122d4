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

__all__ = ["first_party_modules", "imported_sources", "source_digest"]

_OWN = "onnxparity"
"""This package's own modules are loaded in some runs and not in others, so that only their imports count."""


def first_party_modules(classes: Iterable[type]) -> list[str]:
    """Names of the loaded modules that the classes' behaviour may depend on, sorted.

    The modules that define them, and every loaded module of the same top-level package or below the working
    directory. Python's own library and site-packages are left out: their versions stand for them.
    """
    roots = {c.__module__ for c in classes if _file_of(c.__module__)}
    packages = {module.partition(".")[0] for module in roots} - {_OWN, "__main__"}
    found = set(roots)
    for name in list(sys.modules):
        top = name.partition(".")[0]
        file = _file_of(name) if top != _OWN else None
        if file and (top in packages or file.is_relative_to(Path.cwd())):
            found.add(name)
    return sorted(found)


def imported_sources(modules: Iterable[str]) -> list[Path]:
    """The files of the modules, of what their text imports, and so on, sorted; imports inside functions count."""
    waiting = [file for module in modules if (file := _file_of(module))]
    seen: set[Path] = set()
    while waiting:
        if (file := waiting.pop()) not in seen:
            seen.add(file)
            waiting += filter(None, map(_find, _imports(file, file.stat().st_mtime_ns)))
    return sorted(seen)


def source_digest(files: Iterable[Path]) -> str:
    """SHA-256 over the names and contents of the files."""
    digest = hashlib.sha256()
    for file in files:
        stat = file.stat()
        digest.update(f"{file.name} {_file_digest(file, stat.st_mtime_ns, stat.st_size)}\n".encode())
    return digest.hexdigest()


@lru_cache(maxsize=4096)
def _file_digest(file: Path, mtime_ns: int, size: int) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


@lru_cache(maxsize=4096)
def _imports(file: Path, mtime_ns: int) -> tuple[tuple[str, Path], ...]:
    """Every module that the file may import, with the file itself to resolve relative names against."""
    try:
        tree = ast.parse(file.read_bytes())
    except (SyntaxError, ValueError):
        return ()
    return tuple((name, file) for node in ast.walk(tree) for name in _names(node))


def _names(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        base = "." * node.level + (node.module or "")
        yield base
        # `from package import module` names a module or something inside one; both are tried.
        yield from (f"{base}{'.' if node.module else ''}{alias.name}" for alias in node.names)


def _find(name_and_importer: tuple[str, Path]) -> Path | None:
    """The first-party file behind an import, without importing it."""
    name, importer = name_and_importer
    level = len(name) - len(name.lstrip("."))
    if level == 0 and (name in sys.modules or _is_installed(name.partition(".")[0])):
        return _file_of(name)
    parts = name[level:].split(".") if name[level:] else []
    bases = [importer.parents[level - 1]] if level else [Path(entry or ".") for entry in sys.path]
    for base in bases:
        target = base.joinpath(*parts)
        for candidate in (target.with_suffix(".py") if parts else None, target / "__init__.py"):
            if candidate is not None and candidate.is_file():
                return _first_party(str(candidate))
    return None


def _is_installed(top: str) -> bool:
    """Whether a top-level package is Python's own, or loaded from where packages are installed."""
    file = getattr(sys.modules.get(top), "__file__", None)
    return top in sys.stdlib_module_names or (file is not None and _first_party(file) is None)


def _file_of(module: str) -> Path | None:
    """The source file of a loaded module that is neither Python's nor installed, else None."""
    name = getattr(sys.modules.get(module), "__file__", None)
    return _first_party(name) if isinstance(name, str) and name.endswith(".py") else None


@lru_cache(maxsize=8192)
def _first_party(name: str) -> Path | None:
    file = Path(name).resolve()
    return file if file.is_file() and not any(file.is_relative_to(root) for root in _installed()) else None


@lru_cache(maxsize=1)
def _installed() -> tuple[Path, ...]:
    paths = sysconfig.get_paths()
    named = [paths[kind] for kind in ("stdlib", "platstdlib", "purelib", "platlib")]
    return tuple(Path(p).resolve() for p in (*named, *site.getsitepackages(), site.getusersitepackages()))
