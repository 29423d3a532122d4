"""The exporter behind the cache: the second export does not reach torch, and no cache is no error."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import onnx
import pytest
import torch
from torch import nn

from onnxparity.cache import CacheDir
from onnxparity.case import Subject
from onnxparity.errors import ExportError
from onnxparity.export.cached import ArtifactCache, CachedExporter
from onnxparity.export.dynamo import DynamoExporter, OpsetError
from onnxparity.plan import ArtifactKey

MakeSubject = Callable[..., Subject]
MakeKey = Callable[..., ArtifactKey]


@pytest.fixture
def module() -> nn.Module:
    torch.manual_seed(0)
    return nn.Linear(8, 64).eval()


X = torch.ones(2, 3, 8)


def refuse(*args: object, **kwargs: object) -> None:
    raise AssertionError("torch was called")


def without_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.onnx, "export", refuse)
    monkeypatch.setattr(torch.export, "export", refuse)


@pytest.mark.parametrize("external_data_above", [1 << 30, 1000])
def test_the_second_export_does_not_call_torch(
    module: nn.Module,
    make_subject: MakeSubject,
    key: MakeKey,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    external_data_above: int,
) -> None:
    def exporter() -> CachedExporter:
        return CachedExporter(DynamoExporter(external_data_above=external_data_above))

    first = exporter().export(module, (X,), make_subject(), key(), tmp_path / "first" / "m.onnx")
    without_torch(monkeypatch)
    second = exporter().export(module, (X,), make_subject(), key(), tmp_path / "second" / "other.onnx")

    assert (first.cached, second.cached) == (False, True)
    assert second == replace(first, path=str(tmp_path / "second" / "other.onnx"), seconds=None, cached=True)
    assert second.external_data == (external_data_above == 1000)
    onnx.checker.check_model(second.path, full_check=True)
    assert sorted(p.name.replace("other", "m") for p in (tmp_path / "second").iterdir()) == sorted(
        p.name for p in (tmp_path / "first").iterdir()
    )


def test_the_name_is_the_exporters() -> None:
    assert CachedExporter(DynamoExporter()).name == "dynamo"


def test_another_weight_is_another_export(
    module: nn.Module, make_subject: MakeSubject, key: MakeKey, tmp_path: Path
) -> None:
    exporter, path = CachedExporter(DynamoExporter()), tmp_path / "m.onnx"
    first = exporter.export(module, (X,), make_subject(), key(), path)
    with torch.no_grad():
        module.get_parameter("weight")[0, 0] += 1
    second = exporter.export(module, (X,), make_subject(), key(), path)

    assert not second.cached
    assert first.sha256 != second.sha256


def test_a_damaged_entry_is_exported_again_and_said(
    module: nn.Module, make_subject: MakeSubject, key: MakeKey, tmp_path: Path, own_cache: Path
) -> None:
    exporter, path = CachedExporter(DynamoExporter()), tmp_path / "m.onnx"
    first = exporter.export(module, (X,), make_subject(), key(), path)
    (stored,) = own_cache.rglob("model.onnx")
    data = bytearray(stored.read_bytes())
    data[-20] ^= 1
    stored.write_bytes(data)

    second = exporter.export(module, (X,), make_subject(), key(), path)
    third = exporter.export(module, (X,), make_subject(), key(), path)

    assert (second.cached, third.cached) == (False, True)
    assert second.sha256 == third.sha256 == first.sha256
    assert any("thrown away" in warning for warning in second.warnings)


def test_a_cache_that_cannot_be_written_is_a_warning(
    module: nn.Module, make_subject: MakeSubject, key: MakeKey, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("in the way")
    exporter = CachedExporter(DynamoExporter(), ArtifactCache(CacheDir(tmp_path / "file")))

    artifact = exporter.export(module, (X,), make_subject(), key(), tmp_path / "m.onnx")

    assert Path(artifact.path).is_file()
    assert not artifact.cached
    assert any(warning.startswith("not cached in ") for warning in artifact.warnings)


def test_a_refused_opset_is_remembered(
    make_subject: MakeSubject, key: MakeKey, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Of a lone linear layer torch does make a file at opset 26; GELU has no way there.
    module = nn.Sequential(nn.Linear(8, 8), nn.GELU()).eval()
    with pytest.raises(OpsetError) as first:
        CachedExporter(DynamoExporter()).export(module, (X,), make_subject(), key(26), tmp_path / "m.onnx")
    without_torch(monkeypatch)
    with pytest.raises(OpsetError) as second:
        CachedExporter(DynamoExporter()).export(module, (X,), make_subject(), key(26), tmp_path / "m.onnx")

    assert str(second.value) == str(first.value)


def test_any_other_failure_is_tried_again(
    module: nn.Module, make_subject: MakeSubject, key: MakeKey, tmp_path: Path
) -> None:
    exporter, path = CachedExporter(DynamoExporter()), tmp_path / "m.onnx"
    for _ in range(2):
        with pytest.raises(ExportError, match="training mode"):
            exporter.export(module.train(), (X,), make_subject(), key(), path)

    assert exporter.export(module.eval(), (X,), make_subject(), key(), path).opset_got == 20
