"""Two files from anywhere: in another precision, with functions, subgraphs, several ends, weights beside the file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import FunctionProto, ModelProto, NodeProto, TensorProto, helper, numpy_helper

from onnxparity.export.given import read_given
from onnxparity.judging.examining import ExamineRequest, examine
from onnxparity.numerics.floats import named
from onnxparity.outcome import Status, Verdict
from onnxparity.plan import Cell
from onnxparity.protocols import Array

WIDTH, HIDDEN = 16, 32
RNG = np.random.default_rng(0)
A, B = (RNG.standard_normal(s) / 4 for s in ((WIDTH, HIDDEN), (HIDDEN, WIDTH)))
ELEMENTS = {"float32": TensorProto.FLOAT, "float16": TensorProto.FLOAT16, "bfloat16": TensorProto.BFLOAT16}
MEANING, SPEC, ORT = "onnx-float64", "onnx-spec", "ort-cpu"


def node(operator: str, inputs: str, outputs: str, **attributes: Any) -> NodeProto:  # Any: attributes
    return helper.make_node(operator, inputs.split(), outputs.split(), **attributes)


def build(
    nodes: Sequence[NodeProto],
    *,
    dtype: str = "float32",
    outputs: Sequence[str] = ("y",),
    inputs: Sequence[str] = ("x",),
    functions: Sequence[FunctionProto] = (),
    **weights: Array,
) -> ModelProto:
    """A model whose inputs and outputs are (B, T, 16) in a dtype, and so are its weights."""
    dims: list[str | int | None] = ["batch", "tokens", WIDTH]
    tensors = [
        numpy_helper.from_array(w.astype(named(dtype)) if w.dtype.kind == "f" else w, name)
        for name, w in weights.items()
    ]
    graph = helper.make_graph(
        nodes,
        "made",
        [helper.make_tensor_value_info(name, ELEMENTS[dtype], dims) for name in inputs],
        [helper.make_tensor_value_info(name, ELEMENTS[dtype], dims) for name in outputs],
        tensors,
    )
    domains = [helper.make_opsetid("", 18), *(helper.make_opsetid(f.domain, 1) for f in functions)]
    return helper.make_model(graph, opset_imports=domains, ir_version=9, functions=list(functions))


def network(*, dtype: str = "float32", spoiled: float = 1.0) -> ModelProto:
    """y = softmax(tanh(x A) B); spoiled is a factor of one weight."""
    b = B.copy()
    b[3, 5] *= spoiled
    chain = [node("MatMul", "x A", "h"), node("Tanh", "h", "t"), node("MatMul", "t B", "z"), node("Softmax", "z", "y")]
    return build(chain, dtype=dtype, A=A, B=b)


def verdicts(
    folder: Path, candidate: ModelProto, reference: ModelProto, *runtimes: str, regime: str = "normal"
) -> dict[str, Verdict]:
    """By runtime, of a candidate that is held against a reference at one shape."""
    for name, made in (("candidate", candidate), ("reference", reference)):
        onnx.save(made, folder / f"{name}.onnx")
    return judged(folder, *runtimes, regime=regime)


def judged(folder: Path, *runtimes: str, regime: str = "normal") -> dict[str, Verdict]:
    ours, theirs = read_given(folder / "candidate.onnx"), read_given(folder / "reference.onnx")
    cells = tuple(Cell(ours.artifact.key, r, "b2-t7", regime) for r in runtimes or (MEANING, SPEC, ORT))
    asked = ExamineRequest(theirs.subject, ours.artifact, cells, against=theirs.artifact, use_cache=False)
    return {v.cell.runtime: v for v in examine(asked) if isinstance(v, Verdict)}


def statuses(found: dict[str, Verdict]) -> set[Status]:
    return {v.status for v in found.values()}


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_a_candidate_in_half_precision_is_judged_in_half_precision(tmp_path: Path, dtype: str) -> None:
    runtimes = (MEANING, SPEC) if dtype == "bfloat16" else (MEANING, SPEC, ORT)
    found = verdicts(tmp_path, network(dtype=dtype), network(), *runtimes)
    assert statuses(found) == {Status.PASS}, [v.message for v in found.values()]
    assert all(v.ratio is not None and v.ratio > 1e-3 for v in found.values()), "it is not waved through"


@pytest.mark.parametrize(("dtype", "spoiled"), [("float16", 1.2), ("bfloat16", 3.0), ("bfloat16", 0.0)])
def test_a_fault_beyond_the_rounding_of_weights_is_found_in_half_precision(
    tmp_path: Path, dtype: str, spoiled: float
) -> None:
    found = verdicts(tmp_path, network(dtype=dtype, spoiled=spoiled), network(), MEANING, SPEC)
    assert found[MEANING].status is Status.MEANING
    assert found[SPEC].status is Status.PASS, "it computes well what it means"


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_a_part_in_half_precision_inside_float32_is_found(tmp_path: Path, dtype: str) -> None:
    """ONNX Runtime's CPU provider would hide it where it has no half kernel: the specification does not."""
    chain = [
        *(node("MatMul", "x A", "h"), node("Tanh", "h", "t"), node("MatMul", "t B", "z")),
        *(node("Cast", "z", "half", to=ELEMENTS[dtype]), node("Softmax", "half", "s")),
        node("Cast", "s", "y", to=TensorProto.FLOAT),
    ]
    found = verdicts(tmp_path, build(chain, A=A, B=B), network(), MEANING, SPEC)
    assert found[MEANING].status is Status.PASS
    assert found[SPEC].status is Status.ARITHMETIC
    assert (found[SPEC].ratio or 0.0) > 10


