"""The dynamo exporter: asked is got, or an error that says why; the same file every time; nothing printed."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path

import onnx
import pytest
import torch
from torch import Tensor, nn

from onnxparity.case import Subject
from onnxparity.export.dynamo import DynamoExporter
from onnxparity.plan import ArtifactKey

MakeSubject = Callable[..., Subject]
MakeKey = Callable[..., ArtifactKey]


class Block(nn.Module):
    """A linear layer with GELU, which opset 20 has an operator for."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(8, 8)

    def forward(self, x: Tensor) -> Tensor:
        return nn.functional.gelu(self.linear(x))


@pytest.fixture
def block() -> nn.Module:
    torch.manual_seed(0)
    return Block().eval()


@pytest.fixture(scope="module")
def exporter() -> DynamoExporter:
    return DynamoExporter()


def features(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("opset", [18, 20, 23, 24, 25])
def test_the_opset_asked_is_the_opset_got(
    exporter: DynamoExporter, block: nn.Module, make_subject: MakeSubject, key: MakeKey, tmp_path: Path, opset: int
) -> None:
    artifact = exporter.export(block, (features(2, 3, 8),), make_subject(), key(opset), tmp_path / "m.onnx")

    assert (artifact.opset_asked, artifact.opset_got) == (opset, opset)
    assert onnx.load(artifact.path).opset_import[0].version == opset
    assert ("Gelu" in artifact.op_census) == (opset >= 20)
    assert artifact.seconds is not None
    assert artifact.seconds > 0


def test_the_file_carries_the_subjects_names(
    exporter: DynamoExporter, block: nn.Module, make_subject: MakeSubject, key: MakeKey, tmp_path: Path
) -> None:
    subject = make_subject({"features": ("batch", "sequence", 8)}, ["mixed"])

    artifact = exporter.export(block, (features(2, 3, 8),), subject, key(), tmp_path / "new" / "m.onnx")

    assert [(i.name, i.dims) for i in artifact.inputs] == [("features", ("batch", "sequence", 8))]
    assert [(o.name, o.dims) for o in artifact.outputs] == [("mixed", ("batch", "sequence", 8))]


@pytest.mark.parametrize("hint", ["anything", torch.export.Dim.DYNAMIC, torch.export.Dim("other")])
def test_given_dynamic_shapes_win_and_keep_the_subjects_names(
    exporter: DynamoExporter, block: nn.Module, make_subject: MakeSubject, key: MakeKey, tmp_path: Path, hint: object
) -> None:
    shapes = ({1: hint},)
    path = tmp_path / "m.onnx"

    artifact = exporter.export(block, (features(2, 3, 8),), make_subject(), key(), path, dynamic_shapes=shapes)

    assert artifact.inputs[0].dims == (2, "sequence", 8)


class Keywords(nn.Module):
    """Takes a constant and two tensors by keyword, one of them nested."""

    def forward(self, x: Tensor, scale: int, bias: Tensor, past: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        return x * scale + bias, torch.cat([*past, x], dim=1)


def test_keyword_and_nested_inputs_follow_the_subject(
    exporter: DynamoExporter, make_subject: MakeSubject, key: MakeKey, tmp_path: Path
) -> None:
    dims = ("batch", "sequence", 8)
    subject = make_subject(
        {"x": dims, "bias": (8,), "past_a": ("batch", "past", 8), "past_b": ("batch", "past", 8)}, ["y", "present"]
    )
    past = (features(2, 4, 8), features(2, 4, 8))
    kwargs = {"bias": features(8), "past": past}

    artifact = exporter.export(
        Keywords().eval(), (features(2, 3, 8), 3), subject, key(), tmp_path / "m.onnx", kwargs=kwargs
    )

    assert [i.name for i in artifact.inputs] == ["x", "bias", "past_a", "past_b"]
    assert artifact.inputs[3].dims == ("batch", "past", 8)
    assert [o.name for o in artifact.outputs] == ["y", "present"]


def test_two_exports_are_one_file_byte_for_byte(
    block: nn.Module, make_subject: MakeSubject, key: MakeKey, tmp_path: Path
) -> None:
    first, second = (
        DynamoExporter().export(block, (features(2, 3, 8),), make_subject(), key(23), tmp_path / name / "m.onnx")
        for name in ("first", "second")
    )

    assert first.sha256 == second.sha256


def test_large_weights_go_beside_the_file(make_subject: MakeSubject, key: MakeKey, tmp_path: Path) -> None:
    exporter, wide = DynamoExporter(external_data_above=1000), nn.Linear(8, 64).eval()

    artifact = exporter.export(wide, (features(2, 3, 8),), make_subject(), key(), tmp_path / "m.onnx")
    again = exporter.export(wide, (features(2, 3, 8),), make_subject(), key(), tmp_path / "n" / "other.onnx")

    assert artifact.external_data
    assert sorted(p.name for p in tmp_path.glob("*.*")) == ["m.onnx", "small-dynamo-20-float32.data"]
    assert artifact.bytes == sum(p.stat().st_size for p in tmp_path.glob("*.*"))
    assert again.sha256 == artifact.sha256


def test_a_threshold_that_protobuf_cannot_hold_is_refused() -> None:
    with pytest.raises(ValueError, match="external_data_above"):
        DynamoExporter(external_data_above=1 << 31)


class Talkative(nn.Module):
    """Warns and prints while it is traced."""

    def forward(self, x: Tensor) -> Tensor:
        warnings.warn("the table is short", stacklevel=1)
        print("tracing")
        return x + 1


def test_what_is_said_goes_into_the_record_and_not_to_the_terminal(
    exporter: DynamoExporter,
    make_subject: MakeSubject,
    key: MakeKey,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    artifact = exporter.export(Talkative().eval(), (features(2, 3, 8),), make_subject(), key(), tmp_path / "m.onnx")

    assert artifact.warnings == ("UserWarning: the table is short", "printed: tracing")
    assert capfd.readouterr() == ("", "")


def test_gradients_are_off_in_the_export_and_as_before_after_it(
    exporter: DynamoExporter, make_subject: MakeSubject, key: MakeKey, tmp_path: Path
) -> None:
    seen: list[bool] = []

    class Curious(Block):
        def forward(self, x: Tensor) -> Tensor:
            seen.append(torch.is_grad_enabled() or any(p.requires_grad for p in self.parameters()))
            return super().forward(x)

    module = Curious().eval()
    module.linear.bias.requires_grad_(False)
    exporter.export(module, (features(2, 3, 8),), make_subject(), key(), tmp_path / "m.onnx")

    assert seen
    assert not any(seen)
    assert module.linear.weight.requires_grad
    assert not module.linear.bias.requires_grad


def test_a_module_changed_in_place_is_captured_anew(
    exporter: DynamoExporter, block: nn.Module, make_subject: MakeSubject, key: MakeKey, tmp_path: Path
) -> None:
    example, path = (features(2, 3, 8),), tmp_path / "m.onnx"
    before = exporter.export(block, example, make_subject(), key(), path)
    with torch.no_grad():
        block.get_parameter("linear.weight")[0, 0] += 1
    after = exporter.export(block, example, make_subject(), key(), path)

    assert before.sha256 != after.sha256


class Padded(nn.Module):
    """An encoder with a key padding mask."""

    def __init__(self) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 1, enable_nested_tensor=False)

    def forward(self, x: Tensor, pad: Tensor) -> Tensor:
        out: Tensor = self.encoder(x, src_key_padding_mask=pad)
        return out


def test_a_padding_mask_is_exported_at_18_and_as_one_operator_at_23(
    exporter: DynamoExporter, make_subject: MakeSubject, key: MakeKey, tmp_path: Path
) -> None:
    subject = make_subject({"x": ("batch", "sequence", 8), "pad": ("batch", "sequence")}, pad="bool")
    pad = torch.zeros(2, 6, dtype=torch.bool)
    pad[1, 4:] = True
    module = Padded().eval()

    old, new = (
        exporter.export(module, (features(2, 6, 8), pad), subject, key(opset), tmp_path / f"{opset}.onnx")
        for opset in (18, 23)
    )

    assert "Attention" not in old.op_census
    assert "Softmax" in old.op_census
    assert new.op_census["Attention"] == 1
    assert [i.dims for i in new.inputs] == [("batch", "sequence", 8), ("batch", "sequence")]


def test_half_precision_stays_half(
    exporter: DynamoExporter, block: nn.Module, make_subject: MakeSubject, key: MakeKey, tmp_path: Path
) -> None:
    artifact = exporter.export(
        block.half(), (features(2, 3, 8).half(),), make_subject(), key(20, "float16"), tmp_path / "m.onnx"
    )

    assert (artifact.inputs[0].dtype, artifact.outputs[0].dtype) == ("float16", "float16")
