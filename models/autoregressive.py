"""A decoder-only language model in the three forms it is deployed in: whole sequence, prefill, decoding step.

Seed 003, 3.2 and 4.3. The three share their weights: what the whole sequence gives at once, prefill and
decoding with a key-value cache must give step by step. Positions are rotary and continue from the cache's length.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from onnxparity.case import OutputSpec, TensorSpec
from onnxparity.models import oracles_composed as oracles
from onnxparity.models.attention import head_size, merge_heads, split_heads
from onnxparity.models.describe import BATCH, PAST, SEQUENCE, describe
from onnxparity.models.drawing import seeded
from onnxparity.models.entry import Entry
from onnxparity.models.feedforward import FeedForwardGELU
from onnxparity.models.positions import wide
from onnxparity.models.stacks import positive_layers

__all__ = ["ENTRIES", "AutoregressiveDecoder", "DecoderDecode", "DecoderPrefill"]

Cache = tuple[Tensor, Tensor]
"""A layer's keys and values of all tokens so far, (B, H, P, D) each; the keys already turned."""


def _angles(x: Tensor, start: int, head_dim: int, base: float) -> tuple[Tensor, Tensor]:
    """Sines and cosines (T, D/2) for positions start ... start + T - 1 of x (B, T, E), rounded to x's dtype once."""
    half = head_dim // 2
    position = torch.arange(start, start + x.shape[1], device=x.device).to(wide(x))
    frequency = base ** (-torch.arange(half, device=x.device).to(wide(x)) / half)
    angles = position[:, None] * frequency
    return angles.sin().to(x.dtype), angles.cos().to(x.dtype)


def _turn(x: Tensor, sin: Tensor, cos: Tensor) -> Tensor:
    """Turns components i and i + D/2 of x (B, H, T, D) against each other (Su et al. 2021)."""
    a, b = x.chunk(2, dim=-1)
    return torch.cat([a * cos - b * sin, b * cos + a * sin], dim=-1)


