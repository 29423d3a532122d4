"""Roles of a file: caches are paired by name and shape, positions count, and what is given is taken."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
from onnx import NodeProto, TensorProto, ValueInfoProto, helper, numpy_helper

from onnxparity.case import Subject, TensorSpec
from onnxparity.errors import UsageError
from onnxparity.export.given import Given, read_given
from onnxparity.export.roles import ANYWHERE, give_roles
from onnxparity.feeding.feeds import draw

WriteFile = Callable[..., Path]
FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64
B, T, P = "batch_size", "sequence_length", "past_sequence_length"


def value(name: str, *dims: int | str | None, dtype: int = FLOAT) -> ValueInfoProto:
    return helper.make_tensor_value_info(name, dtype, dims)


@pytest.fixture
def given(write_file: WriteFile) -> Callable[..., Given]:
    """Reads a file of these inputs and outputs; nothing in it is run."""

    def make(
        inputs: Sequence[ValueInfoProto],
        outputs: Sequence[ValueInfoProto],
        nodes: Sequence[NodeProto] = (),
        initializers: Sequence[TensorProto] = (),
    ) -> Given:
        made = {name for node in nodes for name in node.output}
        copies = [helper.make_node("Identity", [inputs[0].name], [o.name]) for o in outputs if o.name not in made]
        return read_given(write_file([*nodes, *copies], inputs=inputs, outputs=outputs, initializers=initializers))

    return make


def spec(subject: Subject, name: str) -> TensorSpec:
    return next(s for s in subject.inputs if s.name == name)


def decoder(*, mask: str = f"{P} + {T}", cache: tuple[int | str, ...] = (B, 2, P, 4)) -> list[ValueInfoProto]:
    """Inputs as exported decoders name them."""
    caches = [value(f"past_key_values.{n}.{part}", *cache) for n in (0, 1) for part in ("key", "value")]
    return [
        value("input_ids", B, T, dtype=INT64),
        value("attention_mask", B, mask, dtype=INT64),
        value("position_ids", B, T, dtype=INT64),
        *caches,
    ]


def presents(length: int | str | None = f"{P} + {T}") -> list[ValueInfoProto]:
    return [value(f"present.{n}.{part}", B, 2, length, 4) for n in (0, 1) for part in ("key", "value")]


@pytest.mark.parametrize("length", [f"{P} + {T}", "total", None], ids=["a sum", "a name", "nothing"])
def test_a_cache_is_paired_with_what_becomes_it(given: Callable[..., Given], length: str | None) -> None:
    found = given(decoder(), [value("logits", B, T, 8), *presents(length)])

    names = [f"{n}.{part}" for n in (0, 1) for part in ("key", "value")]
    assert found.subject.roles == {f"present.{name}": f"past_key_values.{name}" for name in names}
    grown = [o for o in found.subject.outputs if o.role == "present"]
    assert {o.dims for o in grown} == {(B, 2, f"{P}+{T}", 4)} and len(grown) == 4
    note = "output 'present.1.key' is taken for what input 'past_key_values.1.key' is at the next step"
    assert note in found.notes


@pytest.mark.parametrize(
    ("past", "present"),
    [
        ("past_key_0", "present_key_0"),
        ("past", "present"),
        ("k_cache_in", "k_cache_out"),
        ("cache_value_3", "new_cache_value_3"),
        ("past_key_values.7.decoder.key", "present_key_values.7.decoder.key"),
    ],
)
def test_caches_are_paired_under_many_names(given: Callable[..., Given], past: str, present: str) -> None:
    name = past if "past" in past else f"past_{past}"
    found = given([value("ids", B, T, dtype=INT64), value(name, B, P, 4)], [value(present, B, f"{P} + {T}", 4)])

    assert found.subject.roles == {present: name}


@pytest.mark.parametrize(
    ("name", "dims"),
    [("present.1.key", (B, f"{P} + {T}", 4)), ("present.0.value", (B, f"{P} + {T}", 4)), ("present.0.key", (B, 4))],
    ids=["another layer", "a value", "another rank"],
)
def test_what_does_not_fit_a_cache_is_not_paired(
    given: Callable[..., Given], name: str, dims: tuple[int | str, ...]
) -> None:
    found = given([value("ids", B, T, dtype=INT64), value("past_key_values.0.key", B, P, 4)], [value(name, *dims)])

    assert found.subject.roles == {}


def test_a_mask_covers_past_and_new_tokens(given: Callable[..., Given]) -> None:
    for mask, guessed in ((f"{P} + {T}", False), ("total_sequence_length", True)):
        found = given(decoder(mask=mask), [value("logits", B, T, 8), *presents()])
        assert spec(found.subject, "attention_mask").dims == (B, f"{P}+{T}")
        assert [axis.symbol for axis in found.subject.axes] == [B, T, P]
        assert any("together" in note for note in found.notes) == guessed
        feeds = draw(found.subject, {B: 2, T: 3, P: 4}, "normal", "float32")
        assert feeds["attention_mask"].shape == (2, 7)


def test_a_sum_with_a_number_in_it_is_a_size(given: Callable[..., Given]) -> None:
    found = given(
        [value("ids", B, 1, dtype=INT64), value("past", B, P, 4), value("mask", B, f"{P} + 1", dtype=INT64)],
        [value("present", B, f"{P} + 1", 4)],
    )

    assert draw(found.subject, {B: 2, P: 4}, "normal", "float32")["mask"].shape == (2, 5)
    assert found.subject.outputs[0].dims == (B, f"{P}+1", 4)


def test_positions_count_the_tokens_after_the_past(given: Callable[..., Given]) -> None:
    found = given(decoder(), [value("logits", B, T, 8), *presents()])

    positions = spec(found.subject, "position_ids")
    assert (positions.role, positions.high) == ("positions", ANYWHERE)
    feeds = draw(found.subject, {B: 2, T: 3, P: 4}, "normal", "float32")
    assert feeds["position_ids"].tolist() == [[4, 5, 6], [4, 5, 6]]
    assert any("'position_ids' is taken for positions" in note for note in found.notes)


def test_positions_stay_inside_their_table_and_bound_the_sequence(given: Callable[..., Given]) -> None:
    table = numpy_helper.from_array(np.ones((12, 4), np.float32), "table")
    nodes = [helper.make_node("Gather", ["table", "position_ids"], ["y"])]
    ids = [value("input_ids", "b", "t", dtype=INT64), value("position_ids", "b", "t", dtype=INT64)]
    found = given(ids, [value("y", "b", "t", 4)], nodes, [table])

    assert (spec(found.subject, "position_ids").role, spec(found.subject, "position_ids").high) == ("positions", 11)
    assert [axis.high for axis in found.subject.axes] == [None, 12]


@pytest.mark.parametrize(
    ("name", "dtype", "role"),
    [
        ("position_ids", INT64, "positions"),
        ("cache_position", INT64, "positions"),
        ("decoder.pos", INT64, "positions"),
        ("positionIds", INT64, "positions"),
        ("position_ids", FLOAT, "features"),
        ("composition", INT64, "other"),
        ("preposition_id", INT64, "other"),
    ],
)
def test_only_integers_of_that_name_count(given: Callable[..., Given], name: str, dtype: int, role: str) -> None:
    found = given([value(name, "b", "t", dtype=dtype)], [value("y", "b", "t", dtype=dtype)])

    assert spec(found.subject, name).role == role


def plain(given: Callable[..., Given]) -> Given:
    """A file whose names say little."""
    return given(
        [
            value("a", "n", "m", dtype=INT64),
            value("b", "n", "m"),
            value("mask", "n", "m", dtype=INT64),
            value("c", "n", "q", 4),
        ],
        [value("y", "n", "m", 4), value("w", "n", "m", "q"), value("d", "n", "q", 4)],
    )


def test_given_roles_are_taken_and_replace_the_guesses(given: Callable[..., Given]) -> None:
    found = plain(given)
    roles = {
        "a": "positions",
        "b": "mask-additive",
        "mask": "mask-drop",
        "w": "weights",
        "d": "present:c",
        "y": "mean:c",
        "q": "past",
        "m": "sequence",
        "elsewhere": "tokens",
    }

    subject, notes = give_roles(found.subject, roles, found.notes)

    assert [(s.role, s.mask_meaning) for s in subject.inputs] == [
        ("positions", None),
        ("mask", "additive"),
        ("mask", "drop"),
        ("features", None),
    ]
    assert [o.role for o in subject.outputs] == ["features", "weights", "present"]
    assert (subject.roles, subject.reads) == ({"d": "c"}, {"y": "c"})
    assert {a.symbol: a.role for a in subject.axes} == {"n": "batch", "m": "sequence", "q": "past"}
    assert not any(note.startswith("input 'mask' is taken") for note in notes)
    assert "'mask' is mask-drop, as --role says" in notes
    assert not any("elsewhere" in note for note in notes)


@pytest.mark.parametrize(
    ("name", "role", "said"),
    [
        ("a", "token", "tokens"),
        ("mask", "mask", "mask-keep"),
        ("y", "hidden", "features"),
        ("q", "length", "sequence"),
        ("y", "mean:nothing", "a, b, mask, c"),
        ("d", "present:y", "a, b, mask, c"),
    ],
)
def test_a_role_that_there_is_not_is_refused(given: Callable[..., Given], name: str, role: str, said: str) -> None:
    with pytest.raises(UsageError) as raised:
        give_roles(plain(given).subject, {name: role}, ())

    assert said in str(raised.value)


def test_without_roles_nothing_changes(given: Callable[..., Given]) -> None:
    found = plain(given)

    assert give_roles(found.subject, {}, found.notes) == (found.subject, found.notes)
