"""How large an operator's rounding error may be: the size that one unit roundoff is relative to, by element.

In float32 a sum rounds at every step, relative to what has been summed so far. The sizes of a thousand
partial sums are not at hand, but their squares average, over all orders that end in y, to y²/3 plus a sixth
of the squared terms: a random walk that is tied to its end. So n terms give sqrt((n+2) (y²/3 + Σx²/6)). Seen
for products of 16 to 3072 terms (normal, positive, outlier channels), error over noise is 0.02 to 2.3, where
|A||B| alone gives up to 16. Halves are summed in float32 and rounded once, so there it is |A||B|.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from onnxparity.protocols import Array
from onnxparity.runtimes.further_sizes import FURTHER
from onnxparity.runtimes.operator_table import Rounding
from onnxparity.runtimes.reference_ops import rotated, softmax_axes
from onnxparity.runtimes.scope import Step, Value

__all__ = ["SIZED", "product_size", "sizes", "softmax_size"]

SUMMED_WIDER = 2.0**-23
"""A dtype with a unit roundoff above this is summed in float32."""
NEGLIGIBLE = 2.0**-10
"""A term this many roundoffs below the largest adds nothing, even with a thousand of its kind."""

Sizes = Sequence[Array | None]
Count = int | Array


def sizes(step: Step, arguments: Sequence[Value], results: Sequence[Value], roundoff: float) -> Sizes:
    """One size per result, None for a result that nothing rounds."""
    if step.rounding is Rounding.RESULT:
        return [np.abs(r) for r in results]
    if step.rounding is Rounding.SUMS:
        if step.op not in _SUMS or (roundoff > SUMMED_WIDER and step.op != "CumSum"):
            return _on_magnitudes(step, arguments)
        return _SUMS[step.op](step, arguments, results, roundoff)
    if step.rounding is Rounding.SIZED:
        return SIZED[step.op](step, arguments, results, roundoff)
    return [None] * len(results)


def product_size(a: Array, b: Array, y: Array, roundoff: float) -> Array:
    """Of y = a @ b."""
    if roundoff > SUMMED_WIDER:
        return np.asarray(np.abs(a) @ np.abs(b))
    terms = _counted(a, roundoff) if a.ndim > 1 else a.shape[-1]
    return _partial_sums(y, (a * a) @ (b * b), terms[..., 0] if a.ndim > 1 and b.ndim == 1 else terms)


def softmax_size(probabilities: Array, scores: Array, axes: tuple[int, ...], roundoff: float) -> Array:
    """Of a softmax: a score that lies d below the largest is off by u·d and so is its exponential; and the sum."""
    depth = np.max(scores, axis=axes, keepdims=True) - scores
    relative = 1 + np.where(probabilities > 0, depth, 0)
    if roundoff <= SUMMED_WIDER:
        squares = np.sum(probabilities * probabilities, axis=axes, keepdims=True)
        terms = np.count_nonzero(probabilities > roundoff * NEGLIGIBLE, axis=axes, keepdims=True)
        relative = relative + _positive_sum(squares, np.maximum(terms, 1))
    return np.asarray(probabilities * relative)


def _positive_sum(squares: Array, terms: Count) -> Array:
    """Relative size for a sum of positive terms in eight lanes; squares: of the terms' shares of the sum.

    One large term makes its whole lane round at its size, however small the rest.
    """
    return np.sqrt((terms - 1) / 8 * (1 / 24 + squares))


def _counted(a: Array, roundoff: float) -> Array:
    """How many terms of each row of a (..., M, K) matter, (..., M, 1): what a mask or a softmax zeroed adds nothing."""
    size = np.abs(a)
    matters = size > roundoff * NEGLIGIBLE * np.max(size, axis=-1, keepdims=True, initial=0.0)
    return np.asarray(np.count_nonzero(matters, axis=-1, keepdims=True))


def _partial_sums(y: Array, squares: Array, terms: Count) -> Array:
    """The root of the summed squares of all partial sums, for a sum y of terms with these summed squares."""
    return np.sqrt((terms + 2) * (y * y / 3 + squares / 6))


def _on_magnitudes(step: Step, arguments: Sequence[Value]) -> Sequence[Array]:
    """The same operator on magnitudes."""
    attributes = {k: abs(v) if isinstance(v, float) else v for k, v in step.attributes.items()}
    return step.kernel(*(_each(np.abs, a) for a in arguments), **attributes)


def _on_squares(step: Step, arguments: Sequence[Value], **changed: Value) -> Array:
    """The same operator on squares."""
    result: Array = step.kernel(*(_each(np.square, a) for a in arguments), **{**step.attributes, **changed})[0]
    return result


def _each(function: Callable[[Array], Array], value: Value) -> Value:
    return function(value) if isinstance(value, np.ndarray) and value.dtype == np.float64 else value


def _matmul(step: Step, arguments: Sequence[Value], results: Sequence[Value], roundoff: float) -> Sizes:
    return [product_size(arguments[0], arguments[1], results[0], roundoff)]


def _gemm(step: Step, arguments: Sequence[Value], results: Sequence[Value], roundoff: float) -> Sizes:
    a, b, c = (*arguments, None)[:3]
    alpha, beta = step.attributes["alpha"], step.attributes["beta"]
    added = np.zeros(1) if c is None else np.asarray(beta * c)
    product = results[0] - added
    squares = alpha * alpha * _on_squares(step, (a, b), alpha=1.0)
    terms = a.shape[0] if step.attributes["transA"] else a.shape[1]
    return [_partial_sums(product, squares, terms) + np.abs(added) + np.abs(results[0])]


def _conv(step: Step, arguments: Sequence[Value], results: Sequence[Value], roundoff: float) -> Sizes:
    x, w, b = (*arguments, None)[:3]
    added = np.zeros(1) if b is None else b.reshape(-1, *[1] * (x.ndim - 2))
    product = _partial_sums(results[0] - added, _on_squares(step, (x, w)), math.prod(w.shape[1:]))
    return [product + np.abs(added) + np.abs(results[0])]


def _einsum(step: Step, arguments: Sequence[Value], results: Sequence[Value], roundoff: float) -> Sizes:
    """The number of terms is what all letters span over what the letters of the result span."""
    inputs = step.attributes["equation"].replace(" ", "").split("->")[0].split(",")
    if any("." in letters for letters in inputs):
        return _on_magnitudes(step, arguments)
    span = {
        letter: n
        for letters, a in zip(inputs, arguments, strict=True)
        for letter, n in zip(letters, a.shape, strict=True)
    }
    terms = math.prod(span.values()) // max(1, results[0].size)
    return [_partial_sums(results[0], _on_squares(step, arguments), terms)]


def _sum(step: Step, arguments: Sequence[Value], results: Sequence[Value], roundoff: float) -> Sizes:
    terms = arguments[0].size // max(1, results[0].size)
    return [_partial_sums(results[0], _on_squares(step, arguments), terms)]


def _mean(step: Step, arguments: Sequence[Value], results: Sequence[Value], roundoff: float) -> Sizes:
    terms = max(1, arguments[0].size // max(1, results[0].size))
    return [_mean_size(results[0], _on_squares(step, arguments), terms)]


def _mean_size(mean: Array, mean_square: Array, terms: Count) -> Array:
    return _partial_sums(mean, mean_square / terms, terms)


def _cumulative(step: Step, arguments: Sequence[Value], results: Sequence[Value], roundoff: float) -> Sizes:
    terms = step.kernel(np.ones_like(arguments[0]), *arguments[1:], **step.attributes)[0]
    return [_partial_sums(results[0], _on_squares(step, arguments), terms)]


Formula = Callable[[Step, Sequence[Value], Sequence[Value], float], Sizes]

_SUMS: dict[str, Formula] = {
    "Conv": _conv,
    "CumSum": _cumulative,
    "Einsum": _einsum,
    "Gemm": _gemm,
    "GlobalAveragePool": _mean,
    "MatMul": _matmul,
    "ReduceL1": _sum,
    "ReduceMean": _mean,
    "ReduceSum": _sum,
}


def _softmax(step: Step, arguments: Sequence[Value], results: Sequence[Value], roundoff: float) -> Sizes:
    x = arguments[0]
    return [softmax_size(results[0], x, softmax_axes(step.operator, x.ndim, step.attributes["axis"]), roundoff)]


def _log_softmax(step: Step, arguments: Sequence[Value], results: Sequence[Value], roundoff: float) -> Sizes:
    """(x - max) - log(sum): the difference, the logarithm, and the sum's own relative error, which turns absolute."""
    x = arguments[0]
    axes = softmax_axes(step.operator, x.ndim, step.attributes["axis"])
    depth = np.max(x, axis=axes, keepdims=True) - x
    return [1 + depth + np.abs(results[0] + depth)]


