"""A PyTorch module evaluated truly in float64, also where its code insists on less.

`.double()` leaves the float32 islands that many models carry (rotary tables, softmax, norms). Two modes widen
them: one on Python calls, where dtypes are named, and one below the dispatcher, where casts, creation
functions, autocast and TorchScript end up. Weights are rounded to the cell's dtype first, so that a float16
cell is compared with the weights it really has.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from contextlib import ExitStack, contextmanager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from onnxparity.case import Subject
from onnxparity.errors import RunError
from onnxparity.protocols import Feeds, Outputs, Placement
from onnxparity.runtimes import torch_noise
from onnxparity.runtimes.feeding import declared_inputs, prepare
from onnxparity.runtimes.fingerprint import fingerprint
from onnxparity.runtimes.torch_eager import (
    DTYPES,
    arguments,
    converted,
    deterministic,
    named,
    rounded_copy,
    steady,
    to_numpy,
)

__all__ = ["TorchFloat64Session", "float64_mode"]

WIDE = {
    torch.float32: torch.float64,
    torch.float16: torch.float64,
    torch.bfloat16: torch.float64,
    torch.complex64: torch.complex128,
    torch.complex32: torch.complex128,
}
UNIT_ROUNDOFF = {"float64": 2.0**-53, "float32": 2.0**-24, "float16": 2.0**-11, "bfloat16": 2.0**-8}
RMS_NORMS = frozenset({F.rms_norm, torch.rms_norm})
RMS_EPSILON = torch.finfo(torch.float32).eps
"""What rms_norm takes for an epsilon of None in any dtype up to float32 (seen with torch 2.13)."""


class TorchFloat64Session:
    """A module in float64 whose weights are rounded to one dtype; says how large honest rounding in that dtype is."""

    def __init__(self, module: nn.Module, subject: Subject, dtype: str, *, kwargs: Sequence[str] = ()) -> None:
        """Arguments and errors as for `torch_eager.TorchSession`."""
        self._dtype = dtype
        self._module = _widened(rounded_copy(module, dtype))
        self._subject = subject
        self._inputs = declared_inputs(subject, dtype)
        self._kwargs = tuple(kwargs)
        self.unit_roundoff = UNIT_ROUNDOFF[dtype]

    def run(self, feeds: Feeds) -> Outputs:
        """Every output by name, floats in float64. Raises SubjectError and RunError as `torch_eager.TorchSession`."""
        outputs = self._call(self._tensors(feeds), {}, None)
        return {name: to_numpy(tensor) for name, tensor in outputs.items()}

    def noise(self, feeds: Feeds, *, draws: int, seed: int) -> Outputs:
        """Honest rounding of the dtype under test per output vector (see `torch_noise`); raises as `run`."""
        return self._noise(feeds, draws, seed, None)

    def fingerprints(self) -> frozenset[str]:
        """Content hashes of the floating parameters and buffers, as the dtype under test holds them."""
        return frozenset(fingerprint(to_numpy(w)) for w in self._weights().values())

    def constant_noise(self, feeds: Feeds, *, shared: frozenset[str], draws: int, seed: int) -> Outputs:
        """As `noise`, where only parameters and buffers whose fingerprint is not in `shared` move.

        Numbers written in the module's Python code are exact here and do not move: an export stores them
        rounded, and it is on its side that they move.
        """
        own = {n for n, w in self._weights().items() if fingerprint(to_numpy(w)) not in shared}
        return self._noise(feeds, draws, seed, own)

    def placement(self) -> tuple[Placement, ...] | None:
        """PyTorch has no graph whose nodes could be placed."""
        return None

    def _noise(self, feeds: Feeds, draws: int, seed: int, only: Set[str] | None) -> Outputs:
        parameters = {name for name, _ in self._module.named_parameters()}
        return torch_noise.noise(
            self._call,
            self._tensors(feeds),
            self._weights(),
            parameters=parameters,
            u=self.unit_roundoff,
            draws=draws,
            seed=seed,
            only=only,
        )

    def _tensors(self, feeds: Feeds) -> dict[str, Tensor]:
        args, _ = arguments(prepare(self._inputs, feeds), ())
        return {i.name: _wide(t) for i, t in zip(self._inputs, args, strict=True)}

    def _weights(self) -> dict[str, Tensor]:
        held = (*self._module.named_parameters(), *self._module.named_buffers())
        return {name: tensor.detach() for name, tensor in held if tensor.is_floating_point()}

    def _call(
        self, tensors: Mapping[str, Tensor], weights: Mapping[str, Tensor], mode: TorchDispatchMode | None
    ) -> dict[str, Tensor]:
        """Outputs by name with these inputs, and these weights in the place of the module's own."""
        with float64_mode(self._dtype), mode or nullcontext():
            # a module that writes to its inputs or buffers must find them as they were at the next call
            args = [t.clone() for n, t in tensors.items() if n not in self._kwargs]
            kwargs = {n: tensors[n].clone() for n in self._kwargs}
            buffers = {n: weights.get(n, b).clone() for n, b in self._module.named_buffers()}
            held = {**weights, **buffers}
            try:
                value = torch.func.functional_call(self._module, held, tuple(args), kwargs)
            except Exception as error:  # a module is foreign code: whatever it raises is the result of the run
                raise RunError(f"torch-float64 failed: {type(error).__name__}", got=str(error).strip()) from error
        return {name: _wide(tensor) for name, tensor in named(self._subject, value).items()}


