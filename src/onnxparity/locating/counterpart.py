"""What the reference computes where the candidate has its first node at fault, and what is missing there."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from onnxparity.locating.matching import Matcher
from onnxparity.locating.region import data_inputs
from onnxparity.locating.sides import PARAMETER, Side, Value
from onnxparity.location import Node

__all__ = ["VIEWS", "Counterpart", "Finder", "kind"]

VIEWS = frozenset(
    ["alias", "cast", "castlike", "clone", "contiguous", "detach", "dropout", "expand", "flatten", "identity",
     "lift_fresh", "permute", "reshape", "select", "slice", "split", "squeeze", "t", "to", "transpose", "unsqueeze",
     "view"]
)  # fmt: skip
"""Kinds of operators that hand values on."""
SELECTS = frozenset({"select", "slice", "split"})
"""Those of them that hand a part on."""
KINDS: Mapping[str, str] = {
    "_safe_softmax": "softmax",
    "_softmax": "softmax",
    "_log_softmax": "logsoftmax",
    "_to_copy": "cast",
    "_unsafe_view": "view",
    "unsafe_view": "view",
    "addmm": "matmul",
    "baddbmm": "matmul",
    "bmm": "matmul",
    "convolution": "conv",
    "gemm": "matmul",
    "layernormalization": "layernorm",
    "linear": "matmul",
    "masked_fill": "where",
    "mm": "matmul",
    "native_layer_norm": "layernorm",
    "reducemax": "amax",
    "reducemean": "mean",
    "reducesum": "sum",
    "scaled_dot_product_attention": "attention",
    "embedding": "gather",
    "index": "gather",
    "index_select": "gather",
    "concat": "cat",
    "rsub": "sub",
}
WHOLES = frozenset({"layernorm", "logsoftmax", "softmax"})
"""Kinds whose parts a trace shows before them."""
STEPS = 3
"""Operators that may be missing in a row."""


@dataclass(frozen=True)
class Counterpart:
    """The reference's own node."""

    node: Node
    value: Value
    missing: tuple[Node, ...] = ()
    """What stands before it there and not in the candidate."""
    instead: tuple[Value, ...] = ()
    """What it is given there and not in the candidate, where nothing is missing."""


def kind(node: Node) -> str:
    """One word for the same operator of both sides: `matmul` for `aten.addmm.default` and for `Gemm`."""
    name = node.operator.removeprefix("aten.").split(".")[0] if node.operator.startswith("aten.") else node.operator
    name = name.lower().rstrip("_")
    return re.sub("^_", "", KINDS.get(name, name))


def operands(side: Side, node: Node) -> int:
    """How many values of more than one element it takes, weights apart."""
    given = (side.by_name.get(name) for name in data_inputs(node))
    return sum(v is not None and v.node.operator != PARAMETER and v.signature.size > 1 for v in given)


