"""How large honest rounding is for this module on these inputs: Monte Carlo arithmetic (Parker 1997) on ATen operators.

In float64, each operator's floating result moves by a uniform relative error of the unit roundoff u under test,
products and sums by u·Σ|a·b|, inputs and weights too; what only carries values rounds nothing. The movement of
the outputs over a few draws is the noise. Short binary fractions (3, 0.5, 0, -inf) are exact and stay, and so
does what becomes structure: a position of 999 that moved to 998.9999 would turn into another position.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from onnxparity.numerics.budget import vector_error
from onnxparity.protocols import Array, Outputs
from onnxparity.runtimes.torch_eager import to_numpy
from onnxparity.runtimes.torch_operators import WHOLE, base_name, decides, floating, magnitude, moves
from onnxparity.runtimes.torch_widen import WidenOperators, each

__all__ = ["Call", "Rounding", "Trace", "noise"]

LONG_MANTISSA = (1 << 47) - 1
"""Of the 52 bits that float64 stores, those beyond the first five; the leading one is not stored."""

DRAWS_APART = 1_000_003

Node = str
"""An operator by its number in the order of execution and its name (`7:mul`), or `input:x`, `weight:w`."""


class Call(Protocol):
    """Evaluates a module in float64."""

    def __call__(
        self, tensors: Mapping[str, Tensor], weights: Mapping[str, Tensor], mode: WidenOperators | None
    ) -> dict[str, Tensor]:
        """Outputs by name for these inputs, with these weights in the place of the module's own, under `mode`."""
        ...


def noise(
    call: Call,
    tensors: Mapping[str, Tensor],
    weights: Mapping[str, Tensor],
    *,
    parameters: Collection[str],
    u: float,
    draws: int,
    seed: int,
    only: Collection[str] | None = None,
) -> Outputs:
    """The largest movement of each output vector (last axis) over the draws, relative to its largest value.

    Args:
        tensors: inputs by name, floats in float64.
        weights: floating parameters and buffers by name, in float64.
        parameters: names of the weights that are trained; the others are constants of the code.
        only: names of the weights that move while nothing else does; None moves everything.

    Each output's shape less its last axis; a scalar is a vector of one. Integer outputs give 1 where a vector
    changed and 0 where it did not. Infinite where a finite value moved to NaN or infinity: no budget comes of that.
    """
    if draws < 1:
        raise ValueError(f"noise needs at least 1 draw, got {draws}")
    exact, still = _traced(call, tensors, weights, parameters)
    worst: dict[str, Array] = {}
    for draw in range(draws):
        generator = torch.Generator().manual_seed(seed * DRAWS_APART + draw)
        inputs = tensors if only is not None else _moved("input", tensors, tensors, u, generator, still)
        held = _moved("weight", weights, weights if only is None else only, u, generator, still)
        got = call(inputs, held, Rounding(u, generator, still) if only is None else Walk())
        for name in exact:
            change = _change(to_numpy(got[name]), to_numpy(exact[name]))
            worst[name] = change if name not in worst else np.maximum(worst[name], change)
    return worst


def _traced(
    call: Call, tensors: Mapping[str, Tensor], weights: Mapping[str, Tensor], parameters: Collection[str]
) -> tuple[dict[str, Tensor], frozenset[Node]]:
    """Exact outputs and what must stay put; a function of its own, since a trace holds every value alive."""
    trace = Trace(tensors, weights, data=parameters)
    return call(tensors, weights, trace), trace.structural()


class Walk(WidenOperators):  # type: ignore[no-untyped-call]  # torch does not type its modes
    """Takes whole operators apart and numbers what is executed, the same way at each walk."""

    def __init__(self) -> None:
        super().__init__()
        self._count = 0

    def execute(self, func: Any, args: Any, kwargs: Any) -> Any:
        """Runs the operator, or its parts; types as in `WidenOperators`."""
        if func in WHOLE:
            with self:
                return WHOLE[func](*args, **kwargs)
        out = func(*args, **kwargs)
        if func.is_view:  # not numbered: PyTorch adds detach where it sees that somebody holds on to a tensor
            return out
        self._count += 1
        return self.seen(f"{self._count}:{base_name(func)}", func, args, kwargs, out)

    def seen(self, node: Node, func: Any, args: Any, kwargs: dict[str, Any], out: Any) -> Any:
        """What stands for `out` from here on; types as in `WidenOperators`."""
        return out