def with_function(alpha: float) -> ModelProto:
    """The same network, its second half a function with an attribute that its body refers to."""
    scaled = node("LeakyRelu", "t", "r")
    attribute = scaled.attribute.add()
    attribute.name, attribute.ref_attr_name, attribute.type = "alpha", "slope", onnx.AttributeProto.FLOAT
    body = [node("Tanh", "a", "t"), scaled, node("MatMul", "r w", "z"), node("Softmax", "z", "out")]
    function = helper.make_function("own", "Head", ["a", "w"], ["out"], body, [helper.make_opsetid("", 18)], ["slope"])
    chain = [node("MatMul", "x A", "h"), node("Head", "h B", "y", domain="own", slope=alpha)]
    return build(chain, functions=[function], A=A, B=B)


def inlined(alpha: float) -> ModelProto:
    chain = [
        *(node("MatMul", "x A", "h"), node("Tanh", "h", "t"), node("LeakyRelu", "t", "r", alpha=alpha)),
        *(node("MatMul", "r B", "z"), node("Softmax", "z", "y")),
    ]
    return build(chain, A=A, B=B)


def test_functions_with_attributes_are_judged_as_what_they_stand_for(tmp_path: Path) -> None:
    found = verdicts(tmp_path, with_function(0.1), inlined(0.1))
    assert statuses(found) == {Status.PASS}, [v.message for v in found.values()]


def test_another_attribute_of_a_function_is_another_meaning(tmp_path: Path) -> None:
    found = verdicts(tmp_path, with_function(0.11), inlined(0.1))
    assert found[MEANING].status is Status.MEANING
    assert found[ORT].status is Status.PASS


def scalar(name: str, kind: int, *dims: int | str) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, kind, list(dims))


def with_loop(turns: int) -> ModelProto:
    """tanh(· A B) a number of times, in a Loop."""
    body = helper.make_graph(
        [
            *(node("MatMul", "v A", "h"), node("MatMul", "h B", "z"), node("Tanh", "z", "next")),
            node("Identity", "go", "still"),
        ],
        "turn",
        [
            scalar("i", TensorProto.INT64),
            scalar("go", TensorProto.BOOL),
            scalar("v", TensorProto.FLOAT, "b", "t", WIDTH),
        ],
        [scalar("still", TensorProto.BOOL), scalar("next", TensorProto.FLOAT, "b", "t", WIDTH)],
    )
    loop = node("Loop", "turns always x", "y", body=body)
    return build([loop], turns=np.array(turns), always=np.array(True), A=A, B=B)


