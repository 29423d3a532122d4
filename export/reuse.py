"""Sparing torch.onnx.export what it repeats at every opset: the table of translations, and the decomposition.

Both depend on less than they are computed for. The table (0.4 s) is the same for every model at one opset; the
decomposed program (0.4 s a Transformer layer) is the same at every opset that translates the same of its operators.
torch has no public way to hand them over, so its two functions are replaced while a program is
converted, on the versions of torch where the files were seen to be the same byte for byte.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

import torch
from torch.export import ExportedProgram

__all__ = ["KNOWN_TORCH", "Decomposed", "reusing"]

KNOWN_TORCH = ("2.13",)
"""Releases of torch whose files are the same with and without reuse (see the tests); others export plainly."""

Registry = Any  # Any: torch.onnx's private table of translations
Decomposed = dict[frozenset[str], ExportedProgram]
"""The decomposed forms of one program, by those of its operators that have a translation and so stay whole."""

_registries: dict[int, Registry] = {}


@contextmanager
def reusing(decomposed: Decomposed) -> Iterator[bool]:
    """Within it, conversions of one program use and fill `decomposed`. Yields whether anything is reused."""
    if ".".join(torch.__version__.split(".")[:2]) not in KNOWN_TORCH:
        yield False
        return
    from torch.onnx._internal.exporter import _core, _registration

    build, prepare = _registration.ONNXRegistry.from_torchlib, _core._prepare_exported_program_for_export
    with ExitStack() as stack:
        stack.enter_context(patch.object(_registration.ONNXRegistry, "from_torchlib", _one_registry(build)))
        stack.enter_context(
            patch.object(_core, "_prepare_exported_program_for_export", _one_decomposition(prepare, decomposed))
        )
        yield True


def _operators(program: ExportedProgram) -> set[str]:
    graphs = (module.graph for module in program.graph_module.modules() if isinstance(module, torch.fx.GraphModule))
    targets = (node.target for graph in graphs for node in graph.nodes)
    return {str(target.name()) for target in targets if isinstance(target, torch._ops.OpOverload)}  # type: ignore[no-untyped-call]  # torch's own


def _one_registry(build: Callable[[int], Registry]) -> object:
    def from_torchlib(opset_version: int = 18) -> Registry:
        if opset_version not in _registries:
            _registries[opset_version] = build(opset_version)
        return _registries[opset_version]

    return staticmethod(from_torchlib)


def _one_decomposition(prepare: Callable[..., ExportedProgram], decomposed: Decomposed) -> object:
    def prepared(program: ExportedProgram, *, registry: Registry) -> ExportedProgram:
        # Operators that only come up while others are decomposed have one translation at every opset (see the tests).
        translated = frozenset(name for name in _operators(program) if name in registry.functions)
        if translated not in decomposed:
            decomposed[translated] = prepare(program, registry=registry)
        return decomposed[translated]

    return prepared
