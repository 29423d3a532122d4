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
from onnxparity.runtimes.attention_op import softmax_size
from onnxparity.runtimes.operator_table import Rounding
from onnxparity.runtimes.reference_ops import rotated, softmax_axes
from onnxparity.runtimes.scope import Step, Value

__all__ = ["product_size", "sizes"]

SUMMED_WIDER = 2.0**-23
"""A dtype with a unit roundoff above this is summed in float32."""

Sizes = Sequence[Array | None]
Count = int | Array


def sizes(step: Step, arguments: Sequence[Value], results: Sequence[Value], roundoff: float) -> Sizes:
    """One size per result, None for a result that nothing rounds."""
    if step.rounding is Rounding.RESULT:
        return [np.abs(r) for r in results]
    if step.rounding is Rounding.SUMS:
        if roundoff > SUMMED_WIDER or step.op not in _SUMS:
            return _on_magnitudes(step, arguments)
        return _SUMS[step.op](step, arguments, results)
    if step.rounding is Rounding.SIZED:
        return _SIZES[step.op](step, arguments, results, roundoff)
    return [None] * len(results)


def product_size(a: Array, b: Array, y: Array, roundoff: float) -> Array:
    """Of y = a @ b."""
    if roundoff > SUMMED_WIDER:
        return np.asarray(np.abs(a) @ np.abs(b))
    return _partial_sums(y, (a * a) @ (b * b), _counted(a, roundoff) if a.ndim > 1 else a.shape[-1])


def _counted(a: Array, roundoff: float) -> Array:
    """How many terms of each row of a (..., M, K) matter, (..., M, 1): what a mask or a softmax zeroed adds nothing."""
    size = np.abs(a)
    matters = size > roundoff * np.max(size, axis=-1, keepdims=True, initial=0.0)
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


def _matmul(step: Step, arguments: Sequence[Value], results: Sequence[Value]) -> Sizes:
    return [product_size(arguments[0], arguments[1], results[0], 0.0)]


def _gemm(step: Step, arguments: Sequence[Value], results: Sequence[Value]) -> Sizes:
    a, b, c = (*arguments, None)[:3]
    alpha, beta = step.attributes["alpha"], step.attributes["beta"]
    added = np.zeros(1) if c is None else np.asarray(beta * c)
    product = results[0] - added
    squares = alpha * alpha * _on_squares(step, (a, b), alpha=1.0)
    terms = a.shape[0] if step.attributes["transA"] else a.shape[1]
    return [_partial_sums(product, squares, terms) + np.abs(added) + np.abs(results[0])]


def _conv(step: Step, arguments: Sequence[Value], results: Sequence[Value]) -> Sizes:
    x, w, b = (*arguments, None)[:3]
    added = np.zeros(1) if b is None else b.reshape(-1, *[1] * (x.ndim - 2))
    product = _partial_sums(results[0] - added, _on_squares(step, (x, w)), math.prod(w.shape[1:]))
    return [product + np.abs(added) + np.abs(results[0])]


def _einsum(step: Step, arguments: Sequence[Value], results: Sequence[Value]) -> Sizes:
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


def _sum(step: Step, arguments: Sequence[Value], results: Sequence[Value]) -> Sizes:
    terms = arguments[0].size // max(1, results[0].size)
    return [_partial_sums(results[0], _on_squares(step, arguments), terms)]


def _mean(step: Step, arguments: Sequence[Value], results: Sequence[Value]) -> Sizes:
    terms = max(1, arguments[0].size // max(1, results[0].size))
    return [_mean_size(results[0], _on_squares(step, arguments), terms)]


def _mean_size(mean: Array, mean_square: Array, terms: Count) -> Array:
    return _partial_sums(mean, mean_square / terms, terms)


def _cumulative(step: Step, arguments: Sequence[Value], results: Sequence[Value]) -> Sizes:
    terms = step.kernel(np.ones_like(arguments[0]), *arguments[1:], **step.attributes)[0]
    return [_partial_sums(results[0], _on_squares(step, arguments), terms)]


_SUMS: dict[str, Callable[[Step, Sequence[Value], Sequence[Value]], Sizes]] = {
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
    return [softmax_size(results[0], x, softmax_axes(step.operator, x.ndim, step.attributes["axis"]))]


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
    size = np.abs(x - mean)
    summed = _mean_size(mean, np.mean(x * x, axis=axes, keepdims=True), x.size // mean.size)
    if roundoff <= SUMMED_WIDER:  # halves are normalised in float32
        size = size + summed
    size = size * inverse * np.abs(scale)
    return [size if bias is None else size + np.abs(bias), summed, inverse]


def _channel_norm(step: Step, arguments: Sequence[Value], results: Sequence[Value], roundoff: float) -> Sizes:
    """GroupNormalization, and InstanceNormalization as one group per channel."""
    x, scale, bias = arguments
    grouped = x.reshape(x.shape[0], int(step.attributes.get("num_groups", x.shape[1])), -1)
    mean = np.mean(grouped, axis=2, keepdims=True)
    summed = _mean_size(mean, np.mean(grouped * grouped, axis=2, keepdims=True), grouped.shape[2])
    inverse = 1 / np.sqrt(np.var(grouped, axis=2, keepdims=True) + step.attributes["epsilon"])
    normal = ((np.abs(grouped - mean) + summed) * inverse).reshape(x.shape)
    per_channel = (-1,) + (1,) * (x.ndim - 2)
    scale, bias = (np.abs(np.repeat(v, x.shape[1] // v.size)).reshape(per_channel) for v in (scale, bias))
    return [normal * scale + bias]


def _batch_norm(step: Step, arguments: Sequence[Value], results: Sequence[Value], roundoff: float) -> Sizes:
    x = arguments[0]
    scale, bias, mean, var = (v.reshape((-1,) + (1,) * (x.ndim - 2)) for v in arguments[1:5])
    gain = np.abs(scale) / np.sqrt(var + step.attributes["epsilon"])
    return [(np.abs(x) + np.abs(mean)) * gain + np.abs(bias)]


def _result(step: Step, arguments: Sequence[Value], results: Sequence[Value], roundoff: float) -> Sizes:
    return [np.abs(r) for r in results]


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
    if arguments[0].dtype == np.float64 or results[0].dtype != np.float64:
        return [None]
    return [np.where(np.abs(results[0]) > 1 / roundoff, np.abs(results[0]), 0.0)]


_SIZES: dict[str, Callable[[Step, Sequence[Value], Sequence[Value], float], Sizes]] = {
    "BatchNormalization": _batch_norm,
    "Cast": _cast,
    "CastLike": _cast,
    "Gelu": _gelu,
    "GroupNormalization": _channel_norm,
    "InstanceNormalization": _channel_norm,
    "LayerNormalization": _layer_norm,
    "LogSoftmax": _log_softmax,
    "LpNormalization": _result,
    "RMSNormalization": _result,
    "ReduceLogSum": _log_sum,
    "ReduceLogSumExp": _log_sum_exp,
    "RotaryEmbedding": _rotary,
    "ScatterElements": _scatter,
    "ScatterND": _scatter,
    "Softmax": _softmax,
}
