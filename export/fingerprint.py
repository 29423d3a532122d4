"""What makes two exports the same: versions, code, weights, attributes, example, and what was asked.

A fingerprint that forgets something gives the file of yesterday's model for today's, and with it a wrong green;
one that holds too much only costs an export. So it takes in whatever a module can reach.
"""

from __future__ import annotations

import importlib.metadata
import os
import platform
import sys
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import torch
from torch import nn

from onnxparity.case import Subject
from onnxparity.export.describe import Describer
from onnxparity.export.sources import first_party_modules, imported_sources, source_digest
from onnxparity.plan import ArtifactKey

__all__ = ["cache_key", "program_key", "versions"]

Value = Any  # Any: torch.Tensor, or whatever else forward takes

_DISTRIBUTIONS = ("torch", "onnx", "onnxscript", "onnx-ir", "numpy", "transformers", "onnxparity")


def cache_key(
    module: nn.Module,
    example: Sequence[Value],
    subject: Subject,
    key: ArtifactKey,
    exporter_name: str,
    dynamic_shapes: Value = None,
    *,
    kwargs: Mapping[str, Value] | None = None,
    options: Sequence[str] = (),
    exporter: type | None = None,
    program: str | None = None,
) -> str:
    """SHA-256 of all that decides what one exported file looks like.

    `options` are the exporter's own settings; `exporter` is its class, whose source counts too; `program` is the
    `program_key` of the same module and example, where the caller has it. Not seen: files of installed packages
    that were edited in place, and what the module reads from disk while it is exported.
    """
    asked = Describer()
    asked.text(program or program_key(module, example, subject, dynamic_shapes=dynamic_shapes, kwargs=kwargs))
    asked.text(exporter_name, key.id, str(key.opset), key.dtype, *options)
    if exporter is not None:
        asked.text(source_digest(imported_sources([exporter.__module__])))
    return asked.hexdigest()


def program_key(
    module: nn.Module,
    example: Sequence[Value],
    subject: Subject,
    *,
    dynamic_shapes: Value = None,
    kwargs: Mapping[str, Value] | None = None,
) -> str:
    """SHA-256 of all that decides what torch.export captures: as `cache_key`, without opset and exporter."""
    classes = _classes(module)
    names = first_party_modules(classes)
    content = Describer()
    content.text(repr(sorted(versions(classes).items())), str(torch.get_default_dtype()), repr(_flags()))
    content.text(source_digest(imported_sources(names)))
    content.classes(classes)
    # Functions of torch.nn.functional may be replaced, and then every module computes something else.
    for name in (*names, "torch.nn.functional"):
        content.text(name)
        content.namespace(vars(sys.modules[name]))
    content.module(module)
    content.text(_asked(example, subject, dynamic_shapes, kwargs or {}))
    return content.hexdigest()


def _asked(example: Sequence[Value], subject: Subject, dynamic_shapes: Value, kwargs: Mapping[str, Value]) -> str:
    asked = Describer(content=False)
    asked.value([*example])
    asked.text(*kwargs)
    asked.value([*kwargs.values()])
    asked.value(dynamic_shapes)
    asked.text(repr([(spec.name, spec.dims, spec.dtype) for spec in subject.inputs]))
    asked.text(repr([spec.name for spec in subject.outputs]))
    asked.text(repr([(axis.symbol, axis.low, axis.high) for axis in subject.axes]))
    return asked.hexdigest()


def versions(classes: Iterable[type] = ()) -> dict[str, str]:
    """Of Python, of what exports, and of the installed packages that define the classes."""
    extra = {d for c in classes for d in _distributions_of(c.__module__.partition(".")[0])}
    found = {name: _version(name) for name in sorted({*_DISTRIBUTIONS, *extra})}
    return {"python": platform.python_version(), "machine": platform.machine(), **found}


@lru_cache(maxsize=256)
def _version(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return "absent"


@lru_cache(maxsize=256)
def _distributions_of(package: str) -> tuple[str, ...]:
    known = ("torch", "builtins", "typing", "transformers", "onnxparity", "__main__")
    return () if package in known else tuple(_packages().get(package, ()))


@lru_cache(maxsize=1)
def _packages() -> Mapping[str, list[str]]:
    return importlib.metadata.packages_distributions()


def _flags() -> list[tuple[str, str]]:
    return sorted((name, value) for name, value in os.environ.items() if name.startswith("TORCH_ONNX"))


def _classes(module: nn.Module) -> list[type]:
    every = {c for part in module.modules() for c in type(part).__mro__ if c is not object}
    return sorted(every, key=lambda c: (c.__module__, c.__qualname__))
