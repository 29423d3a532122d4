"""The lint rules. To add one, write a generator of findings here under `@rule`, and a test with a file that fails."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from onnx import NodeProto, TensorProto

from onnxparity.artifact import FileInput
from onnxparity.case import FLOATING
from onnxparity.export.finding import Context, Finding, rule
from onnxparity.export.graph import FLOAT_BITS, dtype_name, nodes, operator, read_values, tensor_bytes

_RANDOM = frozenset(
    {"RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Multinomial", "Bernoulli"}
)
_CAST = ("Cast", "to")
_EXPORT_AGAIN = "export again with an example of size 2 or more there, and take out what fixes the size"


@rule("asked-dynamic-axis-is-constant")
def asked_dynamic_axis_is_constant(context: Context) -> Iterator[Finding]:
    """A size that the subject leaves open is a number in the file: it runs at that size only."""
    sides = (
        ("input", {i.name: i.dims for i in context.subject.inputs}, context.artifact.inputs),
        ("output", {o.name: o.dims for o in context.subject.outputs}, context.artifact.outputs),
    )
    for side, asked, values in sides:
        for value in values:
            # `strict=False`: another rank is a finding of its own.
            for place, (want, got) in enumerate(zip(asked.get(value.name, ()), value.dims, strict=False)):
                if isinstance(want, str) and isinstance(got, int):
                    yield Finding(
                        "asked-dynamic-axis-is-constant",
                        "error",
                        f"{side} {value.name!r}: axis {want!r} (dim {place}) was asked to be dynamic "
                        f"and is the constant {got}",
                        f"{value.name}: dims {list(value.dims)} in the file, {list(asked[value.name])} asked",
                        _EXPORT_AGAIN,
                    )


@rule("asked-axes-are-tied")
def asked_axes_are_tied(context: Context) -> Iterator[Finding]:
    """Two axes of the subject that carry one symbol in the file."""
    met: dict[str, dict[str, str]] = {}
    for spec in context.subject.inputs:
        value = _named(context.artifact.inputs, spec.name)
        for want, got in zip(spec.dims, value.dims if value else (), strict=False):
            if isinstance(want, str) and isinstance(got, str):
                met.setdefault(got, {}).setdefault(want, spec.name)
    for symbol, axes in met.items():
        if len(axes) > 1:
            yield Finding(
                "asked-axes-are-tied",
                "warning",
                f"axes {', '.join(axes)} are one size in the file, {symbol!r}",
                ", ".join(f"{axis} of {name}" for axis, name in axes.items()),
                "make them one axis of the subject if the model takes them only at equal sizes",
            )


@rule("input-dims-differ")
def input_dims_differ(context: Context) -> Iterator[Finding]:
    """Another rank, or another fixed size, than the subject says."""
    for spec in context.subject.inputs:
        value = _named(context.artifact.inputs, spec.name)
        if value is None:
            continue
        fixed = zip(spec.dims, value.dims, strict=False)
        if len(spec.dims) != len(value.dims) or any(
            isinstance(want, int) and isinstance(got, int) and want != got for want, got in fixed
        ):
            yield Finding(
                "input-dims-differ",
                "error",
                f"input {spec.name!r} has other dims than the subject says",
                f"{spec.name}: {list(value.dims)} in the file, {list(spec.dims)} asked",
                "make the example and the subject's dims agree",
            )


@rule("opset-mismatch")
def opset_mismatch(context: Context) -> Iterator[Finding]:
    """The file is stamped with another opset than was asked for, or than its cells are named after."""
    artifact = context.artifact
    wanted = {artifact.opset_asked, artifact.key.opset} - {None}
    if wanted != {artifact.opset_got}:
        yield Finding(
            "opset-mismatch",
            "error",
            f"asked for opset {artifact.opset_asked}, the file is at opset {artifact.opset_got}",
            f"{artifact.key.id}: opset_import {artifact.opset_got}, IR {artifact.ir_version}",
            "ask for an opset that the exporter can write",
        )


@rule("names-differ")
def names_differ(context: Context) -> Iterator[Finding]:
    """Inputs or outputs missing, unknown, twice, or in another order."""
    sides = (
        ("inputs", [i.name for i in context.subject.inputs], [i.name for i in context.artifact.inputs]),
        ("outputs", [o.name for o in context.subject.outputs], [o.name for o in context.artifact.outputs]),
    )
    for side, want, got in sides:
        if want == got:
            continue
        same = sorted(want) == sorted(got)
        yield Finding(
            "names-differ",
            "warning" if same else "error",
            f"the {side} are in another order than the subject's" if same else f"the {side} are not the subject's",
            f"{', '.join(got) or 'none'} in the file; {', '.join(want) or 'none'} asked",
            "name and order the subject's inputs and outputs as forward takes and returns its tensors",
        )


@rule("training-node")
def training_node(context: Context) -> Iterator[Finding]:
    """Dropout or batch statistics that are live, or that a runtime may or may not take out."""
    for node in nodes(context.model):
        live = _is_live(node, context)
        if live is not None:
            yield Finding(
                "training-node",
                "error" if live else "warning",
                f"{node.op_type} in training mode: outputs change from run to run"
                if live
                else f"{node.op_type} that does nothing in inference is left in the file",
                _where(node),
                "call module.eval() before the export" if live else "export from eval mode, so that it is not written",
            )


def _is_live(node: NodeProto, context: Context) -> bool | None:
    """Whether a training operator trains; None for any other operator."""
    attributes = {a.name: a.i for a in node.attribute}
    if node.op_type == "BatchNormalization":
        # Before opset 14 more than one output meant training.
        return True if attributes.get("training_mode") or len(node.output) > 3 else None
    if node.op_type != "Dropout":
        return None
    if len(node.input) > 2 and node.input[2]:
        flag = read_values(context.constants.get(node.input[2]))
        # A flag that is computed, or fed, can be anything.
        return flag is None or bool(flag.any())
    return False


@rule("random-operator")
def random_operator(context: Context) -> Iterator[Finding]:
    """The output is no function of the inputs, so that there is nothing to compare it with."""
    for node in nodes(context.model):
        if node.domain in ("", "ai.onnx") and node.op_type in _RANDOM:
            yield Finding(
                "random-operator",
                "error",
                f"{node.op_type}: the file draws random numbers",
                _where(node),
                "draw outside the model and pass the numbers as an input",
            )


@rule("float-dtype-mismatch")
def float_dtype_mismatch(context: Context) -> Iterator[Finding]:
    """Inputs or weights in another floating dtype than the artifact's own."""
    own = context.artifact.key.dtype
    for spec in context.subject.inputs:
        value, want = _named(context.artifact.inputs, spec.name), own if spec.dtype == FLOATING else spec.dtype
        if value is not None and value.dtype != want:
            yield Finding(
                "float-dtype-mismatch",
                "error",
                f"input {spec.name!r} is {value.dtype}, asked for {want}",
                f"{spec.name}: {value.dtype}",
                "convert module and example to the artifact's dtype before the export",
            )
    yield from _weights_differ(context, own)


