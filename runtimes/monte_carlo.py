"""Monte Carlo arithmetic: how large honest rounding is for this graph on these inputs (Parker 1997).

The float64 graph is evaluated a few times while every result moves by a uniform error of the unit roundoff
of the artifact's dtype, relative to the size of what was rounded (see `rounding_sizes`), inputs and
constants too. What the outputs move by is the noise. What becomes structure stays put: ranges, positions,
buckets and trip counts are taken from the exact evaluation, while a decision on rounded data may fall the
other way, as it may in any runtime.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from threading import Lock
from weakref import WeakKeyDictionary

import numpy as np

from onnxparity.errors import RunError
from onnxparity.feeding.values import feeds_digest
from onnxparity.numerics.budget import vector_error
from onnxparity.protocols import Array, Feeds, Outputs
from onnxparity.runtimes.attention_op import Stepwise
from onnxparity.runtimes.evaluation import Exact, called
from onnxparity.runtimes.fingerprint import fingerprint
from onnxparity.runtimes.float64_graph import Float64Graph, widened
from onnxparity.runtimes.operator_table import Rounding
from onnxparity.runtimes.promotion import MASK, Constant, rounded_when_stored
from onnxparity.runtimes.quantised_ops import is_integer
from onnxparity.runtimes.rounding_sizes import product_size, sizes, softmax_size
from onnxparity.runtimes.scope import Step, Value

__all__ = ["constant_noise", "fingerprints", "noise"]

ATTRIBUTE_ROUNDOFF = 2.0**-24
"""A file stores the floats of attributes in float32, whatever the model computes in."""
HALF_ROUNDOFF, SMALLEST_HALF = 2.0**-11, 2.0**-14
"""Below the smallest normal float16 the error no longer shrinks with the value."""
QUANTISED_INPUTS = {
    "Cast": (0,),
    "ConvInteger": (0, 1),
    "DequantizeLinear": (0,),
    "MatMulInteger": (0, 1),
    "QLinearConv": (0, 3),
    "QLinearMatMul": (0, 3),
}
"""Which inputs hold integers that stand for values; of a Cast only bytes, which a Mul by a scale follows."""


PRODUCTS = {"Attention": 0, "Conv": 2, "ConvTranspose": 2, "Einsum": None, "Gemm": 2, "MatMul": 2}
"""Operators that multiply matrices, and how many of their inputs are factors (of an Attention its own steps tell)."""


def noise(
    graph: Float64Graph, feeds: Feeds, *, draws: int, seed: int, product_roundoff: float | None = None
) -> Outputs:
    """Honest rounding per output vector: the largest movement over the draws relative to the vector's size.

    product_roundoff: to which the factors of matrix products are rounded first, where that is coarser than the
    artifact's own dtype: 2**-11 for TF32, which keeps ten bits and sums in float32 (Fasi et al. 2021,
    doi:10.7717/peerj-cs.330).

    Each output's shape less its last axis, () for a scalar. Outputs that are no floats give 1 where a
    vector changed, 0 where it did not. Infinite where a finite value moved to NaN or infinity.
    """
    coarse = product_roundoff if (product_roundoff or 0.0) > graph.unit_roundoff else None

    def arithmetic(rng: np.random.Generator, tape: Tape) -> RoundingErrors:
        moving = RoundingErrors(graph.unit_roundoff, rng, tape, coarse)
        moving.moved_before = _first_constants(graph) if (draws, seed) == (1, 0) else {}
        return moving

    return _movement(graph, feeds, arithmetic, draws, seed)


def constant_noise(graph: Float64Graph, feeds: Feeds, *, shared: frozenset[str], draws: int, seed: int) -> Outputs:
    """As `noise`, where only what the file had to round moves, unless its fingerprint is shared.

    Constants move by the unit roundoff of the dtype that stores them, attributes by that of float32, and
    quantised values, weights and activations alike, by up to half a step.
    """
    fixed = graph.fixed_names()
    return _movement(graph, feeds, lambda rng, tape: StorageErrors(shared, fixed, rng, tape), draws, seed)


def fingerprints(graph: Float64Graph) -> frozenset[str]:
    """Of all that `constant_noise` may move: floating constants, float attributes, quantised weights."""
    found = {c.fingerprint for c in graph.constants if c.roundoff}
    whole = {c.name: c for c in graph.constants if not c.roundoff}
    for step in (s for scope in graph.scope.everywhere() for s in scope.steps):
        found |= {fingerprint(v) for v in map(np.asarray, step.attributes.values()) if v.dtype == np.float64}
        found |= {whole[n].fingerprint for n in _quantised_names(step) if n in whole}
        found |= {step.op} & {DYNAMIC}
    return frozenset(found)


DYNAMIC = "DynamicQuantizeLinear"
"""Stands among the fingerprints for quantisation by a scale that is no constant."""


class Tape:
    """What the exact evaluation decided, in order."""

    def __init__(self) -> None:
        self.results: dict[int, list[Sequence[Value]]] = {}
        self.choices: list[Value] = []


class Recorder(Exact):
    """The exact evaluation, which notes what becomes structure."""

    def __init__(self, tape: Tape) -> None:
        super().__init__(promoted=True)
        self._tape = tape

    def call(self, step: Step, arguments: Sequence[Value]) -> Sequence[Value]:
        """The node's results, noted where they must not move."""
        results = super().call(step, arguments)
        if _settles(step, arguments, results):
            self._tape.results.setdefault(id(step), []).append(results)
        return results

    def choice(self, value: Value) -> Value:
        """The value, noted."""
        self._tape.choices.append(value)
        return value


