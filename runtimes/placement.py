"""Reading placements: which nodes are on the device, which do the arithmetic of shapes on the host by design, which
handle data there and so fall back, and how many bytes that moves in a run.
"""

from __future__ import annotations

import contextlib
import io
import re
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from onnxparity.cache import CacheDir
from onnxparity.protocols import Placement
from onnxparity.runtimes.cuda_dryrun import DEFAULT_CAPABILITY, NO_KERNEL, DryRun, ask, walk
from onnxparity.runtimes.host_nodes import host_data_nodes
from onnxparity.runtimes.ort import CPU

if TYPE_CHECKING:
    from onnx import ModelProto, NodeProto, ValueInfoProto

__all__ = ["Copied", "Fallback", "Reading", "placed", "read"]

TO_HOST, TO_DEVICE = "MemcpyToHost", "MemcpyFromHost"
SYMBOL = re.compile(r"[A-Za-z_]\w*")
REPEATING = frozenset({"Loop", "Scan"})


@dataclass(frozen=True)
class Copied:
    """A tensor that is moved between host and device in each run."""

    tensor: str
    to_host: bool
    bytes: str | None
    """Such as `4*batch*sequence*64`; None where its shape or dtype is not known."""
    unknown: frozenset[str]
    """Symbols in `bytes` that no input has, and that are known only when the values are."""
    within: tuple[str, ...]
    """Operators in whose subgraphs it is moved: in a Loop or Scan once a turn, in an If where that branch is taken."""

    @property
    def grows(self) -> bool:
        """Whether its size is more than a number that is known."""
        return self.bytes is None or not all(part.isdecimal() for part in self.bytes.split("*"))

    @property
    def repeated(self) -> bool:
        """Moved more than once a run."""
        return bool(REPEATING & {*self.within})


@dataclass(frozen=True)
class Fallback:
    """A node that handles data on the host."""

    node: str
    operator: str
    why: str | None
    """ONNX Runtime's reason; None where it gives none."""


@dataclass(frozen=True)
class Reading:
    """What a placement says."""

    before: Mapping[str, Mapping[str, int]] | None
    """Nodes by class (`device`, `shapes`, `data`) and operator, as they stand in the file; None where ONNX Runtime
    refuses to load it unoptimised."""
    after: Mapping[str, Mapping[str, int]]
    """The same after optimisation, less the copies."""
    fallbacks: tuple[Fallback, ...]
    """After optimisation, which is what runs."""
    copies: tuple[Copied, ...]


def placed(model: Path, *, capability: str = DEFAULT_CAPABILITY, cache: CacheDir | None = None) -> Reading:
    """Where the CUDA provider would put each node of a file, without a device. Raises as `cuda_dryrun.ask`."""
    with tempfile.TemporaryDirectory(prefix="onnxparity-") as folder:
        return read(ask(model, Path(folder), capability=capability, cache=cache))


def read(run: DryRun) -> Reading:
    """Tells data from shape arithmetic in what the partitioner said, in the file and in the optimised graph."""
    import onnx

    graph = onnx.load(str(run.optimized), load_external_data=False)
    copies = _copies(graph)
    data = {p.node for p in host_data_nodes(str(run.optimized), run.after, host=CPU)} | _made_there(graph, run, copies)
    after = [p for p in run.after if p.operator not in (TO_HOST, TO_DEVICE)]
    before = None
    if run.before is not None:
        handling = {p.node for p in host_data_nodes(str(run.file), run.before, host=CPU)}
        before = _counted(run.before, handling | data)
    fallen = [p for p in after if p.provider == CPU and p.node in data]
    return Reading(
        before=before,
        after=_counted(after, data),
        fallbacks=tuple(Fallback(p.node, p.operator, run.reasons.get(p.node)) for p in fallen),
        copies=copies,
    )


def _counted(placements: Sequence[Placement], data: set[str]) -> dict[str, dict[str, int]]:
    counts: dict[str, dict[str, int]] = {"device": {}, "shapes": {}, "data": {}}
    for p in placements:
        of = counts["device" if p.provider != CPU else "data" if p.node in data else "shapes"]
        of[p.operator] = of.get(p.operator, 0) + 1
    return counts


