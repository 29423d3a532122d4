"""A given file: what it says is kept, what it does not say is guessed, and every guess is a note."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
from onnx import NodeProto, TensorProto, ValueInfoProto, helper, numpy_helper

from onnxparity.case import Axis, Subject, TensorSpec
from onnxparity.errors import UsageError
from onnxparity.export.given import Given, read_given
from onnxparity.export.lint import lint

WriteFile = Callable[..., Path]
Dims = Sequence[int | str | None]

FLOAT, HALF, INT64, BOOL = TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.INT64, TensorProto.BOOL


def value(name: str, dims: Dims, dtype: int = FLOAT) -> ValueInfoProto:
    return helper.make_tensor_value_info(name, dtype, dims)


def table(name: str, *shape: int, dtype: type = np.float32) -> TensorProto:
    return numpy_helper.from_array(np.ones(shape, dtype), name)


def numbers(name: str, *values: int) -> TensorProto:
    return numpy_helper.from_array(np.array(values, np.int64), name)


def scalar(name: str, number: int) -> TensorProto:
    return numpy_helper.from_array(np.array(number, np.int64), name)


@pytest.fixture
def given(write_file: WriteFile) -> Callable[..., Given]:
    """Reads a file of Identity nodes, one for each input, unless other nodes are given."""

    def make(
        inputs: Sequence[ValueInfoProto],
        nodes: Sequence[NodeProto] = (),
        *,
        outputs: Sequence[ValueInfoProto] | None = None,
        initializers: Sequence[TensorProto] = (),
        **options: object,
    ) -> Given:
        copies = [helper.make_node("Identity", [i.name], [f"{i.name}_out"]) for i in inputs]
        outs = [value(f"{i.name}_out", [], i.type.tensor_type.elem_type) for i in inputs]
        for out, source in zip(outs, inputs, strict=True):
            out.type.CopyFrom(source.type)
        path = write_file(nodes or copies, inputs=inputs, outputs=outputs or outs, initializers=initializers, **options)
        return read_given(path)

    return make


def spec(subject: Subject, name: str) -> TensorSpec:
    return next(s for s in subject.inputs if s.name == name)


def test_the_key_names_the_file_its_opset_and_its_dtype(write_file: WriteFile) -> None:
    path = write_file([helper.make_node("Relu", ["x"], ["y"])], opset=17, name="My Model.onnx")

    plain, named = read_given(path), read_given(path, "bert")

    assert plain.artifact.key.id == "my-model/file-17/float32"
    assert named.artifact.key.id == "bert/file-17/float32"
    assert (plain.subject.kind, plain.subject.origin) == ("onnx", str(path))
    assert plain.artifact.opset_asked == plain.artifact.opset_got == 17
    assert plain.artifact.seconds is None


def test_the_subject_of_a_file_has_no_findings_against_it(given: Callable[..., Given]) -> None:
    found = given([value("a", ["batch", None, -1, "?", 4]), value("b", ["batch", "sequence"], INT64)])

    assert lint(found.artifact, found.subject) == ()


def test_symbols_are_kept_with_letters_and_roles(given: Callable[..., Given]) -> None:
    found = given(
        [
            value("input_ids", ["batch_size", "sequence_length"], INT64),
            value("past_key", ["batch_size", 2, "past_length", 4]),
            value("encoder_states", ["batch_size", "encoder_length", 8]),
        ]
    )

    assert found.subject.axes == (
        Axis("batch_size", "b", "batch"),
        Axis("sequence_length", "t", "sequence"),
        Axis("past_length", "p", "past"),
        Axis("encoder_length", "s", "source"),
    )
    assert spec(found.subject, "past_key").role == "past"
    assert not any("axis" in note for note in found.notes)


def test_unknown_symbols_get_a_role_by_their_place_and_a_free_letter(given: Callable[..., Given]) -> None:
    found = given([value("x", ["bulk", "time", "blocks", "b2"]), value("y", ["bulk", "time"])])

    assert [(a.symbol, a.letter, a.role) for a in found.subject.axes] == [
        ("bulk", "b", "batch"),
        ("time", "t", "sequence"),
        ("blocks", "l", "other"),
        ("b2", "a", "other"),
    ]
    assert any("'bulk' is taken for the batch" in note for note in found.notes)
    assert any("'time' is taken for the sequence" in note for note in found.notes)


def test_a_dim_without_a_name_is_named_by_its_place_and_noted(given: Callable[..., Given]) -> None:
    found = given([value("x", [None, None, "?", 8]), value("y", [None, 3])])

    assert [s.dims for s in found.subject.inputs] == [("batch", "sequence", "dim2", 8), ("batch", 3)]
    assert "input 'x' has dims without a name, taken for batch, sequence, dim2" in found.notes
    assert "input 'y' has dims without a name, taken for batch" in found.notes


def test_the_sequence_of_an_encoder_alone_is_its_source_length(given: Callable[..., Given]) -> None:
    found = given([value("x", ["batch", "encoder_length"])])

    assert [(a.symbol, a.role) for a in found.subject.axes] == [("batch", "batch"), ("encoder_length", "sequence")]


def test_a_dim_that_is_a_sum_is_noted(given: Callable[..., Given]) -> None:
    found = given([value("x", ["batch", "past + sequence"])])

    assert any("'past + sequence' is computed from others" in note for note in found.notes)


@pytest.mark.parametrize(
    ("nodes", "initializers"),
    [
        ([helper.make_node("Gather", ["w", "ids"], ["y"])], [table("w", 100, 8)]),
        (
            [
                helper.make_node("Cast", ["ids"], ["i"], to=TensorProto.INT32),
                helper.make_node("Gather", ["w", "i"], ["y"]),
            ],
            [table("w", 100, 8)],
        ),
        (
            [
                helper.make_node("Unsqueeze", ["ids", "one"], ["u"]),
                helper.make_node("Squeeze", ["u", "one"], ["s"]),
                helper.make_node("Identity", ["s"], ["i"]),
                helper.make_node("Gather", ["w", "i"], ["y"]),
            ],
            [table("w", 100, 8), numbers("one", 1)],
        ),
        (
            [
                helper.make_node("DequantizeLinear", ["q", "scale"], ["w"]),
                helper.make_node("Gather", ["w", "ids"], ["y"]),
            ],
            [table("q", 100, 8, dtype=np.int8), table("scale")],
        ),
        (
            [
                helper.make_node("Cast", ["q"], ["f"], to=FLOAT),
                helper.make_node("Mul", ["f", "scale"], ["w"]),
                helper.make_node("Gather", ["w", "ids"], ["y"]),
            ],
            [table("q", 100, 8, dtype=np.int8), table("scale", 100, 1)],
        ),
        (
            [
                helper.make_node("Gather", ["large", "ids"], ["z"]),
                helper.make_node("Gather", ["w", "ids"], ["v"]),
                helper.make_node("Add", ["z", "v"], ["y"]),
            ],
            [table("large", 500, 8), table("w", 100, 8)],
        ),
    ],
    ids=["plain", "cast", "reshaped", "dequantized", "scaled", "the smaller of two"],
)
def test_integers_that_index_a_table_stay_inside_it(
    given: Callable[..., Given], nodes: list[NodeProto], initializers: list[TensorProto]
) -> None:
    found = given(
        [value("ids", ["batch", "sequence"], INT64)],
        nodes,
        outputs=[value("y", ["batch", "sequence", 8])],
        initializers=initializers,
    )

    ids = spec(found.subject, "ids")
    assert (ids.role, ids.dtype, ids.low, ids.high) == ("tokens", "int64", 0, 99)
    assert "input 'ids' is fed with 0 to 99: it indexes a table of 100 rows" in found.notes


@pytest.mark.parametrize(
    ("node", "initializer"),
    [
        (helper.make_node("Gather", ["w", "ids"], ["y"], axis=1), table("w", 100, 8)),
        (helper.make_node("Gather", ["ids", "w"], ["y"]), numbers("w", 0)),
    ],
    ids=["another axis", "it is the table"],
)
def test_integers_that_index_nothing_in_sight_are_small(
    given: Callable[..., Given], node: NodeProto, initializer: TensorProto
) -> None:
    found = given(
        [value("ids", ["batch", "sequence"], INT64)], [node], outputs=[value("y", [])], initializers=[initializer]
    )

    assert (spec(found.subject, "ids").high, spec(found.subject, "ids").role) == (1, "other")
    assert "input 'ids' is fed with 0 and 1: no table is seen that it indexes" in found.notes


@pytest.mark.parametrize(
    ("dtype", "meaning", "spelled"), [(INT64, "keep", "int64"), (BOOL, "keep", "bool"), (FLOAT, "additive", "float")]
)
def test_masks_are_known_by_their_name(given: Callable[..., Given], dtype: int, meaning: str, spelled: str) -> None:
    found = given([value("attention_mask", ["batch", "sequence"], dtype)])

    mask = spec(found.subject, "attention_mask")
    assert (mask.role, mask.mask_meaning, mask.dtype, mask.high) == ("mask", meaning, spelled, 1)
    assert any("taken for a mask by its name" in note for note in found.notes)


def test_the_dtype_is_that_of_most_weights_and_other_floats_keep_theirs(given: Callable[..., Given]) -> None:
    nodes = [
        helper.make_node("Cast", ["x"], ["h"], to=HALF),
        helper.make_node("MatMul", ["h", "w"], ["m"]),
        helper.make_node("Add", ["m", "z"], ["y"]),
    ]
    found = given(
        [value("x", ["batch", 8]), value("z", ["batch", 8], HALF)],
        nodes,
        outputs=[value("y", ["batch", 8], HALF)],
        initializers=[table("w", 8, 8, dtype=np.float16), table("b", 2)],
    )

    assert found.artifact.key.dtype == "float16"
    assert found.subject.dtypes == ("float16",)
    assert (spec(found.subject, "x").dtype, spec(found.subject, "z").dtype) == ("float32", "float")


def test_a_file_without_floats_counts_as_float32(given: Callable[..., Given]) -> None:
    assert given([value("ids", ["batch"], INT64)]).artifact.key.dtype == "float32"


def test_outputs_have_roles_and_dims_in_axes(given: Callable[..., Given]) -> None:
    nodes = [
        helper.make_node("Identity", ["x"], ["logits"]),
        helper.make_node("Concat", ["past", "x"], ["present"], axis=1),
        helper.make_node("Relu", ["x"], ["hidden"]),
    ]
    outputs = [
        value("logits", ["batch", "seq len", 8]),
        value("present", ["batch", "past + seq len", 8]),
        value("hidden", ["batch", "unk__7", 8]),
    ]
    found = given([value("x", ["batch", "seq len", 8]), value("past", ["batch", "past", 8])], nodes, outputs=outputs)

    assert [(o.name, o.role, o.dims) for o in found.subject.outputs] == [
        ("logits", "logits", ("batch", "seq_len", 8)),
        ("present", "present", ("batch", "past+seq_len", 8)),
        ("hidden", "features", ("batch", None, 8)),
    ]


def test_outputs_without_dims_get_the_inferred_ones(given: Callable[..., Given]) -> None:
    untyped = helper.make_tensor_value_info("y", FLOAT, None)
    found = given([value("x", ["batch", 8])], [helper.make_node("Relu", ["x"], ["y"])], outputs=[untyped])

    assert found.subject.outputs[0].dims == ("batch", 8)


def positions(*middle: NodeProto, ends: str = "end") -> list[NodeProto]:
    return [
        *middle,
        helper.make_node("Slice", ["table", "zero", ends, "zero"], ["cut"]),
        helper.make_node("Add", ["x", "cut"], ["y"]),
    ]


LENGTH = [
    helper.make_node("Shape", ["x"], ["shape"]),
    helper.make_node("Gather", ["shape", "one"], ["n"]),
    helper.make_node("Unsqueeze", ["n", "zero"], ["end"]),
]


@pytest.mark.parametrize(
    ("nodes", "high"),
    [
        (positions(*LENGTH), 64),
        (positions(helper.make_node("Shape", ["x"], ["end"], start=1, end=2)), 64),
        (positions(*LENGTH, helper.make_node("Add", ["end", "end"], ["twice"]), ends="twice"), None),
        (positions(ends="ten"), None),
    ],
    ids=["by gather", "by start and end", "computed", "constant"],
)
def test_a_table_that_is_cut_to_the_length_bounds_it(
    given: Callable[..., Given], nodes: list[NodeProto], high: int | None
) -> None:
    found = given(
        [value("x", ["batch", "sequence", 8])],
        nodes,
        outputs=[value("y", ["batch", "sequence", 8])],
        initializers=[table("table", 64, 8), numbers("zero", 0), scalar("one", 1), numbers("ten", 10)],
    )

    assert [axis.high for axis in found.subject.axes] == [None, high]
    assert ("axis 'sequence' is at most 64: a table of that length is cut to it" in found.notes) == (high == 64)


def test_an_input_that_is_no_tensor_is_refused(write_file: WriteFile) -> None:
    sequence = helper.make_tensor_sequence_value_info("x", FLOAT, [None])
    path = write_file(
        [helper.make_node("SequenceLength", ["x"], ["y"])], inputs=[sequence], outputs=[value("y", [], INT64)]
    )

    with pytest.raises(UsageError, match="input 'x' cannot be fed") as raised:
        read_given(path)
    assert raised.value.got == "sequence_type"


def test_text_and_unknown_ranks_are_refused(write_file: WriteFile) -> None:
    text = value("x", ["n"], TensorProto.STRING)
    ranks = helper.make_tensor_value_info("x", FLOAT, None)
    for given_input, said in ((text, "object"), (ranks, "unknown rank")):
        path = write_file([helper.make_node("Identity", ["x"], ["y"])], inputs=[given_input], outputs=[given_input])
        with pytest.raises(UsageError, match="cannot be fed") as raised:
            read_given(path)
        assert said in str(raised.value.got)


def test_two_outputs_of_one_name_are_refused(write_file: WriteFile) -> None:
    twin = value("y", ["batch", 8])
    path = write_file([helper.make_node("Relu", ["x"], ["y"])], outputs=[twin, twin])

    with pytest.raises(UsageError, match="two outputs alike"):
        read_given(path)


def test_a_file_that_is_no_model_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "notes.onnx"
    path.write_text("no model")

    with pytest.raises(UsageError, match="not an ONNX file"):
        read_given(path)


def test_a_half_precision_file_with_float32_tables_is_half(given: Callable[..., Given]) -> None:
    inputs = [value("x", ["batch"], HALF)]
    assert given(inputs, initializers=[table("frequencies", 64)]).artifact.key.dtype == "float16"
    mixed = [*inputs, value("y", ["batch"], FLOAT)]
    assert given(mixed, initializers=[table("frequencies", 64)]).artifact.key.dtype == "float32"
