"""Factories that a user brings: what is learned from an example, and every way in which a factory can be wrong."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from onnxparity.case import Axis, OutputSpec, TensorSpec
from onnxparity.errors import SubjectError
from onnxparity.models.user_subjects import Brought, example_feeds, load_factory

PREAMBLE = """
import torch
from torch import nn
from torch.export import Dim

"""
Bring = Callable[..., Brought]


@pytest.fixture
def bring(tmp_path: Path) -> Iterator[Bring]:
    """Writes a module with this source into a fresh folder and loads `factory` from it."""

    def load(source: str, spec: str = "brought_by_user:factory") -> Brought:
        sys.modules.pop("brought_by_user", None)
        (tmp_path / "brought_by_user.py").write_text(PREAMBLE + textwrap.dedent(source), encoding="utf-8")
        return load_factory(spec, tmp_path)

    yield load
    sys.modules.pop("brought_by_user", None)


ATTENTION = """
    class Attention(nn.Module):
        def __init__(self):
            super().__init__()
            self.attention = nn.MultiheadAttention(16, 2, batch_first=True)

        def forward(self, query, memory, key_padding_mask=None):
            return self.attention(query, memory, memory, key_padding_mask=key_padding_mask)

    def factory():
        batch, seq, memory = Dim("batch", max=64), Dim("seq"), Dim("memory", min=2)
        padding = torch.zeros(2, 5, dtype=torch.bool)
        padding[1, 3:] = True
        return {
            "module": Attention(),
            "args": (torch.randn(2, 4, 16), torch.randn(2, 5, 16)),
            "kwargs": {"key_padding_mask": padding},
            "dynamic_shapes": {
                "query": {0: batch, 1: seq},
                "memory": (batch, memory, None),
                "key_padding_mask": [batch, memory],
            },
        }
