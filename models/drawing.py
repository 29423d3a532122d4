"""Seeded weights: the same module at each call, with no value that would hide a fault.

PyTorch's defaults start norms at exactly one and many biases at zero, so an export that drops a scale or
a bias would still agree; and they keep attention scores so small that the softmax is almost uniform, which
hides a wrong mask. Here every such value is drawn.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import torch
from torch import nn

__all__ = ["seeded"]

M = TypeVar("M", bound=nn.Module)


def seeded(make: Callable[[], M], *, seed: int) -> M:
    """The module that `make` builds, in float32 and eval mode, without gradients, its weights drawn from `seed`.

    Linear weights are normal with variance 1/inputs, so that attention scores have the size that seed 000,
    part 2.3 assumes; biases are normal with deviation 0.2; scales of norms are 1 + 0.2 * normal. Embeddings and
    bare parameters keep what their constructors draw. The global random state is left as it was.
    """
    with torch.random.fork_rng(devices=()), torch.no_grad():
        torch.default_generator.manual_seed(seed)
        module = make().float()
        for part in module.modules():
            _draw(part)
    return module.eval().requires_grad_(False)


def _draw(part: nn.Module) -> None:
    if isinstance(part, nn.Linear):
        part.weight.normal_(std=part.in_features**-0.5)
    if isinstance(part, nn.LayerNorm | nn.RMSNorm):
        part.weight.normal_(mean=1.0, std=0.2)
    for name, parameter in part.named_parameters(recurse=False):
        if name.endswith("bias"):
            parameter.normal_(std=0.2)
