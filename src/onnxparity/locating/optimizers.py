"""Whether a graph optimiser of ONNX Runtime is to blame for a failure, which one, and what it replaced."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from onnxparity.errors import OnnxParityError
from onnxparity.locating.replaying import Inside, Part

__all__ = ["Blame", "blame"]


@dataclass(frozen=True)
class Blame:
    """A graph that is in budget once nothing optimises it."""

    names: tuple[str, ...]
    """The optimisers at fault; none where it is in budget only at level `disabled`."""
    places: tuple[int, ...] = ()
    """The nodes of the file that they replace, in `Inside.nodes`: of several groups the first that fails alone."""
    part: Part | None = None
    """Those nodes alone, where they fail so too."""
    note: str = ""


def blame(inside: Inside, failing: Sequence[str]) -> Blame | None:
    """None where the runtime has no optimisers, or where the failing outputs fail without them too."""
    from onnxparity.runtimes.ort_optimizers import Optimizing, applied, blamed

    runtime = inside.runtime
    if not isinstance(runtime, Optimizing) or runtime.level == "disabled":
        return None
    level, artifact = runtime.level, inside.artifact

    def passes(without: Collection[str], at: str = level) -> bool:
        try:
            got = runtime.load_without(artifact, without, level=at).run(inside.feeds)  # type: ignore[arg-type]  # a level
        except OnnxParityError:
            return False
        return all(inside.judge_outputs(got)[name].ratio <= 1 for name in failing)

    if not passes((), "disabled"):
        return None
    names = applied(lambda: runtime.load_without(artifact, (), level=level, verbose=True))
    found = blamed(names, passes)
    if not found:
        return Blame((), note="in budget at optimisation level disabled, but with no choice of optimisers switched off")
    groups = _groups(inside, _replaced(inside, found))
    for places in groups:
        part = inside.part(places, _results(inside, places))
        if part is not None:
            return Blame(found, places, part)
    return Blame(found, groups[0] if groups else ())


def _groups(inside: Inside, places: Collection[int]) -> list[tuple[int, ...]]:
    """The places in groups that are connected with each other, in order of evaluation."""
    groups: list[set[int]] = []
    for place in sorted(places):
        takes = {inside.place_of(name) for name in inside.whole.takes(inside.whole.nodes[place])}
        joined = [group for group in groups if group & takes]
        groups = [group for group in groups if not group & takes] + [{place}.union(*joined)]
    return sorted(tuple(sorted(group)) for group in groups)


def _results(inside: Inside, places: Sequence[int]) -> list[str]:
    """What these nodes give to others, or to the caller."""
    made = [name for place in places for name in inside.whole.nodes[place].output if name in inside.exact.dtypes]
    outer = [node for place, node in enumerate(inside.whole.nodes) if place not in places]
    taken = {name for node in outer for name in inside.whole.takes(node)} | set(inside.whole.outputs)
    return [name for name in made if name in taken]


def _replaced(inside: Inside, names: Collection[str]) -> set[int]:
    """Places of the file's nodes that are gone, or are another operator, once these optimisers are on."""
    from onnxparity.runtimes.ort_optimizers import Optimizing, replaced

    runtime, files = inside.runtime, [inside.folder / "without.onnx", inside.folder / "with.onnx"]
    assert isinstance(runtime, Optimizing)
    try:
        for disabled, path in zip((names, ()), files, strict=True):
            runtime.load_without(inside.artifact, disabled, level=runtime.level, optimized_to=str(path))
        gone = replaced(*files)
    except (OnnxParityError, OSError):
        return set()
    return {place for name in gone if (place := inside.place_of(name)) is not None}
