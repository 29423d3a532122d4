"""From torch's exceptions, often pages long, to one ExportError: the line that matters, and what mends it."""

from __future__ import annotations

import re

from onnxparity.errors import ExportError

__all__ = ["explain", "meaningful"]

_ADVICE = re.compile(
    r"^(For more|For extended|For C\+\+|If you suspect|consider using|Caused by|The error above|"
    r"The following call raised|## |\(Refer to|⬆️|- If there|- Create an error|From user code|Set TORCHDYNAMO)"
)
_ANSI = re.compile(r"\x1b\[[0-9;]*m")
_INSTEAD_OF_PATHS = re.compile(r'File ".*[/\\]([^/\\"]+)"')

_REMEDIES = (
    (
        r"data-dependent",
        "the module branches on the values of a tensor: pass the decision as a constant "
        "(torch.nn.TransformerDecoder: tgt_is_causal=True or False) or compute it with torch.where",
    ),
    (
        r"grouped_mm",
        "use the experts' batched_mm implementation: this exporter has no translation of grouped_mm",
    ),
    (
        r"Cannot view a tensor",
        "call module.requires_grad_(False) and use reshape instead of view on transposed tensors",
    ),
    (
        r"must always be equal",
        "declare the two axes as one, as under Suggested fixes: the module only takes them at equal sizes",
    ),
    (
        r"Constraints violated|unexpectedly required|specialized",
        "declare these sizes as under Suggested fixes, or take out the code that fixes them "
        "(a table of that length, an `if` on the size, a view with a number)",
    ),
    (
        r"No ONNX function found for",
        "this exporter has no translation of that operator: rewrite the module without it",
    ),
)


def explain(error: BaseException, what: str) -> ExportError:
    """The ExportError to raise for an exception of torch; `got` holds its last meaningful lines."""
    chain = [error]
    while chain[-1].__cause__ is not None:
        chain.append(chain[-1].__cause__)
    root = chain[-1]
    text = "\n".join(str(link) for link in chain)
    remedy = next((remedy for pattern, remedy in _REMEDIES if re.search(pattern, text)), None)
    return ExportError(
        what,
        expected="torch.export and the ONNX translation take the module",
        got=f"{type(root).__name__}: {meaningful(str(root)) or 'no message'}",
        remedy=remedy or "run the module on its example in plain PyTorch first; this is torch's own message",
    )


def meaningful(text: str, limit: int = 6) -> str:
    """The lines of a message that say something about the module, joined, at most `limit` of them."""
    lines = [" ".join(_ANSI.sub("", line).split()) for line in text.splitlines()]
    kept = [_INSTEAD_OF_PATHS.sub(r'File "\1"', line) for line in lines if line and not _ADVICE.match(line)]
    return " / ".join(dict.fromkeys(kept[:limit]))[:800]
