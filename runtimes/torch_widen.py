"""The modes under which a PyTorch module computes in float64 whatever its code insists on.

One mode works on Python calls, where dtypes are named, and one below the dispatcher, where casts, creation
functions, autocast and TorchScript end up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from onnxparity.runtimes.torch_eager import DTYPES, deterministic, steady

__all__ = ["WidenOperators", "each", "float64_mode", "wide"]

WIDE = {
    torch.float32: torch.float64,
    torch.float16: torch.float64,
    torch.bfloat16: torch.float64,
    torch.complex64: torch.complex128,
    torch.complex32: torch.complex128,
}
RMS_NORMS = frozenset({F.rms_norm, torch.rms_norm})
RMS_EPSILON = torch.finfo(torch.float32).eps
"""What rms_norm takes for an epsilon of None in any dtype up to float32 (seen with torch 2.13)."""


@contextmanager
def float64_mode(dtype: str, operators: WidenOperators | None = None) -> Iterator[None]:
    """Inside, narrow floats are float64: those that code creates, casts to, or brings along.

    operators: a mode that widens and does more; None for one that only widens.

    `torch.finfo` of a float64 tensor answers for `dtype`, because masks are filled with its smallest value and
    an export holds that value. Attention runs as plain mathematics. Everything is as before afterwards.
    """
    default, finfo = torch.get_default_dtype(), torch.finfo
    torch.set_default_dtype(torch.float64)
    torch.finfo = _finfo_of(dtype)  # type: ignore[assignment,misc]  # a function in the place of a class
    try:
        with ExitStack() as stack:
            for context in (steady(), deterministic(), sdpa_kernel(SDPBackend.MATH), WidenCalls()):
                stack.enter_context(context)
            stack.enter_context(operators or WidenOperators())
            yield
    finally:
        torch.finfo = finfo  # type: ignore[misc]  # puts the class back
        torch.set_default_dtype(default)


class WidenCalls(TorchFunctionMode):
    """Widens the dtypes that Python code names, before values are rounded to them."""

    def __torch_function__(
        self,
        func: Any,  # Any: any callable of torch's
        types: Any,  # Any: fixed by the base class
        args: Any = (),  # Any: whatever the callable takes
        kwargs: Any = None,
    ) -> Any:
        kwargs = dict(kwargs or {})
        if func in RMS_NORMS and len(args) < 4 and kwargs.get("eps") is None:
            kwargs["eps"] = RMS_EPSILON
        elif func in RMS_NORMS and len(args) == 4 and args[3] is None:
            args = (*args[:3], RMS_EPSILON)
        return func(*map(_wide_dtype, args), **{name: _wide_dtype(value) for name, value in kwargs.items()})


class WidenOperators(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch does not type its modes
    """Widens the dtypes and tensors that reach an operator, whoever asked for it."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # as above

    def __torch_dispatch__(
        self,
        func: Any,  # Any: torch._ops.OpOverload
        types: Any,  # Any: fixed by the base class
        args: Any = (),  # Any: whatever the operator takes
        kwargs: Any = None,
    ) -> Any:
        args, kwargs = each(_wide_dtype, tuple(args)), each(_wide_dtype, kwargs or {})
        # a view of a copy, or a write to it, would be lost on the tensor that it was taken from
        if not any(argument.alias_info is not None for argument in func._schema.arguments):
            args, kwargs = each(_wide_value, args), each(_wide_value, kwargs)
        return self.execute(func, args, kwargs)

    def execute(self, func: Any, args: Any, kwargs: Any) -> Any:
        """Runs the operator; types as in `__torch_dispatch__`."""
        return func(*args, **kwargs)


def each(change: Callable[[Any], Any], value: Any) -> Any:  # Any: an operator's arguments
    """The same tuples, lists and dicts with every leaf changed; an operator's arguments hold nothing else."""
    if isinstance(value, tuple):
        return tuple(each(change, part) for part in value)
    if isinstance(value, list):
        return [each(change, part) for part in value]
    if isinstance(value, dict):
        return {name: each(change, part) for name, part in value.items()}
    return change(value)


def wide(tensor: Tensor) -> Tensor:
    """In float64 or complex128, where it is a narrower float."""
    target = WIDE.get(tensor.dtype)
    return tensor if target is None else tensor.to(target)


def _wide_value(value: Any) -> Any:  # Any: any argument; only tensors change
    return wide(value) if isinstance(value, Tensor) else value


def _wide_dtype(value: Any) -> Any:  # Any: any argument; only dtypes change
    return WIDE.get(value, value) if isinstance(value, torch.dtype) else value


def _finfo_of(dtype: str) -> Callable[..., torch.finfo]:
    real, narrow = torch.finfo, DTYPES[dtype]

    def finfo(type: torch.dtype | None = None) -> torch.finfo:  # noqa: A002 - torch's own name for it
        return real(narrow if type in (None, torch.float64) else type)

    return finfo
