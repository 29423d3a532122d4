"""The catalogue: every subject by name. A new topic module joins by one line in `TOPICS`."""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Iterable, Mapping
from functools import cache
from types import MappingProxyType

from onnxparity.errors import SubjectError
from onnxparity.models.entry import Entry

__all__ = ["TOPICS", "entries", "find", "merge"]

TOPICS = (
    "attention",
    "reparametrised",
    "scores",
    "dot_product",
    "masks",
    "attention_variants",
    "positions",
    "given_positions",
    "feedforward",
    "norms",
    "blocks",
    "stacks",
    "translation",
    "autoregressive",
    "classifier",
    "tied",
    "vision",
    "set_transformer",
    "convolution",
    "kernel_regression",
    "linear_attention",
    "minilm",
)
"""Modules of `onnxparity.models` with an `ENTRIES` tuple, in the order in which the catalogue lists them."""


@cache
def entries() -> Mapping[str, Entry]:
    """Every entry by its subject's name, in the order of `TOPICS`; read-only.

    Raises SubjectError where two entries share a name.
    """
    modules = [importlib.import_module(f"onnxparity.models.{topic}") for topic in TOPICS]
    return merge(entry for module in modules for entry in module.ENTRIES)


def merge(found: Iterable[Entry]) -> Mapping[str, Entry]:
    """Entries by name. Raises SubjectError for a name that is there twice."""
    by_name: dict[str, Entry] = {}
    for entry in found:
        name = entry.subject.name
        if name in by_name:
            raise SubjectError(f"two catalogue entries are named {name!r}", remedy="rename one of them")
        by_name[name] = entry
    return MappingProxyType(by_name)


def find(name: str) -> Entry:
    """The entry of this name. Raises SubjectError with near matches where there is none."""
    known = entries()
    if name in known:
        return known[name]
    near = difflib.get_close_matches(name, known, n=3)
    raise SubjectError(
        f"unknown subject {name!r}",
        expected=f"such as {', '.join(near)}" if near else f"one of {', '.join(known)}",
        remedy="`onnxparity list` shows every subject",
    )