@contextmanager
def float64_mode(dtype: str) -> Iterator[None]:
    """Inside, narrow floats are float64: those that code creates, casts to, or brings along.

    `torch.finfo` of a float64 tensor answers for `dtype`, because masks are filled with its smallest value and
    an export holds that value. Attention runs as plain mathematics. Everything is as before afterwards.
    """
    default, finfo = torch.get_default_dtype(), torch.finfo
    torch.set_default_dtype(torch.float64)
    torch.finfo = _finfo_of(dtype)  # type: ignore[assignment,misc]  # a function in the place of a class
    try:
        with ExitStack() as stack:
            operators = WidenOperators()  # type: ignore[no-untyped-call]  # as above
            for context in (steady(), deterministic(), sdpa_kernel(SDPBackend.MATH), WidenCalls(), operators):
                stack.enter_context(context)
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

    def __torch_dispatch__(
        self,
        func: Any,  # Any: torch._ops.OpOverload
        types: Any,  # Any: fixed by the base class
        args: Any = (),  # Any: whatever the operator takes
        kwargs: Any = None,
    ) -> Any:
        args, kwargs = pytree.tree_map(_wide_dtype, (args, kwargs or {}))
        # a view of a copy, or a write to it, would be lost on the tensor that it was taken from
        if not any(argument.alias_info is not None for argument in func._schema.arguments):
            args, kwargs = pytree.tree_map_only(Tensor, _wide, (args, kwargs))
        return func(*args, **kwargs)


def _widened(module: nn.Module) -> nn.Module:
    """In float64, tensors that are plain attributes included."""
    for part in module.modules():
        for name, value in list(vars(part).items()):
            holds = any(isinstance(leaf, Tensor) for leaf in pytree.tree_leaves(value))
            if holds and not name.startswith("_"):
                setattr(part, name, pytree.tree_map_only(Tensor, _wide, value))
    return converted(module, _wide)


def _wide(tensor: Tensor) -> Tensor:
    target = WIDE.get(tensor.dtype)
    return tensor if target is None else tensor.to(target)


def _wide_dtype(value: Any) -> Any:  # Any: any argument; only dtypes change
    return WIDE.get(value, value) if isinstance(value, torch.dtype) else value


def _finfo_of(dtype: str) -> Callable[..., torch.finfo]:
    real, narrow = torch.finfo, DTYPES[dtype]

    def finfo(type: torch.dtype | None = None) -> torch.finfo:  # noqa: A002 - torch's own name for it
        return real(narrow if type in (None, torch.float64) else type)

    return finfo