def _weights_differ(context: Context, own: str) -> Iterator[Finding]:
    # Vectors are left out: norms and tables of frequencies are often kept in float32 on purpose.
    weights: Counter[str] = Counter()
    for tensor in context.model.graph.initializer:
        if tensor.data_type in FLOAT_BITS and len(tensor.dims) > 1:
            weights[dtype_name(tensor.data_type)] += tensor_bytes(tensor)
    if weights and weights.most_common(1)[0][0] != own:
        ends = {value.dtype for value in (*context.artifact.inputs, *context.artifact.outputs)}
        yield Finding(
            "float-dtype-mismatch",
            "warning" if weights[own] or own in ends else "error",
            f"the weights are mostly {weights.most_common(1)[0][0]}, asked for {own}",
            ", ".join(f"{size} bytes {name}" for name, size in weights.most_common()),
            "convert the module to the artifact's dtype before the export",
        )


@rule("computes-below-its-dtype")
def computes_below_its_dtype(context: Context) -> Iterator[Finding]:
    """Operators whose result is in a lower floating dtype than the artifact's own, such as half in float32."""
    own = next((bits for element, bits in FLOAT_BITS.items() if dtype_name(element) == context.artifact.key.dtype), 0)
    below: dict[str, list[NodeProto]] = {}
    for node in nodes(context.model):
        if node.op_type in ("Constant", "Identity"):
            continue
        results = [context.types.get(name, TensorProto.UNDEFINED) for name in node.output]
        results += [a.i for a in node.attribute if a.name == "softmax_precision" or (node.op_type, a.name) == _CAST]
        for element in {r for r in results if FLOAT_BITS.get(r, own) < own}:
            below.setdefault(dtype_name(element), []).append(node)
    for dtype, found in below.items():
        census = Counter(map(operator, found))
        yield Finding(
            "computes-below-its-dtype",
            "warning",
            f"{len(found)} nodes compute in {dtype} inside a {context.artifact.key.dtype} file: "
            + ", ".join(f"{count} {name}" for name, count in census.most_common(4)),
            _where(found[0]),
            "look for .half(), autocast or a cast in the module; a CPU provider may hide it by computing in float32",
        )


def _named(values: tuple[FileInput, ...], name: str) -> FileInput | None:
    return next((value for value in values if value.name == name), None)


def _where(node: NodeProto) -> str:
    """The node, and the module and line of the user's that it comes from, where the exporter wrote them."""
    notes = {entry.key: entry.value for entry in node.metadata_props}
    scope = notes.get("namespace", "")
    trace = [line.strip() for line in notes.get("pkg.torch.onnx.stack_trace", "").splitlines() if "File " in line]
    name = node.name or f"the node that makes {', '.join(node.output)}"
    return "; ".join(part for part in (f"{operator(node)} {name}", scope, trace[-1] if trace else "") if part)
