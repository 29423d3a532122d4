"""Attention modules against each other and against PyTorch's own."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from onnxparity.models.attention import (
    CausalAttention,
    FusedSelfAttention,
    MultiHeadAttention,
    PaddedSelfAttention,
    PureSelfAttention,
    SelfAttention,
    causal_mask,
    from_torch_state,
    key_padding,
    merge_heads,
    split_heads,
    to_torch_state,
)
from onnxparity.models.attention_variants import GroupedQueryAttention, SlidingWindowAttention, SoftCappedAttention
from onnxparity.models.drawing import seeded

EMBED, HEADS = 24, 4


def normal(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(7))


def assert_same(got: Tensor, want: Tensor) -> None:
    torch.testing.assert_close(got, want, rtol=1e-12, atol=1e-12)


@pytest.fixture
def attention() -> MultiHeadAttention:
    return seeded(lambda: MultiHeadAttention(embed_dim=EMBED, num_heads=HEADS), seed=1).double()


def torch_twin(attention: MultiHeadAttention) -> nn.MultiheadAttention:
    twin = nn.MultiheadAttention(EMBED, HEADS, batch_first=True, dtype=torch.float64).eval()
    twin.load_state_dict(to_torch_state(attention.state_dict()))
    return twin


def test_heads_are_consecutive_features() -> None:
    x = normal(2, 3, 8)
    heads = split_heads(x, 4)
    assert heads.shape == (2, 4, 3, 2)
    assert torch.equal(heads[1, 2, 0], x[1, 0, 4:6])
    assert torch.equal(merge_heads(heads), x)


def test_causal_mask_is_the_lower_triangle() -> None:
    assert causal_mask(normal(1, 3, 4)).tolist() == [[True, False, False], [True, True, False], [True, True, True]]


def test_fused_equals_pure_with_the_same_weights() -> None:
    pure = seeded(lambda: PureSelfAttention(embed_dim=EMBED, num_heads=HEADS), seed=2).double()
    fused = FusedSelfAttention(embed_dim=EMBED, num_heads=HEADS).double()
    fused.load_state_dict(pure.state_dict())
    x = normal(2, 5, EMBED)
    assert_same(fused(x), pure(x)[0])


def test_pure_attention_returns_rows_on_the_simplex() -> None:
    pure = seeded(lambda: PureSelfAttention(embed_dim=EMBED, num_heads=HEADS), seed=2).double()
    weights = pure(normal(2, 5, EMBED))[1]
    assert weights.shape == (2, HEADS, 5, 5)
    assert (weights >= 0).all()
    assert_same(weights.sum(-1), torch.ones(2, HEADS, 5, dtype=torch.float64))


def test_multi_head_attention_equals_torch_on_another_source(attention: MultiHeadAttention) -> None:
    x, source = normal(2, 5, EMBED), normal(2, 7, EMBED)
    want = torch_twin(attention)(x, source, source, need_weights=False)[0]
    assert_same(attention(x, source), want)


def test_multi_head_attention_equals_torch_under_key_padding(attention: MultiHeadAttention) -> None:
    x = normal(2, 5, EMBED)
    keep = torch.tensor([[True] * 5, [True, True, False, True, False]])
    want = torch_twin(attention)(x, x, x, key_padding_mask=~keep, need_weights=False)[0]
    assert_same(attention(x, x, key_padding(keep)), want)


def test_causal_attention_equals_torch_under_its_mask(attention: MultiHeadAttention) -> None:
    causal = CausalAttention(embed_dim=EMBED, num_heads=HEADS).double()
    causal.attention.load_state_dict(attention.state_dict())
    x = normal(2, 5, EMBED)
    want = torch_twin(attention)(x, x, x, attn_mask=~causal_mask(x), need_weights=False)[0]
    assert_same(causal(x), want)


def test_state_goes_to_torch_and_back(attention: MultiHeadAttention) -> None:
    back = from_torch_state(torch_twin(attention).state_dict())
    state = attention.state_dict()
    assert back.keys() == state.keys()
    assert all(torch.equal(back[k], state[k]) for k in state)


def test_state_of_another_kind_of_torch_attention_raises() -> None:
    unpacked = nn.MultiheadAttention(EMBED, HEADS, kdim=8, vdim=8)
    with pytest.raises(KeyError, match="in_proj_weight"):
        from_torch_state(unpacked.state_dict())


def test_window_of_the_whole_sequence_is_causal_attention() -> None:
    causal = seeded(lambda: CausalAttention(embed_dim=EMBED, num_heads=HEADS), seed=3).double()
    windowed = SlidingWindowAttention(embed_dim=EMBED, num_heads=HEADS, window=6).double()
    windowed.load_state_dict(causal.state_dict())
    x = normal(2, 7, EMBED)
    assert_same(windowed(x[:, :6]), causal(x[:, :6]))
    assert not torch.allclose(windowed(x), causal(x))


def test_window_of_one_reads_the_own_value() -> None:
    windowed = seeded(lambda: SlidingWindowAttention(embed_dim=EMBED, num_heads=HEADS, window=1), seed=3).double()
    x = normal(2, 5, EMBED)
    assert_same(windowed(x), windowed.attention.out(windowed.attention.value(x)))


def test_grouped_heads_equal_full_heads_with_repeated_weights() -> None:
    grouped = seeded(lambda: GroupedQueryAttention(embed_dim=EMBED, num_heads=4, num_kv_heads=2), seed=4).double()
    full = GroupedQueryAttention(embed_dim=EMBED, num_heads=4, num_kv_heads=4).double()
    state = dict(grouped.state_dict())
    for name in ("key.weight", "value.weight"):
        state[name] = state[name].unflatten(0, (2, -1)).repeat_interleave(2, dim=0).flatten(0, 1)
    full.load_state_dict(state)
    x = normal(2, 5, EMBED)
    assert_same(grouped(x), full(x))


def test_soft_cap_changes_large_scores_and_a_huge_cap_changes_nothing() -> None:
    capped = seeded(lambda: SoftCappedAttention(embed_dim=EMBED, num_heads=HEADS, cap=5.0), seed=5).double()
    plain = GroupedQueryAttention(embed_dim=EMBED, num_heads=HEADS, num_kv_heads=HEADS).double()
    plain.load_state_dict(capped.state_dict())
    x = normal(2, 5, EMBED)
    assert (capped(x) - plain(x)).abs().max() > 1e-3
    capped.cap = 1e7
    assert_same(capped(x), plain(x))


@pytest.mark.parametrize(
    ("make", "numbers"),
    [
        (lambda: PureSelfAttention(embed_dim=10, num_heads=4), ("10", "4")),
        (lambda: FusedSelfAttention(embed_dim=10, num_heads=3), ("10", "3")),
        (lambda: MultiHeadAttention(embed_dim=0, num_heads=4), ("0", "4")),
        (lambda: SelfAttention(embed_dim=8, num_heads=0), ("8", "0")),
        (lambda: PaddedSelfAttention(embed_dim=8, num_heads=-2), ("8", "-2")),
        (lambda: CausalAttention(embed_dim=9, num_heads=2), ("9", "2")),
        (lambda: GroupedQueryAttention(embed_dim=24, num_heads=6, num_kv_heads=4), ("6", "4")),
        (lambda: GroupedQueryAttention(embed_dim=24, num_heads=6, num_kv_heads=0), ("6", "0")),
        (lambda: SlidingWindowAttention(embed_dim=24, num_heads=6, window=0), ("0", "24")),
        (lambda: SoftCappedAttention(embed_dim=24, num_heads=6, cap=0.0), ("0.0", "24")),
        (lambda: SoftCappedAttention(embed_dim=24, num_heads=6, cap=float("nan")), ("nan", "24")),
    ],
)
def test_bad_configuration_names_both_numbers(make: Callable[[], nn.Module], numbers: tuple[str, str]) -> None:
    with pytest.raises(ValueError, match=f"got {numbers[0]} .*{numbers[1]}"):
        make()