class Moving:
    """An evaluation in which values move and structure does not."""

    def __init__(self, rng: np.random.Generator, tape: Tape) -> None:
        self.rng = rng
        self._settled = {step: iter(results) for step, results in tape.results.items()}
        self._choices: Iterator[Value] = iter(tape.choices)

    def feed(self, value: Value) -> Value:
        """What stands for an input."""
        return value

    def constant(self, constant: Constant) -> Value:
        """What stands for a constant."""
        raise NotImplementedError

    def call(self, step: Step, arguments: Sequence[Value]) -> Sequence[Value]:
        """The node's results: from the tape where they are structure, else moved."""
        settled = self._settled.get(id(step))
        return self.moved(step, arguments) if settled is None else self.settled(next(settled))

    def moved(self, step: Step, arguments: Sequence[Value]) -> Sequence[Value]:
        """The results of a node that decides nothing."""
        raise NotImplementedError

    def settled(self, results: Sequence[Value]) -> Sequence[Value]:
        """What stands for results that are structure."""
        return results

    def choice(self, value: Value) -> Value:
        """The condition or trip count of the exact evaluation."""
        return next(self._choices)

    def uniform(self, shape: tuple[int, ...]) -> Array:
        """Between -1 and 1."""
        spread = np.asarray(self.rng.random(shape, np.float32))
        spread *= 2
        spread -= 1
        return spread

    def stored(self, value: Array, inexact: Array | bool, roundoff: float) -> Array:
        """The value as another rounding might have stored it."""
        if inexact is False:
            return value
        spread = self.uniform(value.shape)
        # not value * (1 + …): the spread is in float32, where 1 + 2**-25 is 1
        return np.asarray(value + value * (roundoff * (spread if inexact is True else spread * inexact)))


