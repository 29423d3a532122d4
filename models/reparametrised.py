"""Pure self-attention in other parameters: the same outputs from weights that come out differently.

Seed 004, part 6, after Brunner et al. 2020: attention weights are not identifiable from what a layer computes.
"""

from __future__ import annotations

from functools import partial

import torch

from onnxparity.case import OutputSpec
from onnxparity.models import oracles_attention as oracles
from onnxparity.models.attention import HEADS, PURE_EMBED, PureSelfAttention
from onnxparity.models.describe import describe, features, output
from onnxparity.models.drawing import seeded
from onnxparity.models.entry import Entry

__all__ = ["ENTRIES", "reparametrised"]

FACTORS = (0.5, 1.0, 2.0, 4.0)
"""Powers of two, so that W_Q R and W_K R^-T are exact in every dtype and nothing differs but the parameters."""


def reparametrised(attention: PureSelfAttention) -> PureSelfAttention:
    """The module with q R and k R^-T in each head, R a permutation of the components times powers of two, and with
    its heads in the reverse order. Changes the module in place and returns it."""
    head_dim = attention.head_dim
    order = torch.arange(attention.num_heads).flip(0)
    components = torch.arange(head_dim).roll(1)
    factor = torch.tensor([FACTORS[i % len(FACTORS)] for i in range(head_dim)])[:, None]
    with torch.no_grad():
        for part, change in ((attention.W_q, factor), (attention.W_k, 1 / factor)):
            rows = torch.unflatten(part.weight, 0, (-1, head_dim))[order]  # (H, D, E)
            part.weight.copy_((rows[:, components] * change).flatten(0, 1))
        attention.W_v.weight.copy_(torch.unflatten(attention.W_v.weight, 0, (-1, head_dim))[order].flatten(0, 1))
        attention.W_o.weight.copy_(torch.unflatten(attention.W_o.weight, 1, (-1, head_dim))[:, order].flatten(1, 2))
    return attention


ENTRIES: tuple[Entry, ...] = (
    Entry(
        subject=describe(
            "reparametrised-self-attention",
            "pure self-attention with other queries, keys and order of heads that compute the same",
            source="seed 004, part 6; Brunner et al. 2020",
            inputs=(features("x", "batch", "sequence", PURE_EMBED),),
            outputs=(
                output("batch", "sequence", PURE_EMBED),
                OutputSpec("attention_weights", ("batch", HEADS, "sequence", "sequence"), "weights"),
            ),
            properties=("batch-invariance", "simplex", "permutation-equivariance"),
        ),
        build=lambda: reparametrised(
            seeded(lambda: PureSelfAttention(embed_dim=PURE_EMBED, num_heads=HEADS), seed=101)
        ),
        oracle=partial(oracles.pure_self_attention, num_heads=HEADS),
    ),
)
