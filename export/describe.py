"""Anything a module can hold, written into a hash so that it is the same in every process.

Tensors by content, functions by their instructions, objects by class and attributes; never by address.
"""

from __future__ import annotations

import dataclasses
import hashlib
import re
import types
import uuid
from collections.abc import Mapping
from functools import lru_cache, partial
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

__all__ = ["Describer"]

Value = Any  # Any: whatever a module holds or takes

_PLAIN = (bool, int, float, complex, str, bytes, type(None))
_HOOKS = ("_forward_hooks", "_forward_pre_hooks")
_BOOKKEEPING = re.compile(r"^_(parameters|buffers|modules|compiled_call_impl|non_persistent_buffers_set)$|hooks")
_ADDRESS = re.compile(r"0x[0-9a-fA-F]+")
_DEEPEST = 150
"""Objects inside objects; each takes some frames of Python's thousand."""


class Describer:
    """A running SHA-256 over the values given to it, in order."""

    def __init__(self, *, content: bool = True) -> None:
        """Without `content`, tensors count by dtype and shape alone."""
        self._hash = hashlib.sha256()
        self._content = content
        self._met: dict[int, tuple[int, Value]] = {}
        """The objects met so far, so that cycles end and shared tensors are written once. They are held, because
        Python gives the id of one that is gone to the next."""

        self._depth = 0

    def hexdigest(self) -> str:
        """Of all that was given so far."""
        return self._hash.hexdigest()

    def text(self, *parts: str) -> None:
        """Adds text; the parts stay apart."""
        for part in parts:
            self._hash.update(part.encode(errors="surrogatepass") + b"\0")

    def value(self, value: Value) -> None:
        """Adds a value of any kind."""
        if isinstance(value, _PLAIN):
            self.text(repr(value))
        elif isinstance(value, type):
            self.text(f"class {value.__module__}.{value.__qualname__}")
        elif isinstance(value, types.ModuleType):
            self.text(f"module {value.__name__}")
        elif id(value) in self._met:
            self.text(f"again {self._met[id(value)][0]}")
        else:
            self._met[id(value)] = (len(self._met), value)
            self._depth += 1
            if self._depth > _DEEPEST:
                self.text(f"{type(value).__qualname__} {_unlike_anything()}")
            else:
                self._compound(value)
            self._depth -= 1

    def _compound(self, value: Value) -> None:
        self.text(type(value).__qualname__)
        if isinstance(value, (Tensor, np.ndarray)):
            self.text(_tensor(value, self._content))
        elif isinstance(value, types.FunctionType):
            self._function(value)
        elif isinstance(value, types.MethodType):
            self.value(value.__func__)
            self.value(value.__self__)
        elif isinstance(value, nn.Module):
            self.module(value)
        elif isinstance(value, Mapping):
            for key in sorted(value, key=repr):
                self.text(_ADDRESS.sub("", repr(key)))
                self.value(value[key])
        elif isinstance(value, (list, tuple)):
            self.text(str(len(value)))
            for entry in value:
                self.value(entry)
        elif isinstance(value, (set, frozenset)):
            self.text(*sorted(_ADDRESS.sub("", repr(entry)) for entry in value))
        else:
            self._object(value)

    def _object(self, value: Value) -> None:
        self.text(f"{type(value).__module__}.{type(value).__qualname__}")
        # Configurations of transformers, torch.device, torch.dtype and the like tell all in their repr.
        if "__repr__" in {n for c in type(value).__mro__[:-1] for n in vars(c)} and not dataclasses.is_dataclass(value):
            self.text(_safe_repr(value))
        if isinstance(value, partial):
            self.value(value.func)
        for name, entry in sorted(getattr(value, "__dict__", {}).items()):
            self.text(str(name))
            self.value(entry)
        slots = getattr(type(value), "__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            self.text(name)
            self.value(getattr(value, name, None))

    def module(self, module: nn.Module) -> None:
        """Adds a module by its class, plain attributes, hooks, parameters and buffers, and its submodules."""
        self.text(f"{type(module).__module__}.{type(module).__qualname__}")
        for name, entry in sorted(vars(module).items()):
            if not _BOOKKEEPING.search(name):
                self.text(f".{name}")
                self.value(entry)
        for name in _HOOKS:
            for hook in vars(module).get(name, {}).values():
                self.text(name)
                self.value(hook)
        named = {**module._parameters, **module._buffers, **module._modules}
        for name, part in sorted(named.items()):
            self.text(f"{name}:")
            self.value(part)

    def classes(self, classes: list[type]) -> None:
        """Adds the methods and plain attributes of classes as they stand in memory."""
        for cls in classes:
            self.text(f"class {cls.__module__}.{cls.__qualname__}")
            self.namespace(vars(cls))

    def namespace(self, names: Mapping[str, Value]) -> None:
        """Adds the functions and plain constants of a class or a Python module, and by name what it refers to."""
        for name, entry in sorted(names.items()):
            inner = getattr(entry, "__func__", getattr(entry, "fget", entry))
            if isinstance(inner, types.FunctionType):
                self.text(name)
                self.value(inner)
            elif not name.startswith("__") and _is_plain(entry):
                self.text(name, repr(entry))
            elif callable(entry):
                self.text(name, str(getattr(entry, "__module__", "")), str(getattr(entry, "__qualname__", "")))

    def _function(self, function: types.FunctionType) -> None:
        self.text(function.__qualname__, _code(function.__code__))
        self.value(function.__defaults__)
        self.value(function.__kwdefaults__)
        for cell in function.__closure__ or ():
            try:
                self.value(cell.cell_contents)
            except ValueError:
                self.text("an empty cell")


def _unlike_anything() -> str:
    """Stands for what cannot be read: it equals nothing, not even itself, so that nothing is reused for it."""
    return f"unreadable {uuid.uuid4().hex}"


def _safe_repr(value: Value) -> str:
    try:
        return _ADDRESS.sub("", repr(value))
    except Exception:  # the value's own code
        return _unlike_anything()


def _is_plain(value: Value) -> bool:
    if isinstance(value, dict):
        value = [*value.keys(), *value.values()]
    return isinstance(value, _PLAIN) or (isinstance(value, (list, tuple)) and all(map(_is_plain, value)))


def _tensor(value: Tensor | npt.NDArray[Any], content: bool) -> str:  # Any: the element type is data
    text = f"{value.dtype} {tuple(value.shape)}"
    if not content:
        return text
    try:
        if isinstance(value, Tensor):
            flat = value.detach().cpu().contiguous().reshape(-1)
            raw = flat.view(torch.uint8).numpy() if flat.numel() else np.empty(0, np.uint8)
        else:
            raw = np.ascontiguousarray(value).reshape(-1).view(np.uint8)
        return f"{text} {hashlib.sha256(raw.data).hexdigest()}"
    except (RuntimeError, NotImplementedError, TypeError, ValueError):
        # A fake, sparse or meta tensor: its values cannot be read.
        return f"{text} {_unlike_anything()}"


@lru_cache(maxsize=65536)
def _code(code: types.CodeType) -> str:
    """Instructions, names and constants, without file and line numbers."""
    constants = [_constant(c) for c in code.co_consts]
    parts = (code.co_code.hex(), code.co_names, code.co_varnames, code.co_freevars, constants)
    return hashlib.sha256(repr(parts).encode(errors="surrogatepass")).hexdigest()


def _constant(value: Value) -> str:
    if isinstance(value, types.CodeType):
        return _code(value)
    return repr(sorted(map(repr, value))) if isinstance(value, frozenset) else repr(value)
