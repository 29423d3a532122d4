"""Folders of `input_N.pb` are read by name or number, whole or not at all."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from onnxparity.errors import UsageError
from onnxparity.export.given_tensors import read_folder, read_tensor
from onnxparity.protocols import Array

X, IDS = np.arange(6, dtype=np.float32).reshape(2, 3), np.array([1, 2])


def write(path: Path, array: Array, name: str = "") -> None:
    """One serialised tensor."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(numpy_helper.from_array(array, name).SerializeToString())


def refusal(call: Callable[[], object]) -> UsageError:
    """The error, which must have all four parts."""
    with pytest.raises(UsageError) as raised:
        call()
    assert raised.value.what and raised.value.expected and raised.value.got and raised.value.remedy
    return raised.value


def test_tensors_without_names_go_by_their_number(tmp_path: Path) -> None:
    write(tmp_path / "one" / "input_0.pb", X)
    write(tmp_path / "one" / "input_1.pb", IDS)
    (found,) = read_folder(tmp_path / "one", ("x", "ids"), ("y",))
    assert found.name == "given-one"
    assert np.array_equal(found.feeds["x"], X) and np.array_equal(found.feeds["ids"], IDS)
    assert found.outputs == {}


def test_tensors_with_the_models_names_go_by_them(tmp_path: Path) -> None:
    write(tmp_path / "input_0.pb", IDS, "ids")
    write(tmp_path / "input_1.pb", X, "x")
    (found,) = read_folder(tmp_path, ("x", "ids"), ())
    assert np.array_equal(found.feeds["x"], X)
    write(tmp_path / "input_1.pb", X, "another")
    (found,) = read_folder(tmp_path, ("x", "ids"), ())
    assert np.array_equal(found.feeds["x"], IDS), "a name that is not the model's says nothing"


def test_each_data_set_is_a_set_with_its_recorded_outputs(tmp_path: Path) -> None:
    for number in (0, 2, 10):
        write(tmp_path / "data" / f"test_data_set_{number}" / "input_0.pb", X + number)
        write(tmp_path / "data" / f"test_data_set_{number}" / "output_0.pb", X - number)
    sets = read_folder(tmp_path / "data", ("x",), ("y",))
    assert [s.name for s in sets] == [f"given-data-test_data_set_{n}" for n in (0, 2, 10)]
    assert [float(s.feeds["x"][0, 0]) for s in sets] == [0.0, 2.0, 10.0]
    assert [float(s.outputs["y"][0, 0]) for s in sets] == [0.0, -2.0, -10.0]


def test_every_dtype_is_read_exactly(tmp_path: Path) -> None:
    for dtype in ("float16", "float64", "int32", "bool", "uint8"):
        write(tmp_path / "t.pb", X.astype(dtype), "x")
        name, array = read_tensor(tmp_path / "t.pb")
        assert (name, array.dtype.name) == ("x", dtype)
        assert np.array_equal(array, X.astype(dtype))


def test_a_gap_a_surplus_and_an_absence_are_told(tmp_path: Path) -> None:
    write(tmp_path / "gap" / "input_1.pb", X)
    write(tmp_path / "more" / "input_0.pb", X)
    write(tmp_path / "more" / "input_1.pb", X)
    write(tmp_path / "half" / "input_0.pb", X)
    write(tmp_path / "half" / "output_1.pb", X)
    for folder, got in (("gap", "input_1.pb"), ("more", "input_0.pb, input_1.pb"), ("half", "output_1.pb")):
        error = refusal(lambda folder=folder: read_folder(tmp_path / folder, ("x",), ("y", "z")))  # type: ignore[misc]  # a default binds the loop's value
        assert error.got == got


@pytest.mark.parametrize("there", [(), ("readme.txt",), ("input_0.npy", "test_data_set_0")])
def test_a_folder_without_inputs_is_told_with_what_it_holds(tmp_path: Path, there: tuple[str, ...]) -> None:
    for name in there:
        (tmp_path / name).mkdir()
    error = refusal(lambda: read_folder(tmp_path, ("x",), ()))
    assert error.got == (", ".join(there) or "an empty folder")


def test_a_damaged_tensor_is_never_half_read(tmp_path: Path) -> None:
    path = tmp_path / "t.pb"
    whole = numpy_helper.from_array(np.arange(50, dtype=np.float32), "x").SerializeToString()
    for end in range(len(whole)):
        path.write_bytes(whole[:end])
        refusal(lambda: read_tensor(path))
    path.write_bytes(whole)
    assert read_tensor(path)[1].size == 50


def test_a_tensor_whose_values_lie_elsewhere_is_none(tmp_path: Path) -> None:
    tensor = numpy_helper.from_array(X, "x")
    tensor.data_location = onnx.TensorProto.EXTERNAL
    (tmp_path / "t.pb").write_bytes(tensor.SerializeToString())
    assert "lie elsewhere" in str(refusal(lambda: read_tensor(tmp_path / "t.pb")).got)