def _layer_norm(step: Step, arguments: Sequence[Value], results: Sequence[Value], roundoff: float) -> Sizes:
    x, scale, bias = (*arguments, None)[:3]
    _, mean, inverse = results
    axes = tuple(range(step.attributes["axis"] % x.ndim, x.ndim))
    size, summed = _deviation_size(x, mean, axes, roundoff)
    size = size * inverse * np.abs(scale)
    return [size if bias is None else size + np.abs(bias), summed, inverse]


def _deviation_size(x: Array, mean: Array, axes: tuple[int, ...], roundoff: float) -> tuple[Array, Array]:
    """Of x - mean, the variance's error included, and of the mean. Halves are normalised in float32."""
    terms = x.size // max(1, mean.size)
    summed = _mean_size(mean, np.mean(x * x, axis=axes, keepdims=True), terms)
    deviation = np.abs(x - mean)
    if roundoff > SUMMED_WIDER:
        return deviation, summed
    return deviation * (1 + _root_size(deviation, axes, terms)) + summed, summed


def _root_size(x: Array, axes: tuple[int, ...], terms: int) -> Array:
    """Relative size of the root of a sum of squares."""
    squares = x * x
    total = np.sum(squares, axis=axes, keepdims=True)
    return (
        _positive_sum(np.sum(squares * squares, axis=axes, keepdims=True) / np.where(total == 0, 1, total) ** 2, terms)
        / 2
    )


