"""Whole models: what they promise beyond agreeing with their oracles, which `test_oracles` asks of every subject."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor

from onnxparity.models import autoregressive, classifier, translation
from onnxparity.models.autoregressive import CausalDecoder, DecoderDecode
from onnxparity.models.classifier import TextClassifier
from onnxparity.models.stacks import DecoderStack, EncoderStackPostNorm, EncoderStackPreNorm
from onnxparity.models.translation import greedy_decode
from onnxparity.models.vision import VisionTransformer
from onnxparity.protocols import Array, Feeds

START, END = 1, 2


def torch_logits() -> Callable[[Feeds], Array]:
    module = translation.ENTRIES[0].build()

    def logits_of(feeds: Feeds) -> Array:
        array: Array = module(*(torch.from_numpy(array) for array in feeds.values())).numpy()
        return array

    return logits_of


def oracle_logits() -> Callable[[Feeds], Array]:
    entry = translation.ENTRIES[0]
    weights = {name: value.double().numpy() for name, value in entry.build().state_dict().items()}
    oracle = entry.oracle
    assert oracle is not None
    return lambda feeds: oracle(weights, feeds)[0]


def sentence(length: int) -> tuple[np.ndarray[tuple[int, ...], np.dtype[np.int64]], Array]:
    ids = np.random.default_rng(length).integers(3, translation.VOCABULARY, (2, length))
    mask = np.ones((2, length), dtype=np.bool_)
    mask[1, length // 2 + 1 :] = False
    return ids, mask


def test_greedy_decoding_gives_equal_tokens_over_two_callables() -> None:
    ids, mask = sentence(7)
    by_torch, by_oracle = (
        greedy_decode(logits_of, ids, mask, start=START, end=END, limit=12)
        for logits_of in (torch_logits(), oracle_logits())
    )
    assert by_torch.shape[0] == 2 and 1 <= by_torch.shape[1] <= 12
    np.testing.assert_array_equal(by_torch, by_oracle)


def test_greedy_decoding_depends_on_the_source_and_not_on_its_padding() -> None:
    ids, mask = sentence(7)
    logits_of = torch_logits()
    want = greedy_decode(logits_of, ids, mask, start=START, end=END, limit=6)
    other = np.where(mask, ids, 5)
    np.testing.assert_array_equal(greedy_decode(logits_of, other, mask, start=START, end=END, limit=6), want)
    shorter = greedy_decode(logits_of, ids[1:, :4], mask[1:, :4], start=START, end=END, limit=6)
    np.testing.assert_array_equal(shorter[0], want[1, : shorter.shape[1]])
    assert (greedy_decode(logits_of, ids[::-1].copy(), mask, start=START, end=END, limit=6) != want).any()


def test_greedy_decoding_stops_at_the_end_token_and_fills_rows_that_ended() -> None:
    script = np.array([[9, END, 7, 7], [9, 8, END, 7]])

    def logits_of(feeds: Feeds) -> Array:
        logits = np.zeros((2, feeds["target_ids"].shape[1], 10))
        logits[[0, 1], -1, script[:, feeds["target_ids"].shape[1] - 1]] = 1
        return logits

    ids, mask = sentence(3)
    tokens = greedy_decode(logits_of, ids, mask, start=START, end=END, limit=9)
    assert tokens.tolist() == [[9, END, END], [9, 8, END]]
    assert greedy_decode(logits_of, ids, mask, start=START, end=END, limit=1).tolist() == [[9], [9]]
    with pytest.raises(ValueError, match="at least 1, got 0"):
        greedy_decode(logits_of, ids, mask, start=START, end=END, limit=0)


def decoders() -> tuple[torch.nn.Module, torch.nn.Module, torch.nn.Module]:
    whole, prefill, decode = (entry.build().double() for entry in autoregressive.ENTRIES)
    return whole, prefill, decode


@pytest.mark.parametrize("split", [(1, 1, 1, 1, 1, 1), (4, 1, 1), (2, 3, 1), (1, 5)])
def test_prefill_and_decoding_give_what_the_whole_sequence_gives(split: tuple[int, ...]) -> None:
    whole, prefill, decode = decoders()
    tokens = torch.randint(0, autoregressive.VOCABULARY, (3, sum(split)), generator=torch.Generator().manual_seed(5))
    first, *rest = torch.split(tokens, list(split), dim=1)
    logits, *cache = prefill(first)
    pieces = [logits]
    for piece in rest:
        logits, *cache = decode(piece, *cache)
        pieces.append(logits)
    torch.testing.assert_close(torch.cat(pieces, dim=1), whole(tokens), rtol=1e-12, atol=1e-13)
    torch.testing.assert_close(tuple(cache), prefill(tokens)[1:], rtol=1e-12, atol=1e-13)


def test_decoding_from_an_empty_cache_is_a_prefill() -> None:
    _, prefill, decode = decoders()
    tokens = torch.tensor([[3, 1, 4, 1, 5]])
    empty = [torch.zeros(1, autoregressive.HEADS, 0, 8, dtype=torch.float64)] * 4
    torch.testing.assert_close(decode(tokens, *empty), prefill(tokens), rtol=1e-12, atol=1e-13)


def test_a_cache_at_the_wrong_position_is_noticed() -> None:
    whole, prefill, decode = decoders()
    tokens = torch.tensor([[3, 1, 4, 1, 5, 9]])
    shifted = prefill(tokens[:, 1:5])[1:]  # the same tokens, one of them missing: positions are off by one
    assert (decode(tokens[:, 5:], *shifted)[0] - whole(tokens)[:, 5:]).abs().max() > 1e-3


def test_the_three_decoders_share_their_weights_and_name_what_becomes_what() -> None:
    states = [entry.build().state_dict() for entry in autoregressive.ENTRIES]
    for state in states[1:]:
        assert state.keys() == states[0].keys()
        assert all(torch.equal(value, states[0][name]) for name, value in state.items())
    step = autoregressive.ENTRIES[2].subject
    names = {entry.subject.name for entry in autoregressive.ENTRIES}
    assert set(step.companions.values()) <= names
    assert set(step.roles) == {output.name for output in step.outputs if output.role == "present"}
    assert set(step.roles.values()) == {spec.name for spec in step.inputs if spec.role == "past"}


def classify(ids: list[int], keep: list[bool]) -> Tensor:
    module = classifier.ENTRIES[0].build().double()
    logits: Tensor = module(torch.tensor([ids]), torch.tensor([keep]))
    return logits


def test_classifier_does_not_see_padding_on_either_side_nor_between() -> None:
    want = classify([5, 6, 7], [True] * 3)
    for ids, keep in (
        ([5, 6, 7, 0, 9], [True, True, True, False, False]),
        ([1, 2, 5, 6, 7], [False, False, True, True, True]),
        ([5, 1, 6, 2, 7], [True, False, True, False, True]),
    ):
        torch.testing.assert_close(classify(ids, keep), want, rtol=1e-12, atol=1e-13)
    assert (classify([5, 6, 7, 0], [True] * 4) - want).abs().max() > 1e-2


def test_classifier_of_an_empty_row_gives_its_bias() -> None:
    bias = classifier.ENTRIES[0].build().state_dict()["logits.bias"].double()
    torch.testing.assert_close(classify([1, 2], [False, False])[0], bias)


def test_bad_configurations_are_refused_with_both_numbers() -> None:
    sizes = {"embed_dim": 16, "num_heads": 2, "hidden_dim": 32}
    for stack in (EncoderStackPostNorm, EncoderStackPreNorm, DecoderStack):
        with pytest.raises(ValueError, match="at least 1, got 0"):
            stack(**sizes, num_layers=0)
    with pytest.raises(ValueError, match=r"image_size 10 .* patch_size 4"):
        VisionTransformer(image_size=10, patch_size=4, **sizes, num_layers=1, num_classes=2)
    with pytest.raises(ValueError, match="at least 2, got 1"):
        TextClassifier(vocabulary=8, **sizes, num_layers=1, num_classes=1)
    with pytest.raises(ValueError, match="got 6 and 2"):
        CausalDecoder(vocabulary=8, embed_dim=6, num_heads=2, hidden_dim=8, num_layers=1, base=1e4)
    deep = CausalDecoder(vocabulary=8, **sizes, num_layers=3, base=1e4)
    with pytest.raises(ValueError, match="2 layers, the decoder has 3"):
        DecoderDecode(decoder=deep)