def with_if() -> ModelProto:
    """Two turns where x sums to something, one otherwise."""

    def branch(name: str, turns: int) -> onnx.GraphProto:
        chain = []
        for turn in range(turns):
            at, to = ("x" if turn == 0 else f"{name}{turn - 1}"), f"{name}{turn}"
            chain += [
                node("MatMul", f"{at} A", f"{to}h"),
                node("MatMul", f"{to}h B", f"{to}z"),
                node("Tanh", f"{to}z", to),
            ]
        return helper.make_graph(chain, name, [], [scalar(f"{name}{turns - 1}", TensorProto.FLOAT, "b", "t", WIDTH)])

    chain = [
        *(node("Abs", "x", "size"), node("ReduceSum", "size", "sum", keepdims=0), node("Greater", "sum zero", "some")),
        node("If", "some", "y", then_branch=branch("then", 2), else_branch=branch("else", 1)),
    ]
    return build(chain, zero=np.array(0.0), A=A, B=B)


def with_scan() -> ModelProto:
    """tanh(· A B) twice in a Scan of two turns, over an input that it does not use."""
    body = helper.make_graph(
        [node("MatMul", "v A", "h"), node("MatMul", "h B", "z"), node("Tanh", "z", "next")],
        "turn",
        [scalar("v", TensorProto.FLOAT, "b", "t", WIDTH), scalar("row", TensorProto.FLOAT)],
        [scalar("next", TensorProto.FLOAT, "b", "t", WIDTH)],
    )
    return build([node("Scan", "x rows", "y", body=body, num_scan_inputs=1)], rows=np.zeros(2), A=A, B=B)


def unrolled(turns: int, b: Array = B) -> ModelProto:
    chain = []
    for turn in range(turns):
        at, to = ("x" if turn == 0 else f"v{turn}"), ("y" if turn == turns - 1 else f"v{turn + 1}")
        chain += [
            node("MatMul", f"{at} A", f"h{turn}"),
            node("MatMul", f"h{turn} B", f"z{turn}"),
            node("Tanh", f"z{turn}", to),
        ]
    return build(chain, A=A, B=b)


@pytest.mark.parametrize("candidate", [with_loop(2), with_if(), with_scan()], ids=["loop", "if", "scan"])
def test_subgraphs_are_judged_as_anything_else(tmp_path: Path, candidate: ModelProto) -> None:
    found = verdicts(tmp_path, candidate, unrolled(2))
    assert statuses(found) == {Status.PASS}, [v.message for v in found.values()]
    other = B.copy()
    other[0, 0] *= 1.01
    assert verdicts(tmp_path, candidate, unrolled(2, other))[MEANING].status is Status.MEANING


def test_one_turn_too_many_is_another_meaning(tmp_path: Path) -> None:
    assert verdicts(tmp_path, with_loop(3), unrolled(2))[MEANING].status is Status.MEANING


def two_ends(*, crossed: bool = False) -> ModelProto:
    """p = q A B and r = tanh(p), from two inputs of which one is only added."""
    chain = [
        *(node("MatMul", "left A", "h"), node("MatMul", "h B", "z"), node("Add", "z right", "sum")),
        *(node("Tanh", "sum", "r"), node("Identity", "sum", "p")),
    ]
    names = ("p", "r") if not crossed else ("r", "p")
    return build(chain, inputs=("left", "right"), outputs=names, A=A, B=B)


def test_several_inputs_and_outputs_go_by_their_names(tmp_path: Path) -> None:
    found = verdicts(tmp_path, two_ends(crossed=True), two_ends())
    assert statuses(found) == {Status.PASS}
    assert {m.output for v in found.values() for m in v.outputs} == {"p", "r"}


def test_one_wrong_output_of_several_is_enough(tmp_path: Path) -> None:
    wrong = two_ends()
    wrong.graph.node[3].op_type = "Softsign"
    found = verdicts(tmp_path, wrong, two_ends(), MEANING)[MEANING]
    assert found.status is Status.MEANING
    assert found.worst is not None and found.worst.output == "r"


def test_weights_beside_the_file_are_judged_as_weights_inside(tmp_path: Path) -> None:
    onnx.save(network(), tmp_path / "reference.onnx")
    for spoiled, status in ((1.0, Status.PASS), (1.01, Status.MEANING)):
        path = tmp_path / "candidate.onnx"
        path.unlink(missing_ok=True)
        (tmp_path / "weights.bin").unlink(missing_ok=True)
        onnx.save(network(spoiled=spoiled), path, save_as_external_data=True, location="weights.bin", size_threshold=0)
        assert path.stat().st_size < A.nbytes / 2, "the weights are not in the file"
        found = judged(tmp_path)
        assert found[MEANING].status is status, found[MEANING].message
        assert found[SPEC].status is found[ORT].status is Status.PASS
