"""The first node whose meaning differs is named, with the numbers that differ; a pair without a fault has none."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import NodeProto

from onnxparity.locating import matching, meaning
from onnxparity.locating.meaning import Found, locate_sides
from onnxparity.locating.signature import Distance, distance
from onnxparity.protocols import Array
from tests.unit.hub.locating_cases import Change, found, left_out, replaced, sides


def located(folder: Path, candidate: Change, reference: Change | None = None) -> Found:
    result = locate_sides(*sides(folder, candidate, reference), ["y"])
    assert isinstance(result, Found), result
    return result


def initializer(name: str, spoil: object) -> Change:
    def change(parts: list[NodeProto], held: dict[str, Array]) -> None:
        assert callable(spoil)
        held[name] = np.asarray(spoil(held[name]), held[name].dtype)

    return change


def one_weight(weight: Array) -> Array:
    spoiled = weight.copy()
    spoiled[3, 5] *= 1.01
    return spoiled


def exchanged(parts: list[NodeProto], held: dict[str, Array]) -> None:
    held["w_k"], held["w_v"] = held["w_v"], held["w_k"]


FAULTS: dict[str, tuple[Change, str]] = {
    "epsilon": (replaced("norm", "LayerNormalization", epsilon=1e-6), "norm"),
    "scale": (initializer("root", lambda root: root * 1.5), "scale"),
    "softmax axis": (replaced("softmax", "Softmax", axis=-2), "softmax"),
    "components before heads": (replaced("merge_t", "Transpose", perm=[0, 2, 3, 1]), "merge_t"),
    "one element of a weight": (initializer("w_v", one_weight), "project_v"),
    "rows of a weight in another order": (initializer("w_q", lambda w: w[::-1]), "project_q"),
    "a bias that is off": (initializer("b_o", lambda b: b + 1e-3), "bias"),
    "a mask along the wrong axis": (initializer("places", lambda _: [1, 3]), "place"),
    "no scale": (left_out("scale"), "mask"),
    "no mask": (left_out("mask"), "softmax"),
    "no norm": (left_out("norm"), "project_q"),
    "no bias": (left_out("bias"), "residual"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_the_node_at_fault_is_named(name: str, tmp_path: Path) -> None:
    change, node = FAULTS[name]
    result = located(tmp_path, change)
    assert result.node.name == node, result.message


@pytest.mark.parametrize("missing", ["scale", "mask", "norm", "bias"])
def test_a_missing_node_is_told_from_one_that_is_wrong(missing: str, tmp_path: Path) -> None:
    result = located(tmp_path, left_out(missing))
    assert result.origin == "missing"
    operator = {"scale": "Div", "mask": "Add", "norm": "LayerNormalization", "bias": "Add"}[missing]
    assert f"{operator} of the reference is missing before it" in result.message


def test_a_node_that_is_wrong_is_told_from_a_missing_one(tmp_path: Path) -> None:
    assert located(tmp_path, replaced("softmax", "Softmax", axis=-2)).origin == "injected"


def test_a_missing_node_behind_the_last_is_told(tmp_path: Path) -> None:
    def change(parts: list[NodeProto], held: dict[str, Array]) -> None:
        del parts[-1]
        parts[-1].output[0] = "y"

    result = located(tmp_path, change)
    assert (result.origin, result.node.name) == ("missing", "bias")
    assert "the reference goes on from there with Add" in result.message


def test_an_epsilon_that_differs_is_told_with_both_values(tmp_path: Path) -> None:
    result = located(tmp_path, replaced("norm", "LayerNormalization", epsilon=1e-6))
    assert result.evidence[0].startswith("epsilon is 1e-06, the reference has 1e-05")


def test_a_scale_that_differs_is_told_with_both_values(tmp_path: Path) -> None:
    result = located(tmp_path, initializer("root", lambda root: root * 1.5))
    assert any("3, the reference has 2" in line for line in result.evidence)
    assert any("is 0.666667 times the reference's 'scores'" in line for line in result.evidence)


def test_a_table_that_differs_is_told_with_its_first_difference(tmp_path: Path) -> None:
    result = located(tmp_path, initializer("w_v", lambda w: w * np.linspace(1, 2, 12)[:, None]))
    assert "table 'w_v' of 12×12 values differs from 'w_v': first differing element seen" in result.evidence[0]


def test_a_weight_that_is_only_transposed_or_scaled_is_no_fault(tmp_path: Path) -> None:
    def transposed(parts: list[NodeProto], held: dict[str, Array]) -> None:
        from onnx import helper

        place, _ = found(parts, "project_q")
        held["w_q"] = np.ascontiguousarray(held["w_q"].T)
        parts.insert(place, helper.make_node("Transpose", ["w_q"], ["w_q_t"], name="back", perm=[1, 0]))
        parts[place + 1].input[1] = "w_q_t"

    assert isinstance(locate_sides(*sides(tmp_path, transposed), ["y"]), str)


def test_the_statistics_are_those_of_the_inputs_and_both_results(tmp_path: Path) -> None:
    rows = located(tmp_path, replaced("softmax", "Softmax", axis=-2)).statistics
    assert [(r.name, r.side) for r in rows] == [("masked", "input"), ("weights", "got"), ("weights", "want")]
    assert rows[0].nonfinite == 15
    assert rows[1].mean == pytest.approx(0.2, abs=0.1)
    assert rows[2].largest is not None and 0 < rows[2].largest <= 1


def test_the_region_is_what_lies_between_the_fault_and_the_output(tmp_path: Path) -> None:
    region = located(tmp_path, replaced("softmax", "Softmax", axis=-2)).region
    names = [n.name for n in region.nodes]
    assert names == ["softmax", "read", "merge_t", "merge", "project_o", "bias", "residual"]
    assert [n.name for n in region.sources] == ["softmax"]


def test_a_pair_without_a_fault_gives_no_region(tmp_path: Path) -> None:
    result = locate_sides(*sides(tmp_path, None), ["y"])
    assert result == "the sides differ by less than can be followed from value to value on these inputs"


def test_a_tolerance_that_is_too_wide_gives_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(meaning, "FLOORS", (10.0,))
    assert isinstance(locate_sides(*sides(tmp_path, initializer("root", lambda root: root * 1.5)), ["y"]), str)


def test_without_the_order_of_elements_permuted_rows_are_found_too_late(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    change = initializer("w_v", lambda w: w[:, [*range(4, 8), *range(4), *range(8, 12)]])
    assert located(tmp_path, change).node.name == "project_v"
    real = distance
    monkeypatch.setattr(matching, "distance", lambda a, b: Distance(real(a, b).content, 0.0))
    assert located(tmp_path, change).node.name != "project_v"


def test_two_projections_that_were_exchanged_are_named_not_what_reads_them(tmp_path: Path) -> None:
    def in_modules(parts: list[NodeProto], held: dict[str, Array]) -> None:
        for node in parts:
            if node.name.startswith(("project", "split", "heads")):
                part = node.name.rpartition("_")[2]
                node.name = f"/attention/{part}/{node.name}"

    def both(parts: list[NodeProto], held: dict[str, Array]) -> None:
        exchanged(parts, held)
        in_modules(parts, held)

    result = located(tmp_path, both, in_modules)
    assert result.node.module == "attention.k"
    assert "what the reference computes in attention.v" in result.evidence[0]


def test_outputs_that_stand_on_one_side_only_are_told(tmp_path: Path) -> None:
    def renamed(parts: list[NodeProto], held: dict[str, Array]) -> None:
        parts[-1].output[0] = "z"

    candidate, reference = sides(tmp_path, None)
    reference.outputs["z"] = reference.outputs.pop("y")
    assert "outputs y, z stand on one side only" in str(locate_sides(candidate, reference, ["y"]))
