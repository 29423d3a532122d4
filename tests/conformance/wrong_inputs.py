"""Everything that can be wrong with the inputs a user brings, and files in which nothing could be compared."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from onnxparity.protocols import Array
from tests.tiny_models import WIDTH, save_tiny

__all__ = ["save_empty", "save_external", "save_sets", "save_wrong_inputs", "set_folder"]

X = np.linspace(-1, 1, 2 * 5 * WIDTH, dtype=np.float32).reshape(2, 5, WIDTH)


def save_wrong_inputs(folder: Path) -> None:
    """Archives and folders of inputs for `save_tiny`, one good and all others wrong in one way each."""
    arrays: dict[str, dict[str, Array]] = {
        "good": {"x": X},
        "unknown": {"x": X, "z": X},
        "missing": {"z": X},
        "double": {"x": X.astype(np.float64)},
        "flat": {"x": X[0]},
        "narrow": {"x": X[..., :2]},
        "nobody": {"x": X[:0]},
        "holes": {"x": np.where(X > 0, np.nan, X).astype(np.float32)},
        "huge": {"x": np.where(X > 0.9, np.inf, X).astype(np.float32)},
        "pickled": {"x": np.array([{"a": 1}])},
        "nothing": {},
    }
    for name, found in arrays.items():
        np.savez(folder / f"{name}.npz", allow_pickle=True, **found)
    whole = (folder / "good.npz").read_bytes()
    (folder / "cut.npz").write_bytes(whole[: len(whole) // 2])
    (folder / "blank.npz").write_bytes(b"")
    (folder / "text.npz").write_bytes(b"x = 3\n")
    set_folder(folder / "cut-set", X[..., :3])
    tensor = folder / "cut-set" / "input_0.pb"
    tensor.write_bytes(tensor.read_bytes()[:-7])
    set_folder(folder / "gap-set", X).joinpath("input_0.pb").rename(folder / "gap-set" / "input_1.pb")
    (folder / "no-set").mkdir()
    (folder / "text-set").mkdir()
    (folder / "text-set" / "input_0.pb").write_bytes(b"x = 3\n")
    set_folder(folder / "two" / "good", X)


def set_folder(folder: Path, x: Array, y: Array | None = None, name: str = "x") -> Path:
    """A folder as ONNX test data is: `input_0.pb`, and `output_0.pb` where `y` is given."""
    folder.mkdir(parents=True)
    (folder / "input_0.pb").write_bytes(numpy_helper.from_array(x, name).SerializeToString())
    if y is not None:
        (folder / "output_0.pb").write_bytes(numpy_helper.from_array(y, "y").SerializeToString())
    return folder


def save_sets(folder: Path, model: Path) -> None:
    """`recorded`: two sets with the outputs of the file at `model`, softmax(x W), rounded from float64."""
    weights = numpy_helper.to_array(onnx.load(model).graph.initializer[0]).astype(np.float64)
    for number in range(2):
        x = X[:, : 3 + number]
        scores = np.exp(x.astype(np.float64) @ weights)
        y = (scores / scores.sum(axis=-1, keepdims=True)).astype(np.float32)
        set_folder(folder / "recorded" / f"test_data_set_{number}", x, y)


def save_external(path: Path) -> Path:
    """A model whose weights lie in a file beside it, cut short."""
    model = onnx.load(save_tiny(path))
    onnx.save(model, path, save_as_external_data=True, location="weights.bin", size_threshold=0)
    data = path.parent / "weights.bin"
    data.write_bytes(data.read_bytes()[:-4])
    return path


def save_empty(path: Path, *, output: bool) -> Path:
    """y = relu(x) where y has no element, or where there is no output at all."""
    taken = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 0 if output else 3])
    given = [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 0])] if output else []
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "empty", [taken], given)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8), path)
    return path