"""


def test_a_factory_becomes_a_subject(bring: Bring) -> None:
    brought = bring(ATTENTION)
    subject = brought.subject
    assert (subject.kind, subject.name, subject.origin) == (
        "factory", "brought_by_user-factory", "brought_by_user:factory",
    )  # fmt: skip
    assert subject.inputs == (
        TensorSpec("query", ("batch", "seq", 16)),
        TensorSpec("memory", ("batch", "memory", 16)),
        TensorSpec("key_padding_mask", ("batch", "memory"), "bool", "mask", mask_meaning="drop"),
    )
    assert subject.axes == (
        Axis("batch", "b", "batch", high=64),
        Axis("seq", "t", "sequence"),
        Axis("memory", "s", "source", low=2),
    )
    assert subject.outputs == (
        OutputSpec("output_0", ("batch", "seq", 16)),
        OutputSpec("output_1", ("batch", "seq", "memory")),
    )
    assert subject.parameters == 16 * 48 + 48 + 16 * 16 + 16
    assert list(brought.example) == ["query", "memory", "key_padding_mask"]
    np.testing.assert_array_equal(brought.example["query"], brought.args[0].numpy())


def test_training_mode_is_ended_and_recorded(bring: Bring) -> None:
    brought = bring(ATTENTION)
    assert not any(part.training for part in brought.module.modules())
    assert not any(parameter.requires_grad for parameter in brought.module.parameters())
    assert "the module was in training mode; exported in eval mode" in brought.notes
    quiet = bring("def evaluated():\n    return nn.Linear(4, 3).eval(), torch.randn(2, 4)", "brought_by_user:evaluated")
    assert quiet.notes == ()


def test_what_is_brought_can_be_exported_as_described(bring: Bring) -> None:
    brought = bring(ATTENTION)
    program = torch.export.export(
        brought.module, brought.args, dict(brought.kwargs), dynamic_shapes=brought.dynamic_shapes
    )
    assert program.graph_signature.user_inputs == tuple(spec.name for spec in brought.subject.inputs)
    feeds = [torch.randn(3, 7, 16), torch.randn(3, 6, 16), torch.zeros(3, 6, dtype=torch.bool)]
    with torch.no_grad():
        for got, want in zip(program.module()(*feeds), brought.module(*feeds), strict=True):
            torch.testing.assert_close(got, want)


def test_dims_without_a_name_are_one_axis_where_their_sizes_agree(bring: Bring) -> None:
    subject = bring("""
        class Read(nn.Module):
            def forward(self, q, k, mask):
                return nn.functional.scaled_dot_product_attention(q, k, k, attn_mask=mask)

        def factory():
            q, k, mask = torch.randn(2, 4, 5, 8), torch.randn(2, 4, 7, 8), torch.ones(2, 1, 5, 7, dtype=torch.bool)
            D, A = Dim.DYNAMIC, Dim.AUTO
            return Read(), (q, k, mask), {}, ({0: D, 2: D}, (A, None, A, Dim.STATIC), {0: D, 2: A, 3: A})
    """).subject
    assert [spec.dims for spec in subject.inputs] == [
        ("batch", 4, "sequence", 8),
        ("batch", 4, "k_2", 8),
        ("batch", 1, "sequence", "k_2"),
    ]
    assert [(axis.letter, axis.role) for axis in subject.axes] == [("b", "batch"), ("t", "sequence"), ("k", "other")]
    assert subject.outputs == (OutputSpec("output", ("batch", 4, "sequence", 8)),)
    assert subject.inputs[2].mask_meaning == "keep"


def test_without_dynamic_shapes_everything_is_fixed(bring: Bring) -> None:
    subject = bring("def factory():\n    return nn.Linear(4, 3).eval(), [torch.randn(2, 4)]").subject
    assert subject.axes == ()
    assert subject.inputs[0].dims == (2, 4)
    assert subject.outputs[0].dims == (2, 3)


def test_an_output_dim_of_equal_size_is_not_taken_for_an_axis(bring: Bring) -> None:
    """Three classes, a batch of three and a sequence of three: only trying tells them apart."""
    subject = bring("""
        class Classify(nn.Module):
            def __init__(self):
                super().__init__()
                self.head = nn.Linear(3, 3)

            def forward(self, x):
                return {"logits": self.head(x.mean(1)), "length": torch.cat([x, x[:, :1]], 1)}

        def factory():
            return Classify().eval(), torch.randn(3, 3, 3), {}, ({0: Dim("n"), 1: Dim("t", min=2, max=3)},)
    """).subject
    assert subject.outputs == (OutputSpec("logits", ("n", 3), "logits"), OutputSpec("length", ("n", None, 3)))


def test_a_cache_gives_sums_of_axes_and_nested_names(bring: Bring) -> None:
    brought = bring("""
        class Step(nn.Module):
            def forward(self, x, cache, *, scale=1.0, state=None):
                grown = [(torch.cat([k, x], 1) * scale, torch.cat([v, x], 1)) for k, v in cache]
                cache.clear()
                return x, grown, {"mean": state["mean"] + 1}

        def factory():
            b, p, t = Dim("b"), Dim("past"), Dim("t")
            pair = lambda: (torch.randn(2, 3, 4), torch.randn(2, 3, 4))
            return {
                "module": Step().eval(),
                "args": (torch.randn(2, 5, 4), [pair(), pair()]),
                "kwargs": {"state": {"mean": torch.zeros(4)}, "scale": 2.0},
                "dynamic_shapes": {"x": {0: b, 1: t}, "cache": [({0: b, 1: p}, {0: b, 1: p})] * 2},
            }
    """)
    names = ["x", "cache_0_0", "cache_0_1", "cache_1_0", "cache_1_1", "state_mean"]
    assert [spec.name for spec in brought.subject.inputs] == names == list(brought.example)
    assert [output.name for output in brought.subject.outputs] == [
        "output_0", "output_1", "output_2", "output_3", "output_4", "output_2_mean",
    ]  # fmt: skip
    assert brought.subject.outputs[1].dims == ("b", "past+t", 4)
    assert brought.subject.outputs[5].dims == (4,)
    assert "argument 'scale' is no tensor and fixed at 2.0 in the file" in brought.notes
    assert len(brought.args[1]) == 2, "the example was used up"


def test_integers_keep_the_range_of_the_example_and_masks_are_told_by_name(bring: Bring) -> None:
    inputs = bring("""
        class Model(nn.Module):
            def forward(self, input_ids, attention_mask, bias_mask, flags, **more):
                return input_ids + attention_mask + bias_mask + flags + more["pad"]

        def factory():
            return {
                "module": Model().eval(),
                "args": (
                    torch.tensor([[3, 9, 4]]),
                    torch.tensor([[1, 1, 0]]),
                    torch.tensor([[0.0, 0.0, -1e4]]),
                    torch.tensor([[True, False, True]]),
                ),
                "kwargs": {"pad": torch.tensor([[False, False, True]])},
            }
    """).subject.inputs
    assert inputs == (
        TensorSpec("input_ids", (1, 3), "int64", "tokens", 3, 9),
        TensorSpec("attention_mask", (1, 3), "int64", "mask", mask_meaning="keep"),
        TensorSpec("bias_mask", (1, 3), "float", "mask", mask_meaning="additive"),
        TensorSpec("flags", (1, 3), "bool", "other"),
        TensorSpec("pad", (1, 3), "bool", "mask", mask_meaning="drop"),
    )


@pytest.mark.parametrize(
    ("name", "value", "meaning"),
    [
        ("attn_mask", "torch.ones(5, 5, dtype=torch.bool).triu(1)", "drop"),
        ("attn_mask", "torch.ones(5, 5, dtype=torch.bool).tril()", "keep"),
        ("src_mask", "torch.zeros(5, 5, dtype=torch.bool)", "drop"),
        ("padding_mask", "torch.zeros(2, 5, dtype=torch.bool)", "drop"),
        ("padding_mask", "torch.ones(2, 5, dtype=torch.int64)", "keep"),
        ("mask", "torch.tensor([[1.0, 1.0, 0.0]])", "keep"),
        ("mask", "torch.zeros(1, 3)", "additive"),
    ],
)
def test_the_example_decides_where_the_name_would_mask_whole_rows(
    bring: Bring, name: str, value: str, meaning: str
) -> None:
    spec = bring(f"""
        class Model(nn.Module):
            def forward(self, {name}):
                return {name} * 2

        def factory():
            return Model().eval(), ({value},)
    """).subject.inputs[0]
    assert (spec.role, spec.mask_meaning) == ("mask", meaning)


def test_dataclass_outputs_use_their_fields_and_leave_out_none(bring: Bring) -> None:
    outputs = bring("""
        from dataclasses import dataclass

        @dataclass
        class Output:
            hidden: torch.Tensor
            loss: object
            present_key: torch.Tensor

        class Model(nn.Module):
            def forward(self, x):
                return Output(x, None, x + 1)

        def factory():
            return Model().eval(), torch.randn(2, 3), {}, ({0: Dim("batch")},)
    """).subject.outputs
    assert outputs == (
        OutputSpec("hidden", ("batch", 3)),
        OutputSpec("present_key", ("batch", 3), "present"),
    )


def test_a_module_that_serves_one_size_only_is_described_with_what_is_known(bring: Bring) -> None:
    brought = bring("""
        class Model(nn.Module):
            def forward(self, x):
                return x + torch.zeros(4, 1)

        def factory():
            return Model().eval(), torch.randn(4, 3), {}, ({0: Dim("batch")},)
    """)
    assert brought.subject.outputs[0].dims == (None, None)
    assert any(note.startswith("the module itself fails where batch is 5") for note in brought.notes)


def test_half_and_bfloat16_modules_keep_their_dtype(bring: Bring) -> None:
    for dtype in ("float16", "bfloat16"):
        brought = bring(
            f"def {dtype}():\n    return nn.Linear(4, 3).to(torch.{dtype}).eval(), torch.ones(2, 4).to(torch.{dtype})",
            f"brought_by_user:{dtype}",
        )
        assert brought.subject.dtypes == (dtype,)
        assert brought.subject.inputs[0].dtype == "float"
    assert brought.example["input"].dtype == np.float32


def test_example_feeds_names_nested_tensors() -> None:
    class Model(nn.Module):
        def forward(self, x: torch.Tensor, *more: torch.Tensor, last: torch.Tensor) -> torch.Tensor:
            return x + sum(more) + last

    feeds = example_feeds(Model(), (torch.ones(1), torch.zeros(1), torch.zeros(1)), {"last": torch.ones(2)})
    assert list(feeds) == ["x", "more_0", "more_1", "last"]
    with pytest.raises(TypeError, match="missing"):
        example_feeds(Model(), (torch.ones(1),))


@pytest.mark.parametrize("spec", ["brought_by_user", "brought_by_user:", ":factory", "a-b:factory", "m:f:g"])
def test_a_spec_without_module_and_factory_is_refused(tmp_path: Path, spec: str) -> None:
    with pytest.raises(SubjectError) as caught:
        load_factory(spec, tmp_path)
    assert caught.value.expected == "package.module:factory"
    assert caught.value.got == spec and caught.value.remedy


def test_a_missing_module_is_told_from_a_missing_dependency(bring: Bring, tmp_path: Path) -> None:
    with pytest.raises(SubjectError, match="there is no module 'no_such_module_here'") as caught:
        load_factory("no_such_module_here:factory", tmp_path)
    assert "no_such_module_here.py" in str(caught.value.expected)
    with pytest.raises(SubjectError, match="importing 'brought_by_user' failed") as caught:
        bring("import no_such_dependency")
    assert caught.value.remedy == "install 'no_such_dependency', which it imports"


@pytest.mark.parametrize(
    ("source", "what", "got"),
    [
        ("raise RuntimeError('no weights')", "importing 'brought_by_user' failed", "RuntimeError: no weights"),
        ("raise SystemExit(3)", "importing 'brought_by_user' failed", "SystemExit: 3"),
        ("def factorise():\n    return 1", "has no 'factory'", "factory"),
        ("factory = 3", "is not a factory", "int"),
        ("def factory():\n    raise ValueError('no data')", "factory failed", "ValueError: no data"),
        ("def factory():\n    return nn.Linear(1, 1)", "something else than a subject", "Linear"),
        ("def factory():\n    return None", "something else than a subject", "NoneType"),
        ("def factory():\n    return nn.Linear(1, 1), 1, 2", "something else than a subject", "a tuple of 3"),
        ("def factory():\n    return 1, torch.ones(1)", "something else than a subject", "int for the module"),
        ("def factory():\n    return nn.Linear(1, 1), 'x'", "something else than a subject", "str for args"),
        ("def factory():\n    return nn.Linear(1, 1), ()", "the example does not fit forward", "TypeError"),
        ("def factory():\n    return nn.Linear(1, 1), (1,)", "something else than a subject", "without any tensor"),
        ("def factory():\n    return nn.Linear(4, 1), torch.ones(2, 3)", "does not run on its example", "mat1"),
        (
            "def factory():\n    return dict(module=nn.Linear(1, 1), args=torch.ones(2, 1), kwargs=3)",
            "something else than a subject",
            "int for kwargs",
        ),
        (
            "def factory():\n    return dict(module=nn.Linear(1, 1), args=torch.ones(2, 1), dynamic_shape=None)",
            "something else than a subject",
            "the key 'dynamic_shape'",
        ),
        (
            "def factory():\n    return nn.Linear(1, 1), torch.ones(2, 1), {}, {'x': {0: Dim('b')}}",
            "dynamic_shapes does not fit the arguments",
            "x",
        ),
        (
            "def factory():\n    return nn.Linear(1, 1), torch.ones(2, 1), {}, ({0: Dim('b')}, None)",
            "dynamic_shapes does not fit the arguments",
            "tuple",
        ),
        (
            "def factory():\n    return nn.Linear(1, 1), torch.ones(2, 1), {}, ({0: 2 * Dim('b')},)",
            "dynamic_shapes does not fit the example",
            "computed from another",
        ),
        (
            "def factory():\n    b, two, three = {0: Dim('b')}, torch.ones(2, 1), torch.ones(3, 1)\n"
            "    return nn.Bilinear(1, 1, 1), (two, three), {}, (b, b)",
            "dynamic_shapes does not fit the example",
            "'b' is 2 in one place and 3",
        ),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_in_a_line_without_a_traceback(bring: Bring, source: str, what: str, got: str) -> None:
    with pytest.raises(SubjectError) as caught:
        bring(source)
    assert what in caught.value.what
    assert got in str(caught.value.got)
    assert caught.value.remedy
    assert "Traceback" not in str(caught.value)


def test_the_line_of_the_users_own_that_failed_is_named(bring: Bring) -> None:
    with pytest.raises(SubjectError, match=r"\(brought_by_user\.py, line 9\)"):
        bring("\nclass Model(nn.Module):\n    def forward(self, x):\n        return x @ x\n"
              "def factory():\n    return Model(), torch.ones(2, 3)")  # fmt: skip


def test_a_near_name_is_suggested(bring: Bring) -> None:
    with pytest.raises(SubjectError, match="one of factorise"):
        bring("def factorise():\n    return 1")


def test_keys_that_are_not_used_are_noted(bring: Bring) -> None:
    brought = bring("def factory():\n    return dict(module=nn.Identity().eval(), args=torch.ones(2, 1), wants='x')")
    assert brought.notes == ("the factory's key 'wants' is not used",)


def test_a_module_of_the_same_name_from_elsewhere_is_not_taken_for_it(bring: Bring, tmp_path: Path) -> None:
    bring("def factory():\n    return nn.Identity(), torch.ones(2, 1)")
    other = tmp_path / "other"
    other.mkdir()
    (other / "brought_by_user.py").write_text("factory = None", encoding="utf-8")
    with pytest.raises(SubjectError, match="already imported from elsewhere"):
        load_factory("brought_by_user:factory", other)


def test_the_import_path_is_left_as_it_was(bring: Bring) -> None:
    before = list(sys.path)
    bring("def factory():\n    return nn.Identity(), torch.ones(2, 1)")
    with pytest.raises(SubjectError):
        bring("", "brought_by_user:missing")
    assert sys.path == before
