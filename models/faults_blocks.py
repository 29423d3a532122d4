"""Faults of blocks and networks: residuals, the place of a norm, activations, gates, the order of layers."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from onnxparity.models.attention import causal_mask
from onnxparity.models.blocks import DecoderBlockPreNorm, EncoderBlockPostNorm, EncoderBlockPreNorm
from onnxparity.models.feedforward import FeedForwardGELU, FeedForwardReLU, FeedForwardSwiGLU, KeyValueMemory
from onnxparity.models.stacks import EncoderStackPreNorm
from onnxparity.selftesting.planting import Where

__all__ = [
    "attention_residual_missing",
    "bias_twice",
    "cross_normed_late",
    "cross_residual_missing",
    "down_bias_twice",
    "feed_forward_residual_missing",
    "gates_exchanged",
    "gelu_for_relu",
    "gelu_gate",
    "last_norm_missing",
    "layer_repeated",
    "layers_exchanged",
    "leaky",
    "memory_bias_after",
    "norm_after",
    "norm_before",
    "relu_for_gelu",
    "residual_from_norm",
    "residual_twice",
    "sigmoid_gelu",
    "silu_for_gelu",
    "tanh_gelu",
]


def attention_residual_missing(self: EncoderBlockPostNorm, x: Tensor, mask: Tensor | None = None) -> Tensor:
    """The attention's output replaces its input instead of being added to it."""
    y = self.attention_norm(self.attention(x, x, mask))
    z: Tensor = self.feed_forward_norm(y + self.feed_forward(y))
    return z


def feed_forward_residual_missing(self: EncoderBlockPreNorm, x: Tensor, mask: Tensor | None = None) -> Tensor:
    """The network's output replaces its input instead of being added to it."""
    normed = self.attention_norm(x)
    y = x + self.attention(normed, normed, mask)
    z: Tensor = self.feed_forward(self.feed_forward_norm(y))
    return z


def cross_residual_missing(
    self: DecoderBlockPreNorm, x: Tensor, source: Tensor, source_mask: Tensor | None = None
) -> Tensor:
    """What is read from the source replaces the sequence."""
    normed = self.attention_norm(x)
    y = x + self.attention(normed, normed, causal_mask(x))
    y = self.cross(self.cross_norm(y), source, source_mask)
    z: Tensor = y + self.feed_forward(self.feed_forward_norm(y))
    return z


def residual_twice(self: EncoderBlockPostNorm, x: Tensor, mask: Tensor | None = None) -> Tensor:
    """The input is added twice."""
    y = self.attention_norm(x + x + self.attention(x, x, mask))
    z: Tensor = self.feed_forward_norm(y + self.feed_forward(y))
    return z


def residual_from_norm(self: EncoderBlockPreNorm, x: Tensor, mask: Tensor | None = None) -> Tensor:
    """What is added is the normed input, not the input."""
    normed = self.attention_norm(x)
    y = normed + self.attention(normed, normed, mask)
    z: Tensor = y + self.feed_forward(self.feed_forward_norm(y))
    return z


def norm_after(self: EncoderBlockPreNorm, x: Tensor, mask: Tensor | None = None) -> Tensor:
    """Post-norm instead of pre-norm."""
    y = self.attention_norm(x + self.attention(x, x, mask))
    z: Tensor = self.feed_forward_norm(y + self.feed_forward(y))
    return z


def norm_before(self: EncoderBlockPostNorm, x: Tensor, mask: Tensor | None = None) -> Tensor:
    """Pre-norm instead of post-norm."""
    normed = self.attention_norm(x)
    y = x + self.attention(normed, normed, mask)
    z: Tensor = y + self.feed_forward(self.feed_forward_norm(y))
    return z


