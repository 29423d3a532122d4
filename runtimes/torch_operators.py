"""How each ATen operator rounds: not at all, relative to its result, or relative to what it summed.

Operators that do several roundings inside are taken apart here, so that cancellation inside them is seen.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

__all__ = ["DECIDES", "MOVES", "WHOLE", "base_name", "decides", "magnitude", "moves"]


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


MOVES = _names(
    """
    _conj_physical _to_copy _unsafe_view abs alias_copy amax amin arange bernoulli cat ceil clamp clamp_max clamp_min
    clone complex constant_pad_nd copy copysign detach_copy diag_embed diagonal_copy dropout embedding empty
    empty_like empty_strided expand_copy eye fill flip floor full full_like gather hardtanh imag index index_copy
    index_fill index_put index_select kthvalue lift_fresh_copy masked_fill masked_scatter masked_select
    max max_pool2d_with_indices maximum median min minimum nan_to_num native_dropout neg new_empty new_empty_strided
    new_full new_ones new_zeros ones ones_like permute_copy rand rand_like randn randn_like real relu repeat
    repeat_interleave replication_pad1d roll round scalar_tensor scatter select_copy select_scatter sign slice_copy
    slice_scatter sort split_copy squeeze_copy stack t_copy take threshold topk transpose_copy tril triu trunc
    unfold_copy unsafe_chunk unsafe_split unsafe_split_with_sizes unsqueeze_copy view_copy where zero zeros zeros_like
    """
)
"""Carry values and round nothing. Creation belongs here: what it makes is exact, or a constant of the code."""

DECIDES = _names(
    """
    _local_scalar_dense bitwise_not bucketize ceil eq floor floor_divide fmod ge gt is_nonzero isin le logical_and
    logical_not logical_or lt ne nonzero remainder round searchsorted trunc
    """
)
"""Turn values into structure: near a step, the smallest movement would change everything."""

SUMS = _names(
    """
    addbmm addmm addmv baddbmm bmm convolution cumsum dot linear matmul mean mkldnn_linear mm mv nansum
    slow_conv_dilated2d sum vdot
    """
)
"""Add up products or values: the rounding goes with what was added, however much of it cancels."""

LOWEST = -1e300
"""Below any score; -inf minus this is still -inf, where -inf minus -inf is NaN."""

Operator = Any  # Any: torch._ops.OpOverload, whose attributes torch does not type


def base_name(func: Operator) -> str:
    """`addmm` for aten.addmm.default, aten.addmm_.default and aten.addmm.out."""
    return str(func._schema.name).rpartition("::")[2].rstrip("_")


def moves(func: Operator, kwargs: dict[str, Any]) -> bool:
    """Whether an operator that is no view only carries values."""
    name = base_name(func)
    adds_up = name == "index_put" and kwargs.get("accumulate", False)
    return name in MOVES and not adds_up


def decides(func: Operator, out: object) -> bool:
    """Whether the operator turns floating values into structure."""
    to_whole = base_name(func) == "_to_copy" and isinstance(out, Tensor) and not floating(out)
    return to_whole or base_name(func) in DECIDES


def floating(value: object) -> bool:
    """A tensor of floats or of complex floats."""
    return isinstance(value, Tensor) and (value.is_floating_point() or value.is_complex())


def magnitude(func: Operator, args: Sequence[Any], kwargs: dict[str, Any], out: Tensor) -> Tensor | None:
    """|A||B| for products, Σ|x| for sums, |x| for GELU (which computes 1+erf), by element; None for all others."""
    name = base_name(func)
    if name == "gelu":
        return args[0].abs()  # type: ignore[no-any-return]  # an operator's arguments are untyped
    if name not in SUMS or func._schema.is_mutable or out.is_complex():
        return None
    signs = {k: abs(v) if k in ("alpha", "beta") else v for k, v in kwargs.items()}
    sizes = [a.abs() if floating(a) else a for a in args]
    return func(*sizes, **signs)  # type: ignore[no-any-return]  # an operator's result is untyped


def softmax(x: Tensor, dim: int, half_to_float: bool = False) -> Tensor:
    """exp(x - max) / sum, one rounding at a time."""
    exponential = (x - x.amax(dim, keepdim=True)).exp()
    return exponential / exponential.sum(dim, keepdim=True)


def safe_softmax(x: Tensor, dim: int, dtype: torch.dtype | None = None) -> Tensor:
    """As softmax, where a row of -inf alone gives zeros; without a comparison, which would look like structure."""
    exponential = (x - x.amax(dim, keepdim=True).clamp(min=LOWEST)).exp()
    return exponential / exponential.sum(dim, keepdim=True).clamp(min=0.5)


def log_softmax(x: Tensor, dim: int, half_to_float: bool = False) -> Tensor:
    """x - max - log(sum(exp(x - max)))."""
    shifted = x - x.amax(dim, keepdim=True)
    return shifted - shifted.exp().sum(dim, keepdim=True).log()


def layer_norm(
    x: Tensor, shape: Sequence[int], weight: Tensor | None, bias: Tensor | None, eps: float
) -> tuple[Tensor, Tensor, Tensor]:
    """(x - mean) / sqrt(var + eps) * weight + bias over the last len(shape) axes; with the mean and 1/sqrt."""
    axes = list(range(-len(shape), 0))
    mean = x.mean(axes, keepdim=True)
    centred = x - mean
    inverse = (centred.square().mean(axes, keepdim=True) + eps).rsqrt()
    y = centred * inverse
    y = y if weight is None else y * weight
    return (y if bias is None else y + bias), mean, inverse


aten: Any = torch.ops.aten  # Any: a namespace that is filled at run time
WHOLE: dict[Operator, Callable[..., Any]] = {  # Any: each has its operator's own return type
    aten._softmax.default: softmax,
    aten._safe_softmax.default: safe_softmax,
    aten._log_softmax.default: log_softmax,
    aten.native_layer_norm.default: layer_norm,
}
"""Operators that are taken apart."""
