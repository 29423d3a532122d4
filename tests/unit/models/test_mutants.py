"""The planted faults: each is wrong where it is judged, the equivalents are not, and each says where it stands."""

from __future__ import annotations

import copy
from collections.abc import Sequence

import numpy as np
import onnx
import pytest
import torch
from onnx import ModelProto, TensorProto, helper, numpy_helper
from torch import Tensor, nn

from onnxparity.case import Subject, parse_shape
from onnxparity.errors import UsageError
from onnxparity.feeding.feeds import draw
from onnxparity.location import Node
from onnxparity.models import catalogue, graph_faults
from onnxparity.models import faults_quantised as int8
from onnxparity.models.fault import Mutant, changed_lines, instead, lines_with, setting, tensor
from onnxparity.models.mutants import MUTANTS, QUICK, planted
from onnxparity.models.norms import LayerNorm
from onnxparity.planning import grid
from onnxparity.selftesting.planting import Where, names_it

IN_MODULE = [m for m in MUTANTS if m.form == "module"]
NAMED_BY_THE_ISSUE = {
    *("scale-wrong", "scale-missing", "mask-looks-ahead", "mask-misses-itself", "mask-encoding", "window-wide"),
    *("window-narrow", "softmax-axis", "node-precision", "head-order", "kv-repeat-for-interleave", "rope-interleave"),
    *("rope-offset", "rope-base", "epsilon", "variance-biased", "norm-kind", "norm-place", "activation"),
    *("residual-missing", "bias-missing", "bias-twice", "weight-transposed", "projections-swapped"),
    *("cache-off-by-one", "position-offset", "padding-side", "dropout-on", "constant-folded", "shape-folded"),
    *("table-truncated", "tied-weight-untied", "weight-element", "weight-bit", "quantised-scale"),
}


def judged_at(mutant: Mutant, subject: Subject) -> list[grid.Point]:
    return [*grid.core(subject), *(grid.Point(*point.split("/")) for point in mutant.points)]


def effect(spoiled: nn.Module, mutant: Mutant) -> float:
    """The largest change of any output vector in float64, relative to the vector's size."""
    entry = catalogue.find(mutant.subject)
    right, wrong = copy.deepcopy(entry.build()).double(), spoiled.double()
    return max(_apart(right, wrong, entry.subject, point) for point in judged_at(mutant, entry.subject))


def _apart(right: nn.Module, wrong: nn.Module, subject: Subject, point: grid.Point) -> float:
    feeds = draw(subject, parse_shape(subject, point.shape), point.regime, "float64").values()
    tensors = [torch.from_numpy(np.ascontiguousarray(value)) for value in feeds]
    with torch.no_grad():
        pairs = zip(_outputs(right, tensors), _outputs(wrong, tensors), strict=True)
        found = [((x - y).abs() / x.abs().amax(-1, keepdim=True).clamp(min=1e-300)).max() for x, y in pairs]
    return max(float(value) if value == value else np.inf for value in found)


def _outputs(module: nn.Module, tensors: Sequence[Tensor]) -> tuple[Tensor, ...]:
    result = module(*tensors)
    return result if isinstance(result, tuple) else (result,)


@pytest.mark.parametrize("mutant", [m for m in IN_MODULE if not m.equivalent], ids=lambda m: m.name)
def test_a_fault_changes_an_output_by_more_than_rounding(mutant: Mutant) -> None:
    assert effect(planted(mutant), mutant) > 1e-6


@pytest.mark.parametrize("mutant", [m for m in IN_MODULE if m.equivalent], ids=lambda m: m.name)
def test_an_equivalent_changes_nothing_but_the_rounding_of_its_weights(mutant: Mutant) -> None:
    assert effect(planted(mutant), mutant) < 1e-6


def test_the_unspoiled_module_has_no_effect_at_all() -> None:
    mutant = next(m for m in IN_MODULE if m.subject == "causal-attention")
    assert effect(catalogue.find("causal-attention").build(), mutant) == 0


