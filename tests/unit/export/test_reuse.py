"""What the exporter spares torch changes no byte of the file."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path

import onnx
import pytest
import torch
from torch import Tensor, nn
from torch.onnx._internal.exporter._registration import ONNXRegistry

from onnxparity.case import Subject
from onnxparity.export import reuse
from onnxparity.export.dynamo import DynamoExporter
from onnxparity.plan import ArtifactKey

MakeSubject = Callable[..., Subject]
MakeKey = Callable[..., ArtifactKey]


class Attention(nn.Module):
    """Self-attention and RMS normalisation, both translated in another way from opset 23 on."""

    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)
        self.norm = nn.RMSNorm(8)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.norm(x + self.attention(x, x, x, need_weights=False)[0])
        return out


class Plain(nn.Module):
    """Self-attention alone: decomposed in one way at every opset."""

    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.attention(x, x, x, need_weights=False)[0]
        return out


@pytest.fixture
def example() -> tuple[Tensor]:
    return (torch.randn(2, 3, 8, generator=torch.Generator().manual_seed(1)),)


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "forms"), [(Attention, 2), (Plain, 1)])
def test_reuse_changes_no_byte(
    make_subject: MakeSubject,
    key: MakeKey,
    tmp_path: Path,
    example: tuple[Tensor],
    kind: type[nn.Module],
    forms: int,
) -> None:
    torch.manual_seed(0)
    module, subject = kind().eval(), make_subject()
    reusing, plain = DynamoExporter(), DynamoExporter(reuse=False)
    program = reusing.program(module, example, subject)
    ours = {o: reusing.convert(program, key(o), tmp_path / f"{o}.onnx") for o in (18, 20, 23, 25)}

    assert len(program.decomposed) == forms
    for opset in (20, 23, 25):
        same = plain.export(module, example, subject, key(opset), tmp_path / "plain.onnx")
        assert ours[opset].sha256 == same.sha256


def test_the_file_is_what_torch_itself_writes(
    make_subject: MakeSubject, key: MakeKey, tmp_path: Path, example: tuple[Tensor]
) -> None:
    module = Attention().eval().requires_grad_(False)
    ours = DynamoExporter().export(module, example, make_subject(), key(23), tmp_path / "m.onnx")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torchs = torch.onnx.export(
            module,
            example,
            dynamo=True,
            opset_version=23,
            dynamic_shapes=({0: torch.export.Dim("batch", min=1), 1: torch.export.Dim("sequence", min=1)},),
            input_names=["x"],
            output_names=["y"],
            verbose=False,
        )

    assert torchs is not None
    assert torchs.model_proto == onnx.load(ours.path)


def test_opsets_differ_in_no_translation_that_a_decomposition_could_meet() -> None:
    # RMS normalisation stands in a program as the user wrote it; nothing decomposes into it.
    old, new = (set(map(str, ONNXRegistry.from_torchlib(opset).functions)) for opset in (18, 26))

    assert old ^ new == {"aten::rms_norm"}


def test_another_torch_exports_plainly(
    make_subject: MakeSubject, key: MakeKey, tmp_path: Path, example: tuple[Tensor], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reuse, "KNOWN_TORCH", ("2.12",))
    exporter = DynamoExporter()
    program = exporter.program(nn.Linear(8, 8).eval(), example, make_subject())
    artifact = exporter.convert(program, key(), tmp_path / "m.onnx")

    assert artifact.opset_got == 20
    assert program.decomposed == {}


def test_torch_is_as_before_afterwards() -> None:
    before = ONNXRegistry.__dict__["from_torchlib"]
    with reuse.reusing({}) as active:
        assert active
        assert ONNXRegistry.__dict__["from_torchlib"] is not before
    assert ONNXRegistry.__dict__["from_torchlib"] is before
