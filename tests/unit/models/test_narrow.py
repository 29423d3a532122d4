"""A module that cannot run in half is told from one that can, and from one that fails for another reason."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from onnxparity.case import Axis, OutputSpec, Subject, TensorSpec
from onnxparity.models.narrow import refused_dtypes
from onnxparity.models.subjects import Call, Source


class Plain(nn.Module):
    """y = x W."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.linear(x)
        return out


class MixesIn(Plain):
    """A table in float32, whatever x is."""

    def forward(self, x: Tensor) -> Tensor:
        return x @ torch.eye(4)


class TooLarge(Plain):
    """A mask value that half precision does not have."""

    def forward(self, x: Tensor) -> Tensor:
        return x.masked_fill(x > 0, -1e9)


class Restless(Plain):
    """Fails only in half, and not because of a dtype."""

    def forward(self, x: Tensor) -> Tensor:
        if x.dtype is not torch.float32:
            raise KeyError("no such entry")
        return x


class Loud(Plain):
    """Fails in half with an error of PyTorch's that says nothing of dtypes."""

    def forward(self, x: Tensor) -> Tensor:
        return x if x.dtype is torch.float32 else x.reshape(7)


def source(module: nn.Module, dtypes: tuple[str, ...] = ("float32", "float16", "bfloat16")) -> Source:
    """A factory's module with its example."""
    subject = Subject(
        name="mine",
        kind="factory",
        origin="m:mine",
        source="the user",
        summary="",
        inputs=(TensorSpec("x", ("batch", 4)),),
        outputs=(OutputSpec("output", ("batch", 4)),),
        axes=(Axis("batch", "b", "batch"),),
        dtypes=dtypes,
    )
    return Source(
        subject=subject,
        build=lambda: module,
        call=lambda dtype: Call((torch.ones(2, 4, dtype=getattr(torch, dtype)),), {}, None),
        flat=lambda built: built,
    )


def test_a_module_that_runs_everywhere_is_refused_nowhere() -> None:
    assert refused_dtypes(source(Plain())) == {}


@pytest.mark.parametrize(("module", "words"), [(MixesIn(), "dtype"), (TooLarge(), "Half")])
def test_a_dtype_error_refuses_the_dtype_in_pytorchs_words(module: nn.Module, words: str) -> None:
    refused = refused_dtypes(source(module))
    assert words in refused["float16"]
    assert "\n" not in refused["float16"]
    assert "float32" not in refused


@pytest.mark.parametrize("module", [Restless(), Loud()])
def test_another_failure_is_left_to_the_cells(module: nn.Module) -> None:
    assert refused_dtypes(source(module)) == {}


def test_a_module_of_one_dtype_is_not_tried_again() -> None:
    assert refused_dtypes(source(MixesIn(), dtypes=("float32",))) == {}
