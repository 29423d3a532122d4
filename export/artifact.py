"""Reading an ONNX file into the record of what it is: opsets, inputs, outputs, operators, bytes, hash."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from google.protobuf.message import DecodeError  # type: ignore[import-untyped]  # protobuf ships no types
from onnx import ModelProto, ValueInfoProto

from onnxparity.artifact import Artifact, FileInput
from onnxparity.cache import sha256_of
from onnxparity.errors import UsageError
from onnxparity.export.external import external_files
from onnxparity.export.graph import dims, dtype_name, elem_type, graph_inputs, graphs, nodes, operator, tensor_bytes
from onnxparity.plan import ArtifactKey

__all__ = ["default_opset", "describe_value", "load_model", "read_artifact"]

_DEFAULT_DOMAINS = ("", "ai.onnx")


def read_artifact(
    path: Path,
    key: ArtifactKey,
    *,
    opset_asked: int,
    seconds: float | None,
    cached: bool,
    warnings: tuple[str, ...] = (),
) -> Artifact:
    """The record of the file at `path`. `seconds` is what the export took, None where there was none.

    Raises UsageError for a file that is missing, no ONNX model, damaged, or without its external data.
    """
    model = load_model(path)
    external = external_files(model, path)
    opsets = {entry.domain: int(entry.version) for entry in model.opset_import}
    return Artifact(
        key=key,
        path=str(path),
        sha256=sha256_of(path, *external),
        bytes=sum(file.stat().st_size for file in (path, *external)),
        external_data=bool(external),
        opset_asked=opset_asked,
        opset_got=default_opset(model, path),
        ir_version=int(model.ir_version),
        domains={domain: opsets[domain] for domain in sorted(opsets) if domain not in _DEFAULT_DOMAINS},
        inputs=tuple(map(describe_value, graph_inputs(model.graph))),
        outputs=tuple(map(describe_value, model.graph.output)),
        op_census=dict(sorted(Counter(map(operator, nodes(model))).items())),
        initializer_bytes=_initializer_bytes(model),
        seconds=seconds,
        cached=cached,
        warnings=warnings,
        producer=f"{model.producer_name} {model.producer_version}".strip(),
    )


def load_model(path: Path) -> ModelProto:
    """The model without its external data. Raises UsageError as `read_artifact` does."""
    try:
        data = path.read_bytes()
    except OSError as error:
        remedy = "give the path of an .onnx file"
        expected, got = "a file that can be read", error.strerror or str(error)
        raise UsageError(f"cannot read {path}", expected=expected, got=got, remedy=remedy) from error
    model = ModelProto()
    try:
        model.ParseFromString(data)
        # Text and random bytes can parse as fields nobody knows, and a file cut between two fields parses too.
        whole = model.ir_version > 0 and model.HasField("graph") and len(model.opset_import) > 0
        problem = "fields that every ONNX model has are missing"
    except DecodeError as error:
        whole, problem = False, str(error) or "the protobuf message does not parse"
    if whole:
        return model
    # An ONNX file starts with field 1, the IR version: tag 0x08, then a small number.
    looks_like_one = len(data) > 2 and data[0] == 0x08 and 0 < data[1] < 32
    raise UsageError(
        f"{path} is {'a truncated or damaged ONNX file' if looks_like_one else 'not an ONNX file'}",
        expected="an ONNX model in protobuf form, at most 2 GiB without its external data",
        got=f"{len(data)} bytes; {problem}",
        remedy="copy or export the file again" if looks_like_one else "give the path of an .onnx file",
    )


def default_opset(model: ModelProto, path: Path) -> int:
    """The version of the default operator set. Raises UsageError where the model imports none."""
    for entry in model.opset_import:
        if entry.domain in _DEFAULT_DOMAINS:
            return int(entry.version)
    got = ", ".join(f"{entry.domain} {entry.version}" for entry in model.opset_import)
    raise UsageError(f"{path} imports no default operator set", expected="an import of the domain ''", got=got)


def describe_value(value: ValueInfoProto) -> FileInput:
    """One input or output; the kind of type stands for the dtype where it is no tensor, such as `sequence_type`."""
    kind = value.type.WhichOneof("value")
    dtype = dtype_name(elem_type(value)) if kind == "tensor_type" else kind or "undefined"
    return FileInput(value.name, dtype, dims(value))


def _initializer_bytes(model: ModelProto) -> int:
    dense = sum(tensor_bytes(tensor) for graph in graphs(model) for tensor in graph.initializer)
    sparse = (s for graph in graphs(model) for s in graph.sparse_initializer)
    return dense + sum(tensor_bytes(s.values) + tensor_bytes(s.indices) for s in sparse)
