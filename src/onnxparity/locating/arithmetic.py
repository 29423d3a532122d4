"""Where a runtime's arithmetic goes wrong: the first node that injects an error, on the inputs that failed.

Every tensor of the graph has a float64 value and a size of honest rounding (Monte Carlo arithmetic). From the failing
output the walk goes back through the tensors that are out of budget. Each node on the way is then run alone, in the
runtime, on the float64 values of its inputs rounded to the dtype they are stored in: out of budget of its own
arithmetic there, it injects the error; in budget, it only passes it on. Where several inject, the first is named that
moves the output about as much as any: the rest of the graph is run from its exact inputs and from its exact results.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from onnxparity import plugins
from onnxparity.errors import OnnxParityError
from onnxparity.feeding.given_outputs import with_storage
from onnxparity.judging.draws import CONFIRMING_DRAWS
from onnxparity.judging.examining import Bench
from onnxparity.locating.optimizers import Blame, blame
from onnxparity.locating.overflow import overflow
from onnxparity.locating.replaying import Inside, Part, Replay
from onnxparity.locating.reproduction import write
from onnxparity.locating.requests import LocateRequest
from onnxparity.locating.tensors import Judged, statistics
from onnxparity.location import Location, Node, Origin, TensorStatistics
from onnxparity.outcome import Status
from onnxparity.planning.grid import Point

__all__ = ["locate_arithmetic"]

REPLAYS, SUSPECTS = 200, 16
"""Nodes that are replayed at most, and nodes at fault that are looked for; what is left out is said."""
SHARE = 0.5
"""The node to name is the first that does at least this share of the harm that the worst one does."""


def locate_arithmetic(bench: Bench, request: LocateRequest) -> Location:
    """The node at fault in a cell that is ARITHMETIC or NONFINITE, with a reproduction in `request.folder`.

    Origin `injected`, `propagated` (no node alone is out of budget), `optimizer`, or `unknown`. Raises
    OnnxParityError where the file or the runtime cannot be opened again; any exception of a native runtime's own.
    """
    cell = request.verdict.cell
    feeds = bench.feeds(Point(cell.shape, cell.regime))
    runtime, artifact = plugins.runtime(cell.runtime), bench.request.artifact
    coarse = None if cell.runtime == plugins.SPEC else bench.product_roundoff(cell.runtime)
    dtypes = {o.name: o.dtype for o in artifact.outputs}
    noise = with_storage(bench.noise(feeds, CONFIRMING_DRAWS, coarse), dtypes, bench.unit_roundoff())
    with tempfile.TemporaryDirectory(prefix="onnxparity-") as folder:
        inside = Inside(
            runtime,
            artifact,
            feeds,
            Path(folder),
            draws=CONFIRMING_DRAWS,
            noise=noise,
            product_roundoff=coarse,
        )
        with inside:
            return _Walk(inside, request).location()


@dataclass(frozen=True)
class _Suspect:
    """A node that was replayed."""

    place: int
    """In `Inside.nodes`."""
    replay: Replay
    harm: float | None
    """By how much it moves the failing output, in budgets; None where that could not be run."""


class _Walk:
    """One search, step by step; each step is there for the reader of `location`."""

    def __init__(self, inside: Inside, request: LocateRequest) -> None:
        self.inside, self.request = inside, request
        self.nonfinite = request.verdict.status is Status.NONFINITE
        self.notes: list[str] = []

    def location(self) -> Location:
        """What the cell leads back to."""
        inside = self.inside
        failing = [j.name for j in inside.outputs.values() if self.is_bad(j)]
        if not failing:
            return self.told("the failure did not come again when the cell was run to be located", "unknown")
        found = blame(inside, failing)
        if found is not None and found.names:
            return self.optimizer(found, failing)
        if found is not None:
            self.notes.append(found.note)
        inside.look()
        if not inside.shown_fails(failing):
            self.notes.append("with its intermediate values as outputs the graph passes: it fails only where it fuses")
        region = self.region(failing)
        suspects = self.suspects(region, failing)
        chosen = self.chosen(suspects)
        if chosen is None:  # errors that are in budget each may add up, or be amplified, to one that is not
            further = [place for place in self.region(failing, stops=False) if place not in region]
            suspects = self.suspects(further, failing)
            chosen = self.chosen(suspects)
        if chosen is not None:
            return self.injected(chosen, region, suspects)
        return self.propagated(region, failing)

    def is_bad(self, judged: Judged) -> bool:
        """Whether a tensor fails as the cell does."""
        return judged.lost > 0 if self.nonfinite else judged.ratio > 1

    def region(self, failing: Sequence[str], *, stops: bool = True) -> list[int]:
        """Places of the nodes between the last tensors in budget and the failing outputs, in order of evaluation.

        stops: False for all the nodes that the outputs depend on.
        """
        inside = self.inside
        found, todo, seen = set[int](), list(failing), set[str]()
        while todo:
            name = todo.pop()
            place = inside.place_of(name)
            # What a runtime does not show cannot stop the walk.
            good = name in inside.judged and not self.is_bad(inside.judged[name])
            if place is None or name in seen or (stops and good and name not in failing):
                continue
            seen.add(name)
            found.add(place)
            todo += inside.whole.takes(inside.whole.nodes[place])
        return sorted(found)

    def suspects(self, region: Sequence[int], failing: Sequence[str]) -> list[_Suspect]:
        """The nodes of the region that are out of budget alone, in order of evaluation."""
        if len(region) > REPLAYS:
            self.notes.append(f"{REPLAYS} of {len(region)} nodes were replayed")
        found = []
        for place in region[:REPLAYS]:
            replay = self.inside.replay(place)
            if replay is not None and self.is_bad(replay.worst):
                found.append(_Suspect(place, replay, self.inside.harm(place, failing)))
                if len(found) == SUSPECTS:
                    self.notes.append(f"the search ended at {SUSPECTS} nodes that are out of budget alone")
                    break
        return found

    def chosen(self, suspects: Sequence[_Suspect]) -> _Suspect | None:
        """The first that does about as much harm as any; None where all do none, such as a mask that overflows."""
        known = [s.harm for s in suspects if s.harm is not None]
        worst = max(known, default=0.0)
        if worst > 0:
            first = next(s for s in suspects if s.harm is not None and s.harm >= SHARE * worst)
            return self.not_a_cast(first, suspects)
        return next((s for s in suspects if s.harm is None), None)

    def not_a_cast(self, found: _Suspect, suspects: Sequence[_Suspect]) -> _Suspect:
        """What computes in a narrower dtype, rather than the Cast that leads there."""
        wide = self.inside.widened(found.place)
        if not wide or self.inside.nodes[found.place].operator != "Cast":
            return found
        of_one = [s for s in suspects if self.inside.widened(s.place) == wide]
        return next((s for s in of_one if self.inside.nodes[s.place].operator != "Cast"), found)

    def injected(self, chosen: _Suspect, region: Sequence[int], suspects: Sequence[_Suspect]) -> Location:
        """The node itself is at fault."""
        inside, worst, place = self.inside, chosen.replay.worst, chosen.place
        node = inside.nodes[place]
        reason = overflow(inside, place, chosen.replay) if worst.lost else None
        narrow = next((inside.stored_dtype(n) for n in node.outputs if inside.is_narrow(n)), "")
        if reason is not None:
            message = f"{_title(node)}: {reason}"
        elif narrow:
            message = f"{_title(node)} computes in {narrow} inside a {inside.dtype} graph: {_off(worst)}"
        else:
            message = f"{_title(node)}, alone and on exact inputs, is {_off(worst)}"
        evidence = [_row("the node alone", worst), *self.of_inputs(place), *self.at(place)]
        if chosen.harm is not None:
            evidence.append(f"it moves the output by {chosen.harm:.3g} budgets")
        others = [inside.nodes[s.place] for s in suspects if s is not chosen]
        if others:
            evidence.append("out of budget alone too: " + ", ".join(map(_title, others[:5])))
        return self.told(
            message,
            "injected",
            node=node,
            region=len(region),
            evidence=evidence,
            figures=self.figures(place),
            part=chosen.replay.part,
        )

    def propagated(self, region: Sequence[int], failing: Sequence[str]) -> Location:
        """No node alone is at fault: the error grows from node to node faster than honest rounding."""
        inside = self.inside
        if not region:
            return self.told("every tensor on the way is in budget, and so is every node alone", "unknown")
        first = next((p for p in region if any(map(self.is_bad, inside.judged_of(p)))), region[0])
        message = (
            f"no node is out of budget alone; {_title(inside.nodes[first])} is the first whose result is, "
            f"on what it was given"
        )
        return self.told(
            message,
            "propagated",
            node=inside.nodes[first],
            region=len(region),
            evidence=[*self.of_inputs(first), *self.at(first)],
            figures=self.figures(first),
            part=inside.part(region, failing) or inside.everything(),
        )

    def optimizer(self, found: Blame, failing: Sequence[str]) -> Location:
        """The graph is right as it stands in the file, and wrong as the runtime rewrites it."""
        names = " and ".join(found.names)
        message = f"{self.request.verdict.cell.runtime} is in budget without its graph optimiser {names}"
        node = self.inside.nodes[found.places[0]] if found.places else None
        if node is not None:
            message += f", which replaces {_title(node)}"
        evidence = [_row(name, self.inside.outputs[name]) for name in failing]
        location = self.told(
            message,
            "optimizer",
            node=node,
            region=len(found.places),
            evidence=evidence,
            part=found.part or self.inside.everything(),
        )
        return replace(location, optimizer=names)

    def of_inputs(self, place: int) -> list[str]:
        """How far the node's inputs are off, in the runtime's own run."""
        names = self.inside.whole.takes(self.inside.whole.nodes[place])
        return [_row(f"input {n}", self.inside.judged[n]) for n in names if n in self.inside.judged]

    def at(self, place: int) -> list[str]:
        """How far the node's results are off, in the runtime's own run."""
        return [_row(f"result {j.name}", j) for j in self.inside.judged_of(place)]

    def figures(self, place: int) -> tuple[TensorStatistics, ...]:
        """What goes into the node and what comes out, in float64 and in the runtime."""
        inside, proto = self.inside, self.inside.whole.nodes[place]
        known = [n for n in inside.whole.takes(proto) if n in inside.exact.dtypes]
        rows = [statistics(n, inside.exact.find(n), "input", inside.stored_dtype(n)) for n in known]
        for name in proto.output:
            if name in inside.exact.dtypes:
                rows.append(statistics(name, inside.exact.find(name), "want"))
            if name in inside.got.dtypes:
                rows.append(statistics(name, inside.got.find(name), "got", inside.got.dtypes[name]))
        return tuple(rows)

    def told(
        self,
        message: str,
        origin: Origin,
        *,
        node: Node | None = None,
        region: int = 0,
        evidence: Sequence[str] = (),
        figures: tuple[TensorStatistics, ...] = (),
        part: Part | None = None,
    ) -> Location:
        """The location, after the reproduction has been written."""
        verdict, reproduction = self.request.verdict, ""
        if part is not None:
            try:
                written = write(
                    self.inside.failing(part),
                    Path(self.request.folder),
                    verdict.cell.runtime,
                    what=f"{verdict.cell.id}: {message}",
                )
                reproduction = written.folder
                if not written.fails:
                    self.notes.append("the reproduction passes in onnxruntime: the failure is the runtime's own")
            except (OnnxParityError, OSError, ValueError) as error:
                self.notes.append(f"no reproduction could be written: {str(error).splitlines()[0]}")
        return Location(
            cell=verdict.cell,
            status=verdict.status,
            message=message,
            origin=origin,
            node=node,
            region=region,
            nodes=len(self.inside.whole.nodes),
            smallest_shape=verdict.cell.shape,
            evidence=(*evidence, *self.notes),
            statistics=figures,
            reproduction=reproduction,
            explains=(verdict.cell.id,),
        )


def _title(node: Node) -> str:
    return f"{node.operator} {node.name or node.outputs[0]!r}" + (f" in {node.module}" if node.module else "")


def _off(judged: Judged) -> str:
    if judged.lost:
        return f"not finite in {judged.lost} elements"
    return f"{judged.ratio:.3g} times its budget"


def _row(label: str, judged: Judged) -> str:
    if judged.lost:
        where = f"in {judged.out} of {judged.vectors} vectors"
        return f"{label}: {judged.lost} elements are not finite where float64 is, {where}"
    return (
        f"{label}: error {judged.error:.2g}, noise {judged.noise:.2g}, budget {judged.budget:.2g} "
        f"({judged.ratio:.3g} of its budget, {judged.out} of {judged.vectors} vectors out)"
    )
