"""The geometry of attention: weights on the simplex, outputs in the hull of the values, and what follows from it.

An output that is a weighted mean of an input's rows is linear in them, so its weights can be read off: fed with
unit vectors for values, the output is the weights themselves, whether or not the model gives them.
"""

from __future__ import annotations

import numpy as np

from onnxparity.case import TensorSpec
from onnxparity.invariants.setting import Setting, lacks, redrawn, taken
from onnxparity.numerics.budget import vector_size
from onnxparity.numerics.compare import Comparison
from onnxparity.outcome import Status
from onnxparity.protocols import Array, Outputs

__all__ = ["convex_hull", "kernel_regression", "key_axis", "shift_invariance", "simplex", "weights_not_enough"]

SHIFT = 3.0
"""What `shift_invariance` adds to each score: exact in every dtype, and large beside the scores' own size."""


def simplex(setting: Setting) -> Comparison:
    """Attention weights are non-negative and each row sums to 1: a_ij >= 0, sum_j a_ij = 1.

    Source: seed 000, part 2.4 (A is a transition matrix); seed 004, parts 1 and 4.
    """
    names = [o.name for o in setting.subject.outputs if o.role == "weights"]
    if not names:
        remedy = "name it: --role OUTPUT=weights"
        raise lacks(setting.subject, "has no output with the role 'weights'", remedy)
    outputs, noise = setting.run(setting.feeds), setting.noise(setting.feeds)
    got: Outputs = {}
    want: Outputs = {}
    spread: Outputs = {}
    for name in names:
        weights = np.asarray(outputs[name], np.float64)
        got[f"{name} (row sum)"] = weights.sum(axis=-1, keepdims=True)
        want[f"{name} (row sum)"] = np.ones_like(weights[..., :1])
        keys = weights.shape[-1]
        # a sum of n terms rounds by n units at most
        at_most = setting.at_most(np.array([keys * setting.floor]), np.ones(1))
        spread[f"{name} (row sum)"] = np.maximum(noise[name] * vector_size(weights) * np.sqrt(keys), at_most)
        got[f"{name} (negative part)"] = np.minimum(weights, 0.0)
        want[f"{name} (negative part)"] = np.zeros_like(weights)
        spread[f"{name} (negative part)"] = np.zeros(weights.shape[:-1])
    return setting.same(want, got, spread)


def convex_hull(setting: Setting) -> Comparison:
    """Each output is a convex combination of the values: o_i = sum_j a_ij v_j, a_ij >= 0, sum_j a_ij = 1.

    The coordinates a_ij are read off with unit vectors for values; values of 1 must come out as 1, the model's own
    weights must be these coordinates where it gives them, and the outputs must be what they rebuild.
    Source: seed 000, part 2.4 (a convex combination, a barycentre); seed 004, parts 1 and 4.
    """
    output, value = _reading(setting)
    feeds = setting.feeds
    ones = {**feeds, value.name: np.ones_like(feeds[value.name])}
    outputs, constant, noise = setting.run(feeds), setting.run(ones)[output], setting.noise(feeds)
    weights = _coordinates(setting, output, value)
    values = np.asarray(feeds[value.name], np.float64)
    rebuilt = weights @ values
    read = setting.at_most(setting.floor * (weights @ np.abs(values)), rebuilt)  # each coordinate was rounded
    want: Outputs = {
        f"{output} (rebuilt)": rebuilt,
        f"{output} (of values 1)": np.ones_like(constant, np.float64),
        f"{output} (negative coordinates)": np.zeros_like(weights),
    }
    got: Outputs = {
        f"{output} (rebuilt)": outputs[output],
        f"{output} (of values 1)": constant,
        f"{output} (negative coordinates)": np.minimum(weights, 0.0),
    }
    spread: Outputs = {
        f"{output} (rebuilt)": np.maximum(noise[output], read),
        f"{output} (of values 1)": setting.noise(ones)[output],
        f"{output} (negative coordinates)": np.zeros(weights.shape[:-1]),
    }
    for spec in setting.subject.outputs:
        if spec.role == "weights" and outputs[spec.name].shape == weights.shape:
            want[spec.name], got[spec.name], spread[spec.name] = weights, outputs[spec.name], noise[spec.name]
    return setting.same(want, got, spread)


