"""OpenVINO on the CPU: an engine with kernels of its own, and the proof that the protocol fits another's runtime.

Optional (`pip install onnxparity[openvino]`). Where the CPU has bfloat16 units its default is to compute float32
models in bfloat16; here float32 is asked for, and what it answers is recorded.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import numpy as np

from onnxparity.artifact import Artifact, FileInput
from onnxparity.errors import LoadError, RunError, UnavailableError
from onnxparity.outcome import Question
from onnxparity.protocols import Array, Availability, Feeds, Outputs, Placement
from onnxparity.runtimes.feeding import prepare
from onnxparity.runtimes.known_answer import FEEDS, WANT, matmul_model

__all__ = ["OpenVino", "OpenVinoSession"]

DEVICE = "CPU"
HINTS = {"INFERENCE_PRECISION_HINT": "f32", "EXECUTION_MODE_HINT": "ACCURACY", "NUM_STREAMS": "1"}
RECORDED = (*HINTS, "INFERENCE_NUM_THREADS", "EXECUTION_DEVICES")
REMEDY = "pip install 'onnxparity[openvino]'"
SQUARE = (2, 2)
KNOWN = (FileInput("a", "float32", SQUARE), FileInput("b", "float32", SQUARE)), (FileInput("c", "float32", SQUARE),)


class OpenVinoSession:
    """A model compiled for the CPU."""

    def __init__(self, compiled: Any, inputs: Sequence[FileInput], outputs: Sequence[FileInput]) -> None:
        """compiled: openvino.CompiledModel (Any: it carries no types). inputs, outputs: as the file declares them."""
        self._compiled = compiled
        self._request = compiled.create_infer_request()
        self._inputs, self._outputs = tuple(inputs), tuple(outputs)
        self._input_ports = {i.name: _port(compiled.inputs, i.name) for i in inputs}
        self._output_ports = {o.name: _port(compiled.outputs, o.name) for o in outputs}
        self.options: dict[str, object] = {name: _text(compiled.get_property(name)) for name in RECORDED}

    def run(self, feeds: Feeds) -> Outputs:
        """Every output by name. Raises SubjectError where the feeds do not fit, RunError in OpenVINO's own words."""
        arrays = prepare(self._inputs, feeds)
        try:
            for name, array in arrays.items():
                self._request.set_input_tensor(self._input_ports[name], _tensor(array))
            self._finish()
        except (RuntimeError, ValueError, TypeError) as error:
            raise RunError("openvino failed", got=_words(error)) from error
        tensors = {o: self._request.get_output_tensor(self._output_ports[o.name]) for o in self._outputs}
        return {o.name: _array(tensor, o.dtype) for o, tensor in tensors.items()}

    def bind(self, feeds: Feeds) -> Callable[[], None]:
        """A call that runs these feeds again on tensors that are already set. Raises as `run`."""
        self.run(feeds)
        return self._finish

    def placement(self) -> tuple[Placement, ...] | None:
        """The nodes that OpenVINO executes, under its own names and operators, with the kernel and its precision."""
        nodes = self._compiled.get_runtime_model().get_ordered_ops()
        return tuple(_placed(node) for node in nodes)

    def _finish(self) -> None:
        # infer() on one thread swallows a failing node and gives empty outputs (OpenVINO 2026.4.1); this raises
        self._request.start_async()
        self._request.wait()


class OpenVino:
    """OpenVINO's CPU plug-in, held to float32."""

    name = "openvino"
    question: Question = "arithmetic"

    def __init__(self, *, intra_op_threads: int = 1) -> None:
        """threads: 1 for parity, where results must repeat; 0 leaves the choice to OpenVINO."""
        self._hints = {**HINTS, "INFERENCE_NUM_THREADS": str(intra_op_threads)}

    def probe(self) -> Availability:
        """Runs a 2x2 product."""
        try:
            found = version("openvino")
        except PackageNotFoundError:
            return Availability(self.name, False, "the package openvino is not installed", None, REMEDY)
        try:
            session = OpenVinoSession(self._compile(matmul_model()), *KNOWN)
            got = session.run(FEEDS)["c"]
        except Exception as error:  # a probe never raises: what goes wrong is the reason
            return Availability(self.name, False, _words(error), found)
        if not np.array_equal(got, WANT):
            return Availability(self.name, False, f"2x2 product gave {got.tolist()}, not {WANT.tolist()}", found)
        return Availability(self.name, True, "", found)

    def load(self, artifact: Artifact) -> OpenVinoSession:
        """Raises UnavailableError without OpenVINO, LoadError where it cannot read or convert the file."""
        here = self.probe()
        if not here.available:
            raise UnavailableError(
                f"openvino is not available: {here.reason}", got=here.reason, remedy=here.remedy or None
            )
        try:
            return OpenVinoSession(self._compile(artifact.path), artifact.inputs, artifact.outputs)
        except (RuntimeError, ValueError) as error:
            raise LoadError(f"openvino does not load {artifact.key.id}", got=_words(error)) from error

    def _compile(self, model: str | bytes) -> Any:  # Any: openvino.CompiledModel
        import openvino

        core = openvino.Core()
        return core.compile_model(core.read_model(model), DEVICE, self._hints)


def _port(ports: Sequence[Any], name: str) -> int:  # Any: openvino.ConstOutput
    """The number of the port that carries this name. Raises ValueError where none does."""
    for number, port in enumerate(ports):
        if name in port.get_names():
            return number
    raise ValueError(f"the compiled model has no {name!r}")


def _tensor(array: Array) -> Any:  # Any: openvino.Tensor
    """A copy of a feed. ml_dtypes' bfloat16 is misread unless its type is named (OpenVINO 2026.4.1)."""
    import openvino

    if array.dtype.name != "bfloat16":
        return openvino.Tensor(array, shared_memory=False)
    tensor = openvino.Tensor(openvino.Type.bf16, array.shape)
    tensor.data[...] = array.view(np.float16)
    return tensor


def _array(tensor: Any, dtype: str) -> Array:  # Any: openvino.Tensor
    """A copy of an output. bfloat16 comes out under the name of float16, with its own bits (OpenVINO 2026.4.1)."""
    value: Array = np.array(tensor.data)
    if dtype != "bfloat16":
        return value
    import ml_dtypes

    return value.view(np.uint16).view(ml_dtypes.bfloat16)


def _placed(node: Any) -> Placement:  # Any: openvino.Node
    info = {key: _text(value) for key, value in node.get_rt_info().items()}
    where = f"OpenVINO {DEVICE} {info.get('primitiveType', '')}".strip()
    return Placement(str(node.get_friendly_name()), info.get("layerType", str(node.get_type_name())), where)


def _text(value: Any) -> str:  # Any: an openvino.OVAny or a plain value
    return str(value.value if type(value).__name__ == "OVAny" else value)


def _words(error: Exception) -> str:
    """OpenVINO's message without the places in its own source."""
    lines = [line.strip() for line in str(error).splitlines()]
    told = [line for line in lines if line and not line.startswith("Exception from src/")]
    return " ".join(told) or type(error).__name__
