"""How large an operator's rounding error may be: the size that one unit roundoff is relative to, by element.

For a sum it is the sum of magnitudes, since what cancels still rounds; for a normalisation it is what was
subtracted, for a softmax what was exponentiated. Higham, Accuracy and Stability of Numerical Algorithms,
chapters 3 and 4, with the growth with length left out: runtimes sum in blocks, and kappa leaves room.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from onnxparity.protocols import Array
from onnxparity.runtimes.attention_op import softmax_size
from onnxparity.runtimes.operator_table import Rounding
from onnxparity.runtimes.reference_ops import rotated, softmax_axes
from onnxparity.runtimes.scope import Step, Value

__all__ = ["sizes"]


def sizes(step: Step, arguments: Sequence[Value], results: Sequence[Value]) -> Sequence[Array | None]:
    """One size per result, None for a result that nothing rounds."""
    if step.rounding is Rounding.RESULT:
        return [np.abs(r) for r in results]
    if step.rounding is Rounding.MAGNITUDES:
        return _on_magnitudes(step, arguments)
    if step.rounding is Rounding.SIZED:
        return _SIZES[step.op](step, arguments, results)
    return [None] * len(results)


def _on_magnitudes(step: Step, arguments: Sequence[Value]) -> Sequence[Array]:
    """The same operator on magnitudes: for sums of values and of products."""
    attributes = {k: abs(v) if isinstance(v, float) else v for k, v in step.attributes.items()}
    return step.kernel(*map(_magnitude, arguments), **attributes)


def _magnitude(value: Value) -> Value:
    return np.abs(value) if isinstance(value, np.ndarray) and value.dtype == np.float64 else value


def _softmax(step: Step, arguments: Sequence[Value], results: Sequence[Value]) -> Sequence[Array | None]:
    x = arguments[0]
    return [softmax_size(results[0], x, softmax_axes(step.operator, x.ndim, step.attributes["axis"]))]


def _log_softmax(step: Step, arguments: Sequence[Value], results: Sequence[Value]) -> Sequence[Array | None]:
    """(x - max) - log(sum): the difference, the logarithm, and the sum's own relative error, which turns absolute."""
    x = arguments[0]
    axes = softmax_axes(step.operator, x.ndim, step.attributes["axis"])
    depth = np.max(x, axis=axes, keepdims=True) - x
    return [1 + depth + np.abs(results[0] + depth)]


def _layer_norm(step: Step, arguments: Sequence[Value], results: Sequence[Value]) -> Sequence[Array | None]:
    x, scale, bias = (*arguments, None)[:3]
    _, mean, inverse = results
    axes = tuple(range(step.attributes["axis"] % x.ndim, x.ndim))
    summed = np.mean(np.abs(x), axis=axes, keepdims=True)
    return [_standardised(x, mean, summed, inverse, scale, bias), summed, inverse]


def _standardised(x: Array, mean: Array, summed: Array, inverse: Array, scale: Array, bias: Array | None) -> Array:
    """The mean is off by what was summed for it, and with it every difference."""
    size = (np.abs(x - mean) + summed) * inverse * np.abs(scale)
    return np.asarray(size if bias is None else size + np.abs(bias))


def _channel_norm(step: Step, arguments: Sequence[Value], results: Sequence[Value]) -> Sequence[Array | None]:
    """GroupNormalization, and InstanceNormalization as one group per channel."""
    x, scale, bias = arguments
    groups = int(step.attributes.get("num_groups", x.shape[1]))
    grouped = x.reshape(x.shape[0], groups, -1)
    mean, summed = (np.mean(v, axis=2, keepdims=True) for v in (grouped, np.abs(grouped)))
    inverse = 1 / np.sqrt(np.var(grouped, axis=2, keepdims=True) + step.attributes["epsilon"])
    normal = _standardised(grouped, mean, summed, inverse, np.ones(1), None).reshape(x.shape)
    per_channel = (-1,) + (1,) * (x.ndim - 2)
    scale, bias = (np.abs(np.repeat(v, x.shape[1] // v.size)).reshape(per_channel) for v in (scale, bias))
    return [normal * scale + bias]


def _batch_norm(step: Step, arguments: Sequence[Value], results: Sequence[Value]) -> Sequence[Array | None]:
    x = arguments[0]
    scale, bias, mean, var = (v.reshape((-1,) + (1,) * (x.ndim - 2)) for v in arguments[1:5])
    gain = np.abs(scale) / np.sqrt(var + step.attributes["epsilon"])
    return [(np.abs(x) + np.abs(mean)) * gain + np.abs(bias)]


def _result(step: Step, arguments: Sequence[Value], results: Sequence[Value]) -> Sequence[Array | None]:
    return [np.abs(r) for r in results]


def _gelu(step: Step, arguments: Sequence[Value], results: Sequence[Value]) -> Sequence[Array | None]:
    """x/2 (1 + erf): for negative x the bracket cancels, so the error is relative to x."""
    return [np.abs(arguments[0])]


def _log_sum(step: Step, arguments: Sequence[Value], results: Sequence[Value]) -> Sequence[Array | None]:
    return [np.abs(y) + np.exp(s - y) for y, s in zip(results, _on_magnitudes(step, arguments), strict=True)]


def _log_sum_exp(step: Step, arguments: Sequence[Value], results: Sequence[Value]) -> Sequence[Array | None]:
    return [1 + 2 * np.abs(results[0])]


def _rotary(step: Step, arguments: Sequence[Value], results: Sequence[Value]) -> Sequence[Array | None]:
    x, cos, sin, positions = (*arguments, None)[:4]
    return [rotated(np.abs(x), np.abs(cos), np.abs(sin), positions, 1, **step.attributes)]


def _scatter(step: Step, arguments: Sequence[Value], results: Sequence[Value]) -> Sequence[Array | None]:
    how = step.attributes.get("reduction")
    return (
        _on_magnitudes(step, arguments)
        if how == "add"
        else _result(step, arguments, results)
        if how == "mul"
        else [None]
    )


def _cast(step: Step, arguments: Sequence[Value], results: Sequence[Value]) -> Sequence[Array | None]:
    """An integer becomes a float as it is, unless it has more digits than the float."""
    return [None if arguments[0].dtype == np.float64 else np.abs(results[0])]


_SIZES: dict[str, Callable[[Step, Sequence[Value], Sequence[Value]], Sequence[Array | None]]] = {
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
