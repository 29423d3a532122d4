"""Which graph optimiser of ONNX Runtime spoils a result, found by switching optimisers off.

Nothing lists the optimisers of a build. But a session that logs at level INFO names each one as it is applied and says
whether it changed the graph, and those names are what `disabled_optimizers` takes (a name that is not known is passed
over in silence). Seen in ONNX Runtime 1.31.1. Rewrite rules work inside `LevelN_RuleBasedTransformer`, and the
log does not name them; by their own names they are switched off like the others.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol, runtime_checkable

import onnx

from onnxparity.artifact import Artifact
from onnxparity.protocols import Session
from onnxparity.runtimes.ort import Level

__all__ = ["RULES", "Optimizing", "applied", "blamed", "replaced"]

APPLIED = re.compile(r"GraphTransformer (?P<name>\S+) modified: (?P<changed>[01])")
RULE_BASED = "_RuleBasedTransformer"
RULES = (
    "EliminateIdentity",
    "EliminateSlice",
    "UnsqueezeElimination",
    "EliminateDropout",
    "ExpandElimination",
    "CastElimination",
    "CastChainElimination",
    "PreShapeNodeElimination",
    "NoopElimination",
    "DivMulFusion",
    "FuseReluClip",
    "GemmSumFusion",
    "GemmTransposeFusion",
    "NotWhereFusion",
    "ConvAddFusion",
    "ConvMulFusion",
    "ConvBNFusion",
    "PadFusion",
    "MatmulBNFusion",
    "ClipQuantRewrite",
    "ReluQuantRewrite",
    "LabelEncoderFusion",
)
"""Rewrite rules by the names they register under (onnxruntime/core/optimizer/graph_transformer_utils.cc)."""

Load = Callable[[Collection[str]], Session]
"""Opens the session without these optimisers."""


@runtime_checkable
class Optimizing(Protocol):
    """A runtime whose graph optimisers can be switched off one by one."""

    level: Level

    def load_without(
        self,
        artifact: Artifact,
        disabled: Collection[str],
        *,
        level: Level,
        verbose: bool = False,
        optimized_to: str = "",
    ) -> Session:
        """As `Runtime.load` without these optimisers.

        verbose: logs at level INFO to the process's stderr. optimized_to: a file for the graph as it is run.
        """
        ...


def applied(load: Callable[[], Session]) -> tuple[str, ...]:
    """The optimisers that changed the graph when this session was opened, in the order of their first change."""
    with _stderr() as text:
        load()
        lines = text()
    found = (match for match in APPLIED.finditer(lines) if match["changed"] == "1")
    return tuple(dict.fromkeys(match["name"] for match in found))


def blamed(names: Sequence[str], passes: Callable[[Collection[str]], bool]) -> tuple[str, ...]:
    """The last optimiser of these without which it passes; several where only together; none where not even all.

    names: in the order in which they are applied. passes: whether the result is right without the given ones. It is
    known to fail with all of them. Where one prepares what another spoils, the one that spoils comes last.
    A transformer that is a set of rewrite rules is narrowed down to one rule.
    """
    if not names or not passes(names):
        return ()
    low, high = 0, len(names) - 1  # without names[low:] it passes
    while low < high:
        middle = (low + high + 1) // 2
        if passes(names[middle:]):
            low = middle
        else:
            high = middle - 1
    found: tuple[str, ...] = (names[low],)
    if not passes(found):
        found = _needed(names[low:], passes)
    if len(found) == 1 and found[0].endswith(RULE_BASED):
        return next(((rule,) for rule in RULES if passes((rule,))), found)
    return found


def replaced(before: Path, after: Path) -> frozenset[str]:
    """Values that one optimised graph makes and another does not make, or makes by another operator.

    before, after: files that `optimized_to` named, without and with an optimiser.
    """
    makers = [
        {
            name: (node.domain, node.op_type)
            for node in onnx.load(str(path), load_external_data=False).graph.node
            for name in node.output
        }
        for path in (before, after)
    ]
    return frozenset(name for name, maker in makers[0].items() if makers[1].get(name) != maker)


def _needed(names: Sequence[str], passes: Callable[[Collection[str]], bool]) -> tuple[str, ...]:
    """A smallest set of these without which it passes: none of it can be left out."""
    kept = list(names)
    for name in names:
        rest = [n for n in kept if n != name]
        if rest and passes(rest):
            kept = rest
    return tuple(kept)


@contextmanager
def _stderr() -> Iterator[Callable[[], str]]:
    """What native code writes to the process's stderr, which it reaches past sys.stderr, so far."""
    kept = os.dup(2)
    with tempfile.TemporaryFile() as file:
        os.dup2(file.fileno(), 2)

        def text() -> str:
            file.seek(0)
            return file.read().decode(errors="replace")

        try:
            yield text
        finally:
            os.dup2(kept, 2)
            os.close(kept)
