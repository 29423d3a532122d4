"""A factory's own list of inputs is taken whole and by name, or refused with all that helps."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from onnxparity.case import Axis, OutputSpec, Subject, TensorSpec
from onnxparity.errors import OnnxParityError
from onnxparity.models.user_examples import listed_examples


class Shifted(nn.Module):
    """x + shift."""

    def forward(self, x: Tensor, shift: Tensor) -> Tensor:
        return x + shift


SUBJECT = Subject(
    name="mine",
    kind="factory",
    origin="m:mine",
    source="the user",
    summary="",
    inputs=(TensorSpec("x", ("batch", 3)), TensorSpec("shift", (3,))),
    outputs=(OutputSpec("output", ("batch", 3)),),
    axes=(Axis("batch", "b", "batch"),),
)
ONE = (torch.ones(2, 3), torch.zeros(3))


def listed(examples: object, **kwargs: Tensor) -> dict[str, dict[str, object]]:
    """What is taken of a factory's list."""
    return {
        name: dict(feeds) for name, feeds in listed_examples("m:mine", SUBJECT, Shifted(), examples, kwargs).items()
    }


def test_a_list_is_numbered_and_a_dict_is_named() -> None:
    assert list(listed([ONE, ONE])) == ["example-1", "example-2"]
    found = listed({"Long words": ONE})
    assert list(found) == ["example-long-words"]
    assert list(found["example-long-words"]) == ["x", "shift"]
    assert np.array_equal(np.asarray(found["example-long-words"]["x"]), np.ones((2, 3)))


def test_no_list_is_no_example() -> None:
    assert listed(None) == {} == listed([])


def test_one_argument_may_be_a_bare_tensor_beside_the_factorys_kwargs() -> None:
    found = listed([torch.ones(5, 3)], shift=torch.zeros(3))
    assert np.asarray(found["example-1"]["x"]).shape == (5, 3)


@pytest.mark.parametrize(
    ("examples", "words"),
    [
        (3, "no list of inputs"),
        ([3], "no list of inputs"),
        ({"a b": ONE, "a-b": ONE}, "no list of inputs"),
        ([(torch.ones(2, 3),)], "does not fit forward"),
        ([(torch.ones(2, 4), torch.zeros(3))], "wrong shape"),
        ([(torch.ones(2, 3).double(), torch.zeros(3))], "wrong dtype"),
        ([(torch.full((2, 3), torch.nan), torch.zeros(3))], "NaN"),
    ],
)
def test_what_does_not_fit_is_refused_with_all_four_parts(examples: object, words: str) -> None:
    with pytest.raises(OnnxParityError) as raised:
        listed(examples)
    assert words in raised.value.what
    assert raised.value.expected and raised.value.got and raised.value.remedy
