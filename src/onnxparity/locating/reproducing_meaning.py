"""The minimal reproduction of a failure of meaning: the nodes that differ, on exact inputs, against the reference."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from onnxparity.errors import OnnxParityError
from onnxparity.judging.draws import CONFIRMING_DRAWS
from onnxparity.judging.examining import Bench
from onnxparity.locating.reproduction import Failing, write
from onnxparity.locating.requests import LocateRequest
from onnxparity.location import Node
from onnxparity.numerics.budget import MEANING_FLOOR, allowance, vector_size
from onnxparity.numerics.compare import no_noise
from onnxparity.numerics.floats import cast
from onnxparity.planning.grid import Point
from onnxparity.protocols import Array, Feeds, Outputs, TracingSession

__all__ = ["reproduce_meaning"]


def reproduce_meaning(bench: Bench, request: LocateRequest, region: Sequence[Node], *, what: str = "") -> str:
    """Writes the reproduction to `request.folder` and returns that, or an empty text where none can be written.

    region: the nodes between the last values that both sides compute and the failing outputs, which are the smallest
    part to show it; where it does not show it, the whole graph is written. Each limit is what the meaning may differ
    by, plus the rounding of the file's own dtype, since the script computes in that.
    """
    try:
        feeds = bench.feeds(Point(request.verdict.cell.shape, request.verdict.cell.regime))
        want = _wanted(bench, request, feeds)
        if not want:
            return ""
        names = [m.output for m in request.verdict.outputs if not m.ratio <= 1 and m.output in want] or list(want)
        failing = _region(bench, feeds, want, names, region) or _whole(bench, feeds, want)
        return write(failing, Path(request.folder), "onnxruntime", what=what).folder
    except (OnnxParityError, OSError, ValueError):
        return ""


def _wanted(bench: Bench, request: LocateRequest, feeds: Feeds) -> Outputs:
    """The reference's outputs in float64, by the artifact's names."""
    asked, cell = bench.request, request.verdict.cell
    if asked.against is not None:
        return bench.rename(bench.exact_run(bench.unrename_feeds(feeds), asked.against))
    if asked.references is None:
        return {}
    return bench.rename(asked.references.want(bench.reference_dtype(), Point(cell.shape, cell.regime)))


def _region(bench: Bench, feeds: Feeds, want: Outputs, names: Sequence[str], region: Sequence[Node]) -> Failing | None:
    """The region alone; None where the reference's values are within its limits there."""
    from onnxparity.runtimes.replay import exact_of_part
    from onnxparity.runtimes.subgraph import Sliceable, copied, dtype_name

    whole = Sliceable.load(bench.request.artifact.path)
    made = {name for node in region for name in node.outputs}
    if not region or not set(names) <= made:
        return None
    protos = [proto for proto in whole.nodes if made & set(proto.output)]
    borders = {n for proto in protos for n in whole.takes(proto)} - made
    values = _values(bench, feeds, borders)
    if borders - values.keys():
        return None
    dtypes = {name: dtype_name(kind) for name, kind in whole.dtypes.items() if kind}
    given = {n: feeds[n] if n in feeds else cast(v, dtypes.get(n, "float32")) for n, v in values.items()}
    model = whole.cut(given, names)
    used = {i.name: given[i.name] for i in model.graph.input}
    roundoff = bench.unit_roundoff()
    got, noise = exact_of_part(copied(model), used, unit_roundoff=roundoff, draws=CONFIRMING_DRAWS, seed=0)
    limits = _limits(bench, feeds, {n: want[n] for n in names}, noise)
    apart = any(bool(np.any(~(np.abs(got[n] - want[n]) <= limits[n]))) for n in names if got[n].shape == want[n].shape)
    return Failing(model, used, {n: want[n] for n in names}, limits) if apart else None


def _whole(bench: Bench, feeds: Feeds, want: Outputs) -> Failing:
    from onnxparity.runtimes.subgraph import Sliceable

    whole = Sliceable.load(bench.request.artifact.path)
    return Failing(whole.model, feeds, want, _limits(bench, feeds, want, bench.noise(feeds, CONFIRMING_DRAWS)))


def _values(bench: Bench, feeds: Feeds, names: set[str]) -> dict[str, Array]:
    """These float64 values of the artifact, as they come by; nothing else is kept."""
    session = bench.exact()
    kept = {name: feeds[name] for name in names if name in feeds}
    if not isinstance(session, TracingSession):
        return kept

    def visit(node: Node, results: Sequence[Array]) -> None:
        kept.update((n, v) for n, v in zip(node.outputs, results, strict=True) if n in names)

    session.trace(feeds, visit)
    return kept


def _limits(bench: Bench, feeds: Feeds, want: Outputs, noise: Outputs) -> Outputs:
    """By output: the largest difference that rounding of the constants and of the dtype explains, absolute."""
    explained, roundoff = {**no_noise(want), **bench.explained(feeds)}, bench.unit_roundoff()
    return {name: _limit(value, explained[name], noise[name], roundoff) for name, value in want.items()}


def _limit(want: Array, explained: Array, noise: Array, roundoff: float) -> Array:
    if want.dtype != np.float64:
        return np.zeros(want.shape)
    share = allowance(explained, MEANING_FLOOR) + allowance(noise, roundoff)
    return np.broadcast_to((share * vector_size(want))[..., None], np.atleast_1d(want).shape).reshape(want.shape)
