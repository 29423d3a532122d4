"""Blocks, feed-forward networks and norms against PyTorch's own layers and against each other."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from onnxparity.models.attention import causal_mask, key_padding, to_torch_state
from onnxparity.models.blocks import (
    DecoderBlockPostNorm,
    DecoderBlockPreNorm,
    EncoderBlockPadded,
    EncoderBlockPostNorm,
    EncoderBlockPreNorm,
)
from onnxparity.models.drawing import seeded
from onnxparity.models.feedforward import FeedForwardGELU, FeedForwardReLU, FeedForwardSwiGLU, KeyValueMemory
from onnxparity.models.norms import LayerNorm, RMSNorm

EMBED, HEADS, HIDDEN = 24, 4, 40
SIZES = {"embed_dim": EMBED, "num_heads": HEADS, "hidden_dim": HIDDEN}


def normal(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(11))


def assert_same(got: Tensor, want: Tensor) -> None:
    torch.testing.assert_close(got, want, rtol=1e-12, atol=1e-12)


def part(state: dict[str, Tensor], name: str) -> dict[str, Tensor]:
    return {key.removeprefix(f"{name}."): value for key, value in state.items() if key.startswith(f"{name}.")}


def torch_state(block: nn.Module, attentions: dict[str, str], norms: tuple[str, ...]) -> dict[str, Tensor]:
    """The block's weights by the names of PyTorch's Transformer layers."""
    state = dict(block.state_dict())
    named: dict[str, Tensor] = {}
    for own, theirs in attentions.items():
        named |= {f"{theirs}.{k}": v for k, v in to_torch_state(part(state, own)).items()}
    for own, theirs in {"feed_forward.up": "linear1", "feed_forward.down": "linear2"}.items():
        named |= {f"{theirs}.{k}": v for k, v in part(state, own).items()}
    for number, own in enumerate(norms, start=1):
        named |= {f"norm{number}.{k}": v for k, v in part(state, own).items()}
    return named


def torch_encoder(block: nn.Module, *, norm_first: bool, activation: str) -> nn.TransformerEncoderLayer:
    layer = nn.TransformerEncoderLayer(
        EMBED, HEADS, HIDDEN, activation=activation, batch_first=True, norm_first=norm_first, dtype=torch.float64
    )
    norms = ("attention_norm", "feed_forward_norm")
    layer.load_state_dict(torch_state(block, {"attention": "self_attn"}, norms))
    return layer.eval()


def torch_decoder(block: nn.Module, *, norm_first: bool, activation: str) -> nn.TransformerDecoderLayer:
    layer = nn.TransformerDecoderLayer(
        EMBED, HEADS, HIDDEN, activation=activation, batch_first=True, norm_first=norm_first, dtype=torch.float64
    )
    norms = ("attention_norm", "cross_norm", "feed_forward_norm")
    layer.load_state_dict(torch_state(block, {"attention": "self_attn", "cross": "multihead_attn"}, norms))
    return layer.eval()


def test_post_norm_encoder_block_equals_torch() -> None:
    block = seeded(lambda: EncoderBlockPostNorm(**SIZES), seed=1).double()
    x = normal(2, 5, EMBED)
    assert_same(block(x), torch_encoder(block, norm_first=False, activation="relu")(x))


def test_pre_norm_encoder_block_equals_torch() -> None:
    block = seeded(lambda: EncoderBlockPreNorm(**SIZES), seed=2).double()
    x = normal(2, 5, EMBED)
    assert_same(block(x), torch_encoder(block, norm_first=True, activation="gelu")(x))


def test_padded_encoder_block_equals_torch_where_it_is_kept() -> None:
    block = seeded(lambda: EncoderBlockPadded(**SIZES), seed=3).double()
    x, keep = normal(2, 5, EMBED), torch.tensor([[True] * 5, [True, True, True, False, False]])
    layer = torch_encoder(block.block, norm_first=False, activation="relu")
    assert_same(block(x, keep)[keep], layer(x, src_key_padding_mask=~keep)[keep])


def test_post_norm_decoder_block_equals_torch() -> None:
    block = seeded(lambda: DecoderBlockPostNorm(**SIZES), seed=4).double()
    x, source = normal(2, 5, EMBED), normal(2, 7, EMBED)
    layer = torch_decoder(block, norm_first=False, activation="relu")
    assert_same(block(x, source), layer(x, source, tgt_mask=~causal_mask(x)))


def test_pre_norm_decoder_block_equals_torch() -> None:
    block = seeded(lambda: DecoderBlockPreNorm(**SIZES), seed=5).double()
    x, source = normal(2, 5, EMBED), normal(2, 7, EMBED)
    layer = torch_decoder(block, norm_first=True, activation="gelu")
    assert_same(block(x, source), layer(x, source, tgt_mask=~causal_mask(x)))


def test_decoder_block_under_a_source_mask_equals_torch() -> None:
    block = seeded(lambda: DecoderBlockPostNorm(**SIZES), seed=6).double()
    x, source, keep = normal(2, 5, EMBED), normal(2, 4, EMBED), torch.tensor([[True] * 4, [True, False, True, False]])
    layer = torch_decoder(block, norm_first=False, activation="relu")
    want = layer(x, source, tgt_mask=~causal_mask(x), memory_key_padding_mask=~keep)
    assert_same(block(x, source, key_padding(keep)), want)


def test_key_value_memory_equals_the_network_with_the_same_weights() -> None:
    network = seeded(lambda: FeedForwardReLU(embed_dim=EMBED, hidden_dim=HIDDEN), seed=7).double()
    memory = KeyValueMemory(embed_dim=EMBED, memories=HIDDEN).double()
    state = network.state_dict()
    memory.load_state_dict(
        {
            "keys": state["up.weight"],
            "key_bias": state["up.bias"],
            "values": state["down.weight"].T,
            "output_bias": state["down.bias"],
        }
    )
    x = normal(2, 5, EMBED)
    assert_same(memory(x), network(x))


def test_gelu_is_the_exact_one() -> None:
    network = seeded(lambda: FeedForwardGELU(embed_dim=EMBED, hidden_dim=HIDDEN), seed=8).double()
    x = normal(2, 5, EMBED)
    hidden = network.up(x)
    assert_same(network(x), network.down(hidden * torch.special.ndtr(hidden)))
    tanh = network.down(nn.functional.gelu(hidden, approximate="tanh"))
    assert (network(x) - tanh).abs().max() > 1e-5


def test_norms_have_the_moments_they_promise() -> None:
    x = 3 + 10 * normal(2, 5, EMBED)
    layer, rms = LayerNorm(width=EMBED).double()(x), RMSNorm(width=EMBED).double()(x)
    torch.testing.assert_close(layer.mean(-1), torch.zeros(2, 5, dtype=torch.float64))
    torch.testing.assert_close(layer.square().mean(-1), torch.ones(2, 5, dtype=torch.float64), rtol=1e-5, atol=0)
    torch.testing.assert_close(rms.square().mean(-1), torch.ones(2, 5, dtype=torch.float64), rtol=1e-5, atol=0)


def test_rms_norm_is_the_same_function_in_every_precision() -> None:
    """With PyTorch's default the epsilon is the dtype's own, and small inputs tell."""
    module, x = RMSNorm(width=EMBED), normal(2, 5, EMBED) * 1e-3
    torch.testing.assert_close(module(x.float()).double(), module.double()(x), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("make", "numbers"),
    [
        (lambda: FeedForwardReLU(embed_dim=0, hidden_dim=4), ("0", "4")),
        (lambda: FeedForwardGELU(embed_dim=4, hidden_dim=0), ("4", "0")),
        (lambda: FeedForwardSwiGLU(embed_dim=4, hidden_dim=-1), ("4", "-1")),
        (lambda: KeyValueMemory(embed_dim=4, memories=0), ("4", "0")),
        (lambda: LayerNorm(width=0), ("0", "1e-05")),
        (lambda: RMSNorm(width=4, eps=0.0), ("4", "0.0")),
        (lambda: EncoderBlockPostNorm(embed_dim=10, num_heads=4, hidden_dim=8), ("10", "4")),
        (lambda: EncoderBlockPreNorm(embed_dim=8, num_heads=2, hidden_dim=0), ("8", "0")),
        (lambda: EncoderBlockPadded(embed_dim=9, num_heads=2, hidden_dim=8), ("9", "2")),
        (lambda: DecoderBlockPostNorm(embed_dim=9, num_heads=2, hidden_dim=8), ("9", "2")),
        (lambda: DecoderBlockPreNorm(embed_dim=8, num_heads=2, hidden_dim=0), ("8", "0")),
    ],
)
def test_bad_configuration_names_both_numbers(make: Callable[[], nn.Module], numbers: tuple[str, str]) -> None:
    with pytest.raises(ValueError, match=f"got {numbers[0]} .*{numbers[1]}"):
        make()