def cross_normed_late(
    self: DecoderBlockPreNorm, x: Tensor, source: Tensor, source_mask: Tensor | None = None
) -> Tensor:
    """The norm before the attention on the source comes after it."""
    normed = self.attention_norm(x)
    y = x + self.attention(normed, normed, causal_mask(x))
    y = y + self.cross_norm(self.cross(y, source, source_mask))
    z: Tensor = y + self.feed_forward(self.feed_forward_norm(y))
    return z


def last_norm_missing(self: EncoderStackPreNorm, x: Tensor) -> Tensor:
    """The open residual stream is not normed at its end."""
    for block in self.blocks[:-1]:
        x = block(x)
    out: Tensor = self.blocks[-1](x)
    return out


def layers_exchanged(module: nn.Module) -> Sequence[Where]:
    """The first two layers change places."""
    blocks = module.get_submodule("blocks")
    assert isinstance(blocks, nn.ModuleList)
    blocks[0], blocks[1] = blocks[1], blocks[0]
    return tuple(Where(module=f"blocks.0.attention.{name}") for name in ("query", "key", "value"))


def layer_repeated(module: nn.Module) -> Sequence[Where]:
    """The second layer computes with the first one's weights."""
    blocks = module.get_submodule("blocks")
    assert isinstance(blocks, nn.ModuleList)
    blocks[1].load_state_dict(blocks[0].state_dict())
    # A pre-norm block meets its norm first, a post-norm block its projections.
    names = ("attention_norm", "attention.query", "attention.key", "attention.value")
    return tuple(Where(module=f"blocks.1.{name}") for name in names)


def tanh_gelu(self: FeedForwardGELU, x: Tensor) -> Tensor:
    """The tanh approximation of GELU instead of the exact one."""
    out: Tensor = self.down(F.gelu(self.up(x), approximate="tanh"))
    return out


def sigmoid_gelu(self: FeedForwardGELU, x: Tensor) -> Tensor:
    """The sigmoid approximation of GELU instead of the exact one."""
    up = self.up(x)
    out: Tensor = self.down(up * torch.sigmoid(1.702 * up))
    return out


def relu_for_gelu(self: FeedForwardGELU, x: Tensor) -> Tensor:
    """ReLU instead of GELU."""
    out: Tensor = self.down(F.relu(self.up(x)))
    return out


def silu_for_gelu(self: FeedForwardGELU, x: Tensor) -> Tensor:
    """SiLU instead of GELU."""
    out: Tensor = self.down(F.silu(self.up(x)))
    return out


def gelu_for_relu(self: FeedForwardReLU, x: Tensor) -> Tensor:
    """GELU instead of ReLU."""
    out: Tensor = self.down(F.gelu(self.up(x)))
    return out


def leaky(self: FeedForwardReLU, x: Tensor) -> Tensor:
    """A thousandth of what ReLU drops passes."""
    out: Tensor = self.down(F.leaky_relu(self.up(x), 0.001))
    return out


def gates_exchanged(self: FeedForwardSwiGLU, x: Tensor) -> Tensor:
    """The activation is on the other branch."""
    out: Tensor = self.down(self.gate(x) * F.silu(self.up(x)))
    return out


def gelu_gate(self: FeedForwardSwiGLU, x: Tensor) -> Tensor:
    """GEGLU instead of SwiGLU."""
    out: Tensor = self.down(F.gelu(self.gate(x)) * self.up(x))
    return out


def memory_bias_after(self: KeyValueMemory, x: Tensor) -> Tensor:
    """The keys' bias is added after the ReLU."""
    coefficients = F.relu(x @ self.keys.T) + self.key_bias
    return coefficients @ self.values + self.output_bias


def down_bias_twice(self: FeedForwardReLU, x: Tensor) -> Tensor:
    """The last bias is added twice."""
    out: Tensor = self.down(F.relu(self.up(x))) + self.down.bias
    return out


def bias_twice(self: FeedForwardGELU, x: Tensor) -> Tensor:
    """The first bias is added twice."""
    out: Tensor = self.down(F.gelu(self.up(x) + self.up.bias))
    return out
