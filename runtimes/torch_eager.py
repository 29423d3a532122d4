"""The PyTorch module itself, run eagerly in the cell's dtype: a second opinion on what that dtype allows.

Evaluation mode, no gradients, a fixed seed, deterministic algorithms, and PyTorch's fused encoder path off:
that path changes what padded positions hold, and no export follows it.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

from onnxparity.case import Subject
from onnxparity.errors import RunError, SubjectError
from onnxparity.protocols import Array, Feeds, Outputs, Placement
from onnxparity.runtimes.feeding import declared_inputs, prepare

__all__ = [
    "DTYPES",
    "TorchSession",
    "arguments",
    "bind",
    "converted",
    "flatten",
    "named",
    "rounded_copy",
    "steady",
    "to_numpy",
]

DTYPES: Mapping[str, torch.dtype] = {
    "float16": torch.float16,
    "bfloat16": torch.bfloat16,
    "float32": torch.float32,
    "float64": torch.float64,
}
SEED = 0


class TorchSession:
    """A module in one dtype, ready to run feeds on the CPU."""

    def __init__(self, module: nn.Module, subject: Subject, dtype: str, *, kwargs: Sequence[str] = ()) -> None:
        """The module is copied and its floating parameters and buffers rounded to `dtype`; yours is left alone.

        kwargs: names of inputs that are passed by keyword; all others are passed in the order of the subject.
        Raises SubjectError for an unknown dtype and for a module that cannot be copied.
        """
        self._module = rounded_copy(module, dtype)
        self._subject = subject
        self._inputs = declared_inputs(subject, dtype)
        self._kwargs = tuple(kwargs)

    def run(self, feeds: Feeds) -> Outputs:
        """Every output under the subject's name, in its own dtype.

        Raises:
            SubjectError: the feeds do not fit, or the module returns another number of tensors than it declares.
            RunError: whatever the module raised.
        """
        args, kwargs = arguments(prepare(self._inputs, feeds), self._kwargs)
        with steady(), deterministic():
            try:
                value = torch.func.functional_call(self._module, self._buffers(), tuple(args), kwargs)
            except Exception as error:  # a module is foreign code: whatever it raises is the result of the run
                raise RunError(f"torch-eager failed: {type(error).__name__}", got=str(error).strip()) from error
        return {name: to_numpy(tensor) for name, tensor in named(self._subject, value).items()}

    def bind(self, feeds: Feeds) -> Callable[[], None]:
        """A call that runs these feeds again on tensors that already exist. Raises as `run`."""
        self.run(feeds)
        args, kwargs = arguments(prepare(self._inputs, feeds), self._kwargs)
        module = self._module

        def call() -> None:
            with steady():
                module(*args, **kwargs)

        return call

    def _buffers(self) -> dict[str, Tensor]:
        """Clones: a module that writes to its buffers must find them at each run as they were."""
        return {name: buffer.clone() for name, buffer in self._module.named_buffers()}

    def placement(self) -> tuple[Placement, ...] | None:
        """PyTorch has no graph whose nodes could be placed."""
        return None


def bind(
    module: nn.Module, subject: Subject, dtype: str, feeds: Feeds, *, threads: int | None = None
) -> Callable[[], None]:
    """A call for timing. threads: for the whole process, so only for a worker of its own; None leaves them alone."""
    if threads is not None:
        torch.set_num_threads(threads)
    return TorchSession(module, subject, dtype).bind(feeds)


def rounded_copy(module: nn.Module, dtype: str) -> nn.Module:
    """A copy in evaluation mode whose floating parameters and buffers are rounded to `dtype`; ties stay ties."""
    if dtype not in DTYPES:
        raise SubjectError(f"torch runs no {dtype!r}", expected=", ".join(DTYPES), got=dtype)
    try:
        copied = copy.deepcopy(module)
    except Exception as error:  # deepcopy runs the module's own code
        raise SubjectError(
            f"{type(module).__name__} cannot be copied",
            got=f"{type(error).__name__}: {error}",
            remedy="keep no handles, generators or non-leaf tensors that need gradients on the module",
        ) from error
    target = DTYPES[dtype]
    return converted(copied, lambda t: t.to(target) if t.is_floating_point() else t).eval()


def converted(module: nn.Module, convert: Callable[[Tensor], Tensor]) -> nn.Module:
    """The module, its parameters and buffers converted in place.

    Module.to would cast complex buffers too, and drop their imaginary part.
    """
    for tensor in (*module.parameters(), *module.buffers()):
        tensor.data = convert(tensor.data)
    return module


def arguments(feeds: Mapping[str, Array], kwargs: Sequence[str]) -> tuple[list[Tensor], dict[str, Tensor]]:
    """Tensors of the module's own, so that it may write to them: by position, and those named by keyword."""
    tensors = {name: _to_tensor(array) for name, array in feeds.items()}
    return [t for n, t in tensors.items() if n not in kwargs], {n: tensors[n] for n in kwargs}


def named(subject: Subject, value: object) -> dict[str, Tensor]:
    """The tensors of a module's return value under the subject's output names, in the order an export has them."""
    tensors, names = flatten(value), [o.name for o in subject.outputs]
    if len(tensors) != len(names):
        raise SubjectError(
            f"{subject.name} returns {len(tensors)} tensors",
            expected=f"{len(names)}: {', '.join(names)}",
            got=f"{type(value).__name__} with {len(tensors)} tensors",
            remedy="declare one output for each tensor, in order",
        )
    return dict(zip(names, tensors, strict=True))


def flatten(value: object) -> list[Tensor]:
    """Every tensor of nested tuples, lists, mappings, dataclasses and registered containers; None is nothing."""
    if isinstance(value, Tensor):
        return [value]
    if value is None:
        return []
    parts: list[object]
    if isinstance(value, Mapping):
        parts = list(value.values())
    elif isinstance(value, (tuple, list)):
        parts = list(value)
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        parts = [getattr(value, f.name) for f in dataclasses.fields(value)]
    else:
        parts = pytree.tree_leaves(value)
        if len(parts) == 1 and parts[0] is value:
            raise SubjectError(
                f"a module returned a {type(value).__name__}", expected="tensors in tuples, lists or mappings"
            )
    return [tensor for part in parts for tensor in flatten(part)]


def to_numpy(tensor: Tensor) -> Array:
    """A copy in NumPy's memory; bfloat16 through ml_dtypes, since NumPy has none."""
    tensor = tensor.detach().cpu().resolve_conj().resolve_neg()
    if tensor.dtype is not torch.bfloat16:
        return np.array(tensor.numpy())
    import ml_dtypes

    return np.array(tensor.contiguous().view(torch.int16).numpy()).view(ml_dtypes.bfloat16)


@contextmanager
def steady() -> Iterator[None]:
    """No gradients, and the fused encoder path off; both as they were before afterwards."""
    before = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        with torch.no_grad():
            yield
    finally:
        torch.backends.mha.set_fastpath_enabled(before)


@contextmanager
def deterministic() -> Iterator[None]:
    """The same random numbers at each run, and deterministic algorithms or an error."""
    before = torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(SEED)
        torch.use_deterministic_algorithms(True)
        try:
            yield
        finally:
            torch.use_deterministic_algorithms(before[0], warn_only=before[1])


def _to_tensor(array: Array) -> Tensor:
    if array.dtype.name == "bfloat16":
        return torch.from_numpy(array.view(np.int16).copy()).view(torch.bfloat16)
    copied: Any = array.copy()  # Any: from_numpy's stub knows no dtype beyond NumPy's own
    return torch.from_numpy(copied)
