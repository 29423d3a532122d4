"""Truly float64: islands of narrower floats are widened, and everything is as before afterwards."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from onnxparity.case import TensorSpec
from onnxparity.errors import RunError, SubjectError
from onnxparity.numerics.budget import vector_error
from onnxparity.protocols import Array, ExactSession
from onnxparity.runtimes.torch_float64 import TorchFloat64Session
from onnxparity.runtimes.torch_widen import float64_mode
from tests.unit.runtimes.subjects import drawn, seeded, subject

X = drawn(2, 5, 16)
WIDE = X.astype(np.float64)
TABLE = torch.arange(16, dtype=torch.float32) / 7
POSITIONS = np.arange(16) / 10000.0 ** (np.arange(16) / 16)


def softmax(x: Array) -> Array:
    e = np.exp(x - x.max(-1, keepdims=True))
    return np.asarray(e / e.sum(-1, keepdims=True))


def rms_norm(x: Array, eps: float) -> Array:
    return np.asarray(x / np.sqrt(np.mean(x**2, -1, keepdims=True) + eps))


def in_place(x: Tensor) -> Tensor:
    y = torch.empty_like(x, dtype=torch.float32)
    y[..., :8], y[..., 8:] = x[..., 8:], x[..., :8] / 3
    return y


def under_autocast(x: Tensor) -> Tensor:
    with torch.autocast("cpu", dtype=torch.bfloat16):
        return x @ x.transpose(-1, -2)


def made_positions(x: Tensor) -> Tensor:
    n = torch.arange(16, dtype=torch.float32)
    return x * (n / 10000.0 ** (torch.arange(16).float() / 16)).to(x.dtype)


class Calls(nn.Module):
    """A function as a module."""

    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        return self.function(x)


ISLANDS: dict[str, tuple[Callable[[Tensor], Tensor], Array]] = {
    "float": (lambda x: torch.softmax(x.float(), -1).to(x.dtype), softmax(WIDE)),
    "to a dtype": (lambda x: (x.to(torch.float32) / 3).to(x.dtype), WIDE / 3),
    "half": (lambda x: (x / 3).half().to(x.dtype), WIDE / 3),
    "to another tensor": (lambda x: (x / 3).to(torch.ones(1, dtype=torch.bfloat16)) * 1.0, WIDE / 3),
    "type_as": (lambda x: (x / 3).type_as(torch.zeros(1, dtype=torch.float16)), WIDE / 3),
    "type": (lambda x: (x / 3).type(torch.float32), WIDE / 3),
    "dtype of an operator": (lambda x: F.softmax(x, -1, dtype=torch.float32), softmax(WIDE)),
    "dtype of a sum": (
        lambda x: x / x.abs().sum(-1, keepdim=True, dtype=torch.float32),
        WIDE / np.abs(WIDE).sum(-1, keepdims=True),
    ),
    "made positions": (made_positions, WIDE * POSITIONS),
    "made numbers": (lambda x: x * torch.tensor([0.1], dtype=torch.float32), WIDE * 0.1),
    "made from numpy": (lambda x: x * torch.as_tensor(np.full(16, 0.1)).float(), WIDE * 0.1),
    "made in place": (in_place, np.concatenate([WIDE[..., 8:], WIDE[..., :8] / 3], -1)),
    "autocast": (under_autocast, WIDE @ WIDE.swapaxes(-1, -2)),
    "epsilon of none": (lambda x: F.rms_norm(x * 1e-6, (16,)), rms_norm(WIDE * 1e-6, 2.0**-23)),
    "epsilon of none by keyword": (
        lambda x: torch.rms_norm(x * 1e-6, (16,), weight=None, eps=None),
        rms_norm(WIDE * 1e-6, 2.0**-23),
    ),
}


@pytest.mark.parametrize("name", ISLANDS)
def test_islands_are_widened(name: str) -> None:
    function, want = ISLANDS[name]
    got = TorchFloat64Session(Calls(function), subject(), "float32").run({"x": X})["y"]
    assert got.dtype == np.float64
    assert vector_error(got - want, want).max() <= 1e-12


@pytest.mark.parametrize("name", [n for n in ISLANDS if n != "autocast"])
def test_without_the_mode_islands_stay(name: str) -> None:
    """The check above can fail. Autocast leaves float64 alone by itself."""
    function, want = ISLANDS[name]
    got = function(torch.from_numpy(WIDE)).double().numpy()
    assert vector_error(got - want, want).max() > 1e-9


class Holds(nn.Module):
    """Keeps a tensor that is neither parameter nor buffer, and writes to it through a view."""

    def __init__(self) -> None:
        super().__init__()
        self.table = torch.full((16,), 0.1)
        self.tables = [torch.full((16,), 0.3)]

    def forward(self, x: Tensor) -> Tensor:
        self.table[:8] = self.tables[0][:8] / 3
        return x * self.table


class Turns(nn.Module):
    """Rotary embedding by complex numbers."""

    turns: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("turns", torch.polar(torch.ones(8), torch.arange(8.0)))

    def forward(self, x: Tensor) -> Tensor:
        pairs = torch.view_as_complex(x.float().reshape(*x.shape[:-1], 8, 2))
        return torch.view_as_real(pairs * self.turns / 3).flatten(-2)


class Counts(nn.Module):
    """Adds what it has seen to a buffer."""

    seen: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("seen", torch.zeros(16))

    def forward(self, x: Tensor) -> Tensor:
        self.seen += x.sum((0, 1))
        return x + self.seen


def test_plain_attributes_are_widened_and_writes_through_views_arrive() -> None:
    module = Holds()
    got = TorchFloat64Session(module, subject(), "float32").run({"x": X})["y"]
    tenth, third = np.float64(np.float32(0.1)), np.float64(np.float32(0.3)) / 3
    np.testing.assert_allclose(got, WIDE * np.repeat([third, tenth], 8), rtol=1e-15)
    assert module.table.dtype is torch.float32 and float(module.table[0]) == pytest.approx(0.1)


def test_complex_tables_are_widened() -> None:
    module = Turns()
    turns = module.turns.numpy().astype(np.complex128)
    want = (WIDE.reshape(2, 5, 8, 2) @ np.array([1, 1j]) * turns / 3).view(np.float64).reshape(2, 5, 16)
    got = TorchFloat64Session(module, subject(), "float32").run({"x": X})["y"]
    assert vector_error(got - want, want).max() <= 1e-12


def test_weights_are_rounded_to_the_dtype_of_the_cell() -> None:
    linear = seeded(lambda: nn.Linear(16, 16, bias=False))
    weight = next(linear.parameters()).detach().numpy()
    for dtype in ("float32", "float16"):
        got = TorchFloat64Session(linear, subject(), dtype).run({"x": X.astype(dtype)})["y"]
        want = X.astype(dtype).astype(np.float64) @ weight.astype(dtype).astype(np.float64).T
        np.testing.assert_allclose(got, want, rtol=0, atol=1e-12)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_the_smallest_number_is_that_of_the_cell(dtype: str) -> None:
    fill = Calls(lambda x: x.masked_fill(x > 0, torch.finfo(x.dtype).min))
    got = TorchFloat64Session(fill, subject(), dtype).run({"x": X.astype(dtype)})["y"]
    assert got.min() == float(np.finfo(dtype).min)


def test_a_row_without_any_key_gives_zeros() -> None:
    inputs = [TensorSpec("x", ("batch", "sequence", 16)), TensorSpec("keep", ("sequence", "sequence"), dtype="bool")]

    class Masked(nn.Module):
        def forward(self, x: Tensor, keep: Tensor) -> Tensor:
            return F.scaled_dot_product_attention(x, x, x, attn_mask=keep)

    keep = np.ones((5, 5), bool)
    keep[2] = False
    session = TorchFloat64Session(Masked(), subject(inputs), "float32")
    got, noise = session.run({"x": X, "keep": keep})["y"], session.noise({"x": X, "keep": keep}, draws=2, seed=0)["y"]
    assert not got[:, 2].any() and np.isfinite(got).all()
    assert not noise[:, 2].any() and np.isfinite(noise).all() and noise[:, 1].all()


def test_padded_positions_are_computed_and_not_filled_in() -> None:
    layer = seeded(lambda: nn.TransformerEncoderLayer(16, 4, 32, batch_first=True))
    inputs = (TensorSpec("x", ("batch", "sequence", 16)), TensorSpec("src_key_padding_mask", (2, 5), dtype="bool"))
    padding = np.zeros((2, 5), bool)
    padding[1, 3:] = True
    fast, plain = (nn.TransformerEncoder(layer, 1, enable_nested_tensor=nested).eval() for nested in (True, False))
    got, want = (
        TorchFloat64Session(m, subject(inputs), "float32", kwargs=("src_key_padding_mask",)).run(
            {"x": X, "src_key_padding_mask": padding}
        )["y"]
        for m in (fast, plain)
    )
    np.testing.assert_array_equal(got, want)
    assert np.abs(got[1, 3:]).min() > 0


def test_a_buffer_that_is_written_to_is_there_again_at_the_next_run() -> None:
    module = Counts()
    session = TorchFloat64Session(module, subject(), "float32")
    first = session.run({"x": X})["y"]
    np.testing.assert_allclose(first, WIDE + WIDE.sum((0, 1)), rtol=1e-12)
    np.testing.assert_array_equal(session.run({"x": X})["y"], first)
    assert not module.seen.any()


def test_the_process_is_left_as_it_was() -> None:
    def fails(x: Tensor) -> Tensor:
        raise ValueError("a fault of the module")

    finfo = torch.finfo
    with pytest.raises(RunError, match="ValueError"):
        TorchFloat64Session(Calls(fails), subject(), "float32").run({"x": X})
    assert torch.get_default_dtype() is torch.float32 and torch.finfo is finfo
    assert torch.zeros(1, dtype=torch.float16).dtype is torch.float16 and torch.is_grad_enabled()
    with float64_mode("float16"):
        assert torch.finfo(torch.float64).max == 65504 and torch.finfo(torch.float32).bits == 32
        assert torch.zeros(1, dtype=torch.float16).dtype is torch.float64


def test_it_is_an_exact_session() -> None:
    session = TorchFloat64Session(seeded(lambda: nn.Linear(16, 4)), subject(), "float16")
    assert isinstance(session, ExactSession) and session.placement() is None and session.unit_roundoff == 2.0**-11
    with pytest.raises(SubjectError):
        session.run({"x": X})


def test_fingerprints_know_a_weight_however_it_lies() -> None:
    linear = seeded(lambda: nn.Linear(16, 4))
    flipped = nn.Module()
    flipped.register_buffer("weight", next(linear.parameters()).detach().T.contiguous())
    prints = TorchFloat64Session(linear, subject(), "float32").fingerprints()
    assert len(prints) == 2 and TorchFloat64Session(flipped, subject(), "float32").fingerprints() < prints
    assert not prints & TorchFloat64Session(linear, subject(), "float16").fingerprints()
