"""Subjects, small ONNX files and keys that the export tests share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import onnx
import pytest
from onnx import NodeProto, TensorProto, helper

from onnxparity.artifact import Artifact
from onnxparity.case import Axis, OutputSpec, Subject, TensorSpec
from onnxparity.export.artifact import read_artifact
from onnxparity.plan import ArtifactKey

Dims = tuple[int | str, ...]
MakeSubject = Callable[..., Subject]
WriteFile = Callable[..., Path]
ReadFile = Callable[..., Artifact]

AXES = {
    "batch": Axis("batch", "b", "batch"),
    "sequence": Axis("sequence", "t", "sequence"),
    "source": Axis("source", "s", "source"),
    "past": Axis("past", "p", "past", low=0),
}


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """No test reads or writes the user's cache."""
    monkeypatch.setenv("ONNXPARITY_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def make_subject() -> MakeSubject:
    """A subject from its inputs' dims, with an axis for each symbol in them."""

    def make(inputs: dict[str, Dims] | None = None, outputs: Sequence[str] = ("y",), **dtypes: str) -> Subject:
        given = inputs or {"x": ("batch", "sequence", 8)}
        specs = tuple(TensorSpec(name, dims, dtypes.get(name, "float")) for name, dims in given.items())
        symbols = dict.fromkeys(d for dims in given.values() for d in dims if isinstance(d, str))
        return Subject(
            name="small",
            kind="catalogue",
            origin="small",
            source="the tests",
            summary="a small module",
            inputs=specs,
            outputs=tuple(OutputSpec(name, (None,)) for name in outputs),
            axes=tuple(AXES[symbol] for symbol in symbols),
        )

    return make


@pytest.fixture
def write_file(tmp_path: Path) -> WriteFile:
    """Writes a model of given nodes from `x` to `y`, both float (batch, 8) unless said otherwise."""

    def write(
        nodes: Sequence[NodeProto],
        *,
        initializers: Sequence[TensorProto] = (),
        dims: Sequence[int | str | None] = ("batch", 8),
        out: Sequence[int | str | None] | None = None,
        dtype: int = TensorProto.FLOAT,
        opset: int = 20,
        name: str = "model.onnx",
        inputs: Sequence[onnx.ValueInfoProto] | None = None,
        outputs: Sequence[onnx.ValueInfoProto] | None = None,
        functions: Sequence[onnx.FunctionProto] = (),
        domains: Sequence[str] = (),
    ) -> Path:
        x = helper.make_tensor_value_info("x", dtype, dims)
        y = helper.make_tensor_value_info("y", dtype, dims if out is None else out)
        graph = helper.make_graph(list(nodes), "g", list(inputs or [x]), list(outputs or [y]), list(initializers))
        imports = [helper.make_opsetid("", opset), *(helper.make_opsetid(d, 1) for d in domains)]
        model = helper.make_model(graph, opset_imports=imports, functions=list(functions), ir_version=10)
        path = tmp_path / name
        onnx.save(model, path)
        return path

    return write


@pytest.fixture
def read_file() -> ReadFile:
    """The artifact of a file that was asked for at `opset` in `dtype`."""

    def read(path: Path, *, opset: int = 20, dtype: str = "float32") -> Artifact:
        key = ArtifactKey("small", "dynamo", opset, dtype)
        return read_artifact(path, key, opset_asked=opset, seconds=None, cached=False)

    return read


@pytest.fixture
def key() -> Callable[..., ArtifactKey]:
    """A key of the small subject by the dynamo exporter."""

    def make(opset: int = 20, dtype: str = "float32") -> ArtifactKey:
        return ArtifactKey("small", "dynamo", opset, dtype)

    return make
