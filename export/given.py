"""A given .onnx file as an artifact, and the subject that can be read off it: inputs, axes, ranges, outputs.

A file says names, dtypes and some sizes. What it does not say is guessed, and each guess is a note.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
from onnx import ModelProto, TensorProto

from onnxparity.artifact import Artifact, FileInput
from onnxparity.case import FLOATING, MaskMeaning, OutputRole, OutputSpec, Subject, TensorSpec
from onnxparity.errors import UsageError
from onnxparity.export.artifact import default_opset, describe_value, load_model, read_artifact
from onnxparity.export.given_axes import FileAxes, find_axes
from onnxparity.export.graph import FLOAT_BITS, dtype_name, tensor_bytes
from onnxparity.export.roles import ANYWHERE, counts_tokens, pair_caches
from onnxparity.export.trace import Dataflow, SizeOf
from onnxparity.plan import ArtifactKey, slug

__all__ = ["EXPORTER", "Given", "read_given"]

EXPORTER = "file"
"""The exporter in the key of a file that was given."""

_SUM = re.compile(r"\s*\+\s*")


@dataclass(frozen=True)
class Given:
    """A file and the subject read off it."""

    artifact: Artifact
    subject: Subject
    notes: tuple[str, ...]
    """What was guessed, in words for the report."""


def read_given(path: Path, name: str | None = None) -> Given:
    """Reads the file at `path`; `name` is the subject's, by default the file's own without its suffix.

    Raises UsageError as `read_artifact` does, for inputs that are no numeric tensors of known rank, and for two
    inputs or outputs of one name.
    """
    model = load_model(path)
    subject_name = slug(name or path.stem)
    opset = default_opset(model, path)
    key = ArtifactKey(subject_name, EXPORTER, opset, _dominant_dtype(model))
    artifact = read_artifact(path, key, opset_asked=opset, seconds=None, cached=False)
    _refuse_twins(artifact, path)
    _refuse_untyped(model, artifact, path)
    _refuse_empty(artifact, path)
    flow, notes = Dataflow(model), list[str]()
    axes = find_axes(artifact.inputs, flow.table_limits() | _position_limits(artifact, flow), notes)
    subject = Subject(
        name=subject_name,
        kind="onnx",
        origin=str(path),
        source="the file",
        summary=f"{path.name}, by {artifact.producer or 'an unknown exporter'}, opset {opset}",
        inputs=tuple(_input(value, axes, flow, key.dtype, notes) for value in artifact.inputs),
        outputs=tuple(_output(value, axes) for value in _typed_outputs(model, artifact)),
        axes=axes.axes,
        dtypes=(key.dtype,),
        parameters=sum(int(np.prod(tensor.dims)) for tensor in model.graph.initializer),
    )
    return Given(artifact, pair_caches(subject, notes), tuple(notes))


def _position_limits(artifact: Artifact, flow: Dataflow) -> dict[SizeOf, int]:
    """The length of the table that positions index, as the most that their input may count."""
    if any("past" in value.name.lower() for value in artifact.inputs):
        return {}  # the past counts too
    rows = {v.name: (len(v.dims) - 1, flow.rows_indexed_by(v.name)) for v in artifact.inputs if counts_tokens(v.name)}
    return {(name, place): count for name, (place, count) in rows.items() if count is not None and place >= 0}


def _dominant_dtype(model: ModelProto) -> str:
    """The floating dtype with the most bytes among the weights, else float32.

    Where all that goes in and comes out is narrower, it is the model's dtype: a half-precision file may hold
    nothing but float32 tables.
    """
    weights: Counter[int] = Counter()
    for tensor in model.graph.initializer:
        if tensor.data_type in FLOAT_BITS:
            weights[tensor.data_type] += tensor_bytes(tensor)
    declared = {v.type.tensor_type.elem_type for v in (*model.graph.input, *model.graph.output)} & FLOAT_BITS.keys()
    widest = max(declared, key=FLOAT_BITS.__getitem__, default=TensorProto.FLOAT)
    heaviest = max(weights, key=weights.__getitem__, default=widest)
    return dtype_name(min(heaviest, widest, key=FLOAT_BITS.__getitem__) if declared else heaviest)


def _refuse_twins(artifact: Artifact, path: Path) -> None:
    for side, values in (("inputs", artifact.inputs), ("outputs", artifact.outputs)):
        twins = [name for name, count in Counter(value.name for value in values).items() if count > 1]
        if twins:
            raise UsageError(f"{path} names two {side} alike", expected="one name each", got=", ".join(twins))


def _refuse_untyped(model: ModelProto, artifact: Artifact, path: Path) -> None:
    shaped = {v.name for v in model.graph.input if v.type.tensor_type.HasField("shape")}
    for value in artifact.inputs:
        if value.name not in shaped or not _is_numeric(value.dtype):
            raise UsageError(
                f"{path}: input {value.name!r} cannot be fed",
                expected="a tensor of numbers or booleans whose rank is known",
                got=f"{value.dtype} of unknown rank" if _is_numeric(value.dtype) else value.dtype,
                remedy="declare the input's type and rank in the file",
            )


def _refuse_empty(artifact: Artifact, path: Path) -> None:
    """Nothing is ever compared where there is no output, or none with an element."""
    if all(0 in value.dims for value in artifact.outputs):
        got = ", ".join(f"{v.name} {tuple(v.dims)}" for v in artifact.outputs) or "no output"
        raise UsageError(
            f"{path}: there is nothing to compare",
            expected="an output with at least one element",
            got=got,
            remedy="export the model again with the sizes it is to serve",
        )


def _is_numeric(dtype: str) -> bool:
    return dtype == "bfloat16" or (dtype in np.sctypeDict and np.dtype(dtype).kind in "fiub")


def _input(value: FileInput, axes: FileAxes, flow: Dataflow, own: str, notes: list[str]) -> TensorSpec:
    dims = axes.dims[value.name]
    dtype = FLOATING if value.dtype == own else value.dtype
    floating = value.dtype == "bfloat16" or np.dtype(value.dtype).kind == "f"
    if "mask" in value.name.lower():
        meaning: MaskMeaning = "additive" if floating else "keep"
        said = "is added to the scores" if floating else "1 keeps a position"
        notes.append(f"input {value.name!r} is taken for a mask by its name: {said}")
        return TensorSpec(value.name, dims, dtype, "mask", mask_meaning=meaning)
    if floating:
        return TensorSpec(value.name, dims, dtype, "past" if "past" in value.name.lower() else "features")
    rows = flow.rows_indexed_by(value.name) if value.dtype != "bool" else None
    if value.dtype != "bool" and counts_tokens(value.name):
        notes.append(f"input {value.name!r} is taken for positions by its name: it counts the tokens, past ones too")
        return TensorSpec(value.name, dims, dtype, "positions", high=ANYWHERE if rows is None else rows - 1)
    if rows is None:
        notes.append(f"input {value.name!r} is fed with 0 and 1: no table is seen that it indexes")
        return TensorSpec(value.name, dims, dtype, "other")
    notes.append(f"input {value.name!r} is fed with 0 to {rows - 1}: it indexes a table of {rows} rows")
    return TensorSpec(value.name, dims, dtype, "tokens", high=rows - 1)


def _typed_outputs(model: ModelProto, artifact: Artifact) -> tuple[FileInput, ...]:
    """The outputs; where the file leaves their dims open, with those that shape inference finds."""
    inferred = {v.name: v for v in onnx.shape_inference.infer_shapes(_without_weights(model)).graph.output}
    return tuple(v if v.dims else describe_value(inferred[v.name]) for v in artifact.outputs)


def _without_weights(model: ModelProto) -> ModelProto:
    """A copy whose large weights have no data, so that inference stays below protobuf's limit."""
    copy = ModelProto()
    copy.CopyFrom(model)
    for tensor in copy.graph.initializer:
        if len(tensor.raw_data) > 1024:
            tensor.ClearField("raw_data")
            tensor.data_location = TensorProto.EXTERNAL
    return copy


def _output(value: FileInput, axes: FileAxes) -> OutputSpec:
    lower = value.name.lower()
    role: OutputRole = "logits" if "logit" in lower else "present" if "present" in lower else "features"
    known = {axis.symbol for axis in axes.axes}
    dims = tuple(_output_dim(dim, known, axes) for dim in value.dims)
    return OutputSpec(value.name, dims, role)


def _output_dim(dim: int | str | None, known: set[str], axes: FileAxes) -> int | str | None:
    """A number, an axis, a sum of axes such as `past+sequence`, or None where the file's symbol is no axis."""
    if not isinstance(dim, str):
        return dim
    parts = [axes.symbols.get(part, part) for part in _SUM.split(dim)]
    return "+".join(parts) if {part for part in parts if not part.isdigit()} <= known else None
