"""The dynamo exporter: torch.export, then torch.onnx.export, held to the opset and the dynamic sizes asked for."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import onnx_ir
import torch
from torch import Tensor, nn
from torch.export import ExportedProgram

from onnxparity.artifact import Artifact
from onnxparity.case import Subject
from onnxparity.errors import ExportError
from onnxparity.export.artifact import read_artifact
from onnxparity.export.check import check_file
from onnxparity.export.failure import explain
from onnxparity.export.fingerprint import program_key
from onnxparity.export.frames import whole_stacks
from onnxparity.export.quiet import quiet
from onnxparity.export.reuse import Decomposed, reusing
from onnxparity.export.shapes import bind, check_example, dims_of_subject, normalise
from onnxparity.plan import ArtifactKey, slug

__all__ = ["EXTERNAL_DATA_ABOVE", "DynamoExporter", "OpsetError", "Program"]

EXTERNAL_DATA_ABOVE = 1 << 30
"""Bytes of weights from which they are written beside the file; protobuf itself ends at 2 GiB."""


class OpsetError(ExportError):
    """The exporter answered with another opset than it was asked for."""


@dataclass(frozen=True)
class Program:
    """A module captured once, to be converted at any number of opsets."""

    exported: ExportedProgram
    subject: Subject
    warnings: tuple[str, ...] = ()
    """What torch said while it captured the module."""
    decomposed: Decomposed = field(default_factory=dict)


class DynamoExporter:
    """`torch.onnx.export(dynamo=True)`, with one capture of the module for all its opsets."""

    name = "dynamo"

    def __init__(self, *, external_data_above: int = EXTERNAL_DATA_ABOVE, reuse: bool = True) -> None:
        if not 0 <= external_data_above <= 3 << 29:
            raise ValueError(f"external_data_above must be 0 to {3 << 29} bytes, got {external_data_above}")
        self._external_data_above = external_data_above
        self._reuse = reuse
        self._last: tuple[str, Program | ExportError] | None = None

    @property
    def options(self) -> tuple[str, ...]:
        """What of its settings changes the file; part of the cache key."""
        return (f"external_data_above={self._external_data_above}",)

    def export(
        self,
        module: nn.Module,
        example: Sequence[Any],  # Any: torch.Tensor, or what else forward takes
        subject: Subject,
        key: ArtifactKey,
        path: Path,
        *,
        dynamic_shapes: Any = None,  # Any: torch.export's own nested structure
        kwargs: Mapping[str, Any] | None = None,  # Any: as in example
    ) -> Artifact:
        """Writes `path` at opset `key.opset`; the module is already in `key.dtype`.

        `subject.inputs` and `subject.outputs` name, in order, the tensors of `example`, then `kwargs`, and of
        what forward returns. Dynamic dims come from the subject's axes unless `dynamic_shapes` is given. The
        last program, or why there is none, is kept and used again while module, example and dims are the same by
        content; `seconds` counts this call alone. Raises ExportError where no file, or not the asked one, came
        out; LintError where shape inference refuses it.
        """
        start = time.perf_counter()
        path.unlink(missing_ok=True)
        wanted = program_key(module, example, subject, dynamic_shapes=dynamic_shapes, kwargs=kwargs)
        if self._last is None or self._last[0] != wanted:
            self._last = None  # so that the old program's memory is free for the new one
            try:
                found: Program | ExportError = self.program(
                    module, example, subject, dynamic_shapes=dynamic_shapes, kwargs=kwargs
                )
            except ExportError as error:
                found = error
            self._last = (wanted, found)
        if isinstance(self._last[1], ExportError):
            raise self._last[1]
        return self.convert(self._last[1], key, path, started=start)

    def program(
        self,
        module: nn.Module,
        example: Sequence[Any],  # Any: as in export
        subject: Subject,
        *,
        dynamic_shapes: Any = None,  # Any: as in export
        kwargs: Mapping[str, Any] | None = None,  # Any: as in export
    ) -> Program:
        """Captures the module. Raises ExportError where torch.export cannot, or where it is in training mode."""
        _refuse_training(module)
        bound = bind(module, example, kwargs or {})
        shapes = dims_of_subject(subject, bound) if dynamic_shapes is None else dynamic_shapes
        check_example(bound, shapes)
        with quiet() as said, _without_gradients(module.parameters()):
            exported = _capture(module, tuple(example), dict(kwargs or {}), normalise(shapes), subject)
        return Program(exported, subject, tuple(said))

    def convert(self, program: Program, key: ArtifactKey, path: Path, *, started: float | None = None) -> Artifact:
        """Writes a captured program at `key.opset`. Raises ExportError and LintError as `export` does."""
        start = time.perf_counter() if started is None else started
        if key.opset is None:
            raise ExportError(f"{key.id} names no opset", expected="an opset", got="None", remedy="ask for 18 to 25")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        with quiet() as said, _without_gradients(program.exported.parameters()):
            model = self._translate(program, key.opset)
            _refuse_other_opset(model, key.opset, said)
            external = self._save(model, key, path)
            check_file(path, external=external)
        return read_artifact(
            path,
            key,
            opset_asked=key.opset,
            seconds=time.perf_counter() - start,
            cached=False,
            warnings=tuple(dict.fromkeys((*program.warnings, *said))),
        )

    def _translate(self, program: Program, opset: int) -> onnx_ir.Model:
        names = [spec.name for spec in program.subject.inputs], [spec.name for spec in program.subject.outputs]
        try:
            with reusing(program.decomposed) if self._reuse else nullcontext():
                onnx_program = torch.onnx.export(
                    program.exported,
                    (),
                    dynamo=True,
                    opset_version=opset,
                    input_names=names[0],
                    output_names=names[1],
                    verbose=False,
                )
        except Exception as error:  # torch raises anything: RuntimeError, AssertionError, its own families
            raise explain(error, f"{program.subject.name} has no translation to ONNX at opset {opset}") from error
        if onnx_program is None:
            raise ExportError(f"{program.subject.name}: torch.onnx.export returned nothing", got="None")
        onnx_program.rename_axes(_symbols(onnx_program.model, program.subject))
        return onnx_program.model

    def _save(self, model: onnx_ir.Model, key: ArtifactKey, path: Path) -> bool:
        weights = sum(v.const_value.nbytes for v in model.graph.initializers.values() if v.const_value is not None)
        if weights <= self._external_data_above:
            onnx_ir.save(model, path)
            return False
        # Named after the key, not the path: the name stands in the file, whose hash must not depend on the path.
        name = f"{slug(key.id)}.data"
        (path.parent / name).unlink(missing_ok=True)
        onnx_ir.save(model, path, external_data=name)
        return True


def _refuse_training(module: nn.Module) -> None:
    training = [name or "the module itself" for name, part in module.named_modules() if part.training]
    if training:
        raise ExportError(
            "the module is in training mode",
            expected="eval mode everywhere: dropout and batch statistics do not belong in a deployed file",
            got=f"training: {', '.join(training[:3])}{' …' if len(training) > 3 else ''}",
            remedy="call module.eval() before the export",
        )


@contextmanager
def _without_gradients(parameters: Iterable[Tensor]) -> Iterator[None]:
    """Views of parameters that want gradients fail to export ("Cannot view a tensor")."""
    wanting = [parameter for parameter in parameters if parameter.requires_grad]
    for parameter in wanting:
        parameter.requires_grad_(False)
    try:
        with torch.no_grad():
            yield
    finally:
        for parameter in wanting:
            parameter.requires_grad_(True)


def _capture(
    module: nn.Module, example: tuple[Any, ...], kwargs: dict[str, Any], shapes: Any, subject: Subject
) -> ExportedProgram:  # Any: as in DynamoExporter.export
    """As torch.onnx.export captures a module, so that the file is the one it would write: first by running
    forward, then, where that fails, by reading its bytecode.

    Unlike torch.onnx.export, sizes that turn out to be fixed are an error and not silently made constants.
    """
    first: Exception | None = None
    for strict in (False, True):
        try:
            # The flag with which torch.onnx.export lets dynamic sizes be 0 and 1 later on.
            with whole_stacks(), torch.fx.experimental._config.patch(backed_size_oblivious=True):  # type: ignore[attr-defined]  # made at import
                return torch.export.export(
                    module,
                    example,
                    kwargs,
                    dynamic_shapes=shapes,
                    strict=strict,
                    prefer_deferred_runtime_asserts_over_guards=True,
                )
        except Exception as error:  # the module's own code runs here, and may raise anything
            first = first or error
            if "Constraints violated" in str(error):
                break
            if not strict:
                warnings.warn(f"captured by its bytecode, since running forward failed: {error}", stacklevel=2)
    assert first is not None
    raise explain(first, f"torch.export cannot capture {subject.name}") from first


def _refuse_other_opset(model: onnx_ir.Model, asked: int, said: list[str]) -> None:
    got = model.opset_imports.get("", 0)
    if got != asked:
        why = next((line for line in said if "Failed to convert" in line), "")
        raise OpsetError(
            f"asked for opset {asked}, the exporter answered with opset {got}",
            expected=f"a file at opset {asked}",
            got=f"a file stamped {got}" + (f"; {why}" if why else ""),
            remedy=f"ask for opset 18 to 25, which torch {torch.__version__} can write",
        )


def _symbols(model: onnx_ir.Model, subject: Subject) -> dict[str | onnx_ir.SymbolicDim, str]:
    """torch's names such as `s77` to the subject's; the first place where an axis stands names it."""
    names: dict[str | onnx_ir.SymbolicDim, str] = {}
    specs = {spec.name: spec for spec in subject.inputs}
    for value in model.graph.inputs:
        spec = specs.get(value.name or "")
        if spec is not None and value.shape is not None and len(value.shape) == len(spec.dims):
            for dim, symbol in zip(value.shape, spec.dims, strict=True):
                if isinstance(symbol, str) and isinstance(dim, onnx_ir.SymbolicDim) and isinstance(dim.value, str):
                    names.setdefault(dim.value, symbol)
    return names