def kernel_regression(setting: Setting) -> Comparison:
    """Attention is Nadaraya-Watson regression: y = sum_j K(q, k_j) v_j / sum_j K(q, k_j), with a kernel that knows
    of one key at a time.

    Then weights keep their proportions when other keys are taken away: with every second key left, the outputs are
    sum_J a_j v_j / sum_J a_j over what is left, with the coordinates a_j of all keys.
    Source: seed 000, part 5.2; seed 004, part 4.
    """
    output, value = _reading(setting)
    symbol = value.dims[-2]
    if not isinstance(symbol, str):
        raise lacks(setting.subject, f"has a fixed number of keys in {value.name!r}, so none can be left out")
    left = np.arange(0, setting.sizes[symbol], 2)
    fewer = {spec.name: taken(setting.feeds[spec.name], spec.dims, symbol, left) for spec in setting.subject.inputs}
    weights = _coordinates(setting, output, value)[..., left]
    values = np.asarray(fewer[value.name], np.float64)
    total = weights.sum(axis=-1, keepdims=True)
    want = (weights @ values) / total
    read = setting.at_most(setting.floor * (weights @ np.abs(values)) / total, want)  # each coordinate was rounded
    got, noise = setting.run(fewer), setting.noise(fewer)
    return setting.same({output: want}, {output: got[output]}, {output: np.maximum(noise[output], read)})


def shift_invariance(setting: Setting) -> Comparison:
    """One number added to all scores of a query changes nothing: softmax(s + c) = softmax(s).

    Source: seed 001's code (the largest score is taken off before the exponential); seed 003, 2.8 (masks are added
    to the scores).
    """
    masks = [spec for spec in setting.subject.inputs if spec.mask_meaning == "additive"]
    if not masks:
        raise lacks(setting.subject, "has no mask that is added to the scores")
    shifted = {**setting.feeds, **{spec.name: setting.feeds[spec.name] + SHIFT for spec in masks}}
    shifted = {name: value.astype(setting.feeds[name].dtype) for name, value in shifted.items()}
    noise, more = setting.noise(setting.feeds), setting.noise(shifted)
    noise = {name: np.maximum(value, more[name]) for name, value in noise.items()}
    return setting.same(setting.run(setting.feeds), setting.run(shifted), noise)


def weights_not_enough(setting: Setting) -> Comparison:
    """Attention weights do not decide the output: other values leave the weights alone and move the outputs.

    Source: seed 004, part 6 (weights are a reading path, no sufficient explanation); seed 003, 2.2 (key and value
    are kept apart).
    """
    output, value = _reading(setting)
    names = [spec.name for spec in setting.subject.outputs if spec.role == "weights"]
    if not names:
        raise lacks(setting.subject, "has no output with the role 'weights'", "name it: --role OUTPUT=weights")
    other = {**setting.feeds, value.name: redrawn(setting, value, (slice(None),))}
    want, got, noise = setting.run(setting.feeds), setting.run(other), setting.noise(setting.feeds)
    weights = setting.same(*({name: values[name] for name in names} for values in (want, got, noise)))
    if weights.status is not Status.PASS:
        return weights
    parts = ({output: values[output]} for values in (want, got, noise))
    return setting.moved(*parts, what="other values")


def key_axis(read: tuple[TensorSpec, ...]) -> str | None:
    """The axis along which the rows of the first of these inputs stand; None where their number is fixed."""
    dims = read[0].dims if read else ()
    symbol = dims[-2] if len(dims) > 1 else None
    return symbol if isinstance(symbol, str) else None


def _reading(setting: Setting) -> tuple[str, TensorSpec]:
    """The first output that is a mean of an input's rows (..., S, D), and that input."""
    subject = setting.subject
    specs = {spec.name: spec for spec in subject.inputs}
    known = [(output, specs[name]) for output, name in subject.reads.items() if name in specs]
    if not known or len(known[0][1].dims) < 2:
        raise lacks(subject, "has no output that is a mean of an input's rows", "name it: --role OUTPUT=mean:INPUT")
    return known[0]


def _coordinates(setting: Setting, output: str, value: TensorSpec) -> Array:
    """The weight of every row of the values in every output vector: (..., T, S), in float64."""
    old = setting.feeds[value.name]
    rows, width = old.shape[-2:]
    read = []
    for start in range(0, rows, width):
        units = np.zeros_like(old)
        count = min(width, rows - start)
        units[..., start : start + count, :count] = np.eye(count)
        read.append(np.asarray(setting.run({**setting.feeds, value.name: units})[output], np.float64)[..., :count])
    return np.concatenate(read, axis=-1)
