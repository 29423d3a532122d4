"""What the dynamo exporter refuses, and that it says why and what mends it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from onnxparity.case import Subject
from onnxparity.errors import ExportError, LintError
from onnxparity.export.dynamo import DynamoExporter, OpsetError
from onnxparity.plan import ArtifactKey

MakeSubject = Callable[..., Subject]
MakeKey = Callable[..., ArtifactKey]


class Block(nn.Module):
    """A linear layer with GELU, which has no way to opset 26."""

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


class Nested(nn.Module):
    """Takes a pair of tensors."""

    def forward(self, x: Tensor, past: tuple[Tensor, Tensor]) -> Tensor:
        return torch.cat([*past, x], dim=1)


@pytest.mark.parametrize("opset", [26, 10])
def test_an_opset_that_comes_back_as_another_is_an_error(
    exporter: DynamoExporter, block: nn.Module, make_subject: MakeSubject, key: MakeKey, tmp_path: Path, opset: int
) -> None:
    path = tmp_path / "m.onnx"
    path.write_bytes(b"the file of an earlier export")

    with pytest.raises(OpsetError, match=f"asked for opset {opset}.*answered with opset 18") as raised:
        exporter.export(block, (features(2, 3, 8),), make_subject(), key(opset), path)
    assert raised.value.remedy is not None
    assert "18 to 25" in raised.value.remedy
    assert not path.exists()


def test_one_input_too_many_or_too_few_is_said(
    exporter: DynamoExporter, block: nn.Module, make_subject: MakeSubject, key: MakeKey, tmp_path: Path
) -> None:
    two = make_subject({"x": ("batch", "sequence", 8), "mask": ("batch", "sequence")})
    with pytest.raises(ExportError, match="no tensor for mask"):
        exporter.export(block, (features(2, 3, 8),), two, key(), tmp_path / "m.onnx")
    with pytest.raises(ExportError, match="does not fit the module's forward"):
        exporter.export(block, (features(2, 3, 8), features(2)), two, key(), tmp_path / "m.onnx")


class Dropping(nn.Module):
    """Dropout behind a linear layer."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(8, 8)
        self.drop = nn.Dropout(0.5)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.drop(self.linear(x))
        return out


def test_dropout_that_is_left_on_is_refused_by_name(
    exporter: DynamoExporter, make_subject: MakeSubject, key: MakeKey, tmp_path: Path
) -> None:
    module = Dropping().eval()
    module.drop.train()

    with pytest.raises(ExportError, match="training mode") as raised:
        exporter.export(module, (features(2, 3, 8),), make_subject(), key(), tmp_path / "m.onnx")
    assert raised.value.got == "training: drop"
    assert raised.value.remedy is not None
    assert "eval()" in raised.value.remedy


@pytest.mark.parametrize("size", [1, 0])
def test_an_example_that_would_make_a_constant_is_refused(
    exporter: DynamoExporter, block: nn.Module, make_subject: MakeSubject, key: MakeKey, tmp_path: Path, size: int
) -> None:
    with pytest.raises(LintError, match=f"'x': axis 'batch'.*dim 0.*the constant {size}") as raised:
        exporter.export(block, (features(size, 3, 8),), make_subject(), key(), tmp_path / "m.onnx")
    assert raised.value.remedy is not None
    assert "2 or more" in raised.value.remedy


def test_a_nested_example_that_would_make_a_constant_is_refused(
    exporter: DynamoExporter, make_subject: MakeSubject, key: MakeKey, tmp_path: Path
) -> None:
    subject = make_subject({"x": ("batch", 3, 8), "a": ("batch", "past", 8), "b": ("batch", "past", 8)})
    example = (features(2, 3, 8), (features(2, 4, 8), features(2, 1, 8)))

    with pytest.raises(LintError, match=r"'past\[1\]': .*the constant 1"):
        exporter.export(Nested().eval(), example, subject, key(), tmp_path / "m.onnx")


