"""A PyTorch module evaluated truly in float64, also where its code insists on less.

`.double()` leaves the float32 islands that many models carry (rotary tables, softmax, norms); `torch_widen`
widens them. Weights are rounded to the cell's dtype first, so that a float16 cell is compared with the weights
it really has.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set

import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

from onnxparity.case import Subject
from onnxparity.errors import RunError
from onnxparity.protocols import Array, Feeds, Outputs, Placement, Visit
from onnxparity.runtimes import torch_noise
from onnxparity.runtimes.feeding import declared_inputs, prepare
from onnxparity.runtimes.fingerprint import fingerprint
from onnxparity.runtimes.torch_eager import arguments, converted, named, rounded_copy, to_numpy
from onnxparity.runtimes.torch_trace import Number, TraceCalls, module_stack
from onnxparity.runtimes.torch_widen import WidenOperators, float64_mode, wide

__all__ = ["TorchFloat64Session"]

UNIT_ROUNDOFF = {"float64": 2.0**-53, "float32": 2.0**-24, "float16": 2.0**-11, "bfloat16": 2.0**-8}


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

    def trace(self, feeds: Feeds, visit: Visit, number: Number = lambda *_: None) -> Outputs:
        """As `run`, and shows every operator call on the way (see `protocols.TracingSession`, `torch_trace`).

        number: called, before the call is shown, with each Python number that it is given.
        """
        tensors = self._tensors(feeds)
        leaves = {**dict(self._module.named_parameters()), **dict(self._module.named_buffers())}
        with module_stack(self._module) as modules:
            mode = TraceCalls(self._module, {**tensors, **leaves}, modules, visit, number)
            outputs = self._call(tensors, {}, mode)
        return {name: to_numpy(tensor) for name, tensor in outputs.items()}

    def weights(self) -> Iterator[tuple[str, Array]]:
        """Floating parameters and buffers by name, in float64, with the values that the dtype under test holds."""
        return ((name, to_numpy(tensor)) for name, tensor in self._weights().items())

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
        return {i.name: wide(t) for i, t in zip(self._inputs, args, strict=True)}

    def _weights(self) -> dict[str, Tensor]:
        held = (*self._module.named_parameters(), *self._module.named_buffers())
        return {name: tensor.detach() for name, tensor in held if tensor.is_floating_point()}

    def _call(
        self, tensors: Mapping[str, Tensor], weights: Mapping[str, Tensor], mode: WidenOperators | None
    ) -> dict[str, Tensor]:
        """Outputs by name with these inputs, and these weights in the place of the module's own."""
        with float64_mode(self._dtype, mode):
            # a module that writes to its inputs or buffers must find them as they were at the next call
            args = [t.clone() for n, t in tensors.items() if n not in self._kwargs]
            kwargs = {n: tensors[n].clone() for n in self._kwargs}
            buffers = {n: weights.get(n, b).clone() for n, b in self._module.named_buffers()}
            held = {**weights, **buffers}
            try:
                value = torch.func.functional_call(self._module, held, tuple(args), kwargs)
            except Exception as error:  # a module is foreign code: whatever it raises is the result of the run
                raise RunError(f"torch-float64 failed: {type(error).__name__}", got=str(error).strip()) from error
        return {name: wide(tensor) for name, tensor in named(self._subject, value).items()}


def _widened(module: nn.Module) -> nn.Module:
    """In float64, tensors that are plain attributes included."""
    for part in module.modules():
        for name, value in list(vars(part).items()):
            holds = any(isinstance(leaf, Tensor) for leaf in pytree.tree_leaves(value))
            if holds and not name.startswith("_"):
                setattr(part, name, pytree.tree_map_only(Tensor, wide, value))
    return converted(module, wide)
