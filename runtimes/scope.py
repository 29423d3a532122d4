"""A graph ready to be evaluated: its operators resolved once, its values dropped as soon as they are dead."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from onnx import GraphProto, ModelProto, NodeProto
from onnx.defs import SchemaError, get_schema
from onnx.inliner import inline_local_functions
from onnx.reference import ReferenceEvaluator
from onnx.reference.op_run import OpRun
from onnx.reference.ops._op import OpRunBinaryNumpy

from onnxparity.errors import LoadError
from onnxparity.runtimes.operator_table import ROUNDING, Rounding, is_known
from onnxparity.runtimes.promotion import ROUNDOFF, Constant, graphs_of, promote, take_constants
from onnxparity.runtimes.reference_ops import OPERATORS

__all__ = ["Kernel", "Scope", "Step", "Value", "compiled"]

Value = Any  # Any: an array, a list of arrays (a sequence), or None for an input that is absent
Kernel = Callable[..., Sequence[Value]]

OLDEST_OPSET = 9
"""Operators were compared with ONNX Runtime from this opset on; some mean something else before it."""
SHAPES_ONLY = frozenset({"SequenceLength", "Shape", "Size"})
"""Operators whose result depends on shapes, not on values."""


@dataclass(frozen=True, eq=False)
class Step:
    """One node, resolved."""

    op: str
    label: str
    """The operator with its name, for messages."""
    operator: OpRun
    kernel: Kernel
    attributes: Mapping[str, Value]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    rounding: Rounding
    on_data: bool
    """Whether it works on rounded data, so that a decision may honestly fall the other way."""
    bodies: Mapping[str, Scope] = field(default_factory=dict)
    dead: tuple[str, ...] = ()
    """Names that nothing needs any more after this step."""


@dataclass(frozen=True, eq=False)
class Scope:
    """A graph or a subgraph."""

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    constants: tuple[Constant, ...]
    fixed: tuple[Step, ...]
    """The steps that depend on constants alone and give the same at every run. They come first."""
    live: tuple[Step, ...]
    captured: frozenset[str]
    """Names from the scopes around it."""

    @property
    def steps(self) -> tuple[Step, ...]:
        """All steps in order."""
        return self.fixed + self.live

    def everywhere(self) -> Iterable[Scope]:
        """This scope and all the scopes inside it."""
        yield self
        for step in self.steps:
            for body in step.bodies.values():
                yield from body.everywhere()


@dataclass
class _Names:
    """What is known about the values of a scope while it is compiled."""

    dynamic: set[str]
    """They depend on the inputs."""
    weights: set[str]
    """Floating constants of at least two dims, as they are or moved about."""
    carried: set[str]
    """Floats that were fed or looked up and that no operator has rounded yet."""
    data: set[str]
    """They depend on something that was rounded on the way."""


def compiled(model: ModelProto, *, promoted: bool) -> Scope:
    """The model's graph, ready to run; takes the model apart, so give it one of your own.

    promoted: in float64; otherwise in the dtypes the file stores. Raises LoadError for operators that are
    not in the operator table and for what has no float64 meaning.
    """
    if model.functions:
        model = inline_local_functions(model)
    _use_short_domain(model)
    _refuse_unverified(model)
    _refuse_unknown(model.graph)
    floats = {i.name for i in model.graph.input if i.type.tensor_type.elem_type in ROUNDOFF}
    constants = _take_all(model.graph, promoted)
    if promoted:
        promote(model.graph)
    evaluator = ReferenceEvaluator(model, new_ops=list(OPERATORS))
    fixed = {c.name for c in constants[()]}
    inputs = tuple(i.name for i in model.graph.input if i.name not in fixed)
    names = _Names(set(inputs), set(), floats & set(inputs), set())
    return _scope(model.graph, evaluator, constants, (), inputs, names)


Path = tuple[int | str, ...]


def _take_all(graph: GraphProto, promoted: bool, path: Path = ()) -> dict[Path, tuple[Constant, ...]]:
    """The constants of the graph and of every subgraph, by the way to it."""
    taken = {path: take_constants(graph, promoted=promoted)}
    for index, node in enumerate(graph.node):
        for name, body in graphs_of(node):
            taken |= _take_all(body, promoted, (*path, index, name))
    return taken


def _scope(
    graph: GraphProto,
    evaluator: ReferenceEvaluator,
    constants: Mapping[Path, tuple[Constant, ...]],
    path: Path,
    inputs: tuple[str, ...],
    names: _Names,
) -> Scope:
    own = constants[path]
    names.weights |= {c.name for c in own if c.roundoff and c.value.ndim >= 2}
    steps = []
    for index, (node, op) in enumerate(zip(graph.node, evaluator.rt_nodes_, strict=True)):
        bodies = {
            name: _body(node, body, getattr(op, name), constants, (*path, index, name), names)
            for name, body in graphs_of(node)
        }
        steps.append(_step(node, op, bodies, names))
    outputs = tuple(o.name for o in graph.output)
    known = {*inputs, *(c.name for c in own), *(o for s in steps for o in s.outputs)}
    used = {n for s in steps for n in _needed(s)} | set(outputs)
    live = [bool(names.dynamic & set(s.outputs)) for s in steps]
    ordered = _with_dead(sorted(steps, key=lambda s: bool(names.dynamic & set(s.outputs))), outputs, known)
    return Scope(
        inputs=inputs,
        outputs=outputs,
        constants=own,
        fixed=ordered[: live.count(False)],
        live=ordered[live.count(False) :],
        captured=frozenset(used - known - {""}),
    )


def _body(
    node: NodeProto,
    graph: GraphProto,
    evaluator: ReferenceEvaluator,
    constants: Mapping[Path, tuple[Constant, ...]],
    path: Path,
    outer: _Names,
) -> Scope:
    """A subgraph. Where anything that enters is data, all that enters counts as data."""
    inputs = tuple(i.name for i in graph.input)
    names = _Names(set(outer.dynamic), set(outer.weights), set(outer.carried), set(outer.data))
    names.dynamic |= set(inputs)
    if (names.carried | names.data) & {*node.input, *OpRun.implicit_inputs(graph)}:
        names.data |= set(inputs[2:] if node.op_type == "Loop" else inputs)
    scope = _scope(graph, evaluator, constants, path, inputs, names)
    if names.data & set(scope.outputs):
        outer.data |= set(node.output)
    if names.carried & set(scope.outputs):
        outer.carried |= set(node.output)
    return scope


def _step(node: NodeProto, op: OpRun, bodies: Mapping[str, Scope], names: _Names) -> Step:
    rounding = ROUNDING[node.op_type]
    step = Step(
        op=node.op_type,
        label=f"{node.op_type} {node.name!r}" if node.name else f"{node.op_type} giving {node.output[0]!r}",
        operator=op,
        kernel=_kernel(op),
        attributes={name: _plain(getattr(op, name)) for name in op.attributes_names_ if name not in bodies},
        inputs=tuple(node.input),
        outputs=tuple(node.output),
        rounding=rounding,
        on_data=bool(names.data & set(node.input)),
        bodies=bodies,
    )
    _follow(step, names)
    return step


def _kernel(op: OpRun) -> Kernel:
    """The operator's function, without the evaluator's checks of types, which are made elsewhere."""
    if isinstance(op, OpRunBinaryNumpy):
        function = op.numpy_fct
        return lambda a, b: (function(a, b),)
    return op._run


def _follow(step: Step, names: _Names) -> None:
    """What is known about the step's results."""
    used, given = set(_needed(step)), set(step.outputs)
    if used & names.dynamic or step.bodies:
        names.dynamic |= given
    if step.op in SHAPES_ONLY:
        return
    looked_up = bool(used & names.weights and used & names.dynamic)
    rounds = step.rounding not in (Rounding.NONE, Rounding.DECIDES, Rounding.COUNTS, Rounding.CONTROL)
    if used & names.data or (rounds and (used & names.carried or looked_up)):
        names.data |= given
    elif used & names.carried or looked_up:
        names.carried |= given
    elif used & names.weights:
        names.weights |= given


