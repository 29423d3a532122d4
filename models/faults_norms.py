"""Faults of norms: epsilon, variance, kind, axis, scale and shift."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from onnxparity.models.fault import instead
from onnxparity.models.norms import LayerNorm, RMSNorm
from onnxparity.selftesting.planting import Where

__all__ = [
    "block_norm",
    "centred_rms",
    "epsilon_outside",
    "mean_not_taken",
    "no_scale",
    "no_shift",
    "one_plus_scale",
    "over_positions",
    "rms_epsilon_outside",
    "shifted_first",
    "unbiased",
]


def unbiased(self: LayerNorm, x: Tensor) -> Tensor:
    """The variance is divided by E - 1 instead of E."""
    variance = x.var(-1, keepdim=True, unbiased=True)
    scaled = (x - x.mean(-1, keepdim=True)) / torch.sqrt(variance + self.norm.eps)
    return scaled * self.norm.weight + self.norm.bias


def epsilon_outside(self: LayerNorm, x: Tensor) -> Tensor:
    """Epsilon is added to the deviation instead of the variance."""
    centred = x - x.mean(-1, keepdim=True)
    scaled = centred / (torch.sqrt((centred * centred).mean(-1, keepdim=True)) + self.norm.eps)
    return scaled * self.norm.weight + self.norm.bias


def rms_epsilon_outside(self: RMSNorm, x: Tensor) -> Tensor:
    """Epsilon is added to the root instead of under it."""
    assert self.norm.eps is not None
    root = torch.sqrt((x * x).mean(-1, keepdim=True)) + self.norm.eps
    return x / root * self.norm.weight


def mean_not_taken(self: LayerNorm, x: Tensor) -> Tensor:
    """RMS normalisation: the mean stays in."""
    root = torch.sqrt((x * x).mean(-1, keepdim=True) + self.norm.eps)
    return x / root * self.norm.weight + self.norm.bias


def centred_rms(self: RMSNorm, x: Tensor) -> Tensor:
    """Layer normalisation: the mean is taken out."""
    assert self.norm.eps is not None
    out: Tensor = F.layer_norm(x, self.norm.normalized_shape, self.norm.weight, None, self.norm.eps)
    return out


def over_positions(self: LayerNorm, x: Tensor) -> Tensor:
    """Mean and variance over positions and features together, as a group norm would."""
    centred = x - x.mean((-2, -1), keepdim=True)
    variance = (centred * centred).mean((-2, -1), keepdim=True)
    return centred / torch.sqrt(variance + self.norm.eps) * self.norm.weight + self.norm.bias


def no_scale(self: LayerNorm, x: Tensor) -> Tensor:
    """The learned scale is left out."""
    out: Tensor = F.layer_norm(x, self.norm.normalized_shape, None, self.norm.bias, self.norm.eps)
    return out


def no_shift(self: LayerNorm, x: Tensor) -> Tensor:
    """The learned shift is left out."""
    out: Tensor = F.layer_norm(x, self.norm.normalized_shape, self.norm.weight, None, self.norm.eps)
    return out


def one_plus_scale(self: RMSNorm, x: Tensor) -> Tensor:
    """The scale is taken for its difference from 1, as Gemma stores it."""
    out: Tensor = F.rms_norm(x, list(self.norm.normalized_shape), 1 + self.norm.weight, self.norm.eps)
    return out


def shifted_first(self: LayerNorm, x: Tensor) -> Tensor:
    """The shift is scaled too: (z + bias) * weight."""
    scaled = F.layer_norm(x, self.norm.normalized_shape, None, None, self.norm.eps)
    return (scaled + self.norm.bias) * self.norm.weight


def _unbiased_norm(self: nn.LayerNorm, x: Tensor) -> Tensor:
    """As `unbiased`, in the place of a block's own norm."""
    variance = x.var(-1, keepdim=True, unbiased=True)
    scaled = (x - x.mean(-1, keepdim=True)) / torch.sqrt(variance + self.eps)
    return scaled * self.weight + self.bias


def _uncentred_norm(self: nn.LayerNorm, x: Tensor) -> Tensor:
    """As `mean_not_taken`, in the place of a block's own norm."""
    root = torch.sqrt((x * x).mean(-1, keepdim=True) + self.eps)
    return x / root * self.weight + self.bias


def block_norm(path: str, *, centred: bool) -> Callable[[nn.Module], Sequence[Where]]:
    """Another norm in the place of the LayerNorm at `path`: with the unbiased variance, or without the mean."""
    faulty = _unbiased_norm if centred else _uncentred_norm
    return instead(faulty, path)
