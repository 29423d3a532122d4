"""ONNX Runtime sessions: one way to open, feed, bind and ask for placements, shared by CPU and CUDA.

Nothing here falls back: a session runs on the providers it was opened with, or it is an error.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any, Literal

import numpy as np
import onnxruntime
from onnxruntime.capi import onnxruntime_pybind11_state as native

from onnxparity.artifact import Artifact, FileInput
from onnxparity.protocols import Array, Feeds, Outputs, Placement
from onnxparity.runtimes.feeding import prepare
from onnxparity.runtimes.ort_errors import load_error, run_error

__all__ = ["CPU", "LEVELS", "Level", "OrtSession", "Provider", "open_session"]

CPU = "CPUExecutionProvider"
Level = Literal["all", "extended", "basic", "disabled"]
LEVELS: Mapping[Level, str] = {
    "all": "ORT_ENABLE_ALL",
    "extended": "ORT_ENABLE_EXTENDED",
    "basic": "ORT_ENABLE_BASIC",
    "disabled": "ORT_DISABLE_ALL",
}
Provider = str | tuple[str, Mapping[str, str]]

FATAL_ONLY, INFO = 4, 1
FOREIGN = {"bfloat16": 16, "float8_e4m3fn": 17, "float8_e4m3fnuz": 18, "float8_e5m2": 19, "float8_e5m2fnuz": 20}
"""Dtypes that NumPy itself does not have, with their numbers in TensorProto.DataType."""
DTYPES = {"float": "float32", "double": "float64", "string": "str"}
DTYPES |= {name.replace("_", ""): name for name in FOREIGN}
"""ONNX Runtime's element names, where they are not NumPy's."""
# ONNX Runtime's exceptions derive from Exception one by one and share no base class of their own.
ERRORS: tuple[type[Exception], ...] = (
    RuntimeError,
    ValueError,
    *(kind for kind in vars(native).values() if isinstance(kind, type) and issubclass(kind, Exception)),
)


class OrtSession:
    """An artifact loaded by ONNX Runtime."""

    def __init__(
        self,
        session: Any,  # Any: onnxruntime.InferenceSession, which carries no types
        *,
        runtime: str,
        options: Mapping[str, object],
        device: tuple[str, int] = ("cpu", 0),
    ) -> None:
        """options: what the session was opened with, for the record. device: where inputs and outputs lie."""
        self._session = session
        self._runtime = runtime
        self._device = device
        self.options = dict(options)
        self.providers: tuple[str, ...] = tuple(session.get_providers())
        self.inputs: tuple[FileInput, ...] = tuple(map(_declared, session.get_inputs()))
        self.outputs: tuple[FileInput, ...] = tuple(map(_declared, session.get_outputs()))
        self._placement = _placement(session)

    def run(self, feeds: Feeds) -> Outputs:
        """Every output by name, in its own dtype.

        Raises:
            SubjectError: the feeds do not fit the file's inputs.
            RunError: with ONNX Runtime's own first line, the node it names, and a remedy where one is known.
        """
        binding, kept = self._run_bound(feeds)
        names = [o.name for o in self.outputs]
        if self._output_device == self._device and self._device[0] != "cpu":
            arrays = binding.copy_outputs_to_cpu()
        else:
            arrays = [_array(value) for value in binding.get_outputs()]
        del kept
        return dict(zip(names, arrays, strict=True))

    def bind(self, feeds: Feeds) -> Callable[[], None]:
        """A call that runs these feeds again and allocates neither inputs nor outputs.

        It returns when the outputs are written, on CUDA too, where they stay on the device. Raises as `run`.
        """
        binding, kept = self._run_bound(feeds)
        values = binding.get_outputs()
        for output, value in zip(self.outputs, values, strict=True):
            binding.bind_ortvalue_output(output.name, value)
        run = partial(self._session.run_with_iobinding, binding)

        def call(_alive: object = (kept, values)) -> None:
            run()

        return call

    def placement(self) -> tuple[Placement, ...] | None:
        """Where each node runs, as the partitioner recorded it; None where this ONNX Runtime does not record it."""
        return self._placement

    @property
    def _output_device(self) -> tuple[str, int]:
        """NumPy lacks some dtypes, so such outputs are read from host memory, where a pointer can be followed."""
        return ("cpu", 0) if any(o.dtype in FOREIGN for o in self.outputs) else self._device

    def _run_bound(self, feeds: Feeds) -> tuple[Any, list[Any]]:  # Any: onnxruntime.IOBinding and OrtValue
        """The binding after one run, and the values that must outlive it."""
        arrays = prepare(self.inputs, feeds)
        try:
            binding = self._session.io_binding()
            values = {name: _value(array, self._device) for name, array in arrays.items()}
            for name, value in values.items():
                binding.bind_ortvalue_input(name, value)
            for output in self.outputs:
                binding.bind_output(output.name, *self._output_device)
            self._session.run_with_iobinding(binding)
        except ERRORS as error:
            raise run_error(self._runtime, error) from error
        return binding, [*values.values(), *arrays.values()]


def open_session(
    artifact: Artifact,
    *,
    runtime: str,
    providers: Sequence[Provider],
    level: Level = "all",
    intra_op_threads: int = 1,
    inter_op_threads: int = 1,
    disabled: Collection[str] = (),
    verbose: bool = False,
    optimized_to: str = "",
) -> tuple[Any, dict[str, object]]:  # Any: onnxruntime.InferenceSession, which carries no types
    """The session and what it was opened with. Raises LoadError where ONNX Runtime refuses the file.

    disabled: graph optimisers that are left out (see `ort_optimizers`). verbose: logs at level INFO.
    optimized_to: a file for the graph as it is run; empty for none.
    """
    options = onnxruntime.SessionOptions()
    options.log_severity_level = INFO if verbose else FATAL_ONLY
    options.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, LEVELS[level])
    if optimized_to:
        options.optimized_model_filepath = optimized_to
    options.intra_op_num_threads, options.inter_op_num_threads = intra_op_threads, inter_op_threads
    options.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
    try:
        # enable_fallback: without it a provider that fails is replaced by the CPU, with a line on stdout
        session = onnxruntime.InferenceSession(
            artifact.path,
            options,
            providers=list(providers),
            enable_fallback=0,
            disabled_optimizers=sorted(disabled) or None,
        )
    except ERRORS as error:
        raise load_error(runtime, artifact, error) from error
    recorded: dict[str, object] = {
        "graph_optimization_level": level,
        "intra_op_threads": intra_op_threads,
        "inter_op_threads": inter_op_threads,
        "providers": {name: dict(given) for name, given in session.get_provider_options().items()},
    }
    return session, recorded


def _declared(node: Any) -> FileInput:  # Any: onnxruntime.NodeArg
    element = str(node.type).removeprefix("tensor(").removesuffix(")")
    dims = tuple(d if isinstance(d, int) or d else None for d in node.shape)
    return FileInput(str(node.name), DTYPES.get(element, element), dims)


def _placement(session: Any) -> tuple[Placement, ...] | None:  # Any: onnxruntime.InferenceSession
    ask = getattr(session, "get_provider_graph_assignment_info", None)  # ONNX Runtime 1.24 and later
    if ask is None:
        return None
    return tuple(
        Placement(str(node.name), _operator(node), str(part.ep_name)) for part in ask() for node in part.get_nodes()
    )


def _operator(node: Any) -> str:  # Any: onnxruntime.OrtEpAssignedNode
    return f"{node.domain}:{node.op_type}" if node.domain else str(node.op_type)


def _value(array: Array, device: tuple[str, int]) -> Any:  # Any: onnxruntime.OrtValue
    if array.dtype.name in FOREIGN:
        bits = array.view(f"uint{8 * array.dtype.itemsize}")
        return onnxruntime.OrtValue.ortvalue_from_numpy_with_onnx_type(bits, FOREIGN[array.dtype.name])
    return onnxruntime.OrtValue.ortvalue_from_numpy(array, *device)


def _array(value: Any) -> Array:  # Any: onnxruntime.OrtValue
    """A copy of a value in host memory."""
    element = str(value.data_type()).removeprefix("tensor(").removesuffix(")")
    name = DTYPES.get(element, element)
    if name not in FOREIGN:
        return np.array(value.numpy())
    import ml_dtypes

    raw = ctypes.string_at(value.data_ptr(), value.tensor_size_in_bytes())
    return np.frombuffer(raw, getattr(ml_dtypes, name)).reshape(value.shape()).copy()
