"""Monte Carlo arithmetic: honest rounding is covered, a fault is not, and structure stays put."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from onnxparity.case import TensorSpec
from onnxparity.numerics.budget import allowance, vector_error
from onnxparity.protocols import Array
from onnxparity.runtimes.torch_eager import TorchSession
from onnxparity.runtimes.torch_float64 import TorchFloat64Session
from onnxparity.runtimes.torch_noise import Trace
from tests.unit.runtimes.subjects import drawn, seeded, subject

X = drawn(2, 5, 16)
WHOLE = np.round(X * 4).astype(np.float32)


class Calls(nn.Module):
    """A function as a module."""

    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        return self.function(x)


class Attention(nn.Module):
    """Causal self-attention; its softmax may be computed in another dtype."""

    def __init__(self, softmax_dtype: torch.dtype | None = None) -> None:
        super().__init__()
        self.inward, self.outward, self.softmax_dtype = nn.Linear(16, 48), nn.Linear(16, 16), softmax_dtype

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.inward(x).chunk(3, -1)
        causal = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).tril()
        scores = (q @ k.transpose(-1, -2) / 4).masked_fill(~causal, -torch.inf)
        weights = torch.softmax(scores.to(self.softmax_dtype or scores.dtype), -1).to(v.dtype)
        return self.outward(weights @ v)  # type: ignore[no-any-return]  # a module's result is untyped


class Positions(nn.Module):
    """Looks positions up that a buffer or arithmetic on floats gives, where 999.99 would be another position."""

    table: Tensor
    numbers: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(2000, 16)
        self.register_buffer("numbers", torch.arange(2000.0))

    def forward(self, x: Tensor) -> Tensor:
        n = x.shape[1]
        stored = self.numbers[1001 : 1001 + n].long()
        computed = torch.floor((torch.arange(n, dtype=x.dtype) * 3 + 999) / 3).long()
        order = (self.numbers[300 : 300 + n, None] * 1.5 <= self.numbers[None, 450 : 450 + n]).to(x.dtype)
        looked_up: Tensor = self.embedding(stored) + self.embedding(computed)
        return order @ (x + looked_up)


def noise(module: nn.Module, x: Array = X, dtype: str = "float32", *, draws: int = 3, seed: int = 0) -> Array:
    session = TorchFloat64Session(module, subject(), dtype)
    return session.noise({"x": x.astype(dtype)}, draws=draws, seed=seed)["y"]


def ratio(module: nn.Module, x: Array = X, dtype: str = "float32", *, eager: nn.Module | None = None) -> float:
    """Error of the eager module over its budget, the worst vector; above 1 fails."""
    exact = TorchFloat64Session(module, subject(), dtype)
    feeds = {"x": x.astype(dtype)}
    want = exact.run(feeds)["y"]
    got = TorchSession(eager or module, subject(), dtype).run(feeds)["y"].astype(np.float64)
    moved = exact.noise(feeds, draws=3, seed=0)["y"]
    return float((vector_error(got - want, want) / allowance(moved, exact.unit_roundoff)).max())


@pytest.mark.parametrize(
    "carry",
    [
        lambda x: torch.cat([x.transpose(0, 1), x.transpose(0, 1).clone()], -1),
        lambda x: torch.where(x > 0, x, -torch.inf).reshape(2, 5, 4, 4),
        lambda x: F.pad(x[:, 1:], (0, 0, 0, 1)).float().half().masked_fill(x < 0, 0.0),
        lambda x: torch.stack([x.amax(-1), x.amin(-1)], -1).relu().sort(-1).values,
    ],
)
def test_what_only_carries_exact_values_has_no_noise(carry: Callable[[Tensor], Tensor]) -> None:
    assert not noise(Calls(carry), WHOLE).any()
    assert noise(Calls(lambda x: carry(x) * 0.3), WHOLE).any()


def test_inputs_and_weights_move_by_the_unit_roundoff() -> None:
    carried = noise(Calls(lambda x: x.clone()), drawn(50, 4, 16))
    assert 0.3 * 2.0**-24 < carried.max() <= 2.0**-24
    assert noise(Calls(lambda x: x * 0 + 3), WHOLE).max() == 0
    linear = seeded(lambda: nn.Linear(16, 16))
    assert noise(linear, np.eye(16, dtype=np.float32)[None]).max() > 0.3 * 2.0**-24


def test_noise_scales_with_the_dtype() -> None:
    layer = seeded(lambda: nn.TransformerEncoderLayer(16, 4, 32, batch_first=True))
    x = X.astype(np.float16)
    single, half, brain = (float(noise(layer, x, d).max()) for d in ("float32", "float16", "bfloat16"))
    assert 2**12 < half / single < 2**14 and 2**2 < brain / half < 2**4


def test_seeds_repeat_and_differ_and_draws_add_up() -> None:
    module = seeded(Attention)
    np.testing.assert_array_equal(noise(module, seed=3), noise(module, seed=3))
    assert (noise(module, seed=3) != noise(module, seed=4)).any()
    assert (noise(module, draws=4) >= noise(module, draws=2)).all()
    with pytest.raises(ValueError, match="at least 1 draw"):
        noise(module, draws=0)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("scale", [1.0, 30.0, 0.01])
def test_honest_rounding_is_inside_its_budget(dtype: str, scale: float) -> None:
    layer = seeded(lambda: nn.TransformerEncoderLayer(16, 4, 32, batch_first=True, activation="gelu"))
    for module in (layer, seeded(Attention)):
        assert 0.001 < ratio(module, drawn(2, 9, 16, scale=scale), dtype) <= 1


@pytest.mark.parametrize("scale", [1.0, 30.0])
def test_a_softmax_in_half_is_far_outside(scale: float) -> None:
    module = seeded(lambda: Attention(torch.float16))
    x = drawn(2, 9, 16, scale=scale)
    assert ratio(module, x) > 8
    assert ratio(seeded(Attention), x) <= 1


def test_a_weight_that_is_off_by_a_thousandth_is_outside() -> None:
    exact, off = seeded(Attention), seeded(Attention)
    with torch.no_grad():
        off.outward.weight[3, 3] *= 1.001
    assert ratio(exact, eager=off) > 1


def test_structure_stays_put() -> None:
    assert noise(seeded(Positions)).max() < 1e-5


def test_structure_would_fall_apart_if_it_moved(monkeypatch: pytest.MonkeyPatch) -> None:
    """The check above can fail."""
    monkeypatch.setattr(Trace, "structural", lambda self: frozenset())
    assert noise(seeded(Positions)).max() > 1e-2


def test_a_comparison_of_computed_data_does_not_stop_the_noise_before_it() -> None:
    leaky = Calls(lambda x: torch.where(x @ x.mT > 0, x @ x.mT, 0.01 * (x @ x.mT)))
    assert noise(leaky).min() > 0.1 * 2.0**-24


def test_cancellation_inside_a_norm_is_seen() -> None:
    """A mean of 1000 over a spread of 1 costs ten bits, in any honest LayerNorm."""
    norm, far = nn.LayerNorm(16), X + 1000
    assert noise(norm, far).max() > 50 * noise(norm, X).max()
    assert ratio(norm, far) <= 1


def test_cancellation_inside_a_product_is_seen() -> None:
    large = np.concatenate([np.full((2, 5, 8), 1000.7), np.full((2, 5, 8), -1000.7)], -1) + X
    total = Calls(lambda x: x.sum(-1, keepdim=True))
    assert noise(total, large).min() > 100 * 2.0**-24


def test_operators_that_write_in_place_move_too() -> None:
    x = WHOLE + np.float32(1.0 / 64)
    in_place = Calls(lambda x: x.clone().exp_().add_(1.0).div_(3.0))
    plain = Calls(lambda x: (x.clone().exp() + 1.0) / 3.0)
    np.testing.assert_array_equal(noise(in_place, x), noise(plain, x))
    assert noise(in_place, x).min() > 0


def test_fully_masked_rows_and_infinities_have_finite_noise() -> None:
    masked = Calls(lambda x: F.softmax(x.masked_fill(x < 0, -torch.inf), -1) + x.masked_fill(x > 1, torch.inf))
    assert np.isfinite(noise(masked)).all()


def test_a_value_that_moves_out_of_the_numbers_leaves_no_budget() -> None:
    edge = Calls(lambda x: torch.sqrt((x * 3).sum(-1, keepdim=True) - (x * 3).sum(-1, keepdim=True)))
    moved = noise(edge)
    assert np.isinf(moved).any()
    with pytest.raises(ValueError, match="not finite"):
        allowance(moved, 2.0**-24)


def test_vectors_scalars_and_whole_numbers_have_noise_of_their_shape() -> None:
    class Many(nn.Module):
        def forward(self, x: Tensor) -> tuple[Tensor, ...]:
            close = torch.stack([x.exp().sum(-1), (x.exp() * 3).sum(-1) / 3], -1)
            return x.exp().sum(), x.exp().sum((0, 1)), x.argmax(-1), close.argmax(-1), x[..., :0] * 3

    names = ("scalar", "vector", "clear", "tied", "empty")
    session = TorchFloat64Session(Many(), subject(outputs=names), "float32")
    moved = session.noise({"x": X}, draws=4, seed=0)
    want = {"scalar": (), "vector": (), "clear": (2,), "tied": (2,), "empty": (2, 5)}
    assert {name: array.shape for name, array in moved.items()} == want
    assert 0 < moved["scalar"] < 1e-5 and 0 < moved["vector"] < 1e-5
    assert not moved["clear"].any() and not moved["empty"].any() and moved["tied"].max() == 1


def test_complex_arithmetic_moves() -> None:
    turn = Calls(lambda x: torch.view_as_real(torch.view_as_complex(x.reshape(2, 5, 8, 2)) * (0.6 + 0.8j)).flatten(-2))
    assert 0.3 * 2.0**-24 < noise(turn, WHOLE).max() < 4 * 2.0**-24


def test_constants_that_are_shared_do_not_move() -> None:
    module = seeded(Attention)
    session = TorchFloat64Session(module, subject(), "float32")
    everything = session.fingerprints()
    feeds = {"x": X}
    assert not session.constant_noise(feeds, shared=everything, draws=2, seed=0)["y"].any()
    alone = TorchFloat64Session(seeded(lambda: nn.Sequential(module.outward)), subject(), "float32").fingerprints()
    some = session.constant_noise(feeds, shared=everything - alone, draws=2, seed=0)["y"]
    full = session.constant_noise(feeds, shared=frozenset(), draws=2, seed=0)["y"]
    assert 0 < some.mean() < full.mean() < 1e-5


def test_inputs_and_weights_of_the_same_name_are_told_apart() -> None:
    inputs = [TensorSpec("x", ("batch", "sequence", 16)), TensorSpec("weight", (16,))]

    class Weighted(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.full((16,), 3.0))

        def forward(self, x: Tensor, weight: Tensor) -> Tensor:
            return torch.cat([self.weight, weight]).expand(2, 5, 32)

    session = TorchFloat64Session(Weighted(), subject(inputs), "float32")
    feeds = {"x": X, "weight": np.full(16, 0.1, np.float32)}
    assert session.run(feeds)["y"][0, 0, 0] == 3.0
    assert session.noise(feeds, draws=1, seed=0)["y"].max() < 2.0**-24
