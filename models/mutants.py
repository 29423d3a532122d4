"""Planted faults: catalogue subjects that are wrong in one way, each of which a verdict must find.

A mutant is the subject's own module with its own weights and one change; `plant` leaves the original alone.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from onnxparity.models import catalogue
from onnxparity.models.attention import CausalAttention, PureSelfAttention, SelfAttention, merge_heads, split_heads
from onnxparity.models.attention_variants import GroupedQueryAttention
from onnxparity.models.blocks import EncoderBlockPostNorm, EncoderBlockPreNorm
from onnxparity.models.feedforward import FeedForwardGELU
from onnxparity.models.norms import LayerNorm
from onnxparity.models.positions import RotaryAttention

__all__ = ["MUTANTS", "Mutant", "planted"]


@dataclass(frozen=True)
class Mutant:
    """One fault in one subject."""

    name: str
    subject: str
    """Name of the catalogue entry that it spoils."""
    plant: Callable[[Any], None]  # Any: each fault knows the class of its own module
    """Spoils a module in place."""


def planted(mutant: Mutant) -> nn.Module:
    """The subject's module with the fault in it, in float32 and eval mode."""
    module = copy.deepcopy(catalogue.find(mutant.subject).build())
    mutant.plant(module)
    return module


def _instead(forward: Callable[..., Tensor]) -> Callable[[nn.Module], None]:
    """Plants another forward."""

    def plant(module: nn.Module) -> None:
        module.__class__ = type(f"Faulty{type(module).__name__}", (type(module),), {"forward": forward})

    return plant


def _wrong_scale(module: PureSelfAttention) -> None:
    """Scores divided by sqrt(embed_dim) instead of sqrt(head_dim)."""
    module.head_dim = module.head_dim * module.num_heads


def _sees_one_ahead(self: CausalAttention, x: Tensor) -> Tensor:
    """The causal mask shifted by one: each position sees the next."""
    position = torch.arange(x.shape[1], device=x.device)
    out: Tensor = self.attention(x, x, position[:, None] + 1 >= position[None, :])
    return out


def _sees_everything(self: CausalAttention, x: Tensor) -> Tensor:
    """No mask at all."""
    out: Tensor = self.attention(x, x)
    return out


def _heads_swapped(module: SelfAttention) -> None:
    """The first two query heads change places."""
    query = module.attention.query
    head_dim = query.out_features // module.attention.num_heads
    rows = torch.arange(query.out_features)
    rows[: 2 * head_dim] = rows[: 2 * head_dim].roll(head_dim)
    with torch.no_grad():
        query.weight.copy_(query.weight[rows])
        query.bias.copy_(query.bias[rows])


def _repeats_for_interleaves(self: GroupedQueryAttention, x: Tensor) -> Tensor:
    """Key and value heads tiled, so that query heads read another group's."""
    group = self.num_heads // self.num_kv_heads
    q = split_heads(self.query(x), self.num_heads)
    k = split_heads(self.key(x), self.num_kv_heads).repeat(1, group, 1, 1)
    v = split_heads(self.value(x), self.num_kv_heads).repeat(1, group, 1, 1)
    position = torch.arange(x.shape[1], device=x.device)
    mask = position[:, None] >= position[None, :]
    out: Tensor = self.out(merge_heads(F.scaled_dot_product_attention(q, k, v, attn_mask=mask)))
    return out


def _smaller_epsilon(module: LayerNorm) -> None:
    """epsilon 1e-6 instead of 1e-5."""
    module.norm.eps = 1e-6


def _tanh_gelu(self: FeedForwardGELU, x: Tensor) -> Tensor:
    """The tanh approximation of GELU instead of the exact one."""
    out: Tensor = self.down(F.gelu(self.up(x), approximate="tanh"))
    return out


def _other_base(module: RotaryAttention) -> None:
    """RoPE base 10100 instead of 10000."""
    module.base = 10100.0


def _norm_after(self: EncoderBlockPreNorm, x: Tensor, mask: Tensor | None = None) -> Tensor:
    """Post-norm instead of pre-norm."""
    y = self.attention_norm(x + self.attention(x, x, mask))
    z: Tensor = self.feed_forward_norm(y + self.feed_forward(y))
    return z


def _one_weight_off(module: EncoderBlockPostNorm) -> None:
    """One element of one weight larger by 1 %."""
    weight = module.feed_forward.up.weight
    with torch.no_grad():
        weight[3, 5] *= 1.01


MUTANTS: tuple[Mutant, ...] = (
    Mutant("wrong-scale", "pure-self-attention", _wrong_scale),
    Mutant("causal-mask-off-by-one", "causal-attention", _instead(_sees_one_ahead)),
    Mutant("mask-dropped", "causal-attention", _instead(_sees_everything)),
    Mutant("heads-swapped", "multi-head-attention", _heads_swapped),
    Mutant("kv-repeat-for-interleave", "grouped-query-attention", _instead(_repeats_for_interleaves)),
    Mutant("epsilon", "layer-norm", _smaller_epsilon),
    Mutant("tanh-gelu", "feed-forward-gelu", _instead(_tanh_gelu)),
    Mutant("rope-base", "rotary-attention", _other_base),
    Mutant("post-norm-for-pre-norm", "encoder-block-pre-norm", _instead(_norm_after)),
    Mutant("one-weight-element", "encoder-block-post-norm", _one_weight_off),
)