class CachedBlock(nn.Module):
    """Pre-norm block that reads the cache before the new tokens: x (B, T, E) -> (B, T, E), grown cache."""

    def __init__(self, *, embed_dim: int, num_heads: int, hidden_dim: int) -> None:
        super().__init__()
        self.num_heads = num_heads
        self.attention_norm = nn.LayerNorm(embed_dim)
        self.query = nn.Linear(embed_dim, embed_dim, bias=False)
        self.key = nn.Linear(embed_dim, embed_dim, bias=False)
        self.value = nn.Linear(embed_dim, embed_dim, bias=False)
        self.out = nn.Linear(embed_dim, embed_dim, bias=False)
        self.feed_forward_norm = nn.LayerNorm(embed_dim)
        self.feed_forward = FeedForwardGELU(embed_dim=embed_dim, hidden_dim=hidden_dim)

    def forward(
        self, x: Tensor, past: Cache | None, mask: Tensor, sin: Tensor, cos: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        normed = self.attention_norm(x)
        q, k, v = (split_heads(w(normed), self.num_heads) for w in (self.query, self.key, self.value))  # (B, H, T, D)
        q, k = _turn(q, sin, cos), _turn(k, sin, cos)
        if past is not None:
            k, v = torch.cat([past[0], k], dim=2), torch.cat([past[1], v], dim=2)  # (B, H, P + T, D)
        x = x + self.out(merge_heads(F.scaled_dot_product_attention(q, k, v, attn_mask=mask)))
        return x + self.feed_forward(self.feed_forward_norm(x)), k, v


class CausalDecoder(nn.Module):
    """tokens (B, T) after a cache of P tokens -> logits (B, T, V) for the next ones, and each layer's cache."""

    def __init__(
        self, *, vocabulary: int, embed_dim: int, num_heads: int, hidden_dim: int, num_layers: int, base: float
    ) -> None:
        super().__init__()
        self.head_dim, self.base = head_size(embed_dim, num_heads), base
        if self.head_dim % 2:
            raise ValueError(f"embed_dim must be a multiple of 2 * num_heads, got {embed_dim} and {num_heads}")
        self.embedding = nn.Embedding(vocabulary, embed_dim)
        self.blocks = nn.ModuleList(
            CachedBlock(embed_dim=embed_dim, num_heads=num_heads, hidden_dim=hidden_dim)
            for _ in range(positive_layers(num_layers))
        )
        self.norm = nn.LayerNorm(embed_dim)
        self.logits = nn.Linear(embed_dim, vocabulary, bias=False)

    def forward(self, tokens: Tensor, past: Sequence[Cache] = ()) -> tuple[Tensor, list[Tensor]]:
        x = self.embedding(tokens)  # (B, T, E)
        length = past[0][0].shape[2] if past else 0
        sin, cos = _angles(x, length, self.head_dim, self.base)
        key_at = torch.arange(length + x.shape[1], device=x.device)
        mask = key_at[length:, None] >= key_at  # (T, P + T): seed 003, part 2.8, with the cache to the left
        present = []
        for place, block in enumerate(self.blocks):
            x, key, value = block(x, past[place] if past else None, mask, sin, cos)
            present += [key, value]
        return self.logits(self.norm(x)), present


class AutoregressiveDecoder(nn.Module):
    """Whole sequences, as in training: tokens (B, T) -> logits (B, T, V)."""

    def __init__(self, *, decoder: CausalDecoder) -> None:
        super().__init__()
        self.decoder = decoder

    def forward(self, tokens: Tensor) -> Tensor:
        logits: Tensor = self.decoder(tokens)[0]
        return logits


class DecoderPrefill(nn.Module):
    """A prompt: tokens (B, T) -> logits (B, T, V), then key and value (B, H, T, D) of each layer in turn."""

    def __init__(self, *, decoder: CausalDecoder) -> None:
        super().__init__()
        self.decoder = decoder

    def forward(self, tokens: Tensor) -> tuple[Tensor, ...]:
        logits, present = self.decoder(tokens)
        return logits, *present


class DecoderDecode(nn.Module):
    """One or more new tokens (B, T) after a cache -> logits (B, T, V) and the grown cache (B, H, P + T, D).

    The cache is one key and one value (B, H, P, D) for each of two layers. Raises ValueError for other depths.
    """

    def __init__(self, *, decoder: CausalDecoder) -> None:
        super().__init__()
        if len(decoder.blocks) != 2:
            raise ValueError(f"the signature holds the caches of 2 layers, the decoder has {len(decoder.blocks)}")
        self.decoder = decoder

    def forward(
        self, tokens: Tensor, past_key_0: Tensor, past_value_0: Tensor, past_key_1: Tensor, past_value_1: Tensor
    ) -> tuple[Tensor, ...]:
        logits, present = self.decoder(tokens, ((past_key_0, past_value_0), (past_key_1, past_value_1)))
        return logits, *present


VOCABULARY, EMBED, HEADS, HIDDEN, LAYERS, BASE = 96, 32, 4, 64, 2, 10000.0
_SEED = 811


def _decoder() -> CausalDecoder:
    return CausalDecoder(
        vocabulary=VOCABULARY, embed_dim=EMBED, num_heads=HEADS, hidden_dim=HIDDEN, num_layers=LAYERS, base=BASE
    )


_TOKENS = TensorSpec("tokens", ("batch", "sequence"), "int64", "tokens", high=VOCABULARY - 1)
_LOGITS = OutputSpec("logits", ("batch", "sequence", VOCABULARY), "logits")
_PARTS = [f"{part}_{layer}" for layer in range(LAYERS) for part in ("key", "value")]
_SOURCE = "seed 003, 3.2 and 4.3; Su et al. 2021"


def _present(length: str) -> tuple[OutputSpec, ...]:
    return tuple(OutputSpec(f"present_{part}", ("batch", HEADS, length, EMBED // HEADS), "present") for part in _PARTS)


_STEP = replace(
    describe(
        "decoder-decode",
        "the same decoder over new tokens after a key-value cache",
        source=_SOURCE,
        inputs=(
            _TOKENS,
            *(TensorSpec(f"past_{part}", ("batch", HEADS, "past", EMBED // HEADS), role="past") for part in _PARTS),
        ),
        outputs=(_LOGITS, *_present("past+sequence")),
        axes=(BATCH, SEQUENCE, PAST),
        properties=("causality", "batch-invariance", "prefill-decode"),
    ),
    companions={"prefill": "decoder-prefill"},
    roles={f"present_{part}": f"past_{part}" for part in _PARTS},
)

ENTRIES: tuple[Entry, ...] = (
    Entry(
        subject=describe(
            "autoregressive-decoder",
            "decoder-only language model over whole sequences, without a cache",
            source=_SOURCE,
            inputs=(_TOKENS,),
            outputs=(_LOGITS,),
            properties=("causality", "batch-invariance"),
        ),
        build=lambda: seeded(lambda: AutoregressiveDecoder(decoder=_decoder()), seed=_SEED),
        oracle=partial(oracles.autoregressive_decoder, num_heads=HEADS, num_layers=LAYERS, base=BASE),
    ),
    Entry(
        subject=describe(
            "decoder-prefill",
            "the same decoder over a prompt, which fills the key-value cache",
            source=_SOURCE,
            inputs=(_TOKENS,),
            outputs=(_LOGITS, *_present("sequence")),
            properties=("causality", "batch-invariance"),
        ),
        build=lambda: seeded(lambda: DecoderPrefill(decoder=_decoder()), seed=_SEED),
        oracle=partial(oracles.decoder_with_cache, num_heads=HEADS, num_layers=LAYERS, base=BASE),
    ),
    Entry(
        subject=_STEP,
        build=lambda: seeded(lambda: DecoderDecode(decoder=_decoder()), seed=_SEED),
        oracle=partial(oracles.decoder_with_cache, num_heads=HEADS, num_layers=LAYERS, base=BASE),
    ),
)
