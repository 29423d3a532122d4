"""From torch's pages of exception to the line that matters and what mends it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import nn

from onnxparity.case import Subject
from onnxparity.errors import ExportError
from onnxparity.export.dynamo import DynamoExporter
from onnxparity.export.failure import explain, meaningful
from onnxparity.plan import ArtifactKey


def chained() -> Exception:
    """As torch wraps: the cause at the bottom, pages of advice on top."""
    try:
        try:
            raise NotImplementedError("No ONNX function found for aten._grouped_mm")
        except NotImplementedError as error:
            raise RuntimeError(
                "Failed to convert. \x1b[96mThis is step 3/3\x1b[0m\n- Create an error report"
            ) from error
    except RuntimeError as error:
        return error


def test_the_innermost_cause_is_what_is_said() -> None:
    error = explain(chained(), "mixtral has no translation")

    assert error.what == "mixtral has no translation"
    assert error.got == "NotImplementedError: No ONNX function found for aten._grouped_mm"
    assert error.remedy is not None
    assert "batched_mm" in error.remedy


@pytest.mark.parametrize(
    ("message", "remedy"),
    [
        ("Cannot view a tensor with shape [2, 3]", "requires_grad_(False)"),
        ("Could not guard on data-dependent expression Eq(u0, 1)", "tgt_is_causal"),
        ("Constraints violated (batch)! Suggested fixes: batch = 4", "Suggested fixes"),
        ("No ONNX function found for aten.linalg_eig", "no translation"),
        ("something nobody has seen", "plain PyTorch"),
    ],
)
def test_known_causes_have_a_remedy(message: str, remedy: str) -> None:
    error = explain(RuntimeError(message), "it failed")

    assert error.remedy is not None
    assert remedy in error.remedy
    assert message in str(error.got)


def test_advice_colours_and_paths_are_left_out() -> None:
    text = (
        "\x1b[96mShapes differ\x1b[0m\n\nFor more information, run with TORCH_LOGS=dynamic\n"
        '  File "/home/someone/project/model.py", line 3, in forward\n\n\nThe error above occurred when calling'
    )

    assert meaningful(text) == 'Shapes differ / File "model.py", line 3, in forward'


def test_an_exception_without_a_message_still_says_its_kind() -> None:
    assert explain(AssertionError(), "it failed").got == "AssertionError: no message"


def test_a_decoder_that_looks_at_its_mask_names_the_flag(
    make_subject: Callable[..., Subject], key: Callable[..., ArtifactKey], tmp_path: Path
) -> None:
    decoder = nn.TransformerDecoder(nn.TransformerDecoderLayer(8, 2, 16, batch_first=True), 1).eval()
    dims = {"x": ("batch", "sequence", 8), "memory": ("batch", "source", 8), "mask": ("sequence", "sequence")}
    example = (torch.randn(2, 5, 8), torch.randn(2, 6, 8), torch.zeros(5, 5))

    with pytest.raises(ExportError) as raised:
        DynamoExporter().export(decoder, example, make_subject(dims), key(), tmp_path / "m.onnx")
    assert raised.value.remedy is not None
    assert "tgt_is_causal" in raised.value.remedy


def test_what_only_the_bytecode_capture_takes_is_captured_by_it(
    make_subject: Callable[..., Subject],
    key: Callable[..., ArtifactKey],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    capture, tried = torch.export.export, list[bool]()

    def picky(*args: object, strict: bool, **kwargs: object) -> object:
        tried.append(strict)
        if not strict:
            raise RuntimeError("not by running it")
        return capture(*args, strict=False, **kwargs)  # type: ignore[arg-type]  # handed on as they came

    monkeypatch.setattr(torch.export, "export", picky)
    example = (torch.randn(2, 3, 8),)
    artifact = DynamoExporter().export(nn.Linear(8, 8).eval(), example, make_subject(), key(), tmp_path / "m.onnx")

    assert tried == [False, True]
    assert any("not by running it" in line for line in artifact.warnings)
