"""What a module takes and gives, learned from its example: every tensor by name, its dims, what its values mean.

Flattening follows `torch.export`: arguments in the order of `forward`'s signature, containers in their order,
each tensor named by its path (`cache_0_1`).
"""

from __future__ import annotations

import dataclasses
import inspect
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree  # private by name only: torch.export states its inputs in terms of it

from onnxparity.case import FLOATING, MaskMeaning, TensorSpec
from onnxparity.models.user_dims import Dims
from onnxparity.protocols import Array

__all__ = [
    "Bound",
    "Value",
    "bind",
    "example_feeds",
    "input_constants",
    "input_hints",
    "input_spec",
    "input_tensors",
    "join_path",
    "to_numpy",
    "walk",
]

Value = Any  # Any: a tensor, a number, or whatever container a user nests them in
Spec = Any  # Any: torch.export's own nested structure, parallel to the value
Bound = inspect.BoundArguments


def bind(module: nn.Module, args: Sequence[Value], kwargs: Mapping[str, Value]) -> Bound:
    """The arguments in the order of `forward`'s signature. Raises TypeError where they do not fit it."""
    return inspect.signature(module.forward).bind(*args, **kwargs)


def example_feeds(
    module: nn.Module, args: Sequence[Value], kwargs: Mapping[str, Value] | None = None
) -> dict[str, Array]:
    """The example as NumPy arrays by input name. Raises TypeError where it does not fit `forward`'s signature."""
    tensors = input_tensors(bind(module, args, kwargs or {}))
    return {name: to_numpy(tensor) for name, tensor in tensors.items()}


def to_numpy(tensor: Tensor) -> Array:
    """A copy on the CPU; bfloat16, which NumPy has not, as float32."""
    tensor = tensor.detach().cpu()
    array: Array = (tensor.float() if tensor.dtype is torch.bfloat16 else tensor).numpy().copy()
    return array


def input_tensors(bound: Bound) -> dict[str, Tensor]:
    """Every tensor among the arguments, by name. Numbers and None are no inputs of an exported file."""
    return {name: value for name, value, _ in _leaves(bound, None) if isinstance(value, Tensor)}


def input_constants(bound: Bound) -> dict[str, Value]:
    """Every number, text and the like among the arguments, by name; None is left out."""
    leaves = {name: value for name, value, _ in _leaves(bound, None)}
    return {name: value for name, value in leaves.items() if value is not None and not isinstance(value, Tensor)}


def input_hints(bound: Bound, dynamic_shapes: Spec) -> dict[str, tuple[Spec, ...]]:
    """For every tensor what `dynamic_shapes` says of each dimension; None where it says nothing."""
    return {
        name: tuple(_child(spec, place) for place in range(value.ndim))
        for name, value, spec in _leaves(bound, dynamic_shapes)
        if isinstance(value, Tensor)
    }


def _leaves(bound: Bound, dynamic_shapes: Spec) -> Iterator[tuple[str, Value, Spec]]:
    kinds = {p.name: p.kind for p in bound.signature.parameters.values()}
    by_position = isinstance(dynamic_shapes, tuple | list)
    for position, (argument, value) in enumerate(bound.arguments.items()):
        path = () if kinds[argument] is inspect.Parameter.VAR_KEYWORD else (argument,)
        for names, leaf, spec in walk(value, _child(dynamic_shapes, position if by_position else argument), path):
            yield join_path(names), leaf, spec


def walk(value: Value, spec: Spec, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Value, Spec]]:
    """Depth first through containers: each leaf with its path and with what `spec`, nested alike, holds for it."""
    children = _children(value)
    if children is None:
        yield path, value, spec
        return
    for key, child in children:
        yield from walk(child, _child(spec, key), (*path, str(key)))


def _children(value: Value) -> list[tuple[Value, Value]] | None:
    """Keys and values of a container in the order of its flattening; None for a leaf."""
    if isinstance(value, Mapping):
        return list(value.items())
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return list(zip(value._fields, value, strict=True))
    if isinstance(value, list | tuple):
        return list(enumerate(value))
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return [(f.name, getattr(value, f.name)) for f in dataclasses.fields(value)]
    leaves = pytree.tree_leaves(value)
    return None if len(leaves) == 1 and leaves[0] is value else list(enumerate(leaves))


def _child(spec: Spec, key: Value) -> Spec:
    if isinstance(spec, Mapping):
        return spec.get(key)
    if isinstance(spec, tuple | list) and isinstance(key, int) and key < len(spec):
        return spec[key]
    return None


def join_path(path: Sequence[str]) -> str:
    """('cache', '0', '1') -> cache_0_1, without what a name in a file should not contain."""
    return re.sub(r"\W+", "_", "_".join(path)).strip("_")


def input_spec(name: str, tensor: Tensor, dims: Dims, own: torch.dtype) -> TensorSpec:
    """One input; a floating one of the module's `own` dtype follows the dtype of the cell."""
    values = to_numpy(tensor)
    meaning = _mask_meaning(name, values)
    if tensor.is_floating_point():
        dtype = FLOATING if tensor.dtype in (own, torch.bfloat16) else values.dtype.name
        return TensorSpec(name, dims, dtype, "mask" if meaning else "features", mask_meaning=meaning)
    if meaning:
        return TensorSpec(name, dims, values.dtype.name, "mask", mask_meaning=meaning)
    if values.dtype.kind not in "iu" or not values.size:
        return TensorSpec(name, dims, values.dtype.name, "other")
    return TensorSpec(name, dims, values.dtype.name, "tokens", int(values.min()), int(values.max()))


def _mask_meaning(name: str, values: Array) -> MaskMeaning | None:
    """Masks are told by their name, and what True means by the example where the name's meaning would leave
    more rows with nothing to look at: torch.nn's `attn_mask` drops where True, the functional one keeps."""
    word = name.lower()
    if not ("mask" in word or ("pad" in word and values.dtype == np.bool_)):
        return None
    binary = bool(np.isin(values, (0, 1)).all())
    if values.dtype.kind == "f" and not (binary and values.any()):
        return "additive"
    if not binary:
        return None
    kept = values.astype(bool)
    by_name: MaskMeaning = "drop" if "pad" in word else "keep"
    empty = {"keep": _empty_rows(kept), "drop": _empty_rows(~kept)}
    other: MaskMeaning = "keep" if by_name == "drop" else "drop"
    return other if empty[other] < empty[by_name] else by_name


def _empty_rows(kept: Array) -> int:
    return int((~kept.any(axis=-1)).sum()) if kept.ndim else 0
