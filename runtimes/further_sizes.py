"""How large the rounding error of operators beside the Transformer's own may be (see `rounding_sizes`).

These are bounds of the terms that are added, not measured walks: what passes them is right to a few roundings of
its largest term.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from onnxparity.protocols import Array
from onnxparity.runtimes.linear_attention_op import causal_taps
from onnxparity.runtimes.scope import Step, Value

__all__ = ["FURTHER"]

Sizes = Sequence[Array | None]


def _affine_grid(step: Step, arguments: Sequence[Value], results: Sequence[Value], roundoff: float) -> Sizes:
    """Places lie between -1 and 1, so a row of the matrix is the size of what it is summed from."""
    theta = arguments[0]
    rows = np.sum(np.abs(theta), axis=2)  # (N, 2 or 3)
    return [rows.reshape(rows.shape[0], *[1] * (results[0].ndim - 2), rows.shape[1])]


def _causal_convolution(step: Step, arguments: Sequence[Value], results: Sequence[Value], roundoff: float) -> Sizes:
    """The products behind each output; an activation x sigmoid(x) multiplies an error by at most 1.1."""
    x, weight, bias, past = (*arguments, None, None)[:4]
    _, taps = causal_taps(x, weight, past)
    size = np.sum(np.abs(taps), axis=-1) * math.sqrt(weight.shape[-1])
    before = size if bias is None else size + np.abs(bias)[:, None]
    return [1.1 * before + np.abs(results[0]), None]


def _determinant(step: Step, arguments: Sequence[Value], results: Sequence[Value], roundoff: float) -> Sizes:
    """Elimination adds products of one element per row, each at most the product of the rows' lengths (Hadamard)."""
    x = arguments[0]
    return [x.shape[-1] * np.prod(np.linalg.norm(x, axis=-1), axis=-1)]


def _fourier(step: Step, arguments: Sequence[Value], results: Sequence[Value], roundoff: float) -> Sizes:
    """A fast transform of n = 2**p rounds p times at the root mean square of the spectrum (Gentleman and Sande 1966);
    for other n it may be summed as written, with angles of up to n turns."""
    y = results[0]
    axes = _transformed(step, arguments, y)
    square = np.mean(np.sum(y * y, axis=-1, keepdims=True), axis=axes, keepdims=True)
    n = math.prod(y.shape[a] for a in axes)
    times = 1 + (math.log2(n) if n & (n - 1) == 0 else n)
    return [np.broadcast_to(np.sqrt(square) * times, y.shape)]


def _transformed(step: Step, arguments: Sequence[Value], y: Array) -> tuple[int, ...]:
    """The frequencies: of an STFT the last axis but one, of a DFT the axis that is named or fed."""
    if step.op == "STFT":
        return (y.ndim - 2,)
    fed = arguments[2] if len(arguments) > 2 else None
    axis = int(np.asarray(step.attributes.get("axis", -2) if fed is None else fed).item())
    return (axis % y.ndim,)


def _interpolated(step: Step, arguments: Sequence[Value], results: Sequence[Value], roundoff: float) -> Sizes:
    """A place is off by roundings of the image's side, and a value by as much of the range of its channel."""
    x = arguments[0]
    side = 1 + sum(x.shape[2:]) / 2
    return [np.full(results[0].shape, side * np.max(np.abs(x), initial=0.0))]


def _loss(step: Step, arguments: Sequence[Value], results: Sequence[Value], roundoff: float) -> Sizes:
    """The same on magnitudes, weights times probabilities, and rounded at each sum on the way."""
    summed = step.kernel(*(_magnitude(a) for a in arguments), **step.attributes)
    return [np.abs(s) * _walk(arguments[1].size, s) for s in summed]


def _entropy_loss(step: Step, arguments: Sequence[Value], results: Sequence[Value], roundoff: float) -> Sizes:
    """As LogSoftmax over axis 1; a reduced loss is a mean or a sum of such errors."""
    x, weights = arguments[0], (*arguments, None)[2]
    depth = np.max(x, axis=1, keepdims=True) - x
    log_p = depth + np.log(np.sum(np.exp(-depth), axis=1, keepdims=True))
    each = 1 + depth + log_p
    loss = np.max(each, axis=1) * (1.0 if weights is None else float(np.max(np.abs(weights))))
    if step.attributes["reduction"] == "sum":
        loss = np.sum(loss)
    elif step.attributes["reduction"] == "mean":
        loss = np.max(each)
    return [np.asarray(loss) * _walk(arguments[1].size, results[0]), each][: len(results)]


def _recurrent(step: Step, arguments: Sequence[Value], results: Sequence[Value], roundoff: float) -> Sizes:
    """Activations are at most 1 steep, so a state is off by what a sum before them is off by, at each token so far."""
    x, w, r = arguments[:3]
    bias = arguments[3] if len(arguments) > 3 and arguments[3] is not None else np.zeros(1)
    before = np.max(np.abs(x)) * np.max(np.sum(np.abs(w), axis=-1)) + np.max(np.sum(np.abs(r), axis=-1))
    tokens = x.shape[1 if step.attributes.get("layout") else 0]
    size = (1 + before + 2 * np.max(np.abs(bias))) * math.sqrt(tokens)
    return [None if y is None else np.full(y.shape, size) for y in results]


def _swiglu(step: Step, arguments: Sequence[Value], results: Sequence[Value], roundoff: float) -> Sizes:
    """a sigmoid(alpha a) b, with a sigmoid that rounds at 1/2."""
    a, b = arguments
    return [np.maximum(np.abs(results[0]), np.abs(a * b) / 2)]


def _window(step: Step, arguments: Sequence[Value], results: Sequence[Value], roundoff: float) -> Sizes:
    """Cosines of angles up to a full turn, whose rounding is that of 2 pi."""
    return [np.full(results[0].shape, 2.0)]


def _resized(step: Step, arguments: Sequence[Value], results: Sequence[Value], roundoff: float) -> Sizes:
    """As `_interpolated`, over whichever axes are resized."""
    x = arguments[0]
    sides = [n for n, m in zip(x.shape, results[0].shape, strict=True) if n != m]
    return [np.full(results[0].shape, (1 + sum(sides) / 2) * np.max(np.abs(x), initial=0.0))]


def _walk(terms: int, total: Array) -> float:
    """How much a sum of so many like terms rounds, in roundings of its total; 1 where nothing is summed."""
    return math.sqrt(1 + terms / max(1, total.size) / 3)


def _magnitude(value: Value) -> Value:
    return np.abs(value) if isinstance(value, np.ndarray) and value.dtype == np.float64 else value


FURTHER: dict[str, Callable[[Step, Sequence[Value], Sequence[Value], float], Sizes]] = {
    "AffineGrid": _affine_grid,
    "BlackmanWindow": _window,
    "CausalConvWithState": _causal_convolution,
    "DFT": _fourier,
    "DeformConv": _interpolated,
    "Det": _determinant,
    "GRU": _recurrent,
    "GridSample": _interpolated,
    "HammingWindow": _window,
    "HannWindow": _window,
    "LSTM": _recurrent,
    "NegativeLogLikelihoodLoss": _loss,
    "RNN": _recurrent,
    "Resize": _resized,
    "RoiAlign": _interpolated,
    "STFT": _fourier,
    "SoftmaxCrossEntropyLoss": _entropy_loss,
    "SwiGLU": _swiglu,
}
"""By operator."""
