"""A property that is lost leads to the first node whose result changes although what it is given does not."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import ModelProto, NodeProto, helper

from onnxparity.case import Subject, TensorSpec
from onnxparity.judging.examining import Bench, ExamineRequest
from onnxparity.judging.judge import judged
from onnxparity.locating.locate import locate
from onnxparity.locating.requests import LocateRequest
from onnxparity.location import Location
from onnxparity.outcome import Status, Verdict
from onnxparity.plan import Cell
from tests.unit.hub.subjects import mask, subject
from tests.unit.runtimes.files import model, record, value

WIDTH = 3
PROPERTIES = ("causality", "batch-invariance", "padding-invariance", "left-padding-invariance")
MASKED = subject(
    (TensorSpec("x", ("batch", "sequence", WIDTH)), mask("additive")), properties=PROPERTIES, dtypes=("float32",)
)


def attention(*, scores: str = "masked", extra: tuple[NodeProto, ...] = (), read: str = "x") -> ModelProto:
    """y = softmax(x·xᵀ + past + mask) · read, for x (B, T, 3) and mask (B, T); `past` adds -inf to what comes later.

    scores: what the softmax is given: `product`, `late` (the past only), `masked` (both).
    """
    nodes = [
        helper.make_node("Transpose", ["x"], ["xt"], name="transpose", perm=[0, 2, 1]),
        helper.make_node("MatMul", ["x", "xt"], ["product"], name="product"),
        helper.make_node("Shape", ["x"], ["length"], name="length", start=1, end=2),
        helper.make_node("Concat", ["length", "length"], ["square"], name="square", axis=0),
        helper.make_node("Expand", ["lowest", "square"], ["full"], name="full"),
        helper.make_node("Trilu", ["full", "one"], ["past"], name="past", upper=1),
        helper.make_node("Add", ["product", "past"], ["late"], name="late"),
        helper.make_node("Unsqueeze", ["mask", "one_axis"], ["keys"], name="keys"),
        helper.make_node("Add", ["late", "keys"], ["masked"], name="masked"),
        *extra,
        helper.make_node("Softmax", [scores], ["weights"], name="softmax", axis=-1),
        helper.make_node("MatMul", ["weights", read], ["y"], name="read"),
    ]
    return model(
        nodes,
        [value("x", ["batch", "sequence", WIDTH]), value("mask", ["batch", "sequence"])],
        [value("y", ["batch", "sequence", WIDTH])],
        initializers={"lowest": np.array(-1e30, np.float32), "one": np.array(1), "one_axis": np.array([1])},
    )


def located(
    folder: Path, candidate: ModelProto, name: str, *, of: Subject = MASKED, shape: str = "b2-t6"
) -> tuple[Verdict, Location]:
    """How a property fails in float64, and what that leads back to."""
    artifact = record(folder / "m.onnx", candidate)
    request = ExamineRequest(of, artifact, (), use_cache=False)
    cell = Cell(artifact.key, "onnx-float64", shape, name)
    question, work = Bench(request).work(cell)
    verdict = judged(cell, question, "m.onnx", work)
    (location,) = locate(LocateRequest(request, verdict, None, str(folder / "reproduction")))
    return verdict, location


def node_of(location: Location) -> str:
    assert location.node is not None, location.message
    return location.node.name


@pytest.mark.parametrize("name", PROPERTIES)
def test_where_a_property_holds_nothing_is_named(name: str, tmp_path: Path) -> None:
    verdict, location = located(tmp_path, attention(), name)
    assert verdict.status is Status.PASS
    assert (location.origin, location.node) == ("unknown", None)
    assert "does not fail when it is checked again" in location.message


def test_a_softmax_over_later_positions_loses_causality(tmp_path: Path) -> None:
    verdict, location = located(tmp_path, attention(scores="product"), "causality")
    assert verdict.status is Status.PROPERTY
    assert (location.origin, node_of(location)) == ("injected", "softmax")
    assert "loses causality" in location.message
    assert location.region == 2
    assert location.explains == (verdict.cell.id,)


def test_values_of_the_next_position_lose_causality_where_they_are_shifted(tmp_path: Path) -> None:
    shift = (
        helper.make_node("Slice", ["x", "from", "to", "one_axis"], ["later"], name="later"),
        helper.make_node("Slice", ["x", "zero", "from", "one_axis"], ["first"], name="first"),
        helper.make_node("Concat", ["later", "first"], ["rolled"], name="roll", axis=1),
    )
    made = attention(extra=shift, read="rolled")
    for name, array in (("from", [1]), ("to", [2**31]), ("zero", [0])):
        made.graph.initializer.append(helper.make_tensor(name, 7, [1], array))
    _, location = located(tmp_path, made, "causality")
    assert node_of(location) in ("later", "roll")


def test_a_mask_that_is_not_added_loses_padding_invariance(tmp_path: Path) -> None:
    for name in ("padding-invariance", "left-padding-invariance"):
        verdict, location = located(tmp_path, attention(scores="product"), name)
        assert verdict.status is Status.PROPERTY
        assert node_of(location) == "softmax"


def test_a_mean_over_the_batch_loses_batch_invariance(tmp_path: Path) -> None:
    leak = (
        helper.make_node("ReduceMean", ["x", "zero"], ["mean"], name="mean", keepdims=1),
        helper.make_node("Sub", ["x", "mean"], ["centred"], name="centre"),
    )
    made = attention(extra=leak, read="centred")
    made.graph.initializer.append(helper.make_tensor("zero", 7, [1], [0]))
    verdict, location = located(tmp_path, made, "batch-invariance")
    assert verdict.status is Status.PROPERTY
    assert node_of(location) == "mean"


def test_equal_sizes_of_batch_and_sequence_do_not_confuse_it(tmp_path: Path) -> None:
    _, location = located(tmp_path, attention(scores="product"), "causality", shape="b3-t3")
    assert node_of(location) == "softmax"


def test_a_property_of_one_run_is_told_to_lead_nowhere(tmp_path: Path) -> None:
    made = attention()
    made.graph.node[-1].input[1] = "x"
    of = subject((TensorSpec("x", ("batch", "sequence", WIDTH)), mask("additive")), properties=("unit-variance",))
    _, location = located(tmp_path, made, "unit-variance", of=of)
    assert (location.origin, location.node) == ("unknown", None)
    assert location.message
