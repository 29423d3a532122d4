"""Every operator call of a module in float64, as it comes: its results, its module, the user's own line.

Works below the dispatcher, where `F.linear` is `addmm` and attention is its plain mathematics; operators that do
several steps inside (a softmax, a layer norm, a product with a bias) are shown in parts too, since an ONNX file may
hold them in parts. Nothing is held: tensors are known by weak references.
"""

from __future__ import annotations

import linecache
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.multiprocessing import reductions
from torch.utils.weak import WeakIdKeyDictionary

from onnxparity.location import Node
from onnxparity.protocols import Array, Visit
from onnxparity.runtimes.node_metadata import Frame, innermost, is_library, is_own, shortest_paths, written
from onnxparity.runtimes.torch_eager import to_numpy
from onnxparity.runtimes.torch_operators import WHOLE, base_name
from onnxparity.runtimes.torch_widen import WidenOperators, each

__all__ = ["Number", "TraceCalls", "module_stack"]

Number = Callable[[Node, str, Array], None]
"""Takes an operator call, the name of an argument and the Python number that was given for it."""
Stack = list[str]
StorageWeakRef: Any = reductions.StorageWeakRef  # Any: torch does not type it
HERE = str(Path(__file__).parent)
CALLER = "torch_float64.py"
"""The file of the frame below which everything belongs to the module."""
aten: Any = torch.ops.aten  # Any: a namespace that is filled at run time
PARTS: dict[Any, Callable[..., Any]] = WHOLE | {  # Any: torch._ops.OpOverload, and each its own return type
    aten.addmm.default: lambda bias, a, b, **_: aten.mm(a, b),
    aten.baddbmm.default: lambda bias, a, b, **_: aten.bmm(a, b),
}
"""What else is computed inside an operator."""
NUMBERS = ("Tensor", "number", "float", "Optional[float]")
"""Types of arguments, as schemas call them, for which a Python number enters the computation."""


class TraceCalls(WidenOperators):  # type: ignore[no-untyped-call]  # torch does not type its modes
    """Shows each call, numbered in the order of execution."""

    def __init__(
        self, module: nn.Module, leaves: Mapping[str, Tensor], modules: Stack, visit: Visit, number: Number
    ) -> None:
        """leaves: the tensors that the call starts from, by the names that they shall go by."""
        super().__init__()
        self._modules, self._visit, self._number = modules, visit, number
        self._files = dict.fromkeys(_files(module))
        self._short = shortest_paths(self._files)
        self._names: Any = WeakIdKeyDictionary()  # Any: torch does not type it
        self._writes: dict[int, tuple[Any, list[str]]] = {}
        self._count = 0
        self._told: dict[str, bool] = {}
        for name, tensor in leaves.items():
            self._names[tensor] = name

    def execute(self, func: Any, args: Any, kwargs: Any) -> Any:
        """Runs the operator, shows its parts and then itself; types as in `WidenOperators`."""
        if func in PARTS:
            with self:
                PARTS[func](*args, **kwargs)
        inputs = tuple(dict.fromkeys(n for t in _tensors((args, kwargs)) for n in self._known(t)))
        out = func(*args, **kwargs)
        results = [t for t in _tensors(out) if t.numel()]
        if results:
            self._show(func, args, kwargs, inputs, results)
        return out

    def _show(self, func: Any, args: Any, kwargs: Any, inputs: tuple[str, ...], results: list[Tensor]) -> None:
        self._count += 1
        name = f"{base_name(func)}_{self._count}"
        outputs = tuple(name if len(results) == 1 else f"{name}:{k}" for k in range(len(results)))
        module = self._modules[-1] if self._modules else ""
        node = Node(str(func), name, inputs, outputs, module, self._line())
        for given, value in _numbers(func, args, kwargs):
            self._number(node, given, np.asarray(value, np.float64))
        for output, tensor in zip(outputs, results, strict=True):
            self._names[tensor] = output
            if func._schema.is_mutable:
                self._wrote(tensor, output)
        self._visit(node, [to_numpy(t) for t in results])

    def _known(self, tensor: Tensor) -> Iterator[str]:
        """What the tensor goes by, and what was written into its memory through a view."""
        if tensor in self._names:
            yield self._names[tensor]
        held, names = self._writes.get(_address(tensor), (None, []))
        if held is not None and not held.expired():
            yield from names

    def _wrote(self, tensor: Tensor, name: str) -> None:
        address = _address(tensor)
        held, names = self._writes.get(address, (None, []))
        alive = held is not None and not held.expired()
        self._writes[address] = (StorageWeakRef(tensor.untyped_storage()), [*(names if alive else ()), name])

    def _line(self) -> str:
        """The user's own lines in the innermost module, see `node_metadata.innermost`."""
        frames: list[Frame] = []
        frame: FrameType | None = sys._getframe(1)
        while frame is not None and not frame.f_code.co_filename.endswith(CALLER):
            if self._is_told(frame.f_code.co_filename):
                frames.append(_frame(frame))
            frame = frame.f_back
        own = innermost(frames[::-1])
        for path in {f.path for f in own} - self._short.keys():
            self._files[path] = None
            self._short = shortest_paths(self._files)
        return written(own, self._short)

    def _is_told(self, path: str) -> bool:
        if path not in self._told:
            self._told[path] = not path.startswith(HERE) and (is_own(path) or is_library(path))
        return self._told[path]


@contextmanager
def module_stack(module: nn.Module) -> Iterator[Stack]:
    """Names of the modules that are being called, the innermost last."""
    stack: Stack = []
    handles = []
    for name, part in module.named_modules():
        handles.append(part.register_forward_pre_hook(lambda *_, name=name: stack.append(name)))
        handles.append(part.register_forward_hook(lambda *_: _left(stack), always_call=True))
    try:
        yield stack
    finally:
        for handle in handles:
            handle.remove()


def _left(stack: Stack) -> None:
    stack.pop()


def _numbers(func: Any, args: Any, kwargs: Any) -> Iterator[tuple[str, float]]:
    """Python numbers among the arguments that values are computed with, and not sizes or dims."""
    for place, argument in enumerate(func._schema.arguments):
        value = args[place] if place < len(args) else kwargs.get(argument.name)
        if isinstance(value, (int, float)) and not isinstance(value, bool) and str(argument.type) in NUMBERS:
            yield argument.name, float(value)


def _frame(frame: FrameType) -> Frame:
    path, line = frame.f_code.co_filename, frame.f_lineno
    return Frame(path, line, frame.f_code.co_name, linecache.getline(path, line))


def _files(module: nn.Module) -> Iterator[str]:
    """Where the classes of its parts are written."""
    for part in module.modules():
        path = getattr(sys.modules.get(type(part).__module__), "__file__", None)
        if path and (is_own(path) or is_library(path)):
            yield path


def _tensors(value: Any) -> list[Tensor]:  # Any: an operator's arguments or results
    found: list[Tensor] = []
    each(lambda leaf: found.append(leaf) if isinstance(leaf, Tensor) else None, value)
    return found


def _address(tensor: Tensor) -> int:
    return tensor.untyped_storage().data_ptr()
