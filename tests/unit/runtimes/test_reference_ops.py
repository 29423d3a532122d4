"""Operators in float64: right on the third-party cases, and never by way of float32."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper
from onnx.backend.test.case.node import collect_testcases
from onnx.reference import ReferenceEvaluator

from onnxparity.errors import RunError
from onnxparity.protocols import Array
from onnxparity.runtimes.error_function import erf
from onnxparity.runtimes.float64_graph import Float64Graph
from onnxparity.runtimes.operator_table import ROUNDING
from onnxparity.runtimes.promotion import ROUNDOFF
from tests.unit.runtimes.files import model, value

FLOATS = {np.dtype(helper.tensor_dtype_to_np_dtype(kind)): u for kind, u in ROUNDOFF.items()}
OWN_TESTS = {
    "ConcatFromSequence",
    "SequenceAt",
    "SequenceConstruct",
    "SequenceEmpty",
    "SequenceInsert",
    "SequenceLength",
    "SplitToSequence",
}
"""Operators whose third-party cases feed sequences or do not exist; see the test of sequences."""
TRAINING = {
    "test_batchnorm_example_training_mode",
    "test_batchnorm_epsilon_training_mode",
    "test_training_dropout",
    "test_training_dropout_default",
    "test_training_dropout_default_mask",
    "test_training_dropout_mask",
    "test_training_dropout_zero_ratio",
    "test_training_dropout_zero_ratio_mask",
}
DIFFERENT = {
    "test_averagepool_2d_ceil_last_window_starts_on_pad": "its answer was typed in with four digits",
    "test_gridsample_bicubic": "its answer was typed in with four digits",
    "test_roialign_aligned_false": "its answer was typed in with four digits",
    "test_roialign_aligned_true": "its answer was typed in with four digits",
    "test_dynamicquantizelinear": "a value lies on a tie, and float32 falls on the other side",
    "test_dynamicquantizelinear_expanded": "a value lies on a tie, and float32 falls on the other side",
}
ILL_CONDITIONED = {"softmax_large_number"}
"""Values of ten thousand, whose last digits the exponential multiplies by ten thousand."""


class Case(NamedTuple):
    """A model with inputs and the outputs that its authors expect."""

    name: str
    model: onnx.ModelProto
    data_sets: list[tuple[list[Any], list[Any]]]  # Any: the cases hold arrays, numbers, lists and TensorProtos


Cases = dict[str, list[Case]]


@pytest.fixture(scope="module")
def cases() -> Cases:
    """The third-party cases whose operators are all in the table, by operator."""
    by_operator: Cases = {name: [] for name in ROUNDING}
    for case in sorted(filter(_usable, _collected()), key=lambda c: len(_operators(c))):
        for operator in _operators(case):
            if len(_operators(case)) == 1 or len(by_operator[operator]) < 3:
                by_operator[operator].append(case)
    return by_operator


def _operators(case: Case) -> set[str]:
    return {n.op_type for n in case.model.graph.node} - {"Constant"}


def _usable(case: Case) -> bool:
    """Of operators that are evaluated, fed with tensors; Scan took other inputs before opset 9."""
    values = [*case.data_sets[0][0], *case.data_sets[0][1]]
    tensors = not any(isinstance(v, list) or v is None for v in values)
    return tensors and case.name != "test_scan_sum" and _operators(case) <= ROUNDING.keys()


def _collected() -> Iterator[Case]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the cases are made with overflows on purpose
        for found in collect_testcases(None):
            assert found.model is not None and found.data_sets is not None
            yield Case(found.name, found.model, [(list(ins), list(outs)) for ins, outs in found.data_sets])


def test_every_operator_has_a_case(cases: Cases) -> None:
    assert {name for name, found in cases.items() if not found} == OWN_TESTS
    assert sum(map(len, cases.values())) > 900


@pytest.mark.parametrize("operator", sorted(set(ROUNDING) - OWN_TESTS))
def test_agrees_with_the_third_party_cases(operator: str, cases: Cases) -> None:
    checked = 0
    for case in cases[operator]:
        if case.name in TRAINING:
            continue
        for given_values, wanted in case.data_sets:
            fault = _fault(_outputs(case, given_values), [_array(v) for v in wanted])
            assert bool(fault) == (case.name in DIFFERENT), f"{case.name}: {fault or DIFFERENT[case.name]}"
            checked += 1
    assert checked


@pytest.mark.parametrize("operator", sorted(set(ROUNDING) - OWN_TESTS))
def test_never_passes_through_float32(operator: str, cases: Cases) -> None:
    for case in cases[operator]:
        if case.name not in TRAINING and not any(n in case.name for n in ILL_CONDITIONED):
            assert not _narrow(Float64Graph(_copy(case.model)), case), case.name


def test_the_evaluators_own_erf_is_seen_to_pass_through_float32(cases: Cases) -> None:
    case = next(c for c in cases["Erf"] if c.name == "test_erf")

    class Evaluator:
        def run(self, feeds: dict[str, Array]) -> dict[str, Array]:
            answers: Any = ReferenceEvaluator(case.model).run(None, feeds)  # Any: a list or a dict
            return {"y": answers[0]}

    assert _narrow(Evaluator(), case)


def test_a_wrong_operator_is_seen(cases: Cases, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "onnxparity.runtimes.reference_ops.Gelu._run", lambda self, x, approximate="": (np.maximum(x, 0),)
    )
    case = next(c for c in cases["Gelu"] if c.name == "test_gelu_tanh_1")
    given_values, wanted = case.data_sets[0]
    assert "value" in _fault(_outputs(case, given_values), [_array(v) for v in wanted])


@pytest.mark.parametrize("name", sorted(TRAINING))
def test_training_is_refused(name: str, cases: Cases) -> None:
    case = next(c for found in (cases["Dropout"], cases["BatchNormalization"]) for c in found if c.name == name)
    with pytest.raises(RunError, match="export in eval mode"):
        _outputs(case, case.data_sets[0][0])


def test_erf_is_right_to_the_last_digit_or_two() -> None:
    x = np.concatenate([np.linspace(-7, 7, 200_001), np.logspace(-300, 0, 5001), [0.0, -0.0, np.inf, -np.inf]])
    exact = np.array([math.erf(v) for v in x])
    assert np.max(np.abs(erf(x) - exact) / np.where(exact == 0, 1, np.abs(exact))) < 5e-16
    assert np.signbit(erf(np.array([-0.0])))[0] and np.isnan(erf(np.array([np.nan])))[0]


@given(st.floats(allow_nan=False))
def test_erf_is_odd_and_bounded(x: float) -> None:
    there, back = erf(np.array([x, -x])).tolist()
    assert there == -back and abs(there) <= 1


def test_softmax_before_opset_13_spans_all_axes_from_its_axis_on() -> None:
    x = np.random.default_rng(0).standard_normal((2, 3, 4))
    flat = np.exp(x).reshape(2, 12)
    np.testing.assert_allclose(_run("Softmax", [x], opset=12), (flat / flat.sum(-1, keepdims=True)).reshape(x.shape))
    np.testing.assert_allclose(_run("Softmax", [x], opset=13).sum(-1), np.ones((2, 3)))


def test_gather_elements_takes_fewer_indices_than_data() -> None:
    data, indices = np.arange(12.0).reshape(3, 4), np.array([[1, 0]])
    np.testing.assert_array_equal(_run("GatherElements", [data, indices], axis=1), [[1, 0]])


def test_batch_normalization_infers_at_opset_9() -> None:
    x, ones = np.random.default_rng(0).standard_normal((2, 3, 4)), np.ones(3)
    got = _run("BatchNormalization", [x, ones, 0 * ones, 5 * ones, 4 * ones - 1e-5], opset=9)
    np.testing.assert_allclose(got, (x - 5) / 2, rtol=1e-12)


def test_norm_of_order_one_adds_magnitudes() -> None:
    np.testing.assert_allclose(_run("LpNormalization", [np.array([[3.0, -1.0]])], p=1), [[0.75, -0.25]])


def test_group_normalization_scales_groups_at_18_and_channels_at_21() -> None:
    x = np.random.default_rng(0).standard_normal((2, 4, 5))
    per_group = _run("GroupNormalization", [x, np.array([1.0, 2]), np.zeros(2)], opset=18, num_groups=2)
    per_channel = _run("GroupNormalization", [x, np.array([1.0, 1, 2, 2]), np.zeros(4)], opset=21, num_groups=2)
    np.testing.assert_array_equal(per_group, per_channel)


def test_zero_points_per_row_are_per_row() -> None:
    a, b = np.array([[3, 4], [5, 6]], np.uint8), np.eye(2, dtype=np.int8)
    got = _run("MatMulInteger", [a, b, np.array([1, 2], np.uint8)])
    np.testing.assert_array_equal(got, [[2, 3], [3, 4]])


def test_huge_values_saturate_at_the_right_end() -> None:
    got = _run("QuantizeLinear", [np.array([1e12, -1e12]), np.array(1.0), np.array(0, np.int8)])
    np.testing.assert_array_equal(got, [127, -128])


def test_dequantising_keeps_float64() -> None:
    got = _run("DequantizeLinear", [np.array([5], np.int8), np.array(1 / 3)])
    assert got[0] == 5 * (1 / 3) and got[0] != np.float64(np.float32(5) * np.float32(1 / 3))


def test_sequences_carry_tensors() -> None:
    nodes = [
        helper.make_node("SplitToSequence", ["x"], ["parts"], axis=0, keepdims=1),
        helper.make_node("SequenceLength", ["parts"], ["count"]),
        helper.make_node("SequenceAt", ["parts", "one"], ["second"]),
        helper.make_node("SequenceConstruct", ["second", "x"], ["again"]),
        helper.make_node("ConcatFromSequence", ["again"], ["y"], axis=0),
        helper.make_node("SequenceEmpty", [], ["empty"]),
        helper.make_node("SequenceInsert", ["empty", "x"], ["single"]),
        helper.make_node("ConcatFromSequence", ["single"], ["same"], axis=1),
    ]
    outputs = [value("y", []), value("same", []), value("count", [], "int64")]
    graph = Float64Graph(model(nodes, [value("x", [3, 2])], outputs, initializers={"one": np.array(1)}))
    x = np.random.default_rng(0).standard_normal((3, 2))
    got = graph.run({"x": x})
    np.testing.assert_array_equal(got["y"], np.concatenate([x[1:2], x]))
    np.testing.assert_array_equal(got["same"], x)
    assert got["count"] == 3


def _run(operator: str, inputs: Sequence[Array], *, opset: int = 23, **attributes: Any) -> Array:
    """The first output of one node, its floating inputs declared as float32."""
    names = [f"i{k}" for k in range(len(inputs))]
    declared = [
        value(n, v.shape, "float32" if v.dtype.kind == "f" else v.dtype.name)
        for n, v in zip(names, inputs, strict=True)
    ]
    node = helper.make_node(operator, names, ["y"], **attributes)
    graph = Float64Graph(model([node], declared, [value("y", [])], opset=opset))
    return graph.run(dict(zip(names, inputs, strict=True)))["y"]


def _copy(original: onnx.ModelProto) -> onnx.ModelProto:
    copy = onnx.ModelProto()
    copy.CopyFrom(original)
    return copy


def _array(raw: Any) -> Array:  # Any: the cases hold arrays, numbers and TensorProtos
    return numpy_helper.to_array(raw) if isinstance(raw, TensorProto) else np.asarray(raw)


def _feeds(case: Case, values: Sequence[Any]) -> dict[str, Array]:
    names = [i.name for i in case.model.graph.input]
    arrays = dict(zip(names, map(_array, values), strict=False))
    return {n: v.astype(np.float64) if v.dtype in FLOATS else v for n, v in arrays.items()}


def _outputs(case: Case, values: Sequence[Any]) -> list[Array]:
    return list(Float64Graph(_copy(case.model)).run(_feeds(case, values)).values())


def _fault(got: Sequence[Array], wanted: Sequence[Array]) -> str:
    """What differs by more than the rounding of the dtype that the answer is given in; empty where nothing does."""
    for ours, theirs in zip(got, wanted, strict=True):
        if ours.shape != theirs.shape:
            return f"shape {ours.shape}, not {theirs.shape}"
        if theirs.dtype.kind in "OUS":
            continue
        a, b = ours.astype(np.float64), theirs.astype(np.float64)
        same = (a == b) | (np.isnan(a) & np.isnan(b))
        room = 50 * max(FLOATS.get(theirs.dtype, 0.0), 2.0**-40) * np.max(np.abs(b[np.isfinite(b)]), initial=0.0)
        with np.errstate(invalid="ignore"):
            right = same | (np.abs(a - b) <= room) if theirs.dtype in FLOATS else same
        if not np.all(right):
            return f"value {a[~right][0]}, not {b[~right][0]}"
    return ""


def _narrow(graph: Any, case: Case) -> bool:  # Any: anything that runs feeds
    """Whether a movement of 1e-11 jumps, or all that comes out fits float32."""
    rng = np.random.default_rng(0)

    def moved(feeds: dict[str, Array], by: float) -> dict[str, Array]:
        return {n: v * (1 + by * rng.uniform(-1, 1, v.shape)) if v.dtype == np.float64 else v for n, v in feeds.items()}

    feeds = moved(_feeds(case, case.data_sets[0][0]), 1e-4)
    if not any(v.dtype == np.float64 for v in feeds.values()):
        return False
    with np.errstate(all="ignore"):
        here, there = graph.run(feeds), graph.run(moved(feeds, 1e-11))
    return any(_jumps(a, b) or _fits_float32(a) for a, b in _floats(here.values(), there.values()))


def _floats(here: Any, there: Any) -> Iterator[tuple[Array, Array]]:  # Any: values of dicts
    for a, b in zip(here, there, strict=True):
        if a.dtype == np.float64 and a.size and a.shape == b.shape:
            usable = np.isfinite(a) & np.isfinite(b) & (np.abs(a) < 1e30)
            yield a[usable], b[usable]


def _jumps(a: Array, b: Array) -> bool:
    size = np.max(np.abs(a), initial=0.0) or 1.0
    return bool(np.max(np.abs(a - b), initial=0.0) > 1e-9 * size)


def _fits_float32(a: Array) -> bool:
    fractions = a[a != np.round(a * 64) / 64]
    return fractions.size > 2 and bool(np.all(fractions.astype(np.float32) == fractions))
