"""Reference values on disk read back exactly, and an example cannot stand in for a drawn regime."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from onnxparity.errors import SubjectError
from onnxparity.feeding.feeds import draw
from onnxparity.feeding.references import References, feeds_at, read_arrays, write_arrays, write_failure
from onnxparity.planning.grid import Point
from tests.unit.hub.subjects import subject

POINT = Point("b2-t5", "normal")
ARRAYS = {
    "y": np.array([[1.5, np.nan, -np.inf]]),
    "scalar": np.array(2.0),
    "file": np.array([1, 2], np.int64),
    "allow_pickle": np.array([True]),
    "layer.0/attention": np.zeros((0, 3)),
}


def test_arrays_read_back_under_any_name(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "values.npz"
    write_arrays(path, ARRAYS)
    found = read_arrays(path)
    assert set(found) == set(ARRAYS)
    for name, array in ARRAYS.items():
        assert found[name].dtype == array.dtype and found[name].shape == array.shape
        assert np.array_equal(found[name], array, equal_nan=array.dtype.kind == "f")


def test_no_output_at_all_reads_back_as_none(tmp_path: Path) -> None:
    write_arrays(tmp_path / "values.npz", {})
    assert read_arrays(tmp_path / "values.npz") == {}


def test_each_dtype_shape_and_regime_has_its_file(tmp_path: Path) -> None:
    references = References(str(tmp_path), {}, {}, {})
    points = [Point(s, r) for s in ("b1-t1", "b1-t11") for r in ("normal", "mask-empty", "mask-empty-1e4", "v1.5")]
    paths = {references.path(dtype, point) for dtype in ("float32", "float16") for point in points}
    assert len(paths) == 16
    for path in paths:
        write_arrays(path, {"y": np.array(float(len(str(path))))})
    assert all(read_arrays(path)["y"] == len(str(path)) for path in paths)


def test_a_value_that_is_not_there_is_an_error_with_its_reason(tmp_path: Path) -> None:
    references = References(str(tmp_path), {}, {}, {})
    with pytest.raises(SubjectError, match="never computed"):
        references.want("float32", POINT)
    write_failure(references.path("float32", POINT), "it ran out of words")
    with pytest.raises(SubjectError, match="out of words"):
        references.want("float32", POINT)
    write_arrays(references.path("float32", POINT), {"y": np.ones(3)})
    assert references.want("float32", POINT)["y"].tolist() == [1.0, 1.0, 1.0]


def test_a_point_is_drawn_or_is_the_example_of_its_name() -> None:
    examples = {"sentences": {"x": np.ones((1, 2, 3))}}
    found = feeds_at(subject(), POINT, "float16", examples)
    assert np.array_equal(found["x"], draw(subject(), {"batch": 2, "sequence": 5}, "normal", "float16")["x"])
    assert feeds_at(subject(), Point("b1-t2", "sentences"), "float32", examples) is examples["sentences"]


def test_an_example_that_is_called_like_a_regime_is_an_error() -> None:
    examples = {"normal": {"x": np.ones((1, 2, 3))}}
    with pytest.raises(SubjectError, match="normal"):
        feeds_at(subject(), POINT, "float32", examples)


def test_an_unknown_regime_is_an_error() -> None:
    with pytest.raises(SubjectError, match="unknown regime"):
        feeds_at(subject(), Point("b2-t5", "sentences"), "float32", {})
