"""The fused attention call under every broadcastable shape of a mask, as booleans and as numbers; from one table.

A mask may leave out the batch, the heads or the queries (NumPy's rules of broadcasting, which PyTorch's
`scaled_dot_product_attention` and the ONNX operator `Attention` both promise); exporters and kernels have a path for
each. The shapes with a batch and queries, and the boolean one over keys, are entries of `dot_product`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from onnxparity.case import TensorSpec
from onnxparity.models import oracles_attention as oracles
from onnxparity.models.describe import BATCH, SEQUENCE, SOURCE, additive_mask, describe, features, keep_mask, output
from onnxparity.models.dot_product import HEAD_DIM, HEADS, ScaledDotProduct
from onnxparity.models.drawing import seeded
from onnxparity.models.entry import Entry, Oracle

__all__ = ["ENTRIES"]


class _Encoding(NamedTuple):
    words: str
    spec: Callable[..., TensorSpec]
    oracle: Oracle


ENCODINGS: Mapping[str, _Encoding] = {
    "bool": _Encoding("a boolean mask", keep_mask, oracles.scaled_dot_product_keep),
    "additive": _Encoding("an additive mask", additive_mask, oracles.scaled_dot_product_additive),
}
SHAPES: Mapping[str, tuple[int | str, ...]] = {
    "ts": ("sequence", "source"),
    "11ts": (1, 1, "sequence", "source"),
    "1hts": (1, HEADS, "sequence", "source"),
    "bhts": ("batch", HEADS, "sequence", "source"),
    "b11s": ("batch", 1, 1, "source"),
}
"""Dims of the mask by the name that they give the entry."""
ELSEWHERE = {("bool", "b11s")}
"""Entries of `dot_product`, under names of their own."""


def _entry(encoding: str, shape: str, seed: int) -> Entry:
    dims, (words, spec, oracle) = SHAPES[shape], ENCODINGS[encoding]
    return Entry(
        subject=describe(
            f"scaled-dot-product-{encoding}-{shape}",
            f"scaled dot-product attention with {words} of shape ({', '.join(map(str, dims))})",
            source="seed 001, code; seed 003, part 2.8",
            inputs=(
                features("query", "batch", HEADS, "sequence", HEAD_DIM),
                features("key", "batch", HEADS, "source", HEAD_DIM),
                features("value", "batch", HEADS, "source", HEAD_DIM),
                spec("mask", *dims),
            ),
            outputs=(output("batch", HEADS, "sequence", HEAD_DIM),),
            axes=(BATCH, SEQUENCE, SOURCE),
        ),
        build=lambda: seeded(ScaledDotProduct, seed=seed),
        oracle=oracle,
    )


ENTRIES: tuple[Entry, ...] = tuple(
    _entry(encoding, shape, 1301 + place)
    for place, (encoding, shape) in enumerate((e, s) for e in ENCODINGS for s in SHAPES)
    if (encoding, shape) not in ELSEWHERE
)
