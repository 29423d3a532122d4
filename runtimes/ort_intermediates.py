"""What a runtime itself computes on the way to its outputs.

A runtime that traces is traced. Any other, ONNX Runtime first of all, is given the same graph with more outputs, some
at a time, at the same settings. An output in the middle of a pattern keeps an optimiser from fusing it, so the
model's own outputs of each such run are handed over too: where a failure goes away, a fusion was at fault.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from onnxparity.artifact import Artifact
from onnxparity.errors import OnnxParityError
from onnxparity.location import Node
from onnxparity.protocols import Array, Feeds, Outputs, Runtime, TracingSession
from onnxparity.runtimes.subgraph import Sliceable, stored

__all__ = ["CHUNK_BYTES", "chunks", "intermediates"]

CHUNK_BYTES = 64 * 2**20
"""The most that the values shown in one run may take together; a single larger one is shown alone."""

Keep = Callable[[str, Array], None]


def intermediates(
    runtime: Runtime,
    whole: Sliceable,
    artifact: Artifact,
    feeds: Feeds,
    sizes: Mapping[str, int],
    folder: Path,
    keep: Keep,
    *,
    limit: int = CHUNK_BYTES,
) -> list[Outputs]:
    """Hands every value named in `sizes` to `keep`, as far as the runtime shows it.

    sizes: bytes by name, in the order of evaluation. folder: for the files with more outputs, removed again.
    Returns the model's own outputs of each run. Raises RunError or LoadError where the plain model cannot be run.
    """
    session = runtime.load(artifact)
    if isinstance(session, TracingSession):

        def visit(node: Node, results: Sequence[Array]) -> None:
            for name, value in zip(node.outputs, results, strict=False):  # an operator may give more than is named
                if name in sizes:
                    keep(name, value)

        return [session.trace(feeds, visit)]
    del session
    return [o for names in chunks(sizes, limit) for o in _shown(runtime, whole, artifact, feeds, names, folder, keep)]


def chunks(sizes: Mapping[str, int], limit: int) -> Iterator[list[str]]:
    """The names in order, in groups whose sizes add up to no more than the limit, or that are one name."""
    group: list[str] = []
    total = 0
    for name, size in sizes.items():
        if group and total + size > limit:
            yield group
            group, total = [], 0
        group.append(name)
        total += size
    if group:
        yield group


def _shown(
    runtime: Runtime,
    whole: Sliceable,
    artifact: Artifact,
    feeds: Feeds,
    names: list[str],
    folder: Path,
    keep: Keep,
) -> Iterator[Outputs]:
    """One run with these values as outputs; in halves where the runtime refuses, without the one that it refuses."""
    path = folder / "shown.onnx"
    try:
        outputs = runtime.load(stored(whole.exposing(names), artifact, path)).run(feeds)
    except OnnxParityError:
        middle = len(names) // 2
        for half in (names[:middle], names[middle:]) if middle else ():
            yield from _shown(runtime, whole, artifact, feeds, half, folder, keep)
        return
    finally:
        for left in folder.glob("shown.onnx*"):
            left.unlink()
    for name in names:
        if name in outputs:
            keep(name, outputs[name])
    yield {name: outputs[name] for name in whole.outputs}
