"""What attention can be: a convolution, a kernel regression, a recurrent network, a function of sets."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from onnxparity.models.convolution import ConvolutionByAttention
from onnxparity.models.kernel_regression import KernelRegression
from onnxparity.models.linear_attention import CausalLinearAttention, LinearAttention, positive_features
from onnxparity.models.set_transformer import InducedSetAttention, PoolingByAttention, SetAttention

DOUBLE = torch.float64


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(11)


@pytest.mark.parametrize("kernel_size", [1, 3, 5])
@pytest.mark.parametrize("size", [(1, 1), (2, 7), (9, 6)])
def test_attention_with_hard_quadratic_positions_equals_conv2d(kernel_size: int, size: tuple[int, int]) -> None:
    convolution = nn.Conv2d(3, 8, kernel_size, padding=kernel_size // 2, dtype=DOUBLE)
    attention = ConvolutionByAttention(in_channels=3, out_channels=8, kernel_size=kernel_size).double()
    attention.load_kernel(convolution)
    images = torch.randn(2, 3, *size, dtype=DOUBLE)
    # Neighbours weigh exp(-64) = 2e-28, so only the order of at most 75 additions differs: 75 * 2**-53 < 1e-14,
    # times values of a few units.
    torch.testing.assert_close(attention(images), convolution(images), rtol=0, atol=1e-13)


def test_border_padding_is_zero_and_not_the_nearest_pixel() -> None:
    convolution = nn.Conv2d(3, 8, 3, padding=1, padding_mode="replicate", dtype=DOUBLE)
    attention = ConvolutionByAttention(in_channels=3, out_channels=8, kernel_size=3).double()
    attention.load_kernel(convolution)
    difference = (attention(images := torch.randn(1, 3, 6, 6, dtype=DOUBLE)) - convolution(images)).abs()
    assert difference[..., 1:-1, 1:-1].max() < 1e-13
    assert difference[..., 0, :].max() > 1e-2


def test_kernel_regression_on_the_sphere_is_softmax_attention() -> None:
    bandwidth = 0.6
    query, keys = (F.normalize(torch.randn(2, n, 8, dtype=DOUBLE), dim=-1) for n in (5, 9))
    values = torch.randn(2, 9, 4, dtype=DOUBLE)
    got, weights = KernelRegression(bandwidth=bandwidth).double()(query, keys, values)
    width = torch.tensor(bandwidth).double().item()  # the bandwidth as float32 holds it
    want = F.scaled_dot_product_attention(query, keys, values, scale=width**-2)
    torch.testing.assert_close(got, want, rtol=0, atol=1e-13)
    torch.testing.assert_close(weights.sum(-1), torch.ones(2, 5, dtype=DOUBLE), rtol=0, atol=1e-14)
    unequal = F.scaled_dot_product_attention(2 * query, keys, values, scale=width**-2)
    assert (got - unequal).abs().max() > 1e-2


def test_kernel_regression_stays_finite_far_from_every_key() -> None:
    far = torch.full((1, 1, 8), 1e4)
    got, weights = KernelRegression(bandwidth=0.5)(far, torch.randn(1, 6, 8), torch.randn(1, 6, 3))
    assert torch.isfinite(got).all() and weights.sum().item() == pytest.approx(1)


def test_positive_features_are_elu_plus_one_without_its_cancellation() -> None:
    x = torch.linspace(-30, 5, 400, dtype=DOUBLE)
    torch.testing.assert_close(positive_features(x), F.elu(x) + 1, rtol=0, atol=2e-15)
    assert (positive_features(torch.tensor([-20.0])) > 0).all()
    assert (F.elu(torch.tensor([-20.0])) + 1 == 0).all()


def test_causal_linear_attention_is_a_recurrent_network() -> None:
    module = CausalLinearAttention(embed_dim=16, num_heads=1).double()
    x = torch.randn(1, 6, 16, dtype=DOUBLE)
    memory, normaliser, steps = torch.zeros(16, 16, dtype=DOUBLE), torch.zeros(16, dtype=DOUBLE), []
    for token in x[0]:
        q, k = positive_features(module.query(token)), positive_features(module.key(token))
        memory, normaliser = memory + torch.outer(k, module.value(token)), normaliser + k
        steps.append(module.out(q @ memory / (q @ normaliser + 2.0**-14)))
    torch.testing.assert_close(module(x)[0], torch.stack(steps), rtol=1e-12, atol=1e-13)


def test_last_position_of_causal_linear_attention_sees_what_every_position_sees_without_cause() -> None:
    causal = CausalLinearAttention(embed_dim=32, num_heads=2).double()
    full = LinearAttention(embed_dim=32, num_heads=2).double()
    full.load_state_dict(causal.state_dict())
    x = torch.randn(2, 7, 32, dtype=DOUBLE)
    torch.testing.assert_close(causal(x)[:, -1], full(x)[:, -1], rtol=1e-12, atol=1e-13)
    assert (causal(x)[:, 0] - full(x)[:, 0]).abs().max() > 1e-3


def test_set_attention_permutes_with_its_set() -> None:
    order = torch.tensor([4, 0, 3, 1, 2])
    x = torch.randn(2, 5, 16, dtype=DOUBLE)
    for module in (
        SetAttention(embed_dim=16, num_heads=2, hidden_dim=32).double(),
        InducedSetAttention(embed_dim=16, num_heads=2, hidden_dim=32, num_points=3).double(),
    ):
        torch.testing.assert_close(module(x[:, order]), module(x)[:, order], rtol=1e-12, atol=1e-13)
        assert (module(x[:, order]) - module(x)).abs().max() > 1e-2


def test_pooling_by_attention_does_not_see_the_order() -> None:
    pool = PoolingByAttention(embed_dim=16, num_heads=2, hidden_dim=32, num_seeds=3).double()
    x = torch.randn(2, 5, 16, dtype=DOUBLE)
    pooled = pool(x)
    assert pooled.shape == (2, 3, 16)
    torch.testing.assert_close(pool(x[:, torch.tensor([4, 0, 3, 1, 2])]), pooled, rtol=1e-12, atol=1e-13)
    assert (pool(x[:, :4]) - pooled).abs().max() > 1e-3


def test_set_attention_divides_scores_by_the_root_of_the_whole_width() -> None:
    module = SetAttention(embed_dim=16, num_heads=4, hidden_dim=32)
    assert module.block.scale == 1 / math.sqrt(16)


def test_bad_configurations_are_refused_with_both_numbers() -> None:
    with pytest.raises(ValueError, match=r"kernel_size 4 .* 5"):
        ConvolutionByAttention(in_channels=1, out_channels=1, kernel_size=4)
    with pytest.raises(ValueError, match=r"sharpness 3\.0 .* 40"):
        ConvolutionByAttention(in_channels=1, out_channels=1, kernel_size=3, sharpness=3.0)
    with pytest.raises(ValueError, match="above 0, got -1"):
        KernelRegression(bandwidth=-1.0)
    with pytest.raises(ValueError, match="got 10 and 3"):
        LinearAttention(embed_dim=10, num_heads=3)
    with pytest.raises(ValueError, match="got 10 and 3"):
        CausalLinearAttention(embed_dim=10, num_heads=3)
    with pytest.raises(ValueError, match="num_points must be at least 1, got 0"):
        InducedSetAttention(embed_dim=16, num_heads=2, hidden_dim=32, num_points=0)
    with pytest.raises(ValueError, match="num_seeds must be at least 1, got 0"):
        PoolingByAttention(embed_dim=16, num_heads=2, hidden_dim=32, num_seeds=0)
