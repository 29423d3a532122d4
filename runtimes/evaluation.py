"""Running a compiled graph: the same walk for exact values, for stored dtypes and for Monte Carlo arithmetic."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import numpy as np
from ml_dtypes import bfloat16

from onnxparity.errors import OnnxParityError, RunError
from onnxparity.protocols import Array
from onnxparity.runtimes.attention_op import Rounded, Stepwise
from onnxparity.runtimes.promotion import Constant
from onnxparity.runtimes.scope import Scope, Step, Value

__all__ = ["NARROW", "Arithmetic", "Exact", "Looked", "called", "execute"]

Looked = Callable[[Step, Sequence[Value]], None]
"""Takes a step and its results, as many as it names."""

NARROW = frozenset({np.dtype(np.float16), np.dtype(bfloat16), np.dtype(np.float32)})
"""The floats that have to be widened."""


class Arithmetic(Protocol):
    """How one node is evaluated."""

    def constant(self, constant: Constant) -> Value:
        """What stands for a constant."""
        ...

    def call(self, step: Step, arguments: Sequence[Value]) -> Sequence[Value]:
        """What a node without subgraphs gives."""
        ...

    def choice(self, value: Value) -> Value:
        """What stands for a condition or a trip count."""
        ...


class Exact:
    """Evaluates nodes as they are."""

    def __init__(self, *, promoted: bool) -> None:
        """promoted: no float but float64 may come out of a node."""
        self._promoted = promoted

    def constant(self, constant: Constant) -> Value:
        """The constant itself."""
        return constant.value

    def call(self, step: Step, arguments: Sequence[Value]) -> Sequence[Value]:
        """The node's own results. Raises RunError where a float64 evaluation left float64."""
        results = called(step, arguments)
        if self._promoted:
            refuse_narrow(step, results)
        return results

    def choice(self, value: Value) -> Value:
        """The value itself."""
        return value


def called(step: Step, arguments: Sequence[Value], attributes: Mapping[str, Value] | None = None) -> list[Value]:
    """The node's results as arrays (or lists of arrays), under its own attributes unless others are given."""
    results = step.kernel(*arguments, **(step.attributes if attributes is None else attributes))
    return [v if isinstance(v, (np.ndarray, list)) or v is None else np.asarray(v) for v in results]


def refuse_narrow(step: Step, results: Sequence[Value]) -> None:
    """Raises RunError where a value is a float narrower than float64."""
    for value in results:
        for array in value if isinstance(value, list) else (value,):
            if array is not None and array.dtype in NARROW:
                raise RunError(
                    f"{step.label} left float64",
                    expected="float64 throughout",
                    got=str(array.dtype),
                    remedy="report it: the promotion to float64 misses this operator or attribute",
                )


def execute(
    steps: Sequence[Step], values: dict[str, Value], arithmetic: Arithmetic, look: Looked | None = None
) -> None:
    """Adds the results of the steps to the values and drops those that nothing needs any more.

    values: inputs, constants and captured names. look: called after each step, those of subgraphs included.
    Raises RunError where a node cannot be evaluated.
    """
    for step in steps:
        arguments = [values[name] if name else None for name in step.inputs]
        try:
            if step.bodies:
                results: Sequence[Value] = _CONTROL[step.op](step, arguments, values, arithmetic, look)
            else:
                results = arithmetic.call(step, arguments)
        except OnnxParityError:
            raise
        except Exception as error:  # whatever NumPy or the evaluator says: a session raises RunError
            raise RunError(f"{step.label} cannot be evaluated", got=f"{type(error).__name__}: {error}") from error
        if look is not None:
            look(step, results[: len(step.outputs)])
        values.update(zip(step.outputs, results, strict=False))  # an operator may offer more than the node takes
        for name in step.dead:
            values.pop(name, None)


