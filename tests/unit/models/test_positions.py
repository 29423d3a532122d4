"""Positions: hand-made values, relative properties, and angles that do not suffer from a narrow dtype."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from onnxparity.models import oracles_attention as oracles
from onnxparity.models.positions import (
    AlibiAttention,
    LearnedPositions,
    RelativeBiasAttention,
    RotaryAttention,
    SinusoidalPositions,
    rotate,
    sinusoids,
)

HALF_ROUNDOFF = 2.0**-11


def zeros(*shape: int, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.zeros(*shape, dtype=dtype)


def test_sinusoids_by_hand() -> None:
    got = sinusoids(zeros(1, 2, 4))
    want = [[0.0, 1.0, 0.0, 1.0], [math.sin(1), math.cos(1), math.sin(0.01), math.cos(0.01)]]
    assert got.numpy() == pytest.approx(np.array(want), abs=1e-15)


@pytest.mark.parametrize(
    ("dtype", "limit"), [(torch.float16, HALF_ROUNDOFF), (torch.float32, 1e-3), (torch.float64, 1e-11)]
)
def test_sinusoids_of_far_positions_are_as_good_as_their_dtype(dtype: torch.dtype, limit: float) -> None:
    # In half, positions beyond 2048 are no numbers of their own; float32 angles near 3000 are off by 2e-4.
    got = sinusoids(zeros(1, 3001, 16, dtype=dtype))
    assert got.dtype == dtype
    assert np.abs(got[-2:].double().numpy() - oracles.sinusoids(3001, 16)[-2:]).max() < limit


def test_learned_positions_end_at_their_table() -> None:
    module = LearnedPositions(embed_dim=4, max_length=3)
    assert torch.equal(module(torch.zeros(1, 3, 4))[0], module.table.weight)
    with pytest.raises(IndexError):
        module(torch.zeros(1, 4, 4))


def test_rotation_keeps_lengths_and_makes_scores_depend_on_the_offset_alone() -> None:
    generator = torch.Generator().manual_seed(3)
    q, k = (torch.randn(6, dtype=torch.float64, generator=generator).expand(1, 1, 9, 6) for _ in range(2))
    turned_q, turned_k = rotate(q, 100.0), rotate(k, 100.0)
    torch.testing.assert_close(turned_q.norm(dim=-1), q.norm(dim=-1))
    scores = (turned_q @ turned_k.mT)[0, 0]
    for offset in range(-8, 9):
        diagonal = scores.diagonal(offset)
        torch.testing.assert_close(diagonal, diagonal[:1].expand_as(diagonal))
    assert scores[0].std() > 0.1


def test_rotation_of_far_positions_in_half_uses_wider_angles() -> None:
    x = torch.ones(1, 1, 3001, 8)
    got, want = rotate(x.half(), 10000.0), rotate(x.double(), 10000.0)
    assert got.dtype == torch.float16
    assert (got.double() - want).abs().max() < 4 * HALF_ROUNDOFF


def test_rotation_in_float64_is_truly_float64() -> None:
    got = rotate(torch.ones(1, 1, 3001, 8, dtype=torch.float64), 10000.0)[0, 0, -1]
    turned = (1 + 1j) * np.exp(1j * 3000 / 10000.0 ** (np.arange(4) / 4))
    assert got.numpy() == pytest.approx(np.concatenate([turned.real, turned.imag]), abs=1e-11)


def test_alibi_slopes_of_eight_heads_are_halves() -> None:
    penalty = AlibiAttention(embed_dim=16, num_heads=8).penalty(zeros(1, 3, 16))
    assert penalty[:, 1, 0].tolist() == [-(2.0**-h) for h in range(1, 9)]
    assert penalty[0].tolist() == [[0.0, -math.inf, -math.inf], [-0.5, 0.0, -math.inf], [-1.0, -0.5, 0.0]]


def test_alibi_penalty_in_half_counts_beyond_2048() -> None:
    penalty = AlibiAttention(embed_dim=4, num_heads=2).penalty(zeros(1, 2051, 4, dtype=torch.float16))
    assert penalty[0, -1, 0].item() == -2050 / 16  # exact in half, where 2050/16 is reached from a 2050 that is not


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64])
def test_relative_buckets_are_the_same_in_every_precision(dtype: torch.dtype) -> None:
    module = RelativeBiasAttention(embed_dim=8, num_heads=2, num_buckets=16, max_distance=32)
    got = module.buckets(zeros(1, 90, 8, dtype=dtype))
    want = [[oracles.relative_bucket(j - i, num_buckets=16, max_distance=32) for j in range(90)] for i in range(90)]
    assert got.tolist() == want


def test_relative_buckets_by_hand() -> None:
    def bucket(offset: int) -> int:
        return oracles.relative_bucket(offset, num_buckets=16, max_distance=32)

    # 8 buckets a side: distances 0 to 3, then from 4, 4 * 8**(1/4) = 6.7, 11.3 and 19.03 on.
    assert [bucket(-d) for d in (0, 1, 3, 4, 6, 7, 11, 12, 19, 20, 32, 1000)] == [0, 1, 3, 4, 4, 5, 5, 6, 6, 7, 7, 7]
    assert [bucket(d) for d in (1, 3, 4, 1000)] == [9, 11, 12, 15]


@pytest.mark.parametrize(
    ("make", "numbers"),
    [
        (lambda: LearnedPositions(embed_dim=4, max_length=0), ("4", "0")),
        (lambda: RotaryAttention(embed_dim=12, num_heads=4), ("12", "4")),
        (lambda: RotaryAttention(embed_dim=10, num_heads=4), ("10", "4")),
        (lambda: AlibiAttention(embed_dim=12, num_heads=3), ("3", "12")),
        (lambda: RelativeBiasAttention(embed_dim=8, num_heads=2, num_buckets=6, max_distance=32), ("6", "32")),
        (lambda: RelativeBiasAttention(embed_dim=8, num_heads=2, num_buckets=16, max_distance=4), ("16", "4")),
    ],
)
def test_bad_configuration_names_both_numbers(make: Callable[[], nn.Module], numbers: tuple[str, str]) -> None:
    with pytest.raises(ValueError, match=f"got {numbers[0]} .*{numbers[1]}"):
        make()


def test_sinusoids_of_an_odd_width_raise() -> None:
    with pytest.raises(ValueError, match="got 5"):
        SinusoidalPositions(embed_dim=5)
