"""Values inside a graph: exact, with their honest rounding, and the runtime's own, within a bound on memory."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import ModelProto, helper

from onnxparity.artifact import Artifact
from onnxparity.errors import RunError
from onnxparity.outcome import Question
from onnxparity.protocols import Array, Availability, Feeds, Outputs, Placement, Session
from onnxparity.runtimes.float64_graph import Float64Graph
from onnxparity.runtimes.monte_carlo import noise
from onnxparity.runtimes.onnx_spec import OnnxSpecRuntime
from onnxparity.runtimes.ort_cpu import OrtCpu
from onnxparity.runtimes.ort_intermediates import CHUNK_BYTES, chunks, intermediates
from onnxparity.runtimes.replay import exact_and_noise, exact_of_part
from onnxparity.runtimes.subgraph import Sliceable
from tests.unit.runtimes.files import block, model, record, value

X = np.random.default_rng(0).standard_normal((2, 5, 8)).astype(np.float32)
FEEDS: Feeds = {"x": X}


def looked_into(made: ModelProto, feeds: Feeds, *, draws: int = 3) -> tuple[dict[str, Array], Outputs]:
    """Exact values and noise of every tensor."""
    kept: dict[str, Array] = {}
    names = Sliceable(made).makers.keys()
    found = exact_and_noise(
        Float64Graph(made), feeds, names, draws=draws, seed=0, keep=kept.__setitem__, find=kept.__getitem__
    )
    return kept, found


def test_inside_is_measured_as_outputs_are() -> None:
    kept, found = looked_into(block(), FEEDS)
    graph = Float64Graph(block())
    np.testing.assert_array_equal(kept["y"], graph.run(FEEDS)["y"])
    np.testing.assert_array_equal(found["y"], noise(graph, FEEDS, draws=3, seed=0)["y"])
    assert set(kept) == {"x", "scores", "weights", "mixed", "scaled", "erf", "shifted", "gated", "y"}
    assert set(found) == set(kept) - {"x"}
    assert all(found[name].shape == (2, 5) and np.all(found[name] > 0) for name in found)


def test_an_output_that_no_node_makes_has_a_value_too() -> None:
    made = block()
    made.graph.output.append(value("w", [8, 8]))
    kept, found = looked_into(made, FEEDS)
    assert kept["w"].shape == (8, 8) and "w" not in found


def test_a_part_has_the_noise_of_its_own_arithmetic_alone() -> None:
    ill = model(
        [helper.make_node("Sub", ["x", "offset"], ["y"], name="cancel")],
        [value("x", ["n", 4])],
        [value("y", ["n", 4])],
        initializers={"offset": np.array(1000.25, np.float32)},
    )
    feeds = {"x": np.full((1, 4), 1000.5, np.float32) + np.arange(4, dtype=np.float32)}
    graph = Float64Graph(onnx.ModelProto.FromString(ill.SerializeToString()))
    whole = noise(graph, feeds, draws=8, seed=0)["y"]
    exact, own = exact_of_part(ill, feeds, unit_roundoff=2.0**-24, draws=8, seed=0)
    np.testing.assert_array_equal(exact["y"], feeds["x"].astype(float) - 1000.25)
    assert own["y"] <= 2.0**-24 < 0.01 * whole, "the inputs are what they are, so nothing cancels"


def test_a_part_in_half_is_held_to_the_dtype_of_the_whole() -> None:
    made = model([helper.make_node("Softmax", ["x"], ["y"])], [value("x", ["n"], "float16")], [value("y", ["n"])])
    feeds = {"x": np.linspace(-1, 1, 8).astype(np.float16)}
    wide = exact_of_part(
        onnx.ModelProto.FromString(made.SerializeToString()), feeds, unit_roundoff=2.0**-24, draws=3, seed=0
    )
    narrow = exact_of_part(made, feeds, unit_roundoff=2.0**-11, draws=3, seed=0)
    assert wide[1]["y"] < 2.0**-20 < narrow[1]["y"]


def test_a_mask_does_not_hide_the_noise_beside_it() -> None:
    mask = np.array([0, 0, 0, -65504], np.float32)
    made = model(
        [helper.make_node("Add", ["x", "mask"], ["y0"]), helper.make_node("Identity", ["y0"], ["y"])],
        [value("x", ["n", 4])],
        [value("y", ["n", 4])],
        initializers={"mask": mask},
    )
    _, found = looked_into(made, {"x": np.full((1, 4), 1 / 3, np.float32)})
    assert 2.0**-26 < found["y0"] < 2.0**-22, "relative to a third, not to 65504"


def test_chunks_stay_below_their_bound() -> None:
    sizes = {"a": 30, "b": 30, "c": 30, "d": 500, "e": 1, "f": 99}
    assert list(chunks(sizes, 100)) == [["a", "b", "c"], ["d"], ["e", "f"]]
    assert not list(chunks({}, 100))
    assert CHUNK_BYTES == 64 * 2**20


class Counting:
    """ONNX Runtime, which notes what each of its sessions shows, and refuses to show some of it."""

    name = "counting"
    question: Question = "arithmetic"

    def __init__(self, refused: str = "") -> None:
        self.shown: list[list[str]] = []
        self._refused = refused

    def probe(self) -> Availability:
        return Availability(self.name, True, "", "1")

    def load(self, artifact: Artifact) -> Session:
        inner, shown, refused = OrtCpu(level="disabled").load(artifact), self.shown, self._refused

        class Noting:
            def run(self, feeds: Feeds) -> Outputs:
                outputs = inner.run(feeds)
                if refused in outputs:
                    raise RunError(f"{refused} is not shown")
                shown.append(list(outputs))
                return outputs

            def placement(self) -> tuple[Placement, ...] | None:
                return None

        return Noting()


def sizes_of(kept: Mapping[str, Array]) -> dict[str, int]:
    """Bytes by name, without the input."""
    return {name: array.nbytes for name, array in kept.items() if name != "x"}


def test_a_runtime_shows_its_intermediates_some_at_a_time(tmp_path: Path) -> None:
    exact, _ = looked_into(block(), FEEDS)
    sizes, got, runtime = sizes_of(exact), dict[str, Array](), Counting()
    artifact = record(tmp_path / "a.onnx", block())
    limit = 3 * exact["x"].nbytes
    runs = intermediates(runtime, Sliceable(block()), artifact, FEEDS, sizes, tmp_path, got.__setitem__, limit=limit)
    assert len(runs) == len(runtime.shown) == 3, "eight values of one size, three at a time"
    assert all(sum(sizes[n] for n in names if n != "y") <= limit for names in runtime.shown)
    assert all(set(run) == {"y"} for run in runs)
    assert set(got) == set(sizes)
    for name, array in got.items():
        np.testing.assert_allclose(array, exact[name], rtol=1e-4, atol=1e-6)
    assert not list(tmp_path.glob("shown*")), "its files are removed"


def test_a_value_that_is_refused_does_not_hide_the_others(tmp_path: Path) -> None:
    exact, _ = looked_into(block(), FEEDS)
    got: dict[str, Array] = {}
    runtime = Counting(refused="erf")
    artifact = record(tmp_path / "a.onnx", block())
    intermediates(runtime, Sliceable(block()), artifact, FEEDS, sizes_of(exact), tmp_path, got.__setitem__)
    assert set(got) == set(exact) - {"x", "erf"}


def test_a_runtime_that_traces_is_traced(tmp_path: Path) -> None:
    exact, _ = looked_into(block(), FEEDS)
    got: dict[str, Array] = {}
    artifact = record(tmp_path / "a.onnx", block())
    runs = intermediates(
        OnnxSpecRuntime(), Sliceable(block()), artifact, FEEDS, sizes_of(exact), tmp_path, got.__setitem__, limit=1
    )
    assert len(runs) == 1
    assert set(got) == set(exact) - {"x"}
    assert {array.dtype for array in got.values()} == {np.dtype(np.float32)}


def test_a_draw_that_leaves_the_finite_numbers_has_infinite_noise() -> None:
    made = model(
        [helper.make_node("Sub", ["x", "one"], ["near"]), helper.make_node("Sqrt", ["near"], ["y"])],
        [value("x", ["n", 1])],
        [value("y", ["n", 1])],
        initializers={"one": np.array(1.1, np.float32)},
    )
    _, found = looked_into(made, {"x": np.full((64, 1), 1.1, np.float32)})
    assert np.isinf(found["y"]).any() and np.isfinite(found["near"]).all()


def test_a_runtime_that_cannot_open_the_file_is_an_error(tmp_path: Path) -> None:
    artifact = record(tmp_path / "a.onnx", block())
    Path(artifact.path).write_bytes(b"no model")
    with pytest.raises(Exception, match="does not load"):
        intermediates(OrtCpu(), Sliceable(block()), artifact, FEEDS, {"erf": 1}, tmp_path, lambda *_: None)
