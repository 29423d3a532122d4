"""Reading placements: data that falls back is told from shape arithmetic, and what it moves is told in bytes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import NodeProto, ValueInfoProto, helper

from onnxparity.cache import CacheDir
from onnxparity.errors import LoadError
from onnxparity.runtimes import placement, placement_probes
from onnxparity.runtimes.cuda_dryrun import BY_CHOICE, NO_KERNEL
from onnxparity.runtimes.placement import Copied, Fallback, Reading, placed
from onnxparity.runtimes.placement_probes import KNOWN, doubts
from tests.unit.runtimes.cuda_here import needs_dry_run
from tests.unit.runtimes.files import model, value

Read = Any  # Any: a fixture's function, see `read`


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> CacheDir:
    """A cache that holds the shim after its first use."""
    return CacheDir(tmp_path_factory.mktemp("cache"))


@pytest.fixture
def read(tmp_path: Path, cache: CacheDir) -> Read:
    """Reads a graph of these nodes, inputs and outputs."""

    def of(
        nodes: Sequence[NodeProto],
        inputs: Sequence[ValueInfoProto],
        outputs: Sequence[ValueInfoProto],
        **initializers: Sequence[int],
    ) -> Reading:
        held = {name: np.array(numbers) for name, numbers in initializers.items()}
        (tmp_path / "m.onnx").write_bytes(model(nodes, inputs, outputs, initializers=held).SerializeToString())
        return placed(tmp_path / "m.onnx", cache=cache)

    return of


def node(operator: str, inputs: str, outputs: str, **attributes: Any) -> NodeProto:  # Any: as onnx takes them
    return helper.make_node(operator, inputs.split(), outputs.split(), **attributes)


SIZES = [
    node("Shape", "x", "shape"),
    node("Gather", "shape zero", "b"),
    node("Gather", "shape one", "t"),
    node("Mul", "b t", "bt"),
    node("Concat", "bt rest", "target", axis=0),
    node("Reshape", "x target", "flat"),
]
"""x: (b, t, 4) as flat: (b*t, 4)."""
NUMBERS = {"zero": [0], "one": [1], "rest": [4]}


@needs_dry_run
def test_shape_arithmetic_is_on_the_host_and_no_fallback(read: Read) -> None:
    seen = read([*SIZES, node("Relu", "flat", "y")], [value("x", ["b", "t", 4])], [value("y", [None, 4])], **NUMBERS)
    assert seen.before["shapes"] == {"Gather": 2, "Mul": 1, "Concat": 1}
    assert seen.before["device"] == {"Shape": 1, "Reshape": 1, "Relu": 1}
    assert seen.before["data"] == seen.after["data"] == {}
    assert (seen.fallbacks, seen.copies) == ((), ())


@needs_dry_run
def test_data_without_a_kernel_falls_back_with_the_bytes_it_moves(read: Read) -> None:
    nodes = [node("MatMul", "x x", "h"), node("Det", "h", "d", name="det"), node("Relu", "d", "y")]
    seen = read(nodes, [value("x", ["batch", 4, 4])], [value("y", ["batch"])])
    assert seen.fallbacks == (Fallback("det", "Det", NO_KERNEL),)
    assert seen.copies == (
        Copied("h", True, "4*batch*4*4", frozenset(), ()),
        Copied("d", False, "4*batch", frozenset(), ()),
    )


@needs_dry_run
def test_a_half_precision_tensor_counts_two_bytes_an_element(read: Read) -> None:
    nodes = [node("Relu", "x", "h"), node("Unique", "h", "y", name="unique")]
    seen = read(nodes, [value("x", ["b", 4], "float16")], [value("y", [None], "float16")])
    assert "2*b*4" in {c.bytes for c in seen.copies}


@needs_dry_run
def test_sizes_that_the_file_does_not_tell_are_inferred_and_open_symbols_are_named(read: Read) -> None:
    nodes = [*SIZES, node("Relu", "flat", "h"), node("Unique", "h", "u"), node("Relu", "u", "y")]
    seen = read(nodes, [value("x", ["b", "t", 4])], [value("y", [None])], **NUMBERS)
    to_host, to_device = seen.copies
    assert (to_host.bytes, to_host.unknown) == ("4*(b*t)*4", frozenset())
    assert to_device.unknown and to_device.unknown <= {*str(to_device.bytes).split("*")}
    assert to_host.grows and to_device.grows


@needs_dry_run
def test_copies_in_branches_and_loops_are_told(read: Read) -> None:
    def body(name: str) -> onnx.GraphProto:
        nodes = [node("Add", "h h", f"s{name}"), node("Det", f"s{name}", f"d{name}")]
        return helper.make_graph(nodes, name, [], [value(f"d{name}", ["b"])])

    turn = helper.make_graph(
        [node("Identity", "go", "on"), node("MatMul", "state state", "m"), node("Det", "m", "det")],
        "turn",
        [value("n", [], "int64"), value("go", [], "bool"), value("state", ["b", 4, 4])],
        [value("on", [], "bool"), value("m", ["b", 4, 4]), value("det", ["b"])],
    )
    nodes = [
        node("MatMul", "x x", "h"),
        node("If", "flag", "y", then_branch=body("then"), else_branch=body("else")),
        node("Loop", "turns flag h", "last all", body=turn),
    ]
    inputs = [value("x", ["b", 4, 4]), value("flag", [], "bool"), value("turns", [], "int64")]
    seen = read(nodes, inputs, [value("y", ["b"]), value("last", ["b", 4, 4]), value("all", [None, "b"])])
    within = {c.within: c for c in seen.copies}
    assert within["If",].bytes == "4*b*4*4" and not within["If",].repeated
    assert within["Loop",].repeated
    assert [f.operator for f in seen.fallbacks].count("Det") == 3


@needs_dry_run
def test_what_the_host_makes_without_a_kernel_on_the_device_and_moves_there_falls_back(read: Read) -> None:
    nodes = [
        *[node("Shape", "x", "shape"), node("Gather", "shape one", "t"), node("Squeeze", "t", "length")],
        *[node("HannWindow", "length", "window"), node("MatMul", "x x", "h"), node("Mul", "h window", "y")],
    ]
    seen = read(nodes, [value("x", ["t", "t"])], [value("y", ["t", "t"])], one=[1])
    assert [f.operator for f in seen.fallbacks] == ["HannWindow"]
    (moved,) = seen.copies
    assert (moved.tensor, moved.to_host) == ("window", False)


@needs_dry_run
def test_data_that_onnx_runtime_itself_prefers_on_the_host_falls_back(read: Read) -> None:
    nodes = [
        *[node("Shape", "x", "shape"), node("Gather", "shape one", "t"), node("Squeeze", "t", "length")],
        *[node("HannWindow", "length", "window"), node("Mul", "x window", "y")],
    ]
    seen = read(nodes, [value("x", ["b", "t"])], [value("y", ["b", "t"])], one=[1])
    assert [(f.operator, f.why) for f in seen.fallbacks] == [("Mul", BY_CHOICE)]


def test_a_size_of_which_something_is_not_known_is_none_never_0() -> None:
    assert placement._size(value("x", ["b", None, 4])) is None
    assert placement._size(helper.make_tensor_value_info("x", onnx.TensorProto.STRING, ["b"])) is None
    assert placement._size(helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, None)) is None
    assert placement._size(value("x", [])) == "4"
    assert placement._size(value("x", ["b", "t + 1", 8], "bfloat16")) == "2*b*(t + 1)*8"
    assert Copied("x", True, None, frozenset(), ()).grows
    assert not Copied("x", True, "8*2", frozenset(), ()).grows


def test_a_graph_that_shape_inference_gives_up_on_has_copies_of_unknown_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    nodes = [
        helper.make_node("Nonsense", ["x"], ["x_d"], domain="of.nobody"),
        helper.make_node("MemcpyToHost", ["x_d"], ["h"]),
    ]
    made = model(nodes, [value("x", ["b"])], [helper.make_tensor_value_info("h", onnx.TensorProto.FLOAT, None)])
    (copied,) = placement._copies(made)
    assert (copied.tensor, copied.bytes, copied.grows) == ("h", None, True)
    assert list(tmp_path.iterdir()) == [], "it leaves a file where the user works"


@needs_dry_run
def test_the_dry_run_proves_itself_on_graphs_whose_placement_is_known(cache: CacheDir) -> None:
    assert len(KNOWN) == 3
    assert doubts(cache=cache) == ()


NOTHING = Reading(before=None, after={"device": {}, "shapes": {}, "data": {}}, fallbacks=(), copies=())


def test_a_dry_run_that_is_wrong_about_any_known_graph_is_doubted(monkeypatch: pytest.MonkeyPatch) -> None:
    for wrong in KNOWN:
        right = {known.says: known for known in KNOWN}
        answers = iter(
            NOTHING
            if says == wrong.says
            else replace(
                NOTHING,
                after=known.after,
                copies=tuple(Copied("t", True, size, frozenset(), ()) for size in known.moved),
            )
            for says, known in right.items()
        )
        monkeypatch.setattr(placement_probes, "placed", lambda *_, answers=answers, **__: next(answers))
        (doubt,) = doubts()
        assert wrong.says in doubt


def test_a_known_graph_that_does_not_load_is_a_doubt(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> Reading:
        raise LoadError("refused", got="no such operator")

    monkeypatch.setattr(placement_probes, "placed", refuse)
    assert len(doubts()) == len(KNOWN) and "no such operator" in doubts()[0]
