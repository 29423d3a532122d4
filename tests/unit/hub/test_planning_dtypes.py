"""Which dtypes are planned where: bfloat16 only where somebody has kernels for it, unless it is the subject's own."""

from __future__ import annotations

import dataclasses

import pytest

from onnxparity.case import parse_shape
from onnxparity.plan import ArtifactKey
from onnxparity.planning import grid
from onnxparity.planning.planner import HEAVY, LARGE, MOST_POSITIONS, Options, Target, plan
from tests.unit.hub.subjects import subject

RUNTIMES = ("torch-eager", "onnx-float64", "onnx-spec", "ort-cpu", "ort-cpu-basic", "ort-cuda")
OPTIONS = Options(opsets=(18,), dtypes=("bfloat16",), runtimes=RUNTIMES)
TARGET = Target(dataclasses.replace(subject(), dtypes=("float32", "float16", "bfloat16")))
HELD = {"onnx-float64", "onnx-spec", "ort-cuda"}


def runtimes(target: Target = TARGET, options: Options = OPTIONS) -> set[str]:
    """The runtimes that judge an artifact."""
    return {c.runtime for c in plan(target, options) if c.artifact.exporter != "torch"}


def test_a_runtime_without_kernels_is_left_out_of_bfloat16() -> None:
    assert runtimes() == HELD
    assert runtimes(options=dataclasses.replace(OPTIONS, dtypes=("float16",))) == HELD | {"ort-cpu", "ort-cpu-basic"}


def test_a_runtime_that_is_asked_for_by_name_is_tried_all_the_same() -> None:
    assert runtimes(options=dataclasses.replace(OPTIONS, asked=("ort-cpu",))) == HELD | {"ort-cpu"}


def test_a_file_or_a_module_that_comes_in_bfloat16_is_tried_everywhere() -> None:
    own = dataclasses.replace(subject(), dtypes=("bfloat16",))
    given = Target(own, given=ArtifactKey("subject", "file", 18, "bfloat16"))
    for target in (Target(own), given):
        assert runtimes(target) == HELD | {"ort-cpu", "ort-cpu-basic"}


def test_a_subjects_own_dtype_is_planned_where_none_was_asked_for() -> None:
    target = Target(dataclasses.replace(subject(), dtypes=("bfloat16",)))
    asked = dataclasses.replace(OPTIONS, dtypes=("float32", "float16"))
    assert plan(target, asked) == ()
    assert {c.artifact.dtype for c in plan(target, dataclasses.replace(asked, own_dtype=True))} == {"bfloat16"}
    both = Target(subject())
    assert {c.artifact.dtype for c in plan(both, dataclasses.replace(asked, own_dtype=True))} == {"float32", "float16"}


@pytest.mark.parametrize("parameters", [HEAVY, LARGE - 1])
def test_a_heavy_subject_is_tried_at_the_whole_grid_in_small_batches(parameters: int) -> None:
    heavy = dataclasses.replace(subject(), parameters=parameters)
    options = dataclasses.replace(OPTIONS, dtypes=("float32",))
    points = {(c.shape, c.regime) for c in plan(Target(heavy), options) if c.runtime == "ort-cpu"}
    light = {(c.shape, c.regime) for c in plan(Target(subject()), options) if c.runtime == "ort-cpu"}
    assert len(points) >= len(light) - 3, "no more than a few points become one"
    lengths = {parse_shape(heavy, shape)["sequence"] for shape, _ in points}
    assert lengths == {parse_shape(heavy, shape)["sequence"] for shape, _ in light}, "every length is still tried"
    assert all(
        sizes["batch"] == 1 or sizes["batch"] * sizes["sequence"] <= MOST_POSITIONS
        for sizes in (parse_shape(heavy, shape) for shape, _ in points)
    )
    assert any(
        sizes["batch"] * sizes["sequence"] > MOST_POSITIONS
        for sizes in (parse_shape(heavy, shape) for shape, _ in light)
    )


def test_a_shape_that_is_asked_for_is_not_made_lighter() -> None:
    heavy = Target(dataclasses.replace(subject(), parameters=HEAVY))
    options = dataclasses.replace(OPTIONS, dtypes=("float32",), shapes=("b8-t64",))
    assert {c.shape for c in plan(heavy, options)} == {"b8-t64"}


def test_the_largest_subjects_have_the_few_points_that_stand_for_the_grid() -> None:
    large = dataclasses.replace(subject(), parameters=LARGE)
    options = dataclasses.replace(OPTIONS, dtypes=("float32",))
    found = {(c.shape, c.regime) for c in plan(Target(large), options) if c.runtime == "ort-cuda"}
    assert {(p.shape, p.regime) for p in grid.core(large)} <= found
    assert len(found) < len({(c.shape, c.regime) for c in plan(Target(subject()), options)}) / 2