class RoundingErrors(Moving):
    """Everything moves by the unit roundoff that the artifact computes with."""

    def __init__(self, roundoff: float, rng: np.random.Generator, tape: Tape, factors: float | None = None) -> None:
        """factors: the roundoff of what is multiplied in matrix products, where it is coarser."""
        super().__init__(rng, tape)
        self._roundoff, self._factors = roundoff, factors
        self._smallest = SMALLEST_HALF if roundoff == HALF_ROUNDOFF else 0.0
        self.moved_before: Mapping[int, Value] = {}
        """Constants that have been moved already, by identity."""

    def feed(self, value: Value) -> Value:
        """Floating inputs move, except for what any dtype holds exactly."""
        if value.dtype != np.float64:
            return value
        return self.stored(value, rounded_when_stored(value), self._roundoff)

    def constant(self, constant: Constant) -> Value:
        """As `feed`."""
        found = self.moved_before.get(id(constant))
        return self.stored(constant.value, constant.inexact, self._roundoff) if found is None else found

    def settled(self, results: Sequence[Value]) -> Sequence[Value]:
        """As they were; only the fractions of a range are rounded, its whole numbers are positions."""
        return [self.feed(r) if isinstance(r, np.ndarray) else r for r in results]

    def moved(self, step: Step, arguments: Sequence[Value]) -> Sequence[Value]:
        """Each floating result moved by what rounding may add to it."""
        if step.rounding is Rounding.STEPS:
            assert isinstance(step.operator, Stepwise)
            return step.operator.stepwise(*arguments, rounded=self, **step.attributes)
        if step.rounding is Rounding.QUANTISES:
            arguments = [self.round(a, np.abs(a)) if _is_float(a) else a for a in arguments]
        if self._factors is not None and step.op in PRODUCTS:
            count = PRODUCTS[step.op]
            arguments = [*map(self._factor, arguments[:count]), *([] if count is None else arguments[count:])]
        results = called(step, arguments)
        if step.rounding is Rounding.NONE:
            return results
        return [
            r if size is None or not _is_float(r) else self.round(r, size)
            for r, size in zip(results, sizes(step, arguments, results, self._roundoff), strict=True)
        ]

    def round(self, value: Array, size: Array) -> Array:
        """value + u·U(-1, 1)·size. Infinities and masks beyond 2**100 absorb what is added to them and stay."""
        step = np.where(size < MASK, size, 0.0)
        if self._smallest:
            step = np.where(step > 0, np.maximum(step, self._smallest), 0.0)
        return np.asarray(value + self.uniform(value.shape) * (self._roundoff * step))

    def product(self, a: Array, b: Array) -> Array:
        """a @ b, rounded."""
        a, b = self._factor(a), self._factor(b)
        y = a @ b
        return self.round(y, product_size(a, b, y, self._roundoff))

    def _factor(self, value: Value) -> Value:
        """What a matrix product takes: rounded by the hardware, where it keeps fewer bits."""
        if self._factors is None or not _is_float(value):
            return value
        return self.stored(value, rounded_when_stored(value), self._factors)

    def softmax(self, probabilities: Array, scores: Array) -> Array:
        """A softmax of the scores over the last axis, rounded."""
        return self.round(probabilities, softmax_size(probabilities, scores, (-1,), self._roundoff))


class StorageErrors(Moving):
    """Only what the file had to round moves."""

    def __init__(self, shared: frozenset[str], fixed: frozenset[str], rng: np.random.Generator, tape: Tape) -> None:
        """shared: fingerprints of what stays; fixed: names of the values that depend on constants alone."""
        super().__init__(rng, tape)
        self._shared, self._fixed = shared, fixed

    def constant(self, constant: Constant) -> Value:
        """By the roundoff of its own dtype."""
        if constant.inexact is False or constant.fingerprint in self._shared:
            return constant.value
        return self.stored(constant.value, constant.inexact, constant.roundoff)

    def moved(self, step: Step, arguments: Sequence[Value]) -> Sequence[Value]:
        """Attributes and quantised values move, results follow."""
        attributes = {name: self._attribute(value) for name, value in step.attributes.items()}
        arguments = list(arguments)
        for place in QUANTISED_INPUTS.get(step.op, ()):
            arguments[place] = self._weight(step.op, step.inputs[place], arguments[place])
        results = called(step, arguments, attributes)
        return [self._half_a_step(results[0]), *results[1:]] if self._quantises(step, arguments) else results

    def _attribute(self, value: Value) -> Value:
        array = np.asarray(value)
        if array.dtype != np.float64 or fingerprint(array) in self._shared:
            return value
        moved = self.stored(array, rounded_when_stored(array), ATTRIBUTE_ROUNDOFF)
        return moved if isinstance(value, np.ndarray) else moved.tolist()

    def _weight(self, op: str, name: str, value: Array) -> Array:
        """A quantised weight: its integers, each up to half a step away."""
        counts = not is_integer(value.dtype) or (op == "Cast" and value.dtype.itemsize > 1)
        stays = counts or name not in self._fixed or fingerprint(value) in self._shared
        return value if stays else self._half_a_step(value)

    def _quantises(self, step: Step, arguments: Sequence[Value]) -> bool:
        """Whether the node rounds activations to steps that the other side does not have."""
        if step.op == DYNAMIC:
            return DYNAMIC not in self._shared
        scale = {"QLinearConv": 6, "QLinearMatMul": 6, "QuantizeLinear": 1}.get(step.op)
        return scale is not None and fingerprint(arguments[scale]) not in self._shared

    def _half_a_step(self, steps: Array) -> Array:
        return steps.astype(np.float64) + 0.5 * self.uniform(steps.shape)


