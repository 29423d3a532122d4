"""Every lint rule with a file that breaks it and one that does not."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from onnx import NodeProto, TensorProto, helper, numpy_helper
from torch import Tensor, nn

from onnxparity.artifact import Artifact
from onnxparity.case import OutputSpec, Subject
from onnxparity.errors import UsageError
from onnxparity.export.artifact import read_artifact
from onnxparity.export.finding import Context, Finding, rule
from onnxparity.export.lint import lint
from onnxparity.plan import ArtifactKey

MakeSubject = Callable[..., Subject]
WriteFile = Callable[..., Path]
ReadFile = Callable[..., Artifact]

BATCH = {"x": ("batch", 8)}
RELU = helper.make_node("Relu", ["x"], ["y"], name="r")


def found(artifact: Artifact, subject: Subject) -> list[tuple[str, str]]:
    return [(finding.rule, finding.severity) for finding in lint(artifact, subject)]


def test_a_file_as_asked_has_no_findings(make_subject: MakeSubject, write_file: WriteFile, read_file: ReadFile) -> None:
    assert lint(read_file(write_file([RELU])), make_subject(BATCH)) == ()


def test_a_dynamic_axis_that_is_constant_is_named_with_its_value(
    make_subject: MakeSubject, write_file: WriteFile, read_file: ReadFile
) -> None:
    subject = replace(make_subject(BATCH), outputs=(OutputSpec("y", ("batch", 8)),))
    findings = lint(read_file(write_file([RELU], dims=[1, 8])), subject)

    assert [(f.rule, f.severity) for f in findings] == [("asked-dynamic-axis-is-constant", "error")] * 2
    assert findings[0].message == "input 'x': axis 'batch' (dim 0) was asked to be dynamic and is the constant 1"
    assert "output 'y'" in findings[1].message
    assert "[1, 8] in the file" in findings[0].evidence
    assert "2 or more" in findings[0].remedy


def test_a_plain_export_with_a_batch_of_one_is_caught(make_subject: MakeSubject, tmp_path: Path) -> None:
    class SelfAttention(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.attention = nn.MultiheadAttention(8, 2, batch_first=True)

        def forward(self, x: Tensor) -> Tensor:
            out: Tensor = self.attention(x, x, x, need_weights=False)[0]
            return out

    dims = ({0: torch.export.Dim("batch"), 1: torch.export.Dim("sequence")},)
    path, key = tmp_path / "m.onnx", ArtifactKey("small", "dynamo", 18, "float32")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            SelfAttention().eval(),
            (torch.randn(1, 6, 8),),
            path,
            dynamo=True,
            opset_version=18,
            dynamic_shapes=dims,
            input_names=["x"],
            output_names=["y"],
            external_data=False,
            verbose=False,
        )
    artifact = read_artifact(path, key, opset_asked=18, seconds=None, cached=False)

    findings = lint(artifact, make_subject())

    assert [f.rule for f in findings] == ["asked-dynamic-axis-is-constant"]
    assert "axis 'batch'" in findings[0].message
    assert "constant 1" in findings[0].message


def test_a_dim_that_the_file_leaves_open_is_no_constant(
    make_subject: MakeSubject, write_file: WriteFile, read_file: ReadFile
) -> None:
    assert found(read_file(write_file([RELU], dims=[None, 8])), make_subject(BATCH)) == []


def test_two_axes_under_one_symbol_are_a_warning(
    make_subject: MakeSubject, write_file: WriteFile, read_file: ReadFile
) -> None:
    tied = read_file(write_file([RELU], dims=["n", "n"]))
    free = read_file(write_file([RELU], dims=["n", "m"]))
    subject = make_subject({"x": ("batch", "sequence")})

    assert found(tied, subject) == [("asked-axes-are-tied", "warning")]
    assert found(free, subject) == []


@pytest.mark.parametrize("dims", [["batch", 9], ["batch", 8, 1]])
def test_another_size_or_rank_is_an_error(
    make_subject: MakeSubject, write_file: WriteFile, read_file: ReadFile, dims: list[int | str]
) -> None:
    assert found(read_file(write_file([RELU], dims=dims)), make_subject(BATCH)) == [("input-dims-differ", "error")]


def test_another_opset_than_asked_or_named_is_an_error(
    make_subject: MakeSubject, write_file: WriteFile, read_file: ReadFile
) -> None:
    artifact = read_file(write_file([RELU], opset=18), opset=26)
    named = replace(artifact, opset_asked=18)

    assert found(artifact, make_subject(BATCH)) == [("opset-mismatch", "error")]
    assert found(named, make_subject(BATCH)) == [("opset-mismatch", "error")]


def test_other_names_are_an_error_and_another_order_a_warning(
    make_subject: MakeSubject, write_file: WriteFile, read_file: ReadFile
) -> None:
    values = [helper.make_tensor_value_info(n, TensorProto.FLOAT, ["batch", 8]) for n in ("x", "z", "y", "w")]
    nodes = [helper.make_node("Relu", ["x"], ["y"]), helper.make_node("Relu", ["z"], ["w"])]
    artifact = read_file(write_file(nodes, inputs=values[:2], outputs=values[2:]))
    both = {"x": ("batch", 8), "z": ("batch", 8)}

    assert found(artifact, make_subject(both, ["y", "w"])) == []
    assert found(artifact, make_subject(dict(reversed(both.items())), ["w", "y"])) == [("names-differ", "warning")] * 2
    assert found(artifact, make_subject({"x": ("batch", 8)}, ["y", "v"])) == [("names-differ", "error")] * 2
    assert found(artifact, make_subject(both, ["y"])) == [("names-differ", "error")]


def dropout(flag: bool | None) -> tuple[list[NodeProto], list[TensorProto]]:
    ratio = numpy_helper.from_array(np.array(0.5, np.float32), "ratio")
    if flag is None:
        return [helper.make_node("Dropout", ["x", "ratio"], ["y"], name="d")], [ratio]
    mode = numpy_helper.from_array(np.array(flag), "mode")
    return [helper.make_node("Dropout", ["x", "ratio", "mode"], ["y"], name="d")], [ratio, mode]


@pytest.mark.parametrize(("flag", "severity"), [(True, "error"), (False, "warning"), (None, "warning")])
def test_dropout_is_an_error_when_live_and_a_warning_when_idle(
    make_subject: MakeSubject, write_file: WriteFile, read_file: ReadFile, flag: bool | None, severity: str
) -> None:
    nodes, initializers = dropout(flag)

    assert found(read_file(write_file(nodes, initializers=initializers)), make_subject(BATCH)) == [
        ("training-node", severity)
    ]


def test_dropout_whose_mode_is_fed_counts_as_live(
    make_subject: MakeSubject, write_file: WriteFile, read_file: ReadFile
) -> None:
    nodes, initializers = dropout(True)
    inputs = [
        helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 8]),
        helper.make_tensor_value_info("mode", TensorProto.BOOL, []),
    ]
    artifact = read_file(write_file(nodes, initializers=initializers[:1], inputs=inputs))

    assert found(artifact, make_subject({"x": ("batch", 8), "mode": ()}, mode="bool")) == [("training-node", "error")]


def test_batch_statistics_are_an_error(make_subject: MakeSubject, write_file: WriteFile, read_file: ReadFile) -> None:
    numbers = [numpy_helper.from_array(np.ones(8, np.float32), n) for n in "sbmv"]
    live = helper.make_node("BatchNormalization", ["x", *"sbmv"], ["y", "m2", "v2"], training_mode=1)
    idle = helper.make_node("BatchNormalization", ["x", *"sbmv"], ["y"])

    assert found(read_file(write_file([live], initializers=numbers)), make_subject(BATCH)) == [
        ("training-node", "error")
    ]
    assert found(read_file(write_file([idle], initializers=numbers)), make_subject(BATCH)) == []


def test_random_numbers_are_an_error_wherever_they_are_drawn(
    make_subject: MakeSubject, write_file: WriteFile, read_file: ReadFile
) -> None:
    value = helper.make_tensor_value_info("v", TensorProto.FLOAT, None)
    draw = helper.make_graph([helper.make_node("RandomNormalLike", ["x"], ["v"], name="draw")], "a", [], [value])
    keep = helper.make_graph([helper.make_node("Identity", ["x"], ["v"])], "b", [], [value])
    branch = helper.make_node("If", ["flag"], ["y"], then_branch=draw, else_branch=keep)
    flag = numpy_helper.from_array(np.array(True), "flag")
    findings = lint(read_file(write_file([branch], initializers=[flag])), make_subject(BATCH))

    assert [(f.rule, f.severity) for f in findings] == [("random-operator", "error")]
    assert "draw" in findings[0].evidence


def test_inputs_in_another_float_than_the_artifacts_are_an_error(
    make_subject: MakeSubject, write_file: WriteFile, read_file: ReadFile
) -> None:
    path = write_file([RELU])

    assert found(read_file(path, dtype="float16"), make_subject(BATCH)) == [("float-dtype-mismatch", "error")]
    assert found(read_file(path, dtype="float16"), make_subject(BATCH, x="float32")) == []


def looked_up(weight: TensorProto, to: int) -> tuple[list[NodeProto], list[TensorProto]]:
    """Rows of a table, cast to the output's dtype: a model whose only inputs are integers."""
    nodes = [helper.make_node("Gather", [weight.name, "x"], ["row"]), helper.make_node("Cast", ["row"], ["y"], to=to)]
    return nodes, [weight]


