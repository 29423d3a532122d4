"""Seeded weights: the same at each call, none of them trivial, and no trace in the global random state."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from onnxparity.models.catalogue import find
from onnxparity.models.drawing import seeded
from tests.unit.models.feeding import DRAWN


class Trivial(nn.Module):
    """Starts with zeros and ones where PyTorch does."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(8)
        self.rms = nn.RMSNorm(8)
        self.attention = nn.MultiheadAttention(8, 2)
        self.linear = nn.Linear(200, 200)


@pytest.mark.parametrize("name", DRAWN)
def test_build_gives_the_same_module_and_leaves_the_random_state(name: str) -> None:
    before = torch.random.get_rng_state()
    first, second = find(name).build(), find(name).build()
    assert torch.equal(torch.random.get_rng_state(), before)
    one, two = first.state_dict(), second.state_dict()
    assert list(one) == list(two)
    assert all(torch.equal(one[k], two[k]) for k in one)


@pytest.mark.parametrize("name", DRAWN)
def test_build_gives_float32_in_eval_mode_without_gradients(name: str) -> None:
    module = find(name).build()
    assert not any(part.training for part in module.modules())
    assert not any(p.requires_grad for p in module.parameters())
    assert {p.dtype for p in module.parameters()} <= {torch.float32}


def test_no_scale_is_one_and_no_bias_is_zero() -> None:
    module = seeded(Trivial, seed=1)
    for scale in (module.norm.weight, module.rms.weight):
        assert (scale - 1).abs().min() > 0
    biases = [p for n, p in module.named_parameters() if n.endswith("bias")]
    assert len(biases) == 4
    assert all((b != 0).all() for b in biases)


def test_linear_weights_have_variance_one_over_inputs() -> None:
    assert seeded(Trivial, seed=1).linear.weight.var().item() == pytest.approx(1 / 200, rel=0.05)


def test_another_seed_gives_other_weights() -> None:
    assert not torch.equal(seeded(Trivial, seed=1).norm.weight, seeded(Trivial, seed=2).norm.weight)
