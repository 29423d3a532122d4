"""Any PyTorch subject by its origin, catalogue entry or user's factory, in one form that the jobs can work with."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree  # private by name only: torch.export states its inputs in terms of it

from onnxparity.case import Subject
from onnxparity.errors import SubjectError
from onnxparity.feeding.feeds import example
from onnxparity.models import catalogue
from onnxparity.models.entry import Entry, Oracle
from onnxparity.models.user_subjects import Brought, load_factory
from onnxparity.protocols import Array, Feeds

__all__ = ["Call", "Source", "bring", "is_factory", "matching"]

Nested = Any  # Any: a tensor, a number, or whatever container a user nests them in


@dataclass(frozen=True)
class Call:
    """What an export is traced with."""

    args: tuple[Nested, ...]
    kwargs: Mapping[str, Nested]
    dynamic_shapes: Nested
    """torch.export's own structure; None where the subject's axes say it all."""


@dataclass(frozen=True)
class Source:
    """A subject with the means to build and call it."""

    subject: Subject
    build: Callable[[], nn.Module]
    """The module in its own dtype, in eval mode; another object at each call."""
    call: Callable[[str], Call]
    """Arguments for an export in a dtype."""
    flat: Callable[[nn.Module], nn.Module]
    """The module as one that takes the subject's inputs in order, one tensor each."""
    oracle: Oracle | None = None
    examples: Mapping[str, Feeds] | None = None
    notes: tuple[str, ...] = ()


def is_factory(text: str) -> bool:
    """Whether the text names a factory, `package.module:factory`."""
    return ":" in text


def matching(pattern: str) -> tuple[str, ...]:
    """Catalogue names that a name or glob stands for. Raises SubjectError where there is none."""
    if any(c in pattern for c in "*?["):
        found = tuple(name for name in catalogue.entries() if fnmatchcase(name, pattern))
        if not found:
            raise SubjectError(f"no subject matches {pattern!r}", remedy="`onnxparity list` shows every subject")
        return found
    return (catalogue.find(pattern).subject.name,)


def bring(origin: str, directory: Path) -> Source:
    """The subject behind a catalogue name or factory. Raises SubjectError where it cannot be had."""
    return _of_factory(load_factory(origin, directory)) if is_factory(origin) else _of_entry(catalogue.find(origin))


def _of_entry(entry: Entry) -> Source:
    def call(dtype: str) -> Call:
        return Call(tuple(_tensor(a) for a in example(entry.subject, dtype).values()), {}, None)

    examples = None if entry.examples is None else entry.examples()
    return Source(entry.subject, entry.build, call, lambda module: module, entry.oracle, examples)


def _of_factory(brought: Brought) -> Source:
    def call(dtype: str) -> Call:
        args, kwargs = pytree.tree_map_only(Tensor, _to(dtype), (brought.args, dict(brought.kwargs)))
        return Call(tuple(args), kwargs, brought.dynamic_shapes)

    return Source(
        subject=brought.subject,
        build=lambda: copy.deepcopy(brought.module),
        call=call,
        flat=lambda module: Flat(module, brought.args, brought.kwargs),
        examples={"example": brought.example, **brought.examples},
        notes=brought.notes,
    )


class Flat(nn.Module):
    """A module that takes nested arguments, as one that takes their tensors in order."""

    def __init__(self, module: nn.Module, args: Sequence[Nested], kwargs: Mapping[str, Nested]) -> None:
        super().__init__()
        self.module = module
        self._leaves, self._structure = pytree.tree_flatten((tuple(args), dict(kwargs)))

    def forward(self, *tensors: Tensor) -> Nested:
        """The module's own return value, for one tensor per tensor of its example."""
        given = iter(tensors)
        leaves = [next(given) if isinstance(leaf, Tensor) else leaf for leaf in self._leaves]
        args, kwargs = pytree.tree_unflatten(leaves, self._structure)
        return self.module(*args, **kwargs)


def _to(dtype: str) -> Callable[[Tensor], Tensor]:
    target: torch.dtype = getattr(torch, dtype)
    return lambda tensor: tensor.to(target) if tensor.is_floating_point() else tensor


def _tensor(array: Array) -> Tensor:
    if array.dtype.name == "bfloat16":
        return torch.from_numpy(array.astype(np.float32)).to(torch.bfloat16)
    return torch.from_numpy(np.ascontiguousarray(array))
