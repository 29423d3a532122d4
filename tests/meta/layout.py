"""What the layout promises, as functions over any tree, so that each can be seen to fail on a made-up one."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

PACKAGE = "onnxparity"
HUB = Path("src") / PACKAGE
SPOKES = ("models", "export", "runtimes", "reports")
LAZY = (
    "cli",
    "jobs",
    "plugins",
    "authoring",
    "timing",
    "examining",
    "fitness",
    "values",
    "replaying",
    "optimizers",
    "overflow",
    "reproduction",
    "reproducing_meaning",
    "planting",
)
"""Hub modules that may import spokes inside functions, besides all of `commands`."""
INSTALLED = {"numpy", "psutil"}
"""All that hub modules may import from elsewhere at module level; `commands` may use rich too."""
LONGEST = 400
CODE = (".py", ".js", ".css", ".jinja")


def sources(root: Path) -> Iterator[Path]:
    """Python files of the hub and the spokes, relative to the root."""
    for folder in (HUB, *map(Path, SPOKES)):
        for path in sorted((root / folder).rglob("*.py")):
            if folder != HUB or path.relative_to(root / HUB).parts[0] not in SPOKES:
                yield path.relative_to(root)


def import_faults(root: Path) -> list[str]:
    """Where the import rule is broken: hub imports hub, spokes import the hub and never each other."""
    faults: list[str] = []
    for path in sources(root):
        tree = ast.parse((root / path).read_text(encoding="utf-8"))
        for name, at_once, typing_only in _imports(tree):
            if fault := _fault(path, name, at_once=at_once, typing_only=typing_only):
                faults.append(f"{path} {fault} {name}")
    return faults


def _fault(path: Path, name: str, *, at_once: bool, typing_only: bool) -> str:
    """What is wrong with one import; empty where nothing is."""
    own = path.parts[0] if path.parts[0] in SPOKES else None
    first, *rest = name.split(".")
    if not first:
        return "imports relatively:"
    if first in SPOKES:
        return "makes a second copy by importing"
    spoke = rest[0] if first == PACKAGE and rest and rest[0] in SPOKES else None
    if own is not None:
        return "is a spoke and imports" if spoke not in (None, own) else ""
    inside = path.relative_to(HUB)
    commands = inside.parts[0] == "commands"
    if spoke is not None and typing_only:
        return "" if commands or inside.stem in LAZY else "is no place to import"
    if spoke is not None:
        return "imports at once" if at_once else "" if commands or inside.stem in LAZY else "is no place to import"
    allowed = INSTALLED | {"rich"} if commands else INSTALLED
    if at_once and not typing_only and first not in {PACKAGE, *sys.stdlib_module_names, *allowed}:
        return "needs at once"
    return ""


def _imports(tree: ast.Module) -> Iterator[tuple[str, bool, bool]]:
    """Each imported module, whether it is imported with its file, and whether only for type checkers."""

    def walk(node: ast.AST, at_once: bool, typing_only: bool) -> Iterator[tuple[str, bool, bool]]:
        if isinstance(node, ast.Import):
            yield from ((alias.name, at_once, typing_only) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            module = "." * node.level + (node.module or "")
            # `from onnxparity import models` imports onnxparity.models
            names = [f"{module}.{a.name}" for a in node.names] if module == PACKAGE else [module]
            yield from ((name, at_once, typing_only) for name in names)
        elif isinstance(node, ast.Call) and getattr(node.func, "attr", getattr(node.func, "id", "")) in (
            "import_module",
            "__import__",
        ):
            named = [a.value for a in node.args if isinstance(a, ast.Constant) and isinstance(a.value, str)]
            yield from ((name, at_once, typing_only) for name in named)
        inner = isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))
        guarded = isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        for child in ast.iter_child_nodes(node):
            yield from walk(child, at_once and not inner, typing_only or guarded)

    return walk(tree, True, False)


def packaging_faults(root: Path) -> list[str]:
    """Packages and data files on disk that a wheel would not hold, and listed packages that are not there."""
    with (root / "pyproject.toml").open("rb") as file:
        setuptools: dict[str, Any] = tomllib.load(file)["tool"]["setuptools"]  # Any: TOML values
    listed, data = set(setuptools["packages"]), setuptools.get("package-data", {})
    folders = {name: root / folder for name, folder in setuptools["package-dir"].items()}
    found: set[str] = set()
    faults: list[str] = []
    for top, folder in folders.items():
        for path in sorted(folder.rglob("*")):
            inside = path.relative_to(folder)
            if not path.is_file() or "__pycache__" in inside.parts or (folder / inside.parts[0]).is_symlink():
                continue
            package = ".".join((top, *inside.parent.parts))
            found.add(package)
            if path.suffix != ".py" and not any(fnmatch(path.name, glob) for glob in data.get(package, ())):
                faults.append(f"{path.relative_to(root)} is not in package-data of {package}")
    faults += [f"{package} is on disk and not in packages" for package in sorted(found - listed)]
    faults += [f"{package} is in packages and not on disk" for package in sorted(listed - found)]
    return faults


def long_files(root: Path) -> list[str]:
    """Source files that have more than LONGEST lines."""
    faults = []
    for folder in (HUB.parts[0], *SPOKES):
        for path in sorted((root / folder).rglob("*")):
            if (
                path.is_file()
                and path.suffix in CODE
                and (length := len(path.read_text("utf-8").splitlines())) > LONGEST
            ):
                faults.append(f"{path.relative_to(root)} has {length} lines")
    return faults


MACHINE_PATHS = re.compile("(?<![\\w.~])/(?:" + "|".join(("work", "root", "tmp")) + ")/|\\b" + "shared" + "/")


def words_of_a_machine(text: str) -> list[str]:
    """Paths in a text that exist on one machine only."""
    return MACHINE_PATHS.findall(text)
