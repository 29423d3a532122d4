"""PyTorch's fused attention call by itself, under each kind of mask; there are no weights."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor, nn

from onnxparity.models import oracles_attention as oracles
from onnxparity.models.describe import BATCH, SEQUENCE, SOURCE, additive_mask, describe, features, keep_mask, output
from onnxparity.models.drawing import seeded
from onnxparity.models.entry import Entry

__all__ = ["ENTRIES", "ScaledDotProduct"]


class ScaledDotProduct(nn.Module):
    """softmax(q kᵀ / sqrt(D), masked) v through PyTorch's fused call (seed 001, code; seed 003, part 2.3).

    query (B, H, T, D), key and value (B, H, S, D), mask broadcastable to (B, H, T, S): boolean (True keeps)
    or additive. Returns (B, H, T, D); a query whose row is masked entirely gets 0.
    """

    def forward(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor) -> Tensor:
        return F.scaled_dot_product_attention(query, key, value, attn_mask=mask)


HEADS, HEAD_DIM = 4, 8

_QUERY = features("query", "batch", HEADS, "sequence", HEAD_DIM)
_KEY, _VALUE = (features(name, "batch", HEADS, "source", HEAD_DIM) for name in ("key", "value"))
_READ = output("batch", HEADS, "sequence", HEAD_DIM)

ENTRIES: tuple[Entry, ...] = (
    Entry(
        subject=describe(
            "scaled-dot-product-bool",
            "scaled dot-product attention with a boolean mask per query",
            source="seed 001, code; seed 003, part 2.8",
            inputs=(_QUERY, _KEY, _VALUE, keep_mask("mask", "batch", 1, "sequence", "source")),
            outputs=(_READ,),
            axes=(BATCH, SEQUENCE, SOURCE),
            properties=(
                "batch-invariance",
                "permutation-invariance",
                "convex-hull",
                "kernel-regression",
            ),
            reads={"output": "value"},
        ),
        build=lambda: seeded(ScaledDotProduct, seed=103),
        oracle=oracles.scaled_dot_product_keep,
    ),
    Entry(
        subject=describe(
            "scaled-dot-product-additive",
            "scaled dot-product attention with an additive mask per query",
            source="seed 003, part 2.8",
            inputs=(_QUERY, _KEY, _VALUE, additive_mask("mask", "batch", 1, "sequence", "source")),
            outputs=(_READ,),
            axes=(BATCH, SEQUENCE, SOURCE),
            properties=(
                "batch-invariance",
                "permutation-invariance",
                "convex-hull",
                "kernel-regression",
                "shift-invariance",
            ),
            reads={"output": "value"},
        ),
        build=lambda: seeded(ScaledDotProduct, seed=104),
        oracle=oracles.scaled_dot_product_additive,
    ),
    Entry(
        subject=describe(
            "scaled-dot-product-key-padding",
            "scaled dot-product attention with a boolean mask over keys",
            source="seed 001, code",
            inputs=(_QUERY, _KEY, _VALUE, keep_mask("mask", "batch", 1, 1, "source")),
            outputs=(_READ,),
            axes=(BATCH, SEQUENCE, SOURCE),
            properties=(
                "padding-invariance",
                "masked-content",
                "left-padding-invariance",
                "batch-invariance",
                "permutation-invariance",
                "convex-hull",
                "kernel-regression",
            ),
            reads={"output": "value"},
        ),
        build=lambda: seeded(ScaledDotProduct, seed=105),
        oracle=oracles.scaled_dot_product_keep,
    ),
)
