"""One failing run of a graph, opened up: its exact values, the runtime's own, and any part of it run again alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

import numpy as np

from onnxparity.artifact import Artifact
from onnxparity.errors import OnnxParityError
from onnxparity.locating.reproduction import Failing
from onnxparity.locating.tensors import Judged, Stash, judge, limits
from onnxparity.location import Node
from onnxparity.numerics.floats import DIGITS, cast, lowest, named
from onnxparity.protocols import Array, Feeds, Outputs, Runtime

if TYPE_CHECKING:
    from onnx import ModelProto

__all__ = ["Inside", "Part", "Replay"]

FLOATS = {2.0**-digits: name for name, digits in DIGITS.items()}
"""A dtype by its unit roundoff."""
WORST = 1e300
"""Stands for what is infinitely far out, so that two of them can be compared."""


@dataclass(frozen=True)
class Part:
    """A part of the graph, run by itself on exact inputs."""

    model: ModelProto
    feeds: Feeds
    want: Outputs
    got: Outputs
    noise: Outputs


@dataclass(frozen=True)
class Replay:
    """One node, alone, on exact inputs."""

    worst: Judged
    part: Part


class Inside:
    """A runtime's run of an artifact on given feeds. Files of its own live in `folder`.

    Raises LoadError or RunError where the artifact cannot be opened or run again.
    """

    def __init__(
        self,
        runtime: Runtime,
        artifact: Artifact,
        feeds: Feeds,
        folder: Path,
        *,
        draws: int,
        noise: Outputs | None = None,
        product_roundoff: float | None = None,
    ) -> None:
        """noise: of the outputs, as the cell was judged; None for that of the same draws as all else."""
        from onnxparity.runtimes.float64_graph import Float64Graph
        from onnxparity.runtimes.node_metadata import described
        from onnxparity.runtimes.replay import exact_and_noise
        from onnxparity.runtimes.subgraph import Sliceable, copied

        self.runtime, self.artifact, self.feeds, self.folder, self.draws = runtime, artifact, feeds, folder, draws
        self.whole = Sliceable.load(artifact.path)
        self.nodes: tuple[Node, ...] = described(self.whole.nodes)
        self.exact, self.got = Stash(), Stash()
        graph = Float64Graph(copied(self.whole.model))
        self.roundoff = graph.unit_roundoff
        self.dtype = FLOATS.get(self.roundoff, artifact.key.dtype)
        self._coarse = product_roundoff
        self.noise = exact_and_noise(
            graph,
            feeds,
            self.whole.makers.keys(),
            draws=draws,
            seed=0,
            keep=self.exact.keep,
            find=self.exact.find,
            product_roundoff=product_roundoff,
        )
        self.noise |= noise or {}
        self._users: dict[str, list[int]] = {}
        for place, proto in enumerate(self.whole.nodes):
            for name in self.whole.takes(proto):
                self._users.setdefault(name, []).append(place)
        self._places = {name: place for place, node in enumerate(self.whole.nodes) for name in node.output if name}
        self.judged: dict[str, Judged] = {}
        self._shown: list[Outputs] = []

    @cached_property
    def outputs(self) -> dict[str, Judged]:
        """Each output of the plain run, judged."""
        return self.judge_outputs(self.runtime.load(self.artifact).run(self.feeds))

    def judge_outputs(self, got: Outputs) -> dict[str, Judged]:
        """Outputs of the graph against their exact values."""
        return {name: self._judge(name, got[name]) for name in self.whole.outputs if name in self.exact.dtypes}

    def look(self) -> None:
        """Takes the runtime's own intermediate values and judges each."""
        from onnxparity.runtimes.ort_intermediates import intermediates

        def keep(name: str, value: Array) -> None:
            self.got.keep(name, value)
            self.judged[name] = self._judge(name, value)

        # 8 bytes an element, as in float64, so that no bound depends on what a runtime chooses to store
        sizes = {n: size for n, size in self.exact.sizes.items() if n in self._places}
        self._shown = intermediates(self.runtime, self.whole, self.artifact, self.feeds, sizes, self.folder, keep)
        for name, judged in self.outputs.items():
            self.judged[name] = judged

    def shown_fails(self, failing: Sequence[str]) -> bool:
        """Whether any of these outputs also fails while intermediate values are shown."""
        return any(
            judged.ratio > 1 for run in self._shown for n, judged in self.judge_outputs(run).items() if n in failing
        )

    def place_of(self, name: str) -> int | None:
        """The place in `nodes` of the node that makes a tensor; None for inputs and constants."""
        return None if self.whole.is_constant(name) else self._places.get(name)

    def judged_of(self, place: int) -> list[Judged]:
        """The node's results in the runtime's own run, as far as it shows them."""
        return [self.judged[n] for n in self.whole.nodes[place].output if n in self.judged]

    def stored_dtype(self, name: str) -> str:
        """The dtype in which the file stores a tensor."""
        from onnxparity.runtimes.subgraph import dtype_name

        known = self.whole.dtypes.get(name)
        return dtype_name(known) if known else self.got.dtypes.get(name, self.exact.dtypes[name])

    def stored(self, name: str, *, saturated: bool = False) -> Array:
        """The exact value of a tensor, rounded to the dtype it is stored in.

        saturated: with the dtype's largest number where it cannot hold the value, instead of infinity.
        """
        if name in self.feeds:
            return self.feeds[name]
        value, dtype = self.exact.find(name), self.stored_dtype(name)
        if saturated and dtype in DIGITS:
            end = -lowest(named(dtype))
            value = np.where(np.isfinite(value), np.clip(value, -end, end), value)
        return cast(value, dtype)

    def is_narrow(self, name: str) -> bool:
        """Whether a tensor is stored in a narrower dtype than the graph computes in."""
        dtype = self.stored_dtype(name) if name in self.exact.dtypes else ""
        return dtype in DIGITS and 2.0 ** -DIGITS[dtype] > self.roundoff

    def widened(self, place: int) -> tuple[str, ...]:
        """Where what a node stores in a narrower dtype than the graph's is wide again; empty for any other node.

        Empty too where it is never wide again.
        """
        wide, todo, seen = dict[str, None](), [place], {place}
        while todo:
            for name in self.whole.nodes[todo.pop()].output:
                if self.is_narrow(name):
                    further = [p for p in self._users.get(name, ()) if p not in seen]
                    seen |= set(further)
                    todo += further
                elif name in self.exact.dtypes and len(seen) > 1:
                    wide[name] = None
        return tuple(wide)

    def replay(self, place: int) -> Replay | None:
        """The node alone on exact inputs; None where it cannot be run alone."""
        proto = self.whole.nodes[place]
        outputs = [n for n in proto.output if n in self.exact.dtypes]
        inputs = self.whole.takes(proto)
        if not outputs or any(n not in self.exact.dtypes for n in inputs):
            return None
        part = self._part({n: self.stored(n) for n in inputs}, outputs)
        if part is None:
            return None
        return Replay(max(self._judged(part), key=lambda j: j.ratio), part)

    def harm(self, place: int, failing: Sequence[str]) -> float | None:
        """By how much a node by itself moves the worst failing output, in budgets; None where that cannot be run.

        The rest of the graph is run twice, from exact inputs of the node and from its exact results. Results in a
        narrower dtype than the graph's cannot be exact: there the values are replaced that are wide again.
        """
        proto = self.whole.nodes[place]
        results = self.widened(place) or tuple(n for n in proto.output if n in self.exact.dtypes)
        before, after = self._from(self.whole.takes(proto), failing), self._from(results, failing)
        return None if before is None or after is None else before - after

    def _from(self, names: Sequence[str], failing: Sequence[str]) -> float | None:
        """Error over budget of the worst failing output where these values are exact."""
        if any(n not in self.exact.dtypes for n in names):
            return None
        feeds = {**self.feeds, **{n: self.stored(n, saturated=True) for n in names}}
        left = [name for name in failing if name not in names]
        got = self.run(self.whole.cut(feeds, left), feeds) if left else {}
        if got is None:
            return None
        return max((min(self._judge(name, got[name]).ratio, WORST) for name in left), default=0.0)

    def part(self, places: Sequence[int], outputs: Sequence[str]) -> Part | None:
        """These nodes alone on exact inputs, where these outputs of theirs fail so too."""
        protos = [self.whole.nodes[place] for place in places]
        made = {name for proto in protos for name in proto.output}
        inputs = dict.fromkeys(n for proto in protos for n in self.whole.takes(proto) if n not in made)
        if not outputs or any(n not in self.exact.dtypes for n in inputs):
            return None
        found = self._part({n: self.stored(n) for n in inputs}, outputs)
        return found if found is not None and any(j.ratio > 1 for j in self._judged(found)) else None

    def everything(self) -> Part:
        """The whole graph as it failed."""
        want = {n: self.exact.find(n) for n in self.whole.outputs}
        noise = {n: self.noise.get(n, np.asarray(0.0)) for n in self.whole.outputs}
        return Part(self.whole.model, self.feeds, want, {}, noise)

    def failing(self, part: Part) -> Failing:
        """What a reproduction of this part needs."""
        whole = part.model is self.whole.model
        bounds = {n: limits(part.want[n], part.noise[n], self.roundoff, inside=not whole) for n in part.want}
        return Failing(part.model, part.feeds, part.want, bounds, getattr(self.runtime, "level", "all"))

    def run(self, model: ModelProto, feeds: Feeds) -> Outputs | None:
        """A part of the graph in the runtime; None where the runtime refuses it or fails."""
        from onnxparity.runtimes.subgraph import stored

        artifact = stored(model, self.artifact, self.folder / "part.onnx")
        used = {i.name: feeds[i.name] for i in artifact.inputs}
        try:
            return self.runtime.load(artifact).run(used)
        except OnnxParityError:
            return None

    def _part(self, feeds: Feeds, outputs: Sequence[str]) -> Part | None:
        """A part of the graph in the runtime and in float64; None where either cannot."""
        from onnxparity.runtimes.replay import exact_of_part
        from onnxparity.runtimes.subgraph import copied

        model = self.whole.cut(feeds, outputs)
        used = {i.name: feeds[i.name] for i in model.graph.input}
        got = self.run(model, used)
        if got is None:
            return None
        try:
            want, noise = exact_of_part(
                copied(model),
                used,
                unit_roundoff=self.roundoff,
                draws=self.draws,
                seed=0,
                product_roundoff=self._coarse,
            )
        except OnnxParityError:
            return None
        return Part(model, used, want, got, noise)

    def _judged(self, part: Part) -> list[Judged]:
        return [judge(n, part.want[n], part.got[n], part.noise[n], self.roundoff) for n in part.want]

    def _judge(self, name: str, value: Array) -> Judged:
        noise, inside = self.noise.get(name, np.asarray(0.0)), name not in self.whole.outputs
        return judge(name, self.exact.find(name), value, noise, self.roundoff, inside=inside)

    def __enter__(self) -> Inside:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.exact.close()
        self.got.close()
