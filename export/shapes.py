"""From a subject's axes to torch.export's dynamic shapes, and the check that the example lets them be dynamic."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from torch import Tensor, nn
from torch.export import Dim
from torch.utils import _pytree as pytree

from onnxparity.case import Subject, TensorSpec
from onnxparity.errors import ExportError, LintError

__all__ = ["bind", "check_example", "dims_of_subject", "normalise"]

Shapes = Any  # Any: torch.export's own nested structure
Hint = Any  # Any: what torch.export takes for one dim: Dim, Dim.DYNAMIC, int, str or None


def bind(
    module: nn.Module, example: Sequence[Any], kwargs: Mapping[str, Any]
) -> dict[str, Any]:  # Any: torch.Tensor, or nested containers and constants
    """The example by the name of forward's arguments, in the order in which torch.export numbers the inputs.

    Raises ExportError where forward does not take it.
    """
    try:
        return dict(inspect.signature(module.forward).bind(*example, **kwargs).arguments)
    except TypeError as error:
        raise ExportError(
            "the example does not fit the module's forward",
            expected=f"forward{inspect.signature(module.forward)}",
            got=str(error),
            remedy="give the arguments of forward in order, the rest as kwargs",
        ) from error


def dims_of_subject(subject: Subject, bound: Mapping[str, Any]) -> Shapes:
    """One Dim for each axis, at every place where an input names it; nested as the arguments are.

    Raises ExportError where the example and the subject do not have the same inputs.
    """
    dims = {axis.symbol: Dim(axis.symbol, min=axis.low, max=axis.high) for axis in subject.axes}
    leaves, structure = pytree.tree_flatten(dict(bound))
    specs = iter(subject.inputs)
    hints = [_hint(next(specs, None), dims, subject) if isinstance(leaf, Tensor) else None for leaf in leaves]
    if left := [spec.name for spec in specs]:
        _differs(subject, f"no tensor for {', '.join(left)}")
    return pytree.tree_unflatten(hints, structure)


def _hint(spec: TensorSpec | None, dims: Mapping[str, Dim], subject: Subject) -> dict[int, Dim] | None:
    if spec is None:
        _differs(subject, "more tensors than that")
    return {place: dims[dim] for place, dim in enumerate(spec.dims) if isinstance(dim, str)} or None


def _differs(subject: Subject, got: str) -> NoReturn:
    raise ExportError(
        f"the example does not have the inputs of {subject.name}",
        expected=", ".join(spec.name for spec in subject.inputs) or "no input",
        got=got,
        remedy="give one example tensor for each input, in the subject's order",
    )


def normalise(shapes: Shapes) -> Shapes:
    """Names given as strings become Dim.DYNAMIC, as torch.onnx.export takes them; all else stays."""
    if isinstance(shapes, str):
        return Dim.DYNAMIC
    if isinstance(shapes, Mapping):
        return {key: normalise(value) for key, value in shapes.items()}
    if isinstance(shapes, (tuple, list)):
        return type(shapes)(normalise(value) for value in shapes)
    return shapes


def check_example(bound: Mapping[str, Any], shapes: Shapes) -> None:
    """Raises LintError for an example of size 0 or 1 where the size is to be dynamic.

    torch.export takes such a size for a constant and says nothing, whatever the Dim asks for.
    """
    entries = shapes.items() if isinstance(shapes, Mapping) else zip(bound, shapes or (), strict=False)
    for name, shape in entries:
        if name in bound:
            _check(bound[name], shape, name)


def _check(value: Any, shape: Shapes, where: str) -> None:  # Any: torch.Tensor, or nested containers and constants
    if isinstance(value, Tensor) and shape is not None:
        hints = shape.items() if isinstance(shape, Mapping) else enumerate(shape)
        for place, hint in hints:
            if _is_dynamic(hint) and value.shape[place] < 2:
                _too_small(where, place, hint, value)
    elif isinstance(value, Mapping) and isinstance(shape, Mapping):
        for key, entry in value.items():
            _check(entry, shape.get(key), f"{where}[{key!r}]")
    elif isinstance(value, (tuple, list)) and isinstance(shape, (tuple, list)):
        for place, (entry, hint) in enumerate(zip(value, shape, strict=False)):
            _check(entry, hint, f"{where}[{place}]")


def _is_dynamic(hint: Hint) -> bool:
    kind = getattr(getattr(hint, "type", None), "name", "")
    return isinstance(hint, (Dim, str)) or kind in ("DYNAMIC", "AUTO")


def _too_small(where: str, place: int, hint: Hint, value: Tensor) -> NoReturn:
    symbol = hint if isinstance(hint, str) else getattr(hint, "__name__", "a dynamic size")
    raise LintError(
        f"asked-dynamic-axis-is-constant: input {where!r}: axis {symbol!r} (dim {place}) is asked to be dynamic, "
        f"and the file would have the constant {value.shape[place]}",
        expected="at least 2 in every dynamic dim: torch.export makes a constant of 0 and 1",
        got=f"an example of shape {tuple(value.shape)}",
        remedy="export with an example of size 2 or more there; the file then takes 1 as well",
    )
