"""Where a node comes from: its module and the user's own line, from what the exporter left in the file.

`torch.onnx` writes the stack of modules and of Python frames on each node it makes; the TorchScript exporter put
the modules into the node's name.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import PurePath, PureWindowsPath
from typing import NamedTuple

from onnx import NodeProto

from onnxparity.location import Node

__all__ = ["Frame", "described", "innermost", "is_library", "is_own", "shortest_paths", "written"]

SCOPES, STACK = "pkg.torch.onnx.name_scopes", "pkg.torch.onnx.stack_trace"
NO_MODULE = "_empty_nn_module_stack"
FRAME = re.compile(
    r'^\s*File "(?P<path>[^"]+)", line (?P<line>\d+), in (?P<function>.*)(?:\n(?!\s*File ")\s*(?P<code>.*))?', re.M
)
INSTALLED = re.compile(r"(^|[\\/])((site|dist)-packages|lib[\\/]python\d[\d.]*)[\\/]|^<")
TORCH = re.compile(r"(^|[\\/])torch[\\/]|^<")
LONGEST_LINE = 160

FORWARD = "forward"
"""The function in which the lines of a module's own begin."""
LINES = 3


class Frame(NamedTuple):
    """One call on the way to an operator."""

    path: str
    line: int
    function: str
    code: str


def described(protos: Sequence[NodeProto]) -> tuple[Node, ...]:
    """Each node with its module and source line, both empty where nothing says.

    Paths are cut to the shortest end that no other file of these nodes shares.
    """
    properties = [{p.key: p.value for p in proto.metadata_props} for proto in protos]
    frames = [innermost(_frames(p.get(STACK, ""))) for p in properties]
    short = shortest_paths(frame.path for own in frames for frame in own)
    return tuple(
        Node(
            operator=proto.op_type,
            name=proto.name,
            inputs=tuple(proto.input),
            outputs=tuple(name for name in proto.output if name),
            module=_module(proto, given),
            source=written(own, short),
        )
        for proto, given, own in zip(protos, properties, frames, strict=True)
    )


def innermost(frames: Sequence[Frame]) -> tuple[Frame, ...]:
    """The user's own lines in the innermost module, from its `forward` down to the helper that is called last; where
    there are none, those of a library other than PyTorch."""
    for wanted in (is_own, is_library):
        own = [frame for frame in frames if wanted(frame.path)]
        start = max((place for place, frame in enumerate(own) if frame.function == FORWARD), default=0)
        if own:
            inner = list(dict.fromkeys(frame._replace(function="") for frame in own[start:]))
            return tuple(inner if len(inner) <= LINES else (inner[0], *inner[1 - LINES :]))
    return ()


def is_own(path: str) -> bool:
    """Whether the file belongs to no installed package and not to Python or PyTorch."""
    return not INSTALLED.search(path) and not path.startswith("torch/")


def is_library(path: str) -> bool:
    """Whether the file belongs to an installed package other than PyTorch."""
    return not TORCH.search(path) and "-packages" in path


def written(frames: Sequence[Frame], short: Mapping[str, str]) -> str:
    """`attention.py:41: q = split(x) > heads.py:7: return x.unflatten(-1, (h, -1))`; empty without a frame."""
    lines = (f"{short[f.path]}:{f.line}: {f.code.strip()[:LONGEST_LINE]}".rstrip(": ") for f in frames)
    return " > ".join(lines)


def shortest_paths(paths: Iterable[str]) -> dict[str, str]:
    """Each path by the shortest end of it that none of the others has; at least the file's name, never a root."""
    parts = {path: _parts(path) for path in dict.fromkeys(paths)}
    short: dict[str, str] = {}
    for path, own in parts.items():
        others = [p for other, p in parts.items() if other != path]
        length = next((n for n in range(1, len(own)) if not any(p[-n:] == own[-n:] for p in others)), len(own))
        short[path] = "/".join(own[-length:])
    return short


def _parts(path: str) -> tuple[str, ...]:
    pure = PureWindowsPath(path) if re.match(r"^[A-Za-z]:|\\", path) else PurePath(path)
    return tuple(part for part in pure.parts if part != pure.anchor)


def _frames(stack: str) -> list[Frame]:
    return [Frame(m["path"], int(m["line"]), m["function"], m["code"] or "") for m in FRAME.finditer(stack)]


def _module(proto: NodeProto, properties: Mapping[str, str]) -> str:
    """The innermost module: the last scope but the node's own."""
    if SCOPES not in properties:
        return ".".join(proto.name.split("/")[1:-1]) if proto.name.startswith("/") else ""
    try:
        scopes = ast.literal_eval(properties[SCOPES])
        inner = str(scopes[-2]) if len(scopes) > 1 else ""
    except (ValueError, SyntaxError, TypeError):  # written by another version, or by hand
        return ""
    return "" if inner.startswith(NO_MODULE) else inner