CONSTANT_BYTES = 1 << 26
"""Up to which the moved constants of the first draw are kept: with them, a draw costs little more than a run."""
_making = Lock()
_constants: WeakKeyDictionary[Float64Graph, dict[int, Value]] = WeakKeyDictionary()


def _first_constants(graph: Float64Graph) -> dict[int, Value]:
    """The constants as the first draw moves them, on whatever inputs, by identity; none where they are too large."""
    with _making:
        if graph not in _constants:
            moving = RoundingErrors(graph.unit_roundoff, np.random.default_rng(0), Tape())
            small = sum(c.value.nbytes for c in graph.constants) <= CONSTANT_BYTES
            _constants[graph] = {id(c): moving.constant(c) for c in graph.constants} if small else {}
        return _constants[graph]


KEPT = 4
"""Exact evaluations that are kept with a graph, for the noise that is asked for next."""
_Recordings = OrderedDict[str, tuple[Tape, Outputs]]
_recordings: WeakKeyDictionary[Float64Graph, tuple[Tape, _Recordings]] = WeakKeyDictionary()


def recorded(graph: Float64Graph, feeds: Feeds) -> tuple[Tape, Outputs]:
    """What became structure in the exact evaluation, and its outputs as `Float64Graph.run` gives them."""
    with _making:
        if graph not in _recordings:
            always = Tape()
            graph.fold(Recorder(always))
            _recordings[graph] = always, OrderedDict()
        always, kept = _recordings[graph]
        found = kept.get(key := feeds_digest(feeds))
    if found is None:
        tape = Tape()
        tape.results, tape.choices = dict(always.results), list(always.choices)
        found = tape, graph.run(feeds, Recorder(tape))
        with _making:
            kept[key] = found
            while len(kept) > KEPT:
                kept.popitem(last=False)
    return found


Maker = Callable[[np.random.Generator, Tape], Moving]


def _movement(graph: Float64Graph, feeds: Feeds, arithmetic: Maker, draws: int, seed: int) -> Outputs:
    """The largest change of each output vector over the draws."""
    if draws < 1:
        raise ValueError(f"noise needs at least 1 draw, got {draws}")
    worst = Outputs()
    tape, exact = recorded(graph, feeds)
    with np.errstate(all="ignore"):
        for draw in range(draws):
            moving = arithmetic(np.random.default_rng([seed, draw]), tape)
            moved = graph.evaluate({n: moving.feed(v) for n, v in widened(feeds).items()}, moving)
            for name, value in exact.items():
                change = change_of(name, moved[name], value)
                worst[name] = np.maximum(worst.get(name, 0.0), change)
    return worst


def change_of(name: str, moved: Array, exact: Array) -> Array:
    """Movement of each vector relative to its size; whether it changed at all, where it holds no floats."""
    if moved.shape != exact.shape:
        raise RunError(
            f"output {name!r} changes its shape when its graph is rounded",
            expected=str(exact.shape),
            got=str(moved.shape),
            remedy="shapes that depend on rounded data have no budget; feed inputs away from the decision",
        )
    exact, moved = np.atleast_1d(exact), np.atleast_1d(moved)
    if exact.shape[-1] == 0:
        return np.zeros(exact.shape[:-1])
    if exact.dtype != np.float64:
        differs = (moved != exact) & ~((moved != moved) & (exact != exact))  # 8-bit floats have NaN too
        return np.asarray(np.any(differs, axis=-1), np.float64)
    change = np.where(np.isfinite(exact), np.abs(moved - exact), 0.0)
    return vector_error(np.where(np.isnan(change), np.inf, change), exact)


def _settles(step: Step, arguments: Sequence[Value], results: Sequence[Value]) -> bool:
    """Whether the results are structure: shapes always, and decisions on what nothing has rounded."""
    if step.rounding is Rounding.COUNTS:
        return True
    if step.on_data or step.rounding is Rounding.QUANTISES:
        return False
    to_whole = any(map(_is_float, arguments)) and not all(map(_is_float, results))
    return step.rounding is Rounding.DECIDES or (to_whole and step.op in ("Cast", "CastLike"))


def _quantised_names(step: Step) -> Iterator[str]:
    for place in QUANTISED_INPUTS.get(step.op, ()):
        yield step.inputs[place]


def _is_float(value: Value) -> bool:
    return isinstance(value, np.ndarray) and value.dtype == np.float64
