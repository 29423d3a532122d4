"""What the scale 1/sqrt(d) does to scores of independent components: variance 1 with it, saturation without it.

Statistical claims. Draws are seeded by the subject's name, so that a verdict repeats; the limit is where a
right model would fail once in 1.7 million such draws.
"""

from __future__ import annotations

import math

import numpy as np

from onnxparity.case import FLOATING
from onnxparity.feeding.feeds import draw
from onnxparity.invariants.setting import Setting, lacks
from onnxparity.numerics.budget import KAPPA
from onnxparity.numerics.compare import Comparison
from onnxparity.protocols import Array, Feeds, Outputs

__all__ = ["saturation", "unit_variance"]

DEVIATIONS = 5.0
"""Standard deviations of the estimate that are allowed: a normal one exceeds them once in 1.7 million."""
SAMPLES = {"batch": 8, "sequence": 64, "source": 64}
"""Sizes that are drawn, so that a scale off by 4 % shows."""
ONE_HOT = 0.5
"""Mean largest weight from which a softmax counts as saturated: one key outweighs all others together."""


def unit_variance(setting: Setting) -> Comparison:
    """Scaled scores of components with mean 0 and variance 1 have variance 1: Var(q.k / sqrt(d)) = 1.

    And their softmax is not saturated: the largest weight is below 1/2 in the mean.
    Source: seed 000, part 2.3; seed 001, why to divide by sqrt(d_k); seed 003, 2.3; seed 004, part 3.
    """
    return _scaled(setting, 1.0)


def saturation(setting: Setting) -> Comparison:
    """Without the scale the variance is d, and the softmax of such scores is nearly one-hot: Var(q.k) = d, the
    largest weight above 1/2 in the mean.

    Source: seed 000, part 2.3; seed 001, why to divide by sqrt(d_k); seed 004, part 3.
    """
    return _scaled(setting, float(_width(setting)))


def _scaled(setting: Setting, variance: float) -> Comparison:
    """The sample variance relative to the expected one, and the mean largest weight on its side of 1/2."""
    names = _named(setting, "scores"), _named(setting, "weights")
    outputs = setting.run(_independent(setting))
    scores, weights = (np.asarray(outputs[name], np.float64) for name in names)  # (..., T, S)
    largest = float(weights.max(axis=-1).mean())
    expected = max(largest, ONE_HOT) if variance > 1 else min(largest, ONE_HOT)
    want: Outputs = {"variance of the scores": _one(variance), "mean largest weight": _one(expected)}
    got: Outputs = {"variance of the scores": _one(float(np.mean(scores**2))), "mean largest weight": _one(largest)}
    allowed = DEVIATIONS * _deviation(scores.shape, _width(setting)) / (2 * KAPPA)
    noise: Outputs = {"variance of the scores": np.array([allowed]), "mean largest weight": np.zeros(1)}
    return setting.same(want, got, noise)


def _deviation(shape: tuple[int, ...], width: int) -> float:
    """Standard deviation of the mean square of q_i.k_j / sqrt(d) over T queries and S keys of each sample.

    With normal components E[s^4] = 3 + 6/d, and two scores that share a query or a key have squares with
    covariance 2/d; all others are independent.
    """
    queries, keys = shape[-2:]
    samples = math.prod(shape[:-2])
    return math.sqrt((2 + 6 / width + (queries + keys - 2) * 2 / width) / (samples * queries * keys))


def _independent(setting: Setting) -> Feeds:
    """Normal feeds of mean 0 and variance 1 at sizes that suffice for the estimate."""
    sizes = {
        axis.symbol: max(axis.low, min(SAMPLES.get(axis.role, setting.sizes[axis.symbol]), axis.high or 1 << 30))
        for axis in setting.subject.axes
    }
    return draw(setting.subject, sizes, "normal", setting.dtype)


def _width(setting: Setting) -> int:
    """d, the number of components of a query."""
    queries = [s for s in setting.subject.inputs if s.role == "features" and s.dtype == FLOATING]
    width = queries[0].dims[-1] if queries else None
    if not isinstance(width, int):
        raise lacks(setting.subject, "has no features of a fixed width to take as queries")
    return width


def _named(setting: Setting, role: str) -> str:
    names = [output.name for output in setting.subject.outputs if output.role == role]
    if not names:
        raise lacks(setting.subject, f"has no output with the role {role!r}", f"name it: --role OUTPUT={role}")
    return names[0]


def _one(number: float) -> Array:
    return np.array([[number]])