@pytest.mark.parametrize(
    ("to", "rank", "expected"),
    [
        (TensorProto.FLOAT, 2, [("float-dtype-mismatch", "error")]),
        (TensorProto.FLOAT16, 2, [("float-dtype-mismatch", "warning")]),
        (TensorProto.FLOAT16, 1, []),
    ],
    ids=["nothing is half", "the output is half", "only a vector"],
)
def test_weights_in_another_float_than_the_artifacts_are_found(
    make_subject: MakeSubject,
    write_file: WriteFile,
    read_file: ReadFile,
    to: int,
    rank: int,
    expected: list[tuple[str, str]],
) -> None:
    nodes, initializers = looked_up(numpy_helper.from_array(np.ones((4,) * rank, np.float32), "w"), to)
    inputs = [helper.make_tensor_value_info("x", TensorProto.INT64, ["batch"])]
    dims: list[int | str | None] = ["batch", 4]
    outputs = [helper.make_tensor_value_info("y", to, dims[:rank])]
    path = write_file(nodes, initializers=initializers, inputs=inputs, outputs=outputs)

    assert found(read_file(path, dtype="float16"), make_subject({"x": ("batch",)}, x="int64")) == expected


def test_computing_in_half_inside_a_float32_file_is_a_warning(
    make_subject: MakeSubject, write_file: WriteFile, read_file: ReadFile
) -> None:
    nodes = [
        helper.make_node("Cast", ["x"], ["h"], to=TensorProto.FLOAT16, name="down"),
        helper.make_node("Softmax", ["h"], ["s"]),
        helper.make_node("Cast", ["s"], ["y"], to=TensorProto.FLOAT),
    ]
    findings = lint(read_file(write_file(nodes)), make_subject(BATCH))

    assert [(f.rule, f.severity) for f in findings] == [("computes-below-its-dtype", "warning")]
    assert "2 nodes compute in float16 inside a float32 file: 1 Cast, 1 Softmax" in findings[0].message
    assert "down" in findings[0].evidence


