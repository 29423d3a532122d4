"""An exported node says the helper's line too, not only that of a function called `forward`."""

from __future__ import annotations

from pathlib import Path

import onnx
import torch
from torch import Tensor, nn
from torch.fx.proxy import TracerBase

from onnxparity.case import Axis, OutputSpec, Subject, TensorSpec
from onnxparity.export.dynamo import DynamoExporter
from onnxparity.export.frames import whole_stacks
from onnxparity.plan import ArtifactKey


def doubled(x: Tensor) -> Tensor:
    return x + x


class Helped(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return doubled(x)


def test_the_line_of_a_helper_stands_in_the_file(tmp_path: Path) -> None:
    subject = Subject(
        name="helped",
        kind="factory",
        origin="a:b",
        source="a test",
        summary="",
        inputs=(TensorSpec("x", ("batch", 3)),),
        outputs=(OutputSpec("y", ("batch", 3)),),
        axes=(Axis("batch", "b", "batch"),),
    )
    key = ArtifactKey("helped", "dynamo", 20, "float32")
    DynamoExporter().export(Helped().eval(), (torch.ones(2, 3),), subject, key, tmp_path / "m.onnx")
    (node,) = onnx.load(tmp_path / "m.onnx").graph.node
    stack = next(p.value for p in node.metadata_props if p.key == "pkg.torch.onnx.stack_trace")
    assert "return doubled(x)" in stack
    assert "return x + x" in stack
    assert "_call_impl" not in stack


def test_pytorch_is_as_before_afterwards() -> None:
    before = TracerBase._filter_traceback_frames
    with whole_stacks():
        assert TracerBase._filter_traceback_frames is not before
    assert TracerBase._filter_traceback_frames is before