def _needed(step: Step) -> Iterable[str]:
    yield from step.inputs
    for body in step.bodies.values():
        yield from body.captured


def _with_dead(steps: Sequence[Step], outputs: tuple[str, ...], known: set[str]) -> tuple[Step, ...]:
    """The steps, each with the names that no later step needs."""
    needed, result = set(outputs), []
    for step in reversed(steps):
        here = {*_needed(step), *step.outputs} & known
        result.append(replace(step, dead=tuple(here - needed)))
        needed |= here
    return tuple(reversed(result))


def _plain(value: Value) -> Value:
    """An attribute as Python numbers: a NumPy float32 would keep arithmetic on attributes in float32."""
    if isinstance(value, np.floating):
        return float(value)
    return [_plain(v) for v in value] if isinstance(value, list) else value


def _refuse_unverified(model: ModelProto) -> None:
    opset = next((o.version for o in model.opset_import if not o.domain), 0)
    if opset < OLDEST_OPSET and not all(_as_verified(node, opset) for node in model.graph.node):
        raise LoadError(
            f"opset {opset} has not been verified in float64",
            expected=f"opset {OLDEST_OPSET} or later",
            remedy="convert the file with onnx.version_converter, or export it again",
        )
    for output in model.graph.output:
        if output.type.WhichOneof("value") not in ("tensor_type", None):
            raise LoadError(f"output {output.name!r} is no tensor", expected="tensors as outputs of the model")


def _as_verified(node: NodeProto, opset: int) -> bool:
    """Whether an operator of an older opset is the one that was compared. Those with subgraphs are not looked into."""
    if any(graphs_of(node)):
        return False
    try:
        older, oldest = (get_schema(node.op_type, version, node.domain) for version in (opset, OLDEST_OPSET))
    except SchemaError:
        return False
    return bool(older.since_version == oldest.since_version)


def _refuse_unknown(graph: GraphProto) -> None:
    for node in graph.node:
        if not is_known(f"{node.domain}::{node.op_type}" if node.domain else node.op_type):
            raise LoadError(
                f"no float64 meaning is known for operator {node.op_type} of domain {node.domain or 'ai.onnx'!r}",
                expected="operators of the default ONNX domain that the operator table lists",
                got=f"node {node.name or node.output[0]!r}",
                remedy="export without fused or custom operators; the evidence stays incomplete until then",
            )
        for _, body in graphs_of(node):
            _refuse_unknown(body)


def _use_short_domain(model: ModelProto) -> None:
    """Writes the default domain in its short form everywhere, the only one that the evaluator knows."""

    def shorten(graph: GraphProto) -> None:
        for node in graph.node:
            node.domain = "" if node.domain == "ai.onnx" else node.domain
            for _, body in graphs_of(node):
                shorten(body)

    for opset in model.opset_import:
        opset.domain = "" if opset.domain == "ai.onnx" else opset.domain
    shorten(model.graph)
