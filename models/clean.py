"""Changes that change nothing: each is provably the same function, and must come out green."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from onnxparity.models.attention import PureSelfAttention, causal_mask, merge_heads, split_heads
from onnxparity.models.fault import instead
from onnxparity.models.feedforward import FeedForwardGELU, FeedForwardReLU, FeedForwardSwiGLU
from onnxparity.models.norms import RMSNorm
from onnxparity.models.positions import sinusoids
from onnxparity.models.tied import TiedLanguageModel
from onnxparity.selftesting.planting import Where

__all__ = [
    "erf_written_out",
    "norm_folded",
    "relu_as_maximum",
    "rms_written_out",
    "scale_in_weights",
    "shifted_scores",
    "silu_written_out",
    "untied",
    "with_dropout",
]


def shifted_scores(self: PureSelfAttention, x: Tensor) -> tuple[Tensor, Tensor]:
    """The first key's score is taken off each row: a softmax does not see what is added to a whole row."""
    q, k, v = (split_heads(w(x), self.num_heads) for w in (self.W_q, self.W_k, self.W_v))  # (B, H, T, D)
    scores = q @ k.transpose(-2, -1) / math.sqrt(self.head_dim)  # (B, H, T, T)
    weights = F.softmax(scores - scores[..., :1], dim=-1)
    return self.W_o(merge_heads(weights @ v)), weights


def _unscaled(self: PureSelfAttention, x: Tensor) -> tuple[Tensor, Tensor]:
    q, k, v = (split_heads(w(x), self.num_heads) for w in (self.W_q, self.W_k, self.W_v))  # (B, H, T, D)
    weights = F.softmax(q @ k.transpose(-2, -1), dim=-1)
    return self.W_o(merge_heads(weights @ v)), weights


def scale_in_weights(module: nn.Module) -> Sequence[Where]:
    """1/sqrt(D) is multiplied into the query's weights beforehand: (x W) s = x (W s)."""
    instead(_unscaled)(module)
    weight = module.get_parameter("W_q.weight")
    with torch.no_grad():
        weight.copy_((weight.double() / math.sqrt(12)).float())
    return ()


def erf_written_out(self: FeedForwardGELU, x: Tensor) -> Tensor:
    """GELU by its definition, u (1 + erf(u / sqrt(2))) / 2."""
    up = self.up(x)
    out: Tensor = self.down(up * (1 + torch.erf(up / math.sqrt(2))) / 2)
    return out


def silu_written_out(self: FeedForwardSwiGLU, x: Tensor) -> Tensor:
    """SiLU by its definition, u sigmoid(u)."""
    gate = self.gate(x)
    out: Tensor = self.down(gate * torch.sigmoid(gate) * self.up(x))
    return out


def relu_as_maximum(self: FeedForwardReLU, x: Tensor) -> Tensor:
    """ReLU by its definition, max(u, 0)."""
    up = self.up(x)
    out: Tensor = self.down(torch.maximum(up, torch.zeros_like(up)))
    return out


def rms_written_out(self: RMSNorm, x: Tensor) -> Tensor:
    """RMS normalisation by its definition."""
    assert self.norm.eps is not None
    return x / torch.sqrt((x * x).mean(-1, keepdim=True) + self.norm.eps) * self.norm.weight


def norm_folded(module: nn.Module) -> Sequence[Where]:
    """The norm's scale and shift are multiplied into the network behind it: W (z * g + b) + c = (W g) z + (W b + c)."""
    norm, up = module.get_submodule("feed_forward_norm"), module.get_submodule("feed_forward.up")
    assert isinstance(norm, nn.LayerNorm) and isinstance(up, nn.Linear)
    weight, shift = up.weight.double(), norm.bias.double()
    with torch.no_grad():
        up.bias.copy_((up.bias.double() + weight @ shift).float())
        up.weight.copy_((weight * norm.weight.double()).float())
        norm.weight.fill_(1.0)
        norm.bias.fill_(0.0)
    return ()


def with_dropout(module: nn.Module) -> Sequence[Where]:
    """A dropout behind the network, which is the identity in evaluation."""
    down = module.get_submodule("feed_forward.down")
    assert isinstance(module.feed_forward, nn.Module)
    module.feed_forward.down = nn.Sequential(down, nn.Dropout(0.1)).eval()
    return ()


def _untied_logits(self: TiedLanguageModel, tokens: Tensor) -> Tensor:
    """As the right forward, with output weights of their own."""
    x = self.embedding(tokens) * self.scale  # (B, T, E)
    x = x + sinusoids(x)
    x = self.norm(self.block(x, causal_mask(x)))
    return F.linear(x, self.get_parameter("untied"))


def untied(module: nn.Module) -> Sequence[Where]:
    """The output weights are a copy of the embeddings with equal values."""
    weight = module.get_parameter("embedding.weight")
    module.register_parameter("untied", nn.Parameter(weight.clone(), requires_grad=False))
    return instead(_untied_logits)(module)