@pytest.mark.parametrize("mutant", IN_MODULE, ids=lambda m: m.name)
def test_a_fault_says_where_it_stands(mutant: Mutant) -> None:
    where = mutant.plant(catalogue.find(mutant.subject).build())
    assert where or mutant.equivalent


def test_every_kind_that_was_asked_for_is_there_and_more_than_forty_in_all() -> None:
    kinds = {m.kind for m in MUTANTS if not m.equivalent}
    assert kinds >= NAMED_BY_THE_ISSUE
    assert len(kinds) >= 50


def test_names_are_unique_and_every_quick_one_exists() -> None:
    names = [m.name for m in MUTANTS]
    assert len(set(names)) == len(names)
    assert set(names) >= QUICK
    assert all(m.why for m in MUTANTS)


def test_planting_leaves_the_subject_alone() -> None:
    mutant = next(m for m in MUTANTS if m.name == "weight-element.encoder-block-post-norm")
    before = catalogue.find(mutant.subject).build().state_dict()
    assert not all(torch.equal(v, before[k]) for k, v in planted(mutant).state_dict().items())
    after = catalogue.find(mutant.subject).build().state_dict()
    assert all(torch.equal(v, before[k]) for k, v in after.items())


def test_a_fault_of_a_file_is_refused_as_one_of_a_module() -> None:
    with pytest.raises(ValueError, match="planted in a file"):
        planted(next(m for m in MUTANTS if m.form == "file"))


class Doubling(nn.Module):
    """For the tests of what a fault says of itself."""

    factor = 2.0

    def forward(self, x: Tensor) -> Tensor:
        """(2x + 1) squared."""
        y = x * self.factor
        y = y + 1  # one more
        return y * y


def without_one(self: Doubling, x: Tensor) -> Tensor:
    """One line less."""
    y = x * self.factor
    return y * y


def tripling(self: Doubling, x: Tensor) -> Tensor:
    """Another line."""
    y = x * 3
    y = y + 1
    return y * y


def test_the_location_is_the_line_that_differs() -> None:
    assert changed_lines(Doubling.forward, tripling) == (Where(line="y = x * 3"),)


def test_where_a_line_is_missing_the_location_is_the_next() -> None:
    assert changed_lines(Doubling.forward, without_one) == (Where(line="return y * y"),)


def test_a_function_differs_from_itself_nowhere() -> None:
    assert changed_lines(Doubling.forward, Doubling.forward) == ()


def test_a_setting_stands_where_it_is_read() -> None:
    module = Doubling()
    assert setting("", "factor", 4.0)(module) == (Where(line="y = x * self.factor"),)
    assert module(torch.ones(1)).item() == 25
    with pytest.raises(AttributeError, match="no setting"):
        setting("", "faktor", 4.0)(module)


def test_lines_that_read_nothing_are_refused() -> None:
    with pytest.raises(ValueError, match="reads none of"):
        lines_with(Doubling.forward, "offset")


def test_another_forward_replaces_the_right_one_in_that_module_alone() -> None:
    spoiled, other = Doubling(), Doubling()
    instead(tripling)(spoiled)
    assert spoiled(torch.ones(1)).item() == 16
    assert other(torch.ones(1)).item() == 9


def test_a_weight_stands_in_the_module_that_holds_it() -> None:
    module = LayerNorm(width=4)
    assert tensor("norm.weight", lambda weight: weight * 2)(module) == (Where(module="norm"),)
    assert torch.equal(module.norm.weight, torch.full((4,), 2.0))


NODE = Node("MatMul", "node_3", ("x",), ("y",), module="blocks.1.attention.query", source="a.py:4: y = x @ w")


