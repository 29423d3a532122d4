"""What ONNX Runtime says when it refuses a file or fails in a run, with the node, the dtype and a known remedy."""

from __future__ import annotations

import re

from onnxparity.artifact import Artifact
from onnxparity.errors import LoadError, RunError

__all__ = ["load_error", "run_error"]

PREFIX = re.compile(r"^\[ONNXRuntimeError\] : \d+ : [A-Z_]+ : ")
NO_KERNEL = re.compile(
    r"Could not find an implementation for (?P<op>\S+?)\((?P<version>\d+)\) node with name '(?P<node>.*?)'"
)
NO_OPERATOR = re.compile(r"No Op registered for (?P<op>\S+) with domain_version of (?P<version>\d+)")
NO_FUNCTION = re.compile(r"error: (?P<op>\S+?:\w+)\(-?\d+\) is not a registered function/op")
NEW_OPSET = re.compile(
    r"Opset (?P<got>\d+) is under development.*support for domain (?P<domain>\S+) is till opset (?P<limit>\d+)"
)
NEW_IR = re.compile(r"Unsupported model IR version: (?P<got>\d+), max supported IR version: (?P<limit>\d+)")
IN_NODE = re.compile(r"while running (?P<op>\S+) node\. Name:'(?P<node>.*?)' Status Message: (?P<words>.*)", re.DOTALL)

LOAD_REMEDIES = (
    (r"bound to different types", "export again: the file mixes dtypes in one operator, which no runtime can repair"),
    (r"External data path", "keep the external data beside the .onnx file, under the name the file has for it"),
    (r"File doesn't exist", "give the path of an existing .onnx file"),
    (r"[Pp]rotobuf parsing failed", "give a complete .onnx file; a Git LFS pointer or a cut download is not one"),
)
RUN_REMEDIES = (
    (
        r"attn_mask.*q_sequence_length|q_sequence_length.*attn_mask",
        "export at opset 18, where attention is decomposed, or give the mask a row per query "
        "(mask.expand(B, 1, T, S)): the Attention kernel does not broadcast a query dim of 1",
    ),
    (
        r"'?cos_cache'? and '?sin_cache'?",
        "export at opset 20, where rotary embedding is decomposed, or expand cos and sin to the batch of x",
    ),
    (r"out of data bounds|index.*out of bounds", "feed ids within the table: integer inputs need low and high set"),
    (r"Failed to allocate memory|bad_alloc|smaller than requested bytes", "use a smaller shape, or more memory"),
    (
        r"broadcast an axis|dimension mismatch|cannot be reshaped|[Ii]nvalid dimensions|Got invalid dim",
        "a size of the export's example may be fixed inside the file: export with that axis dynamic, "
        "or feed the sizes it was exported with",
    ),
)


def load_error(runtime: str, artifact: Artifact, error: Exception) -> LoadError:
    """The refusal as a LoadError that names operator, dtype and version where ONNX Runtime tells."""
    words = _words(error)
    if match := NO_KERNEL.search(words):
        return _no_kernel(runtime, artifact, words, match)
    if match := NO_OPERATOR.search(words):
        return LoadError(
            f"{runtime} knows no operator {match['op']} at opset {match['version']}",
            got=words,
            remedy="export at an opset that has it, or at one where it is decomposed",
        )
    if match := NO_FUNCTION.search(words):
        return LoadError(
            f"{runtime} knows no operator {match['op']}",
            got=words,
            remedy="use a build that has this custom operator, or export without it",
        )
    for pattern, thing in ((NEW_OPSET, "opset"), (NEW_IR, "IR version")):
        if match := pattern.search(words):
            return LoadError(
                f"{artifact.key.id} is too new for {runtime}: {thing} {match['got']}",
                expected=f"{thing} {match['limit']} or older",
                got=words,
                remedy=f"export at opset {match['limit']}"
                if thing == "opset"
                else f"set model.ir_version = {match['limit']} and save again",
            )
    return LoadError(f"{runtime} does not load {artifact.key.id}", got=words, remedy=_remedy(LOAD_REMEDIES, words))


def run_error(runtime: str, error: Exception) -> RunError:
    """A failed run as a RunError that names the node."""
    words = _words(error)
    match = IN_NODE.search(words)
    where = f" in {match['op']} node {match['node']!r}" if match else ""
    return RunError(f"{runtime} failed{where}", got=words, remedy=_remedy(RUN_REMEDIES, words))


def _no_kernel(runtime: str, artifact: Artifact, words: str, match: re.Match[str]) -> LoadError:
    dtype = _dtype_of(artifact.path, match["op"], match["node"])
    known = dtype or artifact.key.dtype
    place = f"{match['op']}-{match['version']}"
    remedy = "export in float32, or at an opset where this operator is decomposed"
    if known == "bfloat16" and "cuda" not in runtime:
        remedy = "run it on ort-cuda, whose provider has bfloat16 kernels, or export in float32 or float16"
    return LoadError(
        f"{runtime} has no kernel for {place} in {known}, node {match['node']!r}",
        expected=f"a kernel for {place} that takes {known}",
        got=words,
        remedy=remedy,
    )


def _dtype_of(path: str, operator: str, node_name: str) -> str | None:
    """Dtype of the first input of the node that was refused; None where the file does not tell."""
    import onnx

    try:
        model = onnx.load(path, load_external_data=False)
        graph = onnx.shape_inference.infer_shapes(model).graph
    except Exception:  # reading the file again only sharpens a message; what fails here must not hide the refusal
        return None
    kinds = {t.name: t.data_type for t in graph.initializer}
    kinds |= {v.name: v.type.tensor_type.elem_type for v in (*graph.input, *graph.output, *graph.value_info)}
    of_kind = [n for n in graph.node if n.op_type == operator.rpartition(":")[2]]
    node = next((n for n in of_kind if n.name == node_name), of_kind[0] if of_kind else None)
    kind = next((kinds[name] for name in node.input if kinds.get(name)), 0) if node is not None else 0
    return str(onnx.helper.tensor_dtype_to_np_dtype(kind).name) if kind else None


def _words(error: Exception) -> str:
    """ONNX Runtime's own first line."""
    lines = PREFIX.sub("", str(error)).strip().splitlines()
    return lines[0] if lines else type(error).__name__


def _remedy(rules: tuple[tuple[str, str], ...], words: str) -> str | None:
    return next((remedy for pattern, remedy in rules if re.search(pattern, words)), None)
