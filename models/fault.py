"""What a planted fault is, and the ways to plant one in a module: another forward, another weight, another setting.

What a right location of it is comes from the fault itself: the lines of the faulty forward that the right one does
not have, the module whose weight was spoiled.
"""

from __future__ import annotations

import ast
import difflib
import inspect
import re
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import FunctionType
from typing import Any, Literal

import torch
from torch import Tensor, nn

from onnxparity.outcome import Expectation, Status
from onnxparity.selftesting.planting import SHOWN, Where

__all__ = ["READS", "Mutant", "Plant", "changed_lines", "instead", "lines_with", "setting", "tensor"]

Plant = Callable[[Any], Sequence[Where]]  # Any: each fault knows the class of its own module, or takes a ModelProto
"""Spoils a module or a ModelProto in place; what a right location of the fault is."""

READS = ("Attention", "Softmax")
"""The first operators that consume a mask, by the opset."""


@dataclass(frozen=True)
class Mutant:
    """One fault in one subject."""

    kind: str
    """What the score counts by, such as `mask-looks-ahead`."""
    subject: str
    """Name of the catalogue entry that it spoils."""
    plant: Plant
    why: str
    """Why it is wrong, in one line; where it is equivalent, the proof."""
    form: Literal["module", "file"] = "module"
    """What it is planted in: the module before its export, or the exported file."""
    prepare: Plant | None = None
    """What a right tool does to the file first; the result is then the reference."""
    equivalent: bool = False
    """The change leaves the function as it was, and must come out green."""
    dtype: str = "float32"
    opsets: tuple[int, ...] = (18, 23)
    variant: str = ""
    """Tells two faults of one kind in one subject apart."""
    points: tuple[str, ...] = ()
    """Shapes and regimes that it shows at, such as `b1-t40/normal`, besides the grid's core."""
    shows: frozenset[Status] = SHOWN
    """The statuses that count as finding it."""
    known: tuple[Expectation, ...] = ()
    """What a runtime gets wrong of the right file too, and so shows nothing."""

    @property
    def name(self) -> str:
        """Such as `mask-looks-ahead.causal-attention`."""
        return ".".join(filter(None, (self.kind, self.subject, self.variant)))


def instead(
    forward: Callable[..., Any],  # Any: a forward returns one tensor or several
    path: str = "",
    *,
    method: str = "forward",
    also: Sequence[Where] = (),
) -> Plant:
    """Plants another method in the module at `path`.

    A right location is a line that the right method does not have, or a line of the forward that calls it; `also` is
    the first consumer where something is left out.
    """

    def plant(module: nn.Module) -> Sequence[Where]:
        target = module.get_submodule(path)
        right = type(target)
        where = changed_lines(getattr(right, method), forward)
        callers = () if method == "forward" else lines_with(right.forward, f"self.{method}")
        methods = {method: _called(forward, method), "__module__": forward.__module__}
        target.__class__ = type(f"Faulty{right.__name__}", (right,), methods)
        return (*where, *callers, *also)

    return plant


def _called(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    """The same function under another name: torch.export keeps the source lines of functions called `forward` only."""
    assert isinstance(function, FunctionType)
    code = function.__code__.replace(co_name=name, co_qualname=name)
    copy = FunctionType(code, function.__globals__, name, function.__defaults__, function.__closure__)
    copy.__annotations__ = function.__annotations__
    return copy


def changed_lines(right: Callable[..., Any], faulty: Callable[..., Any]) -> tuple[Where, ...]:
    """The lines of the faulty function that the right one does not have, and those before which one is missing."""
    ours, theirs = _lines(faulty), _lines(right)
    found: list[str] = []
    for tag, _, _, start, end in difflib.SequenceMatcher(None, theirs, ours, autojunk=False).get_opcodes():
        if tag in ("replace", "insert"):
            found += ours[start:end]
        if tag == "delete" and start < len(ours):
            found.append(ours[start])
    return tuple(Where(line=line) for line in dict.fromkeys(found))


def _lines(function: Callable[..., Any]) -> list[str]:
    """The lines of a function's body without its docstring and comments."""
    (definition,) = ast.parse(textwrap.dedent(inspect.getsource(function))).body
    assert isinstance(definition, ast.FunctionDef)
    lines = textwrap.dedent(inspect.getsource(function)).splitlines()
    body = definition.body[1:] if ast.get_docstring(definition) else definition.body
    return [line.split("  #")[0].strip() for line in lines[body[0].lineno - 1 :]]


def lines_with(function: Callable[..., Any], *words: str) -> tuple[Where, ...]:
    """The lines of a function that read one of these names."""
    pattern = re.compile("|".join(rf"(?<!\w){re.escape(word)}\b" for word in words))
    found = [line for line in _lines(function) if pattern.search(line)]
    if not found:
        raise ValueError(f"{function.__qualname__} reads none of {words}")
    return tuple(Where(line=line) for line in found)


def setting(path: str, name: str, value: object, *, also: Sequence[Where] = ()) -> Plant:
    """Another number or switch in the module at `path`.

    The location is a line of its forward that reads it, or for a module of PyTorch's own the module, or `also`.
    """

    def plant(module: nn.Module) -> Sequence[Where]:
        target = module.get_submodule(path)
        if not hasattr(target, name):
            raise AttributeError(f"{type(target).__name__} has no setting {name!r}")
        setattr(target, name, value)
        own = not type(target).__module__.startswith("torch.")
        return (*(lines_with(type(target).forward, f"self.{name}") if own else (Where(module=path),)), *also)

    return plant


def tensor(name: str, change: Callable[[Tensor], Tensor], *, where: Sequence[Where] = ()) -> Plant:
    """Another value of one weight, such as `feed_forward.up.weight`; the location is the module that holds it."""

    def plant(module: nn.Module) -> Sequence[Where]:
        parameter = module.get_parameter(name)
        with torch.no_grad():
            parameter.copy_(change(parameter.clone()))
        return where or (Where(module=name.rpartition(".")[0]),)

    return plant
