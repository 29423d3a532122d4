"""What was typed becomes subjects, and nothing that does not fit together is taken."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from onnxparity.artifact import FileInput
from onnxparity.case import Subject, TensorSpec
from onnxparity.errors import SubjectError, UsageError, WorkerCrashedError
from onnxparity.planning import selection
from onnxparity.planning.grid import Point
from onnxparity.planning.selection import Described, DescribeRequest, Selected, describe, select
from onnxparity.protocols import Feeds
from tests.unit.hub.scripted import FILE, artifact
from tests.unit.hub.subjects import subject

HERE = Path()
EXAMPLE: dict[str, Feeds] = {"example": {"x": np.zeros((4, 9, 3), np.float32)}}


def module(name: str, **more: object) -> Described:
    """A PyTorch subject."""
    return replace(Described(name, subject(name=name), has_oracle=True), **more)  # type: ignore[arg-type]  # its fields


def file(path: str, inputs: tuple[str, ...] = ("x",), origin: str | None = None) -> Described:
    """A file whose inputs have these names."""
    name = Path(path).stem
    specs = tuple(TensorSpec(n, ("batch", "sequence", 3)) for n in inputs)
    read = replace(subject(specs, name=name), kind="onnx", origin=origin or path)
    taken = tuple(FileInput(n, "float32", ("batch", "sequence", 3)) for n in inputs)
    return Described(path, read, artifact=replace(artifact(replace(FILE, subject=name), path), inputs=taken))


@pytest.fixture
def found(monkeypatch: pytest.MonkeyPatch) -> list[Described]:
    """What there is to be described; the test fills it."""
    there: list[Described] = []

    def described(texts: Sequence[str], directory: Path, **_: object) -> list[Described]:
        return [d for text in texts for d in there if d.text == text]

    monkeypatch.setattr(selection, "describe", described)
    return there


def one(*texts: str, against: str | None = None, renamed: dict[str, str] | None = None) -> Selected:
    """The only subject that is selected."""
    (only,), _ = select(texts, HERE, against=against, renamed=renamed)
    return only


def test_a_module_is_its_own_reference(found: list[Described]) -> None:
    found.append(module("causal", examples=EXAMPLE))
    selected, notes = select(["causal"], HERE)
    target = selected[0].target
    assert (target.given, target.has_oracle, target.has_reference) == (None, True, True)
    assert target.examples == (Point("b4-t9", "example"),), "the real inputs, at the shape they have"
    assert notes == ()


def test_a_file_alone_is_said_to_have_no_reference(found: list[Described]) -> None:
    found.append(file("a.onnx"))
    (selected,), notes = select(["a.onnx"], HERE)
    assert selected.target.given == replace(FILE, subject="a")
    assert not selected.target.has_reference
    assert len(notes) == 1 and "nothing is said on meaning" in notes[0] and "--against" in notes[0]


def test_nothing_typed_is_the_whole_catalogue(found: list[Described]) -> None:
    found += [replace(module("a"), text="*"), replace(module("b"), text="*")]
    selected, _ = select([], HERE)
    assert [s.target.subject.name for s in selected] == ["a", "b"]


def test_a_name_typed_twice_or_met_by_two_globs_is_one_subject(found: list[Described]) -> None:
    found += [replace(module("a"), text="a*"), module("a")]
    selected, _ = select(["a", "a*", "a"], HERE)
    assert [s.target.subject.name for s in selected] == ["a"]


def test_two_subjects_of_one_name_are_refused(found: list[Described]) -> None:
    found += [file("old/model.onnx"), file("new/model.onnx")]
    with pytest.raises(UsageError, match="same name") as raised:
        select(["old/model.onnx", "new/model.onnx"], HERE)
    assert raised.value.got == "old/model.onnx, new/model.onnx"


def test_what_a_glob_brings_and_cannot_be_used_is_left_out_and_told(found: list[Described]) -> None:
    found += [replace(module("a"), text="*"), replace(module("b", left_out="not installed"), text="*")]
    selected, notes = select(["*"], HERE)
    assert [s.target.subject.name for s in selected] == ["a"]
    assert notes == ("b: left out: not installed",)


def test_what_was_guessed_is_told(found: list[Described]) -> None:
    found += [replace(file("a.onnx"), notes=("guessed",)), replace(module("b"), notes=("changed",))]
    _, notes = select(["a.onnx"], HERE, against="b")
    assert notes == ("a: guessed", "b: changed")


@pytest.mark.parametrize("reference", [file("b.onnx"), module("b")], ids=["file", "module"])
def test_a_file_is_fed_as_its_reference_says(found: list[Described], reference: Described) -> None:
    reference = replace(reference, subject=replace(reference.subject, properties=("causality", "prefill-decode")))
    found += [file("a.onnx"), replace(reference, examples=EXAMPLE)]
    selected = one("a.onnx", against=reference.text)
    target = selected.target
    assert (target.subject.name, target.subject.kind) == ("a", "onnx")
    assert (target.given, target.has_reference) == (replace(FILE, subject="a"), True)
    assert target.examples == (Point("b4-t9", "example"),)
    assert target.subject.properties == ("causality",), "a file alone has no companion to decode with"
    assert target.subject.origin == f"a.onnx --against {reference.subject.origin}", "the command repeats both"
    assert selected.against is not None and selected.against.text == reference.text


def test_inputs_of_other_names_need_a_map(found: list[Described]) -> None:
    found += [file("a.onnx", ("input",)), file("b.onnx")]
    with pytest.raises(UsageError, match="not those of the reference") as raised:
        one("a.onnx", against="b.onnx")
    assert (raised.value.expected, raised.value.got) == ("x", "input")
    assert raised.value.remedy is not None and "--map" in raised.value.remedy
    selected = one("a.onnx", against="b.onnx", renamed={"x": "input", "y": "output"})
    assert selected.renamed == {"x": "input", "y": "output"}


@pytest.mark.parametrize("inputs", [("x", "mask"), (), ("X",)])
def test_inputs_that_the_reference_lacks_or_has_besides_are_refused(
    found: list[Described], inputs: tuple[str, ...]
) -> None:
    found += [file("a.onnx", inputs), file("b.onnx")]
    with pytest.raises(UsageError, match="not those of the reference"):
        one("a.onnx", against="b.onnx")


@pytest.mark.parametrize("renamed", [{"nothing": "x"}, {"x": "x", "nothing": "y"}])
def test_a_map_of_a_name_that_the_reference_lacks_is_refused(found: list[Described], renamed: dict[str, str]) -> None:
    found += [file("a.onnx"), file("b.onnx")]
    with pytest.raises(UsageError, match="'nothing'") as raised:
        one("a.onnx", against="b.onnx", renamed=renamed)
    assert raised.value.expected == "x, y"


def test_a_map_to_a_name_that_the_file_lacks_is_refused(found: list[Described]) -> None:
    found += [file("a.onnx"), file("b.onnx")]
    with pytest.raises(UsageError, match="not those of the reference"):
        one("a.onnx", against="b.onnx", renamed={"x": "nothing"})


def test_a_map_without_a_reference_is_refused(found: list[Described]) -> None:
    found.append(file("a.onnx"))
    with pytest.raises(UsageError, match="--map needs --against"):
        one("a.onnx", renamed={"x": "x"})


def test_only_a_file_is_held_against_something(found: list[Described]) -> None:
    found += [module("a"), file("b.onnx")]
    with pytest.raises(UsageError, match="a is not a file"):
        one("a", against="b.onnx")


def test_a_reference_alone_is_not_held_against_itself(found: list[Described]) -> None:
    found += [file("b.onnx"), module("b")]
    for against in ("b.onnx", "b"):
        with pytest.raises(UsageError, match="--against needs a file"):
            select([], HERE, against=against)


def test_a_glob_is_no_reference_unless_it_means_one(found: list[Described]) -> None:
    found += [file("a.onnx"), replace(module("b"), text="*"), replace(module("c"), text="*")]
    with pytest.raises(UsageError, match="more than one subject") as raised:
        one("a.onnx", against="*")
    assert raised.value.got == "b, c"
    found.append(replace(module("d"), text="d*"))
    against = one("a.onnx", against="d*").against
    assert against is not None and against.subject.name == "d"


def test_a_reference_that_was_left_out_is_refused(found: list[Described]) -> None:
    found += [file("a.onnx"), replace(module("b", left_out="not installed"), text="b*")]
    with pytest.raises(UsageError, match="cannot be used") as raised:
        one("a.onnx", against="b*")
    assert raised.value.got == "not installed"


def test_two_files_are_held_against_one_reference(found: list[Described]) -> None:
    found += [file("a.onnx"), file("b.onnx"), file("c.onnx")]
    selected, _ = select(["a.onnx", "b.onnx"], HERE, against="c.onnx")
    assert [(s.target.subject.name, s.against.text) for s in selected if s.against] == [
        ("a", "c.onnx"),
        ("b", "c.onnx"),
    ]


def test_a_factory_that_ends_the_process_is_a_wrong_subject(monkeypatch: pytest.MonkeyPatch) -> None:
    class Dying:
        def __enter__(self) -> Dying:
            return self

        def __exit__(self, *_: object) -> None:
            pass

        def call(self, job: str, request: DescribeRequest, *, limit: float) -> Iterator[object]:
            raise WorkerCrashedError("the worker died in describe: exit code 0", got="its last words")
            yield

    monkeypatch.setattr(selection, "Worker", Dying)
    with pytest.raises(SubjectError, match="mine:factory cannot be described: the worker died") as raised:
        describe(["mine:factory"], HERE)
    assert raised.value.exit_code == 2
    assert raised.value.got == "its last words"


def test_examples_of_a_fixed_subject_are_a_point(found: list[Described]) -> None:
    fixed: Subject = subject((TensorSpec("x", (2, 3)),), axes=())
    found.append(replace(module("a"), subject=fixed, examples={"example": {"x": np.zeros((2, 3), np.float32)}}))
    assert one("a").target.examples == (Point("fixed", "example"),)


def test_roles_and_properties_are_said_of_files_alone(found: list[Described]) -> None:
    found += [module("a"), file("b.onnx")]
    for said in ({"roles": {"x": "tokens"}}, {"properties": ("causality",)}):
        with pytest.raises(UsageError, match=r"FILE\.onnx"):
            select(["a"], HERE, **said)
    with pytest.raises(UsageError, match="'z', which no file has") as raised:
        select(["b.onnx"], HERE, roles={"z": "tokens"})
    assert raised.value.expected == "batch, sequence, x, y"
    assert select(["b.onnx"], HERE, roles={"x": "tokens", "batch": "other"})[0]


def test_a_file_keeps_what_was_asked_of_it_and_what_its_reference_can_promise_for_it(found: list[Described]) -> None:
    asked, theirs = file("a.onnx"), module("b")
    promises = ("causality", "reparametrisation", "associativity", "prefill-decode")
    reference = replace(theirs.subject, properties=promises, reads={"y": "x"}, window=3)
    candidate = replace(asked.subject, properties=("simplex",))
    found += [replace(asked, subject=candidate), replace(theirs, subject=reference)]
    subject = one("a.onnx", against="b").target.subject
    assert subject.properties == ("simplex", "causality")
    assert (subject.reads, subject.window) == ({"y": "x"}, 3)