class _Body:
    """A subgraph with what it captures, ready to be run any number of times."""

    def __init__(self, scope: Scope, values: dict[str, Value], arithmetic: Arithmetic, look: Looked | None) -> None:
        self._scope, self._steps, self._arithmetic, self._look = scope, scope.steps, arithmetic, look
        self._values = {name: values[name] for name in scope.captured}
        self._values |= {c.name: arithmetic.constant(c) for c in scope.constants}

    def __call__(self, *inputs: Value) -> list[Value]:
        values = self._values | dict(zip(self._scope.inputs, inputs, strict=True))
        execute(self._steps, values, self._arithmetic, self._look)
        return [values[name] for name in self._scope.outputs]


def _if(
    step: Step,
    arguments: Sequence[Value],
    values: dict[str, Value],
    arithmetic: Arithmetic,
    look: Looked | None,
) -> list[Value]:
    condition = bool(np.asarray(arithmetic.choice(arguments[0])).item())
    return _Body(step.bodies["then_branch" if condition else "else_branch"], values, arithmetic, look)()


def _loop(
    step: Step,
    arguments: Sequence[Value],
    values: dict[str, Value],
    arithmetic: Arithmetic,
    look: Looked | None,
) -> list[Value]:
    trips, condition, *carried = arguments
    limit = None if trips is None else int(np.asarray(arithmetic.choice(trips)).item())
    go = True if condition is None else bool(np.asarray(arithmetic.choice(condition)).item())
    body, rows, turn = _Body(step.bodies["body"], values, arithmetic, look), [], 0
    while go and (limit is None or turn < limit):
        condition, *results = body(np.asarray(turn, np.int64), np.asarray(True), *carried)
        carried, row = results[: len(carried)], results[len(carried) :]
        rows.append(row)
        go, turn = bool(np.asarray(arithmetic.choice(condition)).item()), turn + 1
    scanned = len(step.outputs) - len(carried)
    return [*carried, *(_stacked([row[k] for row in rows], step) for k in range(scanned))]


def _scan(
    step: Step,
    arguments: Sequence[Value],
    values: dict[str, Value],
    arithmetic: Arithmetic,
    look: Looked | None,
) -> list[Value]:
    count = int(step.attributes["num_scan_inputs"])
    states, sources = list(arguments[:-count]), arguments[-count:]
    body = _Body(step.bodies["body"], values, arithmetic, look)
    places = _directed(step, "scan_input", sources)
    rows = []
    for turn in range(places[0].shape[0]):
        results = body(*states, *(source[turn] for source in places))
        states, row = results[: len(states)], results[len(states) :]
        rows.append(row)
    scanned = [_stacked([row[k] for row in rows], step) for k in range(len(step.outputs) - len(states))]
    return [*states, *_directed(step, "scan_output", scanned)]


def _directed(step: Step, which: str, arrays: Sequence[Array]) -> list[Array]:
    """Scanned arrays with their scan axis first and forward (inputs), or back where it belongs (outputs)."""
    axes = step.attributes.get(f"{which}_axes") or [0] * len(arrays)
    backward = step.attributes.get(f"{which}_directions") or [0] * len(arrays)
    result = []
    for array, axis, reverse in zip(arrays, axes, backward, strict=True):
        if which == "scan_input":
            array = np.moveaxis(array, axis, 0)
        array = array[::-1] if reverse else array
        result.append(array if which == "scan_input" else np.moveaxis(array, 0, axis))
    return result


def _stacked(rows: Sequence[Array], step: Step) -> Array:
    if not rows:
        raise RunError(f"{step.label} made no turn, so that the shape of what it collects is unknown")
    return np.stack(rows)


def _flex(
    step: Step,
    arguments: Sequence[Value],
    values: dict[str, Value],
    arithmetic: Arithmetic,
    look: Looked | None,
) -> Sequence[Value]:
    """FlexAttention, whose subgraphs stand between its own steps."""
    assert isinstance(step.operator, Stepwise)
    bodies = {name: _Body(scope, values, arithmetic, look) for name, scope in step.bodies.items()}
    mods = {name: lambda value, body=body: body(value)[0] for name, body in bodies.items()}
    rounded = arithmetic if isinstance(arithmetic, Rounded) else None
    return step.operator.stepwise(*arguments, rounded=rounded, **(dict(step.attributes) | mods))


_CONTROL = {"FlexAttention": _flex, "If": _if, "Loop": _loop, "Scan": _scan}
