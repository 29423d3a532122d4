"""The operator cases of the onnx package: found by name, written as they are, left out only with a reason."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from onnxparity.errors import SubjectError, UsageError
from onnxparity.export.operator_cases import OperatorCase, matching, written
from onnxparity.plan import ArtifactKey


def one(name: str) -> OperatorCase:
    """The case of that name."""
    (case,) = matching(name)
    return case


def case_of(operator: str, output: np.ndarray[tuple[int, ...], np.dtype[np.float32]], domain: str = "") -> OperatorCase:
    """A case of one node whose authors expect this output."""
    x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, list(output.shape)) for n in "xy")
    graph = helper.make_graph([helper.make_node(operator, ["x"], ["y"], domain=domain)], "g", [x], [y])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid(domain, 18)])
    return OperatorCase("own", model, (((np.ones_like(output),), (output,)),))


def test_a_glob_stands_for_every_case_that_it_fits() -> None:
    names = {case.name for case in matching("rotary_embedding*")}
    assert {"rotary_embedding", "rotary_embedding_3d_input", "rotary_embedding_expanded"} <= names
    assert all(name.startswith("rotary_embedding") for name in names)


def test_underscores_do_not_count_where_nothing_else_fits() -> None:
    assert {case.name for case in matching("tensor_scatter*")} == {case.name for case in matching("tensorscatter*")}
    assert all(case.name.startswith("attention_4d") for case in matching("attention_4d*"))


def test_a_name_that_nothing_has_raises_with_near_matches() -> None:
    with pytest.raises(SubjectError, match="attention_4d_gqa"):
        matching("attention_4d_gga")


def test_most_cases_can_be_used() -> None:
    cases = matching("*")
    assert len(cases) > 1800
    assert len([case for case in cases if not case.unusable]) > 1700


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("identity_sequence", "sequence"),
        ("optional_has_element_tensor_input", "optional"),
        ("string_concat", "text"),
        ("bernoulli", "random"),
        ("bernoulli_expanded", "random"),
        ("training_dropout_default", "trains"),
        ("batchnorm_example_training_mode", "trains"),
        ("slice_start_out_of_bounds", "empty"),
        ("reduce_max_empty_set", "infinite"),
        ("ai_onnx_ml_binarizer", "ai.onnx.ml"),
    ],
)
def test_what_cannot_be_compared_says_why(name: str, why: str) -> None:
    assert why in one(name).unusable


def test_one_finite_value_is_enough() -> None:
    assert not case_of("Relu", np.array([np.inf, 1], np.float32)).unusable
    assert case_of("Relu", np.array([np.inf, np.nan], np.float32)).unusable
    assert case_of("Relu", np.array([1], np.float32), "own.domain").unusable


def test_every_value_has_the_dtype_that_the_file_declares() -> None:
    for case in matching("*"):
        if case.unusable:
            continue
        values = {**case.feeds["set-0"], **case.expected["set-0"]}
        for declared in (*case.model.graph.input, *case.model.graph.output):
            dtype = helper.tensor_dtype_to_np_dtype(declared.type.tensor_type.elem_type)
            assert values[declared.name].dtype == dtype, f"{case.name}: {declared.name}"


def test_the_file_holds_the_case_and_the_subject_its_sizes() -> None:
    case = one("attention_4d_gqa")
    subject, artifact = written(case, "own-name", "own:origin")
    assert onnx.load(artifact.path) == case.model
    assert artifact.key == ArtifactKey("own-name", "file", 23, "float32")
    assert (subject.name, subject.origin, subject.axes) == ("own-name", "own:origin", ())
    assert {i.name: i.dims for i in subject.inputs} == {n: v.shape for n, v in case.feeds["set-0"].items()}
    assert {o.name: o.dims for o in subject.outputs} == {n: v.shape for n, v in case.expected["set-0"].items()}


def test_the_dtype_is_that_of_the_first_float() -> None:
    for name, dtype in (("attention_4d_fp16", "float16"), ("attention_4d_causal_bf16", "bfloat16"), ("add", "float32")):
        assert written(one(name), "own", "own")[1].key.dtype == dtype
    assert written(one("and2d"), "own", "own")[1].key.dtype == "float32"


def test_a_file_that_was_changed_in_the_cache_is_written_again() -> None:
    case = one("gelu_default_1")
    path = Path(written(case, "own", "own")[1].path)
    path.write_bytes(b"spoiled")
    assert onnx.load(written(case, "own", "own")[1].path) == case.model


def test_a_cache_that_cannot_be_written_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("no folder")
    monkeypatch.setenv("ONNXPARITY_CACHE", str(tmp_path / "file" / "cache"))
    with pytest.raises(UsageError, match="cannot be written"):
        written(one("relu"), "own", "own")
