"""Operators beside the Transformer's own, where a known answer tells more than a case; and a size for each rounding."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import helper

from onnxparity.protocols import Array
from onnxparity.runtimes.float64_graph import Float64Graph
from onnxparity.runtimes.monte_carlo import noise
from onnxparity.runtimes.operator_table import ROUNDING, Rounding
from onnxparity.runtimes.rounding_sizes import SIZED
from tests.unit.runtimes.files import model, value


def graph_of(operator: str, inputs: dict[str, Array], *, opset: int = 23, **attributes: Any) -> Float64Graph:
    """One node as a graph, its floating inputs declared as float32."""  # Any: the node's attributes
    node = helper.make_node(operator, list(inputs), ["y"], **attributes)
    declared = [value(n, v.shape, "float32" if v.dtype.kind == "f" else v.dtype.name) for n, v in inputs.items()]
    return Float64Graph(model([node], declared, [value("y", [])], opset=opset))


def run(operator: str, *inputs: Array, **more: Any) -> Array:
    """The only output of one node."""  # Any: the node's attributes
    fed = {f"i{place}": each for place, each in enumerate(inputs)}
    return graph_of(operator, fed, **more).run(fed)["y"]


def test_every_operator_whose_rounding_has_a_formula_has_it() -> None:
    assert {name for name, kind in ROUNDING.items() if kind is Rounding.SIZED} == set(SIZED)


def test_the_identity_makes_a_grid_of_cell_centres() -> None:
    identity = np.array([[[1.0, 0, 0], [0, 1, 0]]])
    grid = run("AffineGrid", identity, np.array([1, 1, 2, 4]))
    np.testing.assert_allclose(grid[0, 0, :, 0], [-0.75, -0.25, 0.25, 0.75])
    np.testing.assert_allclose(grid[0, :, 0, 1], [-0.5, 0.5])
    ends = run("AffineGrid", identity, np.array([1, 1, 2, 3]), align_corners=1)
    np.testing.assert_allclose(ends[0, 0, :, 0], [-1, 0, 1])


@pytest.mark.parametrize(
    ("direction", "count", "wanted"),
    [("RIGHT", 1, [-4, 3]), ("LEFT", 1, [-16, 14]), ("RIGHT", 8, [-1, 0]), ("LEFT", 8, [0, 0]), ("RIGHT", -1, [-1, 0])],
)
def test_bits_that_leave_are_gone(direction: str, count: int, wanted: list[int]) -> None:
    x = np.array([-8, 7], np.int8)
    np.testing.assert_array_equal(run("BitShift", x, np.array([count], np.int8), opset=28, direction=direction), wanted)


def test_mean_variance_normalisation_leaves_mean_zero_and_variance_one() -> None:
    x = np.random.default_rng(0).standard_normal((2, 3, 4, 5)) * 7 + 2
    y = run("MeanVarianceNormalization", x)
    np.testing.assert_allclose(y.mean((0, 2, 3)), 0, atol=1e-12)
    np.testing.assert_allclose(y.var((0, 2, 3)), 1, rtol=1e-8)


def test_windows_are_periodic_unless_told_otherwise() -> None:
    ten, eleven = np.array(10, np.int32), np.array(11, np.int32)
    for window in ("HannWindow", "HammingWindow", "BlackmanWindow"):
        symmetric = run(window, eleven, periodic=0)
        np.testing.assert_allclose(run(window, ten), symmetric[:-1], rtol=1e-12, atol=1e-16)
        np.testing.assert_allclose(symmetric, symmetric[::-1], rtol=1e-12, atol=1e-16)
        assert symmetric.dtype == np.float64


def test_a_product_with_a_vector_has_a_noise() -> None:
    rng = np.random.default_rng(0)
    fed = {"a": rng.standard_normal((2, 3, 4)), "b": rng.standard_normal(4)}
    measured = noise(graph_of("MatMul", fed), fed, draws=3, seed=0)["y"]
    assert measured.shape == (2,) and 0 < measured.max() < 1e-6


def test_a_transform_as_written_rounds_more_than_a_fast_one() -> None:
    x = np.random.default_rng(0).standard_normal((1, 64, 1))
    fast, written = ({"x": x[:, :n]} for n in (64, 63))
    small, large = (
        noise(graph_of("DFT", f, opset=17, axis=1), f, draws=3, seed=0)["y"].mean() for f in (fast, written)
    )
    assert 0 < 3 * small < large
