"""One entry of the catalogue: the description of a subject, how to build it, and its independent oracle."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from torch import nn

from onnxparity.case import Subject
from onnxparity.protocols import Array, Feeds

__all__ = ["Entry", "Float64", "Oracle", "Weights"]

Float64 = npt.NDArray[np.float64]
Weights = Mapping[str, Float64]
"""The module's state_dict in float64, by PyTorch's own names."""
Oracle = Callable[[Weights, Mapping[str, Array]], tuple[Array, ...]]
"""From weights and feeds (floats already in float64) to every output in order, in NumPy float64,
written from the seed's formula and never from the module's code."""


@dataclass(frozen=True)
class Entry:
    """A catalogue subject."""

    subject: Subject
    build: Callable[[], nn.Module]
    """The module in float32 and eval mode, with seeded weights: the same ones at each call."""
    oracle: Oracle | None
    """None only where the weights are trained and the architecture has its own entry with an oracle."""
    examples: Callable[[], Mapping[str, Feeds]] | None = None
    """Real inputs by name (used as the regime), such as tokenised sentences."""
    extra: str | None = None
    """The optional dependency it needs, such as `minilm`; None for none."""