class Table(nn.Module):
    """Adds a table of six rows, whole."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.zeros(6, 8))

    def forward(self, x: Tensor) -> Tensor:
        return x + self.table


def test_a_size_that_the_module_fixes_is_said_with_its_value(
    exporter: DynamoExporter, make_subject: MakeSubject, key: MakeKey, tmp_path: Path
) -> None:
    with pytest.raises(ExportError, match="sequence = 6") as raised:
        exporter.export(Table().eval(), (features(2, 6, 8),), make_subject(), key(), tmp_path / "m.onnx")
    assert raised.value.remedy is not None
    assert "Suggested fixes" in raised.value.remedy


class Sum(nn.Module):
    """Takes two inputs that must have one length."""

    def forward(self, x: Tensor, z: Tensor) -> Tensor:
        return x + z


def test_two_axes_that_must_be_equal_are_said(
    exporter: DynamoExporter, make_subject: MakeSubject, key: MakeKey, tmp_path: Path
) -> None:
    subject = make_subject({"x": ("batch", "sequence"), "z": ("batch", "source")})

    with pytest.raises(ExportError, match="must always be equal") as raised:
        exporter.export(Sum().eval(), (features(2, 5), features(2, 5)), subject, key(), tmp_path / "m.onnx")
    assert raised.value.remedy is not None
    assert "one" in raised.value.remedy


class Branching(nn.Module):
    """Looks at the values of its input."""

    def forward(self, x: Tensor) -> Tensor:
        return x + 1 if x.sum() > 0 else x - 1


def test_a_branch_on_values_names_the_line_and_a_remedy(
    exporter: DynamoExporter,
    make_subject: MakeSubject,
    key: MakeKey,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(ExportError, match="data-dependent") as raised:
        exporter.export(Branching().eval(), (features(2, 3, 8),), make_subject(), key(), tmp_path / "m.onnx")
    assert "x + 1 if x.sum() > 0" in str(raised.value.got)
    assert str(Path(__file__).parent) not in str(raised.value)
    assert raised.value.remedy is not None
    assert "torch.where" in raised.value.remedy
    assert capfd.readouterr() == ("", "")


def test_a_module_that_failed_is_not_captured_again_for_the_next_opset(
    make_subject: MakeSubject, key: MakeKey, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    exporter, module, path = DynamoExporter(), Branching().eval(), tmp_path / "m.onnx"
    captures: list[bool] = []
    capture = torch.export.export

    def counted(*args: object, strict: bool, **kwargs: object) -> object:
        captures.append(strict)
        return capture(*args, strict=strict, **kwargs)  # type: ignore[arg-type]  # handed on as they came

    monkeypatch.setattr(torch.export, "export", counted)
    for opset in (18, 20):
        path.write_bytes(b"the file of an earlier export")
        with pytest.raises(ExportError, match="data-dependent"):
            exporter.export(module, (features(2, 3, 8),), make_subject(), key(opset), path)
        assert not path.exists()

    assert captures == [False, True]


class Untranslated(nn.Module):
    """Calls an operator that has no translation."""

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = torch.linalg.eigvals(x).real
        return out


def test_an_operator_without_a_translation_is_named(
    exporter: DynamoExporter, make_subject: MakeSubject, key: MakeKey, tmp_path: Path
) -> None:
    with pytest.raises(ExportError, match="no translation") as raised:
        exporter.export(
            Untranslated().eval(), (features(6, 6),), make_subject({"x": (6, 6)}), key(), tmp_path / "m.onnx"
        )
    assert "linalg_eig" in str(raised.value.got)


def test_a_mistake_in_the_module_is_said_in_its_own_words(
    exporter: DynamoExporter, block: nn.Module, make_subject: MakeSubject, key: MakeKey, tmp_path: Path
) -> None:
    with pytest.raises(ExportError, match="cannot capture small") as raised:
        exporter.export(block, (features(2, 3, 7),), make_subject({"x": ("batch", 3, 7)}), key(), tmp_path / "m.onnx")
    assert "RuntimeError" in str(raised.value.got)
