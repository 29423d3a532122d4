"""Reading a file: what it is, and a clear word for every file that is not one."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from onnxparity.artifact import Artifact, FileInput
from onnxparity.errors import UsageError

WriteFile = Callable[..., Path]
ReadFile = Callable[..., Artifact]

RELU = helper.make_node("Relu", ["x"], ["y"], name="r")


def external(path: Path, *, location: str = "weights.bin", bytes_on_disk: int = 32, length: str = "32") -> Path:
    """The model at `path` with an initializer `w` of 8 floats that lies in `location`."""
    model = onnx.load(path)
    tensor = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[8], data_location=TensorProto.EXTERNAL)
    for name, value in (("location", location), ("offset", "0"), ("length", length)):
        tensor.external_data.add(key=name, value=value)
    model.graph.initializer.append(tensor)
    onnx.save(model, path)
    if bytes_on_disk:
        (path.parent / "weights.bin").write_bytes(bytes(bytes_on_disk))
    return path


def test_the_record_says_what_the_file_is(write_file: WriteFile, read_file: ReadFile) -> None:
    weight = numpy_helper.from_array(np.ones((8, 8), np.float32), "w")
    path = write_file([helper.make_node("MatMul", ["x", "w"], ["y"])], initializers=[weight], dims=["batch", None, 8])

    artifact = read_file(path)

    assert artifact.inputs == (FileInput("x", "float32", ("batch", None, 8)),)
    assert artifact.outputs == (FileInput("y", "float32", ("batch", None, 8)),)
    assert (artifact.opset_got, artifact.ir_version, artifact.domains) == (20, 10, {})
    assert artifact.op_census == {"MatMul": 1}
    assert artifact.initializer_bytes == 256
    assert artifact.bytes == path.stat().st_size
    assert artifact.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
    assert not artifact.external_data
    assert not artifact.cached


def test_the_census_counts_subgraphs_and_functions(write_file: WriteFile, read_file: ReadFile) -> None:
    value = helper.make_tensor_value_info("v", TensorProto.FLOAT, None)
    branches = [helper.make_graph([helper.make_node("Neg", ["h"], ["v"])], name, [], [value]) for name in "ab"]
    function = helper.make_function(
        "own", "Twice", ["a"], ["b"], [helper.make_node("Add", ["a", "a"], ["b"])], [helper.make_opsetid("", 20)]
    )
    flag = numpy_helper.from_array(np.array(True), "flag")
    nodes = [
        helper.make_node("Twice", ["x"], ["h"], domain="own"),
        helper.make_node("If", ["flag"], ["y"], then_branch=branches[0], else_branch=branches[1]),
    ]
    path = write_file(nodes, initializers=[flag], functions=[function], domains=["own"])

    artifact = read_file(path)

    assert artifact.op_census == {"Add": 1, "If": 1, "Neg": 2, "own::Twice": 1}
    assert artifact.domains == {"own": 1}


@pytest.mark.parametrize(
    ("element", "name"),
    [(TensorProto.BFLOAT16, "bfloat16"), (TensorProto.FLOAT16, "float16"), (TensorProto.BOOL, "bool")],
)
def test_dtypes_are_numpy_names(write_file: WriteFile, read_file: ReadFile, element: int, name: str) -> None:
    path = write_file([helper.make_node("Identity", ["x"], ["y"])], dtype=element)

    assert read_file(path).inputs[0].dtype == name


def test_an_input_that_is_an_initializer_need_not_be_fed(write_file: WriteFile, read_file: ReadFile) -> None:
    inputs = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [8]) for n in ("x", "w")]
    weight = numpy_helper.from_array(np.ones(8, np.float32), "w")
    path = write_file([helper.make_node("Add", ["x", "w"], ["y"])], inputs=inputs, initializers=[weight], out=[8])

    assert [i.name for i in read_file(path).inputs] == ["x"]


def test_packed_weights_count_by_their_bits(write_file: WriteFile, read_file: ReadFile) -> None:
    packed = helper.make_tensor("q", TensorProto.INT4, [3], [1, 2, 3])

    assert read_file(write_file([RELU], initializers=[packed])).initializer_bytes == 2


def test_external_data_belongs_to_the_artifact(write_file: WriteFile, read_file: ReadFile) -> None:
    path = external(write_file([RELU]))
    before = read_file(path)
    (path.parent / "weights.bin").write_bytes(b"\1" + bytes(31))
    after = read_file(path)

    assert before.external_data
    assert before.bytes == path.stat().st_size + 32
    assert before.sha256 == hashlib.sha256(path.read_bytes() + bytes(32)).hexdigest()
    assert after.sha256 != before.sha256


@pytest.mark.parametrize("location", ["../weights.bin", "/etc/passwd", "a/../../w", "C:\\w.bin", "..\\w.bin", ""])
def test_external_data_outside_the_folder_is_refused(write_file: WriteFile, read_file: ReadFile, location: str) -> None:
    path = external(write_file([RELU]), location=location)

    with pytest.raises(UsageError, match="outside the model's folder"):
        read_file(path)


def test_a_link_that_leads_outside_is_refused(
    write_file: WriteFile, read_file: ReadFile, tmp_path_factory: pytest.TempPathFactory
) -> None:
    elsewhere = tmp_path_factory.mktemp("elsewhere") / "w.bin"
    elsewhere.write_bytes(bytes(32))
    path = external(write_file([RELU]), bytes_on_disk=0)
    (path.parent / "weights.bin").symlink_to(elsewhere)

    with pytest.raises(UsageError, match="outside the model's folder"):
        read_file(path)


@pytest.mark.parametrize(
    ("bytes_on_disk", "length", "said"),
    [(0, "32", "no such file"), (31, "32", "truncated"), (32, "28", "at least 32 bytes"), (32, "many", "numbers")],
)
def test_missing_or_short_external_data_is_said(
    write_file: WriteFile, read_file: ReadFile, bytes_on_disk: int, length: str, said: str
) -> None:
    path = external(write_file([RELU]), bytes_on_disk=bytes_on_disk, length=length)

    with pytest.raises(UsageError, match=said) as raised:
        read_file(path)
    assert "'w'" in raised.value.what


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "not an ONNX file"),
        (b"import torch\n\nprint('no model')\n", "not an ONNX file"),
        (bytes(range(256)) * 8, "not an ONNX file"),
        (b"\x08\x0a", "not an ONNX file"),
        (b"\x08\x0a\x12\x07pytorch", "truncated or damaged"),
    ],
)
def test_what_is_no_model_is_said(tmp_path: Path, read_file: ReadFile, content: bytes, said: str) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(content)

    with pytest.raises(UsageError, match=said) as raised:
        read_file(path)
    assert raised.value.remedy


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9, 0.99])
def test_a_truncated_model_is_said(write_file: WriteFile, read_file: ReadFile, share: float) -> None:
    weight = numpy_helper.from_array(np.ones(500, np.float32), "w")
    path = write_file([RELU], initializers=[weight])
    data = path.read_bytes()
    path.write_bytes(data[: int(len(data) * share)])

    with pytest.raises(UsageError, match="truncated or damaged"):
        read_file(path)


def test_a_missing_file_and_a_folder_are_said(tmp_path: Path, read_file: ReadFile) -> None:
    with pytest.raises(UsageError, match="No such file"):
        read_file(tmp_path / "absent.onnx")
    with pytest.raises(UsageError, match="directory"):
        read_file(tmp_path)


def test_a_file_without_a_default_opset_is_said(write_file: WriteFile, read_file: ReadFile) -> None:
    path = write_file([RELU])
    model = onnx.load(path)
    model.opset_import[0].domain = "com.microsoft"
    onnx.save(model, path)

    with pytest.raises(UsageError, match="default operator set"):
        read_file(path)
