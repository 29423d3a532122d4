"""Every operator call of a module in float64 is shown with its module, its line and what it was given."""

from __future__ import annotations

import tracemalloc
from collections.abc import Sequence

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from onnxparity.location import Node
from onnxparity.protocols import Array, TracingSession
from onnxparity.runtimes.torch_float64 import TorchFloat64Session
from tests.unit.runtimes.subjects import drawn, seeded, subject


class Inner(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(16, 16)
        self.norm = nn.LayerNorm(16, eps=1e-3)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.norm(self.linear(x))
        return halved(y)


class Outer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = Inner(), Inner()

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.second(self.first(x))
        return x + y


class Writing(nn.Module):
    """Writes to a part of a tensor that it reads again."""

    def forward(self, x: Tensor) -> Tensor:
        buffer = torch.zeros_like(x)
        buffer[:, 0] = x[:, 0] * 3
        return buffer + 1


def halved(x: Tensor) -> Tensor:
    return x * 0.5


class Seen:
    """Everything that was shown."""

    def __init__(self, module: nn.Module) -> None:
        self.nodes: list[Node] = []
        self.values: dict[str, Array] = {}
        self.numbers: list[tuple[Node, str, float]] = []
        self.session = TorchFloat64Session(module, subject(), "float32")
        self.feeds = {"x": drawn(2, 3, 16)}
        self.outputs = self.session.trace(self.feeds, self.visit, self.number)

    def visit(self, node: Node, results: Sequence[Array]) -> None:
        self.nodes.append(node)
        self.values |= dict(zip(node.outputs, results, strict=True))

    def number(self, node: Node, name: str, value: Array) -> None:
        self.numbers.append((node, name, float(value)))

    def of(self, operator: str) -> list[Node]:
        return [n for n in self.nodes if n.operator == operator]


def test_a_traced_run_gives_what_a_plain_run_gives() -> None:
    seen = Seen(seeded(Outer))
    assert isinstance(seen.session, TracingSession)
    np.testing.assert_array_equal(seen.outputs["y"], seen.session.run(seen.feeds)["y"])


def test_calls_are_told_with_their_module_and_the_users_own_line() -> None:
    first, second = Seen(seeded(Outer)).of("aten.addmm.default")
    assert (first.module, second.module) == ("first.linear", "second.linear")
    assert first.source.startswith("test_trace_torch.py:")
    assert first.source.endswith(": y: Tensor = self.norm(self.linear(x))")


def test_a_line_in_a_helper_comes_with_the_line_that_calls_it() -> None:
    halving = [n for n in Seen(seeded(Outer)).of("aten.mul.Tensor") if "0.5" in n.source]
    assert [n.module for n in halving] == ["first", "second"]
    calling, _, line = halving[0].source.partition(" > ")
    assert calling.endswith(": return halved(y)")
    assert line.endswith(": return x * 0.5")


def test_what_a_call_is_given_leads_back_to_inputs_and_weights() -> None:
    seen = Seen(seeded(Outer))
    makers = {name: node for node in seen.nodes for name in node.outputs}
    found, todo = set[str](), list(seen.nodes[-1].outputs)
    while todo:
        name = todo.pop()
        found.add(name)
        todo += makers[name].inputs if name in makers else ()
    leaves = {name for name in found if name not in makers}
    assert leaves == {"x"} | {name for name, _ in seen.session.weights()}


def test_what_is_written_through_a_view_is_an_input_of_what_reads_it() -> None:
    seen = Seen(Writing())
    copied = next(n for n in seen.nodes if n.operator == "aten.copy_.default")
    assert set(copied.outputs) <= set(seen.of("aten.add.Tensor")[0].inputs)


def test_parts_of_an_operator_are_shown_before_it() -> None:
    names = [n.operator for n in Seen(seeded(Outer)).nodes if n.module == "first.linear"]
    assert names.index("aten.mm.default") < names.index("aten.addmm.default")
    norms = [n.operator for n in Seen(seeded(Outer)).nodes if n.module == "first.norm"]
    assert "aten.rsqrt.default" in norms
    assert norms[-1] == "aten.native_layer_norm.default"


def test_python_numbers_are_told_and_dims_are_not() -> None:
    told = Seen(seeded(Outer)).numbers
    assert {v for n, _, v in told if n.operator == "aten.native_layer_norm.default"} == {1e-3}
    assert [v for n, _, v in told if n.module == "first" and n.operator == "aten.mul.Tensor"] == [0.5]
    assert not [n for n, _, _ in told if n.operator == "aten.view.default"]


def test_hooks_are_gone_after_a_trace_and_after_one_that_failed() -> None:
    seen = Seen(seeded(Outer))
    before = len(seen.nodes)
    seen.session.run(seen.feeds)
    assert len(seen.nodes) == before

    def refuse(node: Node, results: Sequence[Array]) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        seen.session.trace(seen.feeds, refuse)
    assert not any(part._forward_hooks for part in seen.session._module.modules())


def test_nothing_is_held_on_the_way() -> None:
    """NumPy's copies are dropped as they come: at most the results of one call are there at a time."""

    class Chain(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            x = x.repeat(1, 1000, 1)
            for _ in range(20):
                x = x.neg()
            return x

    session = TorchFloat64Session(Chain(), subject(), "float32")
    largest = 2 * 3000 * 16 * 8
    tracemalloc.start()
    try:
        session.trace({"x": drawn(2, 3, 16)}, lambda node, results: None)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 4 * largest
