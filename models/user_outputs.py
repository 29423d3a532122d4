"""What a module gives back: its outputs' names, and which of their dims follow which axis, found by trying."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree  # see user_signature

from onnxparity.case import Axis, OutputRole, OutputSpec
from onnxparity.models.user_dims import Dims
from onnxparity.models.user_signature import Bound, input_tensors, join_path, walk

__all__ = ["Learned", "learn_outputs"]


@dataclass(frozen=True)
class Learned:
    """The outputs of a module, and what could not be learned of them."""

    outputs: tuple[OutputSpec, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True)
class _Trial:
    """One run with one axis longer, or shorter where it may not grow."""

    axis: Axis
    size: int
    """Of the axis in the example."""
    step: int
    shapes: Mapping[str, torch.Size]
    """By output; empty where the module failed."""


def learn_outputs(module: nn.Module, bound: Bound, dims: Mapping[str, Dims], axes: Sequence[Axis]) -> Learned:
    """Runs the module on the example, and once for each axis with one element more, to see which dims move.

    A dim of equal size need not be the same axis, so sizes alone decide nothing; where a run fails, the dims it
    would have told are None. Raises whatever the module raises on its example; ValueError without any tensor.
    """
    example = _run(module, bound, {}, "", 0)
    if not example:
        raise ValueError("no tensor among the outputs")
    trials, notes = [], []
    for axis in axes:
        size = next(
            tensor.shape[dims[name].index(axis.symbol)]
            for name, tensor in input_tensors(bound).items()
            if axis.symbol in dims[name]
        )
        step = -1 if axis.high is not None and size >= axis.high else 1
        shapes: dict[str, torch.Size] = {}
        try:
            shapes = {name: tensor.shape for name, tensor in _run(module, bound, dims, axis.symbol, step).items()}
        except Exception as error:  # whatever a user's module raises at a size it does not serve: recorded
            first_line = (str(error).splitlines() or [type(error).__name__])[0]
            notes.append(f"the module itself fails where {axis.symbol} is {size + step}: {first_line}")
        trials.append(_Trial(axis, size, step, shapes))
    outputs = [
        OutputSpec(name, tuple(_dim(name, place, tensor, trials) for place in range(tensor.ndim)), _role(name, tensor))
        for name, tensor in example.items()
    ]
    return Learned(tuple(outputs), tuple(notes))


def _run(module: nn.Module, bound: Bound, dims: Mapping[str, Dims], symbol: str, step: int) -> dict[str, Tensor]:
    """The outputs by name. On copies: a cache passed in may be written to."""
    by_identity = {id(tensor): dims.get(name, ()) for name, tensor in input_tensors(bound).items()}

    def resized(tensor: Tensor) -> Tensor:
        copy = tensor.detach().clone()
        for place, dim in enumerate(by_identity.get(id(tensor), ())):
            if dim == symbol:
                last = copy.narrow(place, copy.shape[place] - 1, 1)
                copy = torch.cat([copy, last], place) if step > 0 else copy.narrow(place, 0, copy.shape[place] + step)
        return copy

    args, kwargs = pytree.tree_map_only(Tensor, resized, (bound.args, bound.kwargs))
    with torch.no_grad():
        result = module(*args, **kwargs)
    found = [(path, value) for path, value, _ in walk(result, None, ()) if isinstance(value, Tensor)]
    return {_name(path, place): value for place, (path, value) in enumerate(found)}


def _name(path: tuple[str, ...], place: int) -> str:
    """`output` for a bare tensor, `output_0` in a sequence, the keys of a mapping or dataclass."""
    if not path:
        return "output"
    if all(part.isdigit() for part in path):
        return f"output_{place}"
    return join_path(("output", *path)) if path[0].isdigit() else join_path(path)


def _role(name: str, tensor: Tensor) -> OutputRole:
    """Only what a name says plainly; attention weights promise rows on the simplex, which no name can."""
    if not tensor.is_floating_point():
        return "other"
    if "logits" in name.lower():
        return "logits"
    return "present" if name.lower().startswith(("present", "past_key", "past_value")) else "features"


def _dim(name: str, place: int, tensor: Tensor, trials: Sequence[_Trial]) -> int | str | None:
    """The axes that move this dim, as a sum; its number where none does; None where that is not the whole story."""
    size, movers = tensor.shape[place], []
    for trial in trials:
        shape = trial.shapes.get(name)
        if shape is None or len(shape) != tensor.ndim or shape[place] - size not in (0, trial.step):
            return None
        if shape[place] != size:
            movers.append(trial)
    if not movers:
        return size
    movers.sort(key=lambda trial: trial.axis.role != "past")
    return "+".join(t.axis.symbol for t in movers) if sum(t.size for t in movers) == size else None
