"""The checks that every exported file must pass, seen to fail."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from onnxparity.errors import ExportError, LintError
from onnxparity.export.check import check_file

WriteFile = Callable[..., Path]


def test_a_good_file_passes(write_file: WriteFile) -> None:
    check_file(write_file([helper.make_node("Relu", ["x"], ["y"])]), external=False)


def test_an_operator_that_the_opset_does_not_have_is_an_export_error(write_file: WriteFile) -> None:
    path = write_file([helper.make_node("RMSNormalization", ["x", "x"], ["y"])], opset=20)

    with pytest.raises(ExportError, match="not a valid ONNX file") as raised:
        check_file(path, external=False)
    assert "RMSNormalization" in str(raised.value.got)


def test_a_declared_shape_that_cannot_be_is_a_lint_error(write_file: WriteFile) -> None:
    weight = numpy_helper.from_array(np.ones((8, 4), np.float32), "w")
    path = write_file([helper.make_node("MatMul", ["x", "w"], ["y"])], initializers=[weight], out=["batch", 5])

    with pytest.raises(LintError, match="contradict"):
        check_file(path, external=False)


def test_external_weights_are_checked_where_they_lie(write_file: WriteFile) -> None:
    weight = numpy_helper.from_array(np.ones((8, 4), np.float32), "w")
    good = write_file([helper.make_node("MatMul", ["x", "w"], ["y"])], initializers=[weight], out=["batch", 4])
    onnx.save(onnx.load(good), good, save_as_external_data=True, location="w.data", size_threshold=0)
    before = sorted(good.parent.iterdir())

    check_file(good, external=True)
    assert sorted(good.parent.iterdir()) == before

    bad = onnx.load(good, load_external_data=False)
    bad.graph.output[0].CopyFrom(helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 5]))
    onnx.save(bad, good)
    with pytest.raises(LintError, match="contradict"):
        check_file(good, external=True)
