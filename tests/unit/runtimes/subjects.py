"""Descriptions of modules for the tests of the torch runtimes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np
import torch
from torch import nn

from onnxparity.case import Axis, OutputSpec, Subject, TensorSpec
from onnxparity.protocols import Array

Built = TypeVar("Built", bound=nn.Module)
AXES = (Axis("batch", "b", "batch"), Axis("sequence", "t", "sequence"))


def subject(
    inputs: Sequence[TensorSpec] = (TensorSpec("x", ("batch", "sequence", 16)),), outputs: Sequence[str] = ("y",)
) -> Subject:
    """A subject with these inputs and outputs; one input x of (B, T, 16) and one output y unless said otherwise."""
    return Subject(
        name="module",
        kind="factory",
        origin="package.module:factory",
        source="the tests",
        summary="a module under test",
        inputs=tuple(inputs),
        outputs=tuple(OutputSpec(name, (None,)) for name in outputs),
        axes=AXES,
    )


def drawn(*shape: int, scale: float = 1.0, dtype: str = "float32", seed: int = 0) -> Array:
    """Normal values."""
    return (np.random.default_rng(seed).standard_normal(shape) * scale).astype(dtype)


def seeded(build: Callable[[], Built]) -> Built:
    """A module with the same weights at each call, in evaluation mode."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        module = build()
    module.eval()
    return module