def test_half_weights_that_are_widened_first_are_no_finding(
    make_subject: MakeSubject, write_file: WriteFile, read_file: ReadFile
) -> None:
    small = numpy_helper.from_array(np.ones(8, np.float16), "h")
    large = numpy_helper.from_array(np.ones((64, 8), np.float32), "w")
    nodes = [
        helper.make_node("Cast", ["h"], ["wide"], to=TensorProto.FLOAT),
        helper.make_node("Add", ["x", "wide"], ["y"]),
    ]

    assert found(read_file(write_file(nodes, initializers=[small, large])), make_subject(BATCH)) == []


def test_a_softmax_precision_below_the_files_own_is_a_warning(
    make_subject: MakeSubject, write_file: WriteFile, read_file: ReadFile
) -> None:
    node = helper.make_node("Attention", ["x", "x", "x"], ["y"], softmax_precision=TensorProto.FLOAT16)
    path = write_file([node], dims=["batch", 2, 4, 8], opset=23)

    assert found(read_file(path, opset=23), make_subject({"x": ("batch", 2, 4, 8)})) == [
        ("computes-below-its-dtype", "warning")
    ]


def test_the_evidence_names_the_users_module_and_line(
    make_subject: MakeSubject, write_file: WriteFile, read_file: ReadFile
) -> None:
    nodes, initializers = dropout(True)
    nodes[0].metadata_props.add(key="namespace", value="encoder.layers.0")
    nodes[0].metadata_props.add(key="pkg.torch.onnx.stack_trace", value='File "block.py", line 7, in forward\n  drop')
    (finding,) = lint(read_file(write_file(nodes, initializers=initializers)), make_subject(BATCH))

    assert finding.evidence == 'Dropout d; encoder.layers.0; File "block.py", line 7, in forward'


def test_large_weights_do_not_hide_anything(
    make_subject: MakeSubject, write_file: WriteFile, read_file: ReadFile
) -> None:
    weight = numpy_helper.from_array(np.ones((512, 8, 8), np.float32)[0], "w")
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["m"]),
        helper.make_node("Cast", ["m"], ["h"], to=TensorProto.FLOAT16),
        helper.make_node("Cast", ["h"], ["y"], to=TensorProto.FLOAT),
    ]
    large = numpy_helper.from_array(np.ones((512, 8), np.float32), "table")

    assert found(read_file(write_file(nodes, initializers=[weight, large])), make_subject(BATCH)) == [
        ("computes-below-its-dtype", "warning")
    ]


def test_errors_come_first(make_subject: MakeSubject, write_file: WriteFile, read_file: ReadFile) -> None:
    nodes, initializers = dropout(False)
    artifact = read_file(write_file(nodes, initializers=initializers, dims=[1, 8]))

    assert [severity for _, severity in found(artifact, make_subject(BATCH))] == ["error", "warning"]


def test_a_rule_cannot_take_anothers_id() -> None:
    def nothing(context: Context) -> Iterator[Finding]:
        yield from ()

    with pytest.raises(ValueError, match="already: opset_mismatch"):
        rule("opset-mismatch")(nothing)


def test_a_file_that_is_gone_is_an_error_and_not_clean(
    make_subject: MakeSubject, write_file: WriteFile, read_file: ReadFile
) -> None:
    artifact = read_file(write_file([RELU]))
    Path(artifact.path).unlink()

    with pytest.raises(UsageError, match="cannot read"):
        lint(artifact, make_subject(BATCH))