class Finder:
    """Looks around in the reference."""

    def __init__(self, reference: Side, matcher: Matcher) -> None:
        self.reference, self.matcher = reference, matcher

    @cached_property
    def users(self) -> Mapping[str, list[Node]]:
        """The nodes that take each value."""
        found: dict[str, list[Node]] = defaultdict(list)
        for node in self.reference.nodes:
            for name in dict.fromkeys(data_inputs(node)):
                found[name].append(node)
        return found

    def of(self, candidate: Side, node: Node) -> Counterpart | None:
        """The reference's node for one of the candidate; None where nothing is given to it that the reference has."""
        names = [n for n in data_inputs(node) if n in candidate.by_name]
        given = [candidate.by_name[n] for n in names]
        held = [self._held(v) for v in given if v.node.operator != PARAMETER and v.signature.size > 1]
        held = [names for names in held if names]
        weights = [self._held(v) for v in given if v.node.operator == PARAMETER and v.signature.size > 1]
        start = held or [names for names in weights if names]
        if not start:
            return None
        return (
            self._same_kind(node, start, [*held, *weights])
            or self._beyond(node, start, operands(candidate, node))
            or self._next(start)
        )

    def after(self, value: Value) -> Counterpart | None:
        """What the reference does next with a value: a whole operator before a part of one."""
        users = list(self._users((value.name,)))
        first = next((n for n in users if kind(n) in WHOLES), users[0] if users else None)
        return None if first is None else Counterpart(first, self._first(first))

    def around(self, found: Counterpart) -> set[Node]:
        """The counterpart, what is missing before it, and what follows directly."""
        near = {found.node, *found.missing}
        near |= {user for name in found.node.outputs for user in self._users((name,))}
        near |= {n for n in self.reference.nodes if found.node.source and n.source == found.node.source}
        return near

    def _held(self, value: Value) -> tuple[str, ...]:
        """Names of the value in the reference, and of what is only another view of it."""
        names = [v.name for v in self.matcher.find(value).same]
        for name in names:
            for node in self.users.get(name, ()):
                if kind(node) in VIEWS - SELECTS:
                    names += [other for other in node.outputs if other not in names]
        return tuple(names)

    def _same_kind(self, node: Node, start: list[tuple[str, ...]], given: list[tuple[str, ...]]) -> Counterpart | None:
        """A node of the same kind on the same values: the one that shares most of them, and that the others lead to."""
        users = [set(self._users(names)) for names in given]
        alike = [n for n in self.reference.nodes if kind(n) == kind(node) and any(n in u for u in users[: len(start)])]
        best: tuple[tuple[int, bool, bool], Counterpart] | None = None
        for other in alike:
            shared = [names for names, u in zip(given, users, strict=True) if other in u]
            missing = self._missing(other, [names for names in start if names not in shared], shared)
            rank = (len(shared), bool(missing), other.module == node.module)
            if best is None or rank > best[0]:
                instead = () if missing or len(shared) == len(given) else self._others(other, shared)
                best = rank, Counterpart(other, self._first(other), missing, instead)
        return None if best is None else best[1]

    def _missing(self, node: Node, unused: list[tuple[str, ...]], shared: list[tuple[str, ...]]) -> tuple[Node, ...]:
        """The few operators that lead from values that the candidate gives at once to what this node is given."""
        known = {name for names in shared for name in names}
        for names in unused:
            paths: list[tuple[Node, ...]] = [(user,) for user in self._users(names)]
            for _ in range(STEPS):
                paths = [(*path, user) for path in paths for user in self._users(path[-1].outputs)]
                for path in paths:
                    if path[-1] == node and not known & set(path[-2].outputs):
                        return path[:-1]
        return ()

    def _others(self, node: Node, shared: list[tuple[str, ...]]) -> tuple[Value, ...]:
        """What the node is given besides."""
        known = {name for names in shared for name in names}
        given = (self.reference.by_name[n] for n in data_inputs(node) if n in self.reference.by_name)
        return tuple(v for v in given if v.name not in known and v.computed)

    def _beyond(self, node: Node, start: list[tuple[str, ...]], taken: int) -> Counterpart | None:
        """A node of the same kind a few operators later, which takes as many values: those between are missing."""
        paths: list[tuple[Node, ...]] = [(user,) for names in start for user in self._users(names)]
        for _ in range(STEPS):
            paths = [(*path, user) for path in paths for user in self._users(path[-1].outputs)]
            for path in paths:
                if kind(path[-1]) == kind(node) and operands(self.reference, path[-1]) == taken:
                    return Counterpart(path[-1], self._first(path[-1]), path[:-1])
        return None

    def _next(self, start: list[tuple[str, ...]]) -> Counterpart | None:
        """Whatever takes the values there; where there are several, what takes most of them."""
        users = [set(self._users(names)) for names in start]
        first = max(
            (n for n in self.reference.nodes if any(n in u for u in users)),
            key=lambda n: sum(n in u for u in users),
            default=None,
        )
        return None if first is None else Counterpart(first, self._first(first))

    def _users(self, names: Iterable[str]) -> Iterator[Node]:
        """The nodes that take one of these values, through what only hands values on."""
        todo, seen = list(names), set[str]()
        while todo:
            name = todo.pop(0)
            if name in seen:
                continue
            seen.add(name)
            for node in self.users.get(name, ()):
                if kind(node) in VIEWS:
                    todo += node.outputs
                else:
                    yield node

    def _first(self, node: Node) -> Value:
        return self.reference.by_name[node.outputs[0]]