def _made_there(graph: ModelProto, run: DryRun, copies: Sequence[Copied]) -> set[str]:
    """Nodes that touch no input, have no kernel on the device, and whose results of no fixed size are moved there."""
    moved = {c.tensor for c in copies if not c.to_host and c.grows}
    return {
        node.name for node, _ in walk(graph.graph) if run.reasons.get(node.name) == NO_KERNEL and moved & {*node.output}
    }


def _copies(model: ModelProto) -> tuple[Copied, ...]:
    """Every copy in an optimised graph, in its order."""
    found = [(node, within) for node, within in walk(model.graph) if node.op_type in (TO_HOST, TO_DEVICE)]
    if not found:
        return ()
    given = frozenset(d.dim_param for i in model.graph.input for d in i.type.tensor_type.shape.dim)
    sizes = _sizes(model)
    if any(_best(sizes, node, given) is None for node, _ in found):
        sizes += _inferred(model)
    copied = []
    for node, within in found:
        to_host = node.op_type == TO_HOST
        kept = node.output[0] if to_host else node.input[0]  # the other has a name that ONNX Runtime made up
        size = _best(sizes, node, given) or _best(sizes, node, None)
        copied.append(Copied(kept, to_host, size, _symbols(size) - given, within))
    return tuple(copied)


def _best(sizes: Sequence[tuple[str, str]], node: NodeProto, given: frozenset[str] | None) -> str | None:
    """The first size that is told of a copy's tensor, in these symbols alone where there are any given."""
    ends = (node.input[0], node.output[0])
    return next((s for name, s in sizes if name in ends and (given is None or _symbols(s) <= given)), None)


def _symbols(size: str | None) -> frozenset[str]:
    return frozenset(SYMBOL.findall(size or ""))


def _sizes(model: ModelProto) -> list[tuple[str, str]]:
    """The size in bytes of each value whose shape the file tells."""
    graphs = [model.graph]
    sizes: list[tuple[str, str]] = []
    while graphs:
        graph = graphs.pop()
        for info in (*graph.value_info, *graph.input, *graph.output):
            if size := _size(info):
                sizes.append((info.name, size))
        for node in graph.node:
            for attribute in node.attribute:
                graphs += [attribute.g] if attribute.HasField("g") else attribute.graphs
    return sizes


def _inferred(model: ModelProto) -> list[tuple[str, str]]:
    """Sizes by shape inference, ONNX's and ONNX Runtime's symbolic one; those that neither can tell are not there."""
    import onnx

    plain = onnx.ModelProto()
    plain.CopyFrom(model)
    for node, _ in walk(plain.graph):
        if node.op_type in (TO_HOST, TO_DEVICE):  # unknown to both, and alike in shape
            node.op_type, node.domain = "Identity", ""
    try:
        by_onnx = onnx.shape_inference.infer_shapes(plain, data_prop=True)
    except Exception:  # of no common class; then it tells nothing
        return []
    return _symbolic(by_onnx) + _sizes(by_onnx)


def _symbolic(model: ModelProto) -> list[tuple[str, str]]:
    """Sizes by ONNX Runtime's symbolic shape inference, as far as it came.

    Step by step, since its `infer_shapes` leaves a file in the working directory where anything stays unknown.
    """
    try:
        from onnxruntime.tools.symbolic_shape_infer import SymbolicShapeInference

        inference = SymbolicShapeInference(2**31 - 1, False, False, 0)
        with contextlib.redirect_stdout(io.StringIO()):
            inference._preprocess(model)
            while inference.run_:
                inference._infer_impl()
            inference._update_output_from_vi()
        return _sizes(inference.out_mp_)
    except Exception:  # it raises what it likes at what it does not know
        return []


def _size(info: ValueInfoProto) -> str | None:
    """Such as `4*batch*sequence*64`; None where something of it is not known."""
    from onnx import TensorProto, helper

    tensor = info.type.tensor_type
    if not tensor.HasField("shape") or tensor.elem_type in (TensorProto.UNDEFINED, TensorProto.STRING):
        return None
    dims = [d.dim_value if d.HasField("dim_value") else d.dim_param for d in tensor.shape.dim]
    if "" in dims:
        return None
    each = helper.tensor_dtype_to_np_dtype(tensor.elem_type).itemsize
    return "*".join([str(each), *(str(d) if str(d).isidentifier() or isinstance(d, int) else f"({d})" for d in dims)])