def _rms_norm(step: Step, arguments: Sequence[Value], results: Sequence[Value], roundoff: float) -> Sizes:
    x, y = arguments[0], np.abs(results[0])
    if roundoff > SUMMED_WIDER:
        return [y]
    axes = tuple(range(step.attributes["axis"] % x.ndim, x.ndim))
    return [y * (1 + _root_size(x, axes, math.prod(x.shape[a] for a in axes)))]


def _channel_norm(step: Step, arguments: Sequence[Value], results: Sequence[Value], roundoff: float) -> Sizes:
    """GroupNormalization, and InstanceNormalization as one group per channel."""
    x, scale, bias = arguments
    grouped = x.reshape(x.shape[0], int(step.attributes.get("num_groups", x.shape[1])), -1)
    mean = np.mean(grouped, axis=2, keepdims=True)
    size, _ = _deviation_size(grouped, mean, (2,), roundoff)
    inverse = 1 / np.sqrt(np.var(grouped, axis=2, keepdims=True) + step.attributes["epsilon"])
    normal = (size * inverse).reshape(x.shape)
    per_channel = (-1,) + (1,) * (x.ndim - 2)
    scale, bias = (np.abs(np.repeat(v, x.shape[1] // v.size)).reshape(per_channel) for v in (scale, bias))
    return [normal * scale + bias]


def _mean_variance(step: Step, arguments: Sequence[Value], results: Sequence[Value], roundoff: float) -> Sizes:
    """The variance is a difference of means of squares, which cancels where the mean is large."""
    x, axes = arguments[0], tuple(step.attributes["axes"])
    mean, square = np.mean(x, axis=axes, keepdims=True), np.mean(x * x, axis=axes, keepdims=True)
    variance = np.maximum(square - mean * mean, np.finfo(float).tiny)
    size, _ = _deviation_size(x, mean, axes, roundoff)
    return [size / np.sqrt(variance) + np.abs(results[0]) * square / variance]


def _batch_norm(step: Step, arguments: Sequence[Value], results: Sequence[Value], roundoff: float) -> Sizes:
    x = arguments[0]
    scale, bias, mean, var = (v.reshape((-1,) + (1,) * (x.ndim - 2)) for v in arguments[1:5])
    gain = np.abs(scale) / np.sqrt(var + step.attributes["epsilon"])
    return [(np.abs(x) + np.abs(mean)) * gain + np.abs(bias)]


def _exponential_less_one(step: Step, arguments: Sequence[Value], results: Sequence[Value], roundoff: float) -> Sizes:
    """Elu, Celu, Selu: exp(x) - 1 near zero is off by what the exponential is off by, which is near 1."""
    scale = step.attributes["alpha"] * step.attributes.get("gamma", 1.0)
    return [np.abs(results[0]) + np.where(arguments[0] < 0, abs(scale), 0.0)]


def _sigmoid(step: Step, arguments: Sequence[Value], results: Sequence[Value], roundoff: float) -> Sizes:
    """By way of tanh or of a rational function it is (1 + something)/2, and the error is relative to the 1."""
    return [np.abs(results[0]) if roundoff > SUMMED_WIDER else np.maximum(np.abs(results[0]), 0.5)]


def _swish(step: Step, arguments: Sequence[Value], results: Sequence[Value], roundoff: float) -> Sizes:
    """x times a sigmoid."""
    return [np.abs(results[0]) if roundoff > SUMMED_WIDER else np.maximum(np.abs(results[0]), np.abs(arguments[0]) / 2)]


def _sum_square(step: Step, arguments: Sequence[Value], results: Sequence[Value], roundoff: float) -> Sizes:
    terms = arguments[0].size // max(1, results[0].size)
    return [_root_of_squares(results[0], _on_squares(step, arguments), terms, roundoff)]


def _root_of_squares(total: Array, fourth: Array, terms: Count, roundoff: float) -> Array:
    """Of a sum of squares: no squares cancel, but in float32 every partial sum rounds."""
    return np.abs(total) if roundoff > SUMMED_WIDER else _partial_sums(total, fourth, terms)


def _norm(step: Step, arguments: Sequence[Value], results: Sequence[Value], roundoff: float) -> Sizes:
    """A root halves the relative error of the sum under it."""
    terms, y = arguments[0].size // max(1, results[0].size), results[0]
    fourth = np.square(_on_squares(step, arguments))
    summed = _root_of_squares(y * y, fourth, terms, roundoff)
    return [np.abs(y) + summed / np.where(y == 0, 1, 2 * y)]


def _normalised(step: Step, arguments: Sequence[Value], results: Sequence[Value], roundoff: float) -> Sizes:
    """LpNormalization: the norm's error is common to all that is divided by it."""
    terms = arguments[0].shape[step.attributes["axis"]]
    return [np.abs(results[0]) * (1 if roundoff > SUMMED_WIDER else math.sqrt(terms / 3 + 1))]


def _gelu(step: Step, arguments: Sequence[Value], results: Sequence[Value], roundoff: float) -> Sizes:
    """x/2 (1 + erf): for negative x the bracket cancels, so the error is relative to x."""
    return [np.abs(arguments[0])]


def _log_sum(step: Step, arguments: Sequence[Value], results: Sequence[Value], roundoff: float) -> Sizes:
    return [np.abs(y) + np.exp(s - y) for y, s in zip(results, _on_magnitudes(step, arguments), strict=True)]


def _log_sum_exp(step: Step, arguments: Sequence[Value], results: Sequence[Value], roundoff: float) -> Sizes:
    return [1 + 2 * np.abs(results[0])]


def _rotary(step: Step, arguments: Sequence[Value], results: Sequence[Value], roundoff: float) -> Sizes:
    x, cos, sin, positions = (*arguments, None)[:4]
    return [rotated(np.abs(x), np.abs(cos), np.abs(sin), positions, 1, **step.attributes)]


def _scatter(step: Step, arguments: Sequence[Value], results: Sequence[Value], roundoff: float) -> Sizes:
    if step.attributes.get("reduction") == "add":
        return _on_magnitudes(step, arguments)
    return [np.abs(results[0]) if step.attributes.get("reduction") == "mul" else None]


def _cast(step: Step, arguments: Sequence[Value], results: Sequence[Value], roundoff: float) -> Sizes:
    """An integer becomes a float as it is, unless it has more digits than the float."""
    given = arguments[0].dtype
    if given == np.float64 or results[0].dtype != np.float64 or given.itemsize == 1:
        return [None]
    return [np.where(np.abs(results[0]) > 1 / roundoff, np.abs(results[0]), 0.0)]


SIZED: dict[str, Formula] = {
    **FURTHER,
    "BatchNormalization": _batch_norm,
    "Cast": _cast,
    "CastLike": _cast,
    "Celu": _exponential_less_one,
    "Elu": _exponential_less_one,
    "Gelu": _gelu,
    "GroupNormalization": _channel_norm,
    "InstanceNormalization": _channel_norm,
    "LayerNormalization": _layer_norm,
    "LogSoftmax": _log_softmax,
    "LpNormalization": _normalised,
    "MeanVarianceNormalization": _mean_variance,
    "RMSNormalization": _rms_norm,
    "ReduceL2": _norm,
    "ReduceLogSum": _log_sum,
    "ReduceLogSumExp": _log_sum_exp,
    "ReduceSumSquare": _sum_square,
    "RotaryEmbedding": _rotary,
    "ScatterElements": _scatter,
    "ScatterND": _scatter,
    "Selu": _exponential_less_one,
    "Sigmoid": _sigmoid,
    "Softmax": _softmax,
    "Swish": _swish,
}