@pytest.mark.parametrize(
    ("where", "right"),
    [
        (Where(module="attention.query"), True),
        (Where(module="query"), True),
        (Where(module="ery"), False),
        (Where(module="blocks.0.attention.query"), False),
        (Where(operators=("Gemm", "MatMul")), True),
        (Where(operators=("Softmax",)), False),
        (Where(line="y = x @ w"), True),
        (Where(line="z = x @ w"), False),
        (Where(nodes=("node_3",)), True),
        (Where(module="attention.query", operators=("Softmax",)), False),
    ],
)
def test_a_location_must_fit_in_all_that_is_said_of_it(where: Where, right: bool) -> None:
    assert names_it(NODE, (where,)) is right


def test_one_of_several_locations_is_enough_and_none_is_not() -> None:
    assert names_it(NODE, (Where(line="nowhere"), Where(nodes=("node_3",))))
    assert not names_it(NODE, ())


def test_a_location_that_names_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="names nothing"):
        Where()


def relu_file() -> ModelProto:
    """y = relu(x W), and z = y + y."""
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["h"], "product"),
        helper.make_node("Relu", ["h"], ["y"], "relu"),
        helper.make_node("Add", ["y", "y"], ["z"], "sum"),
    ]
    x, z = (helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", 2]) for name in ("x", "z"))
    weight = numpy_helper.from_array(np.asarray([[1.0, 0.3], [-2.0, 0.5]], np.float32), "w")
    return helper.make_model(
        helper.make_graph(nodes, "g", [x], [z], [weight]), opset_imports=[helper.make_opsetid("", 21)], ir_version=10
    )


def outcome(model: ModelProto) -> list[list[float]]:
    """z of a file that must be valid, for one x."""
    onnx.checker.check_model(model, full_check=True)
    from onnx.reference import ReferenceEvaluator

    (found,) = ReferenceEvaluator(model).run(None, {"x": np.asarray([[1.0, 3.0]], np.float32)})
    assert isinstance(found, np.ndarray)
    return [[float(value) for value in row] for row in found]


RIGHT = [[0.0, 3.6]]


def test_the_file_that_is_spoiled_below_is_right() -> None:
    assert np.allclose(outcome(relu_file()), RIGHT)


@pytest.mark.parametrize(
    ("plant", "node"),
    [
        (graph_faults.left_out("Relu"), "sum"),
        (graph_faults.operator("Add", "Mul"), "sum"),
        (graph_faults.initializer("MatMul", np.transpose), "product"),
        (graph_faults.dropout("Relu", training=True), "relu_dropout"),
    ],
)
def test_a_fault_in_a_file_changes_its_output_and_names_its_node(plant: graph_faults.Plant, node: str) -> None:
    model = relu_file()
    where = plant(model)
    assert names_it(Node("", node, (), ()), where)
    assert not np.allclose(outcome(model), RIGHT)


def test_casts_round_to_half_and_leave_the_rest() -> None:
    model = relu_file()
    where = graph_faults.in_half("MatMul")(model)
    assert names_it(Node("MatMul", "product", (), ()), where)
    assert np.allclose(outcome(model), RIGHT, rtol=1e-2)
    assert outcome(model) != outcome(relu_file())


def test_what_changes_nothing_in_a_file_gives_the_same_output() -> None:
    for plant in (graph_faults.dropout("Relu", training=False), int8.unchanged):
        model = relu_file()
        plant(model)
        assert np.allclose(outcome(model), RIGHT)


def test_a_quantised_weight_is_close_and_a_wrong_scale_is_not() -> None:
    model = relu_file()
    int8.quantised()(model)
    assert np.allclose(outcome(model), RIGHT, rtol=2e-2)
    int8.dequantised("scale", lambda scale: scale * np.float32(1.5))(model)
    assert not np.allclose(outcome(model), RIGHT, rtol=2e-2)


def test_what_is_not_in_the_file_cannot_be_spoiled() -> None:
    with pytest.raises(UsageError, match="no Softmax"):
        graph_faults.attribute("Softmax", "axis", 0)(relu_file())
