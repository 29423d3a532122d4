"""The module itself in the cell's dtype: repeatable, by name, and without a trace on the process or the module."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import torch
from torch import Tensor, nn

from onnxparity.case import TensorSpec
from onnxparity.errors import RunError, SubjectError
from onnxparity.protocols import Session
from onnxparity.runtimes.torch_eager import TorchSession, bind, flatten, rounded_copy
from tests.unit.runtimes.subjects import drawn, seeded, subject

X = drawn(2, 5, 16)
PAIR = (TensorSpec("x", ("batch", "sequence", 16)), TensorSpec("scale", (), dtype="float32"))


class Scaled(nn.Module):
    """Takes its second input by keyword only."""

    def forward(self, x: Tensor, *, scale: Tensor) -> Tensor:
        return x * scale


class Remembers(nn.Module):
    """Writes to its buffer and to its input, and draws random numbers."""

    total: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("total", torch.zeros(16))

    def forward(self, x: Tensor) -> Tensor:
        self.total += x.mul_(2).sum((0, 1))
        return x + self.total + torch.rand(16)


class Raises(nn.Module):
    """Fails as user code does."""

    def forward(self, x: Tensor) -> Tensor:
        raise KeyError("no such expert")


@dataclass
class Result:
    """What some models return."""

    first: Tensor
    rest: dict[str, Any]


def test_outputs_come_in_the_dtype_of_the_cell() -> None:
    linear = seeded(lambda: nn.Linear(16, 4))
    for dtype in ("float32", "float16", "bfloat16", "float64"):
        session: Session = TorchSession(linear, subject(), dtype)
        got = session.run({"x": X.astype(dtype)})["y"]
        assert got.dtype.name == dtype and got.shape == (2, 5, 4) and session.placement() is None
    assert linear.weight.dtype is torch.float32


def test_bfloat16_keeps_its_values() -> None:
    x = X.astype(ml_dtypes.bfloat16)
    np.testing.assert_array_equal(TorchSession(nn.Identity(), subject(), "bfloat16").run({"x": x})["y"], x)


def test_a_run_repeats_bit_for_bit_and_leaves_feeds_alone() -> None:
    session, fed = TorchSession(Remembers(), subject(), "float32"), X.copy()
    first = session.run({"x": fed})["y"]
    np.testing.assert_array_equal(session.run({"x": fed})["y"], first)
    np.testing.assert_array_equal(fed, X)


def test_read_only_feeds_are_taken() -> None:
    fed = X.copy()
    fed.flags.writeable = False
    assert TorchSession(nn.Identity(), subject(), "float32").run({"x": fed})["y"].flags.writeable


def test_inputs_named_as_keywords_are_passed_as_keywords() -> None:
    feeds = {"scale": np.array(3, np.float32), "x": X}
    got = TorchSession(Scaled(), subject(PAIR), "float32", kwargs=("scale",)).run(feeds)
    np.testing.assert_array_equal(got["y"], X * 3)
    with pytest.raises(RunError, match="TypeError"):
        TorchSession(Scaled(), subject(PAIR), "float32").run(feeds)


def test_nested_outputs_flatten_in_the_order_of_an_export() -> None:
    a, b, c, d = torch.arange(4.0).unbind()
    nested = [Result(a, {"k": [b, None], "v": (c,)}), d]
    assert [float(t) for t in flatten(nested)] == [0.0, 1.0, 2.0, 3.0]
    assert [float(t) for t in flatten({"a": a, "b": b})] == [0.0, 1.0]
    with pytest.raises(SubjectError, match="returned a float"):
        flatten((a, 0.5))


def test_another_number_of_outputs_is_an_error() -> None:
    with pytest.raises(SubjectError, match="returns 1 tensors") as caught:
        TorchSession(nn.Identity(), subject(outputs=("y", "weights")), "float32").run({"x": X})
    assert caught.value.expected == "2: y, weights"


def test_feeds_are_checked() -> None:
    for feeds in ({}, {"x": X.astype(np.float64)}, {"x": X[..., :3]}):
        with pytest.raises(SubjectError):
            TorchSession(nn.Identity(), subject(), "float32").run(feeds)


def test_what_a_module_raises_is_a_run_error_with_its_words() -> None:
    with pytest.raises(RunError, match="KeyError") as caught:
        TorchSession(Raises(), subject(), "float32").run({"x": X})
    assert caught.value.got is not None and "no such expert" in caught.value.got


def test_a_module_that_cannot_be_copied_is_a_subject_error() -> None:
    module = nn.Identity()
    module.handle = (part for part in "generators do not copy")  # type: ignore[assignment]  # the fault under test
    with pytest.raises(SubjectError, match="cannot be copied"):
        rounded_copy(module, "float32")
    with pytest.raises(SubjectError, match="torch runs no 'int8'"):
        rounded_copy(nn.Identity(), "int8")


def test_ties_survive_and_complex_buffers_keep_both_parts() -> None:
    module = nn.Module()
    module.a, module.b = nn.Linear(4, 4, bias=False), nn.Linear(4, 4, bias=False)
    module.b.weight = module.a.weight
    module.register_buffer("turns", torch.polar(torch.ones(3), torch.arange(3.0)))
    copied = rounded_copy(module, "float16")
    names = dict(copied.named_parameters())
    assert list(names) == ["a.weight"] and names["a.weight"].dtype is torch.float16
    assert dict(copied.named_buffers())["turns"].is_complex()


def test_the_process_is_left_as_it_was() -> None:
    torch.manual_seed(7)
    before = torch.get_rng_state()
    with pytest.raises(RunError):
        TorchSession(Raises(), subject(), "float32").run({"x": X})
    TorchSession(Remembers(), subject(), "float32").run({"x": X})
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.is_grad_enabled() and not torch.are_deterministic_algorithms_enabled()
    assert torch.backends.mha.get_fastpath_enabled()


def test_padded_positions_are_computed_and_not_filled_in() -> None:
    """PyTorch's nested fast path zeroes what is padded; an export computes it."""
    layer = seeded(lambda: nn.TransformerEncoderLayer(16, 4, 32, batch_first=True))
    inputs = (TensorSpec("x", ("batch", "sequence", 16)), TensorSpec("src_key_padding_mask", (2, 5), dtype="bool"))
    padding = np.zeros((2, 5), bool)
    padding[1, 3:] = True
    fast, plain = (nn.TransformerEncoder(layer, 1, enable_nested_tensor=nested).eval() for nested in (True, False))
    feeds, keyword = {"x": X, "src_key_padding_mask": padding}, ("src_key_padding_mask",)
    got = TorchSession(fast, subject(inputs), "float32", kwargs=keyword).run(feeds)["y"]
    np.testing.assert_array_equal(got, TorchSession(plain, subject(inputs), "float32", kwargs=keyword).run(feeds)["y"])
    assert np.abs(got[1, 3:]).min() > 0


def test_a_bound_call_runs_the_module() -> None:
    calls: list[tuple[int, ...]] = []

    class Counts(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            calls.append(tuple(x.shape))
            return x

    # deepcopy keeps the class, and with it the list
    call = bind(Counts(), subject(), "float32", {"x": X})
    before = len(calls)
    call()
    call()
    assert calls[before:] == [(2, 5, 16), (2, 5, 16)]