class Trace(Walk):  # type: ignore[no-untyped-call]  # torch does not type its modes
    """Notes where values come from, to find those that become structure."""

    def __init__(self, inputs: Mapping[str, Tensor], weights: Mapping[str, Tensor], data: Collection[str]) -> None:
        """The call must run on these tensors. data: names of the weights that are trained."""
        super().__init__()
        self._writers: dict[int, tuple[Node, ...]] = {}
        self._parents: dict[Node, tuple[Node, ...]] = {}
        self._rounds: set[Node] = set()
        self._data: set[Node] = {f"weight:{name}" for name in data}
        self._data |= {f"input:{name}" for name, tensor in inputs.items() if floating(tensor)}
        self._start: set[Node] = set()
        self._alive: list[Tensor] = []
        for kind, leaves in (("input", inputs), ("weight", weights)):
            for name, tensor in leaves.items():
                self._wrote(tensor, f"{kind}:{name}")

    def seen(self, node: Node, func: Any, args: Any, kwargs: dict[str, Any], out: Any) -> Any:
        """Notes parents, whether it rounds, and whether it depends on inputs or weights."""
        used = _tensors((args, kwargs))
        sources = {source for t in used for source in self._writers.get(_storage(t), ())}
        self._parents[node] = tuple(sources)
        if sources & self._data:
            self._data.add(node)
        if not moves(func, kwargs):
            self._rounds.add(node)
        if decides(func, out):
            self._start |= {source for t in used if floating(t) for source in self._writers.get(_storage(t), ())}
        for tensor in _tensors(out):
            self._wrote(tensor, node)
        return out

    def structural(self) -> frozenset[Node]:
        """What must stay put: all that leads to structure, back to where rounding of data enters.

        A comparison of computed data may honestly flip; a position, a range or a bucket may not.
        """
        found: set[Node] = set()
        todo = list(self._start)
        while todo:
            node = todo.pop()
            if node in found or (node in self._data and node in self._rounds):
                continue
            found.add(node)
            todo += self._parents.get(node, ())
        return frozenset(found)

    def _wrote(self, tensor: Tensor, node: Node) -> None:
        key = _storage(tensor)
        if key:
            self._writers[key] = (*self._writers.get(key, ()), node)
        self._alive.append(tensor)  # a freed storage's address would be given to another tensor


class Rounding(Walk):  # type: ignore[no-untyped-call]  # torch does not type its modes
    """Moves what each operator computes."""

    def __init__(self, u: float, generator: torch.Generator, still: Collection[Node] = ()) -> None:
        super().__init__()
        self._u, self._generator, self._still = u, generator, frozenset(still)

    def seen(self, node: Node, func: Any, args: Any, kwargs: dict[str, Any], out: Any) -> Any:
        """The result, moved; in place where the operator wrote in place."""
        if node in self._still or moves(func, kwargs):
            return out

        def move(value: Any) -> Any:  # Any: a result may hold more than tensors
            if not floating(value):
                return value
            moved = _move(value, self._u, self._generator, magnitude(func, args, kwargs, value))
            return value.copy_(moved) if func._schema.is_mutable else moved

        return each(move, out)


def _move(value: Tensor, u: float, generator: torch.Generator, size: Tensor | None = None) -> Tensor:
    """value + u·U(-1, 1)·size; without a size, relative to the value itself, and short fractions stay."""
    if not floating(value):
        return value
    step = torch.rand(value.shape, generator=generator, dtype=torch.float64).mul_(2 * u).sub_(u)
    if value.is_complex():
        turn = torch.rand(value.shape, generator=generator, dtype=torch.float64) * 2 * torch.pi
        return value + torch.polar(step.abs() * value.abs(), turn)
    if size is None:
        return value + step.mul_(value).masked_fill_(_short(value), 0.0)
    step.mul_(torch.nan_to_num(size, nan=0.0, posinf=0.0, neginf=0.0))
    return torch.where(torch.isfinite(value), value + step, value)


def _short(value: Tensor) -> Tensor:
    """A mantissa of at most six bits, so that storing it rounded nothing; infinities among them, NaN is not."""
    return (value.view(torch.int64) & LONG_MANTISSA) == 0


def _change(moved: Array, exact: Array) -> Array:
    """Movement of each vector relative to its size; whether it changed at all, where it holds no floats."""
    if exact.dtype.kind != "f":
        return np.asarray(np.any(np.atleast_1d(moved != exact), axis=-1), np.float64)
    if exact.shape[-1:] == (0,):
        return np.zeros(exact.shape[:-1])
    with np.errstate(invalid="ignore"):
        change = np.where(np.isfinite(exact), np.abs(moved - exact), 0.0)
    return vector_error(np.where(np.isnan(change), np.inf, change), exact)


def _moved(
    kind: str,
    tensors: Mapping[str, Tensor],
    names: Collection[str],
    u: float,
    generator: torch.Generator,
    still: Collection[Node],
) -> dict[str, Tensor]:
    """The tensors, those among `names` that are no structure moved."""
    return {
        name: _move(tensor, u, generator) if name in names and f"{kind}:{name}" not in still else tensor
        for name, tensor in tensors.items()
    }


def _tensors(value: Any) -> list[Tensor]:  # Any: an operator's arguments or results
    found: list[Tensor] = []
    each(lambda leaf: found.append(leaf) if isinstance(leaf, Tensor) else None, value)
    return found


def _storage(tensor: Tensor) -> int:
    """The address of its memory, shared by views; 0 where it holds nothing."""
    return tensor.untyped_storage().data_ptr()
