"""`verify` as a gate: each of ten planted faults turns it red, and nothing else does (`selftest` plants them all)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from onnxparity.cli import main
from onnxparity.models import catalogue
from onnxparity.models.mutants import MUTANTS, Mutant, planted

from .exporting import export

OPSETS = (18, 23)
TEN = [
    next(m for m in MUTANTS if m.name == name)
    for name in (
        "scale-wrong.pure-self-attention",
        "mask-looks-ahead.causal-attention",
        "mask-dropped.causal-attention",
        "head-order.multi-head-attention",
        "kv-repeat-for-interleave.grouped-query-attention",
        "epsilon.layer-norm",
        "activation.feed-forward-gelu.tanh",
        "rope-base.rotary-attention",
        "norm-place.encoder-block-pre-norm",
        "weight-element.encoder-block-post-norm",
    )
]
SPOILED = sorted({m.subject for m in TEN})


def verify(*arguments: object) -> int:
    """The exit code of `onnxparity verify`, without timing and with the runtimes that decide."""
    return main(["verify", *map(str, arguments), "--quick", "--latency", "none"])


@pytest.mark.parametrize("mutant", TEN, ids=lambda m: m.name)
def test_a_planted_fault_is_red_against_the_pytorch_subject(mutant: Mutant, tmp_path: Path) -> None:
    faulty = export(mutant.subject, planted(mutant), OPSETS[len(mutant.name) % 2], tmp_path / "faulty.onnx")
    assert verify(faulty, "--against", mutant.subject, "--out", tmp_path / "out") == 1
    document = json.loads((tmp_path / "out" / "report.json").read_text())
    red = [v for v in document["verdicts"] if v["status"] == "MEANING"]
    assert red
    assert all(v["ratio"] > 1 for v in red)


@pytest.mark.parametrize("name", SPOILED)
def test_the_unspoiled_subject_is_green_against_itself(name: str, tmp_path: Path) -> None:
    clean = export(name, catalogue.find(name).build(), 18, tmp_path / "clean.onnx")
    assert verify(clean, "--against", name, "--out", tmp_path / "out") == 0


@pytest.mark.parametrize("mutant", TEN, ids=lambda m: m.name)
def test_two_files_differ_only_where_a_fault_was_planted(
    mutant: Mutant, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    reference = export(mutant.subject, catalogue.find(mutant.subject).build(), 18, tmp_path / "reference.onnx")
    same = export(mutant.subject, catalogue.find(mutant.subject).build(), 23, tmp_path / "same.onnx")
    faulty = export(mutant.subject, planted(mutant), 18, tmp_path / "faulty.onnx")
    for candidate, code in ((same, 0), (faulty, 1)):
        capsys.readouterr()
        assert verify(candidate, "--against", reference, "--out", tmp_path / "out", "--json", "-") == code
        document = json.loads(capsys.readouterr().out)
        assert document["exit_code"] == code
        assert document["verdicts"]
