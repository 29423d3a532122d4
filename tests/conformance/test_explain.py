"""`explain`, and where `verify` says that it goes wrong, on a file with a planted fault."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from onnxparity.models import catalogue
from onnxparity.models.norms import LayerNorm
from onnxparity.outcome import Status

from .exporting import export
from .running import Ran, cells, cli

EPSILON = "1e-06", "1e-05"
PASSING = "layer-norm/dynamo-23/float32/ort-cpu/b2-t17/normal"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A layer norm whose epsilon is 1e-6 instead of 1e-5, and the report on it."""
    made = tmp_path_factory.mktemp("explain")
    module = catalogue.find("layer-norm").build()
    assert isinstance(module, LayerNorm)
    module.norm.eps = 1e-6
    faulty = export("layer-norm", module, 23, made / "faulty.onnx")
    done = cli("verify", faulty, "--against", "layer-norm", "--quick", "--latency", "none", "--out", made / "out")
    assert done.code == 1
    (made / "verify.txt").write_text(done.out)
    return made


@pytest.fixture(scope="module")
def document(folder: Path) -> dict[str, Any]:  # Any: JSON values
    """The report, valid against its schema."""
    return Ran(1, "", "").document(folder / "out" / "report.json")


def test_verify_names_node_line_constants_and_smallest_shape(folder: Path, document: dict[str, Any]) -> None:
    (location,) = document["locations"]
    assert location["node"]["operator"] == "LayerNormalization"
    assert location["node"]["source"].startswith("norms.py:")
    assert (location["origin"], location["smallest_shape"]) == ("injected", "b1-t1")
    assert any(all(value in line for value in EPSILON) for line in location["evidence"])
    assert set(location["explains"]) == set(cells(document, Status.MEANING))
    assert location["statistics"]
    assert not any("led back" in limit for limit in document["limits"])
    for name in ("report.html", "report.md", "junit.xml"):
        text = (folder / "out" / name).read_text()
        assert "here it goes wrong" in text and "norms.py:" in text
    printed = (folder / "verify.txt").read_text()
    assert "Where it goes wrong" in printed and "norms.py:" in printed


def test_explain_repeats_it_for_one_cell(folder: Path, document: dict[str, Any]) -> None:
    cell = next(c for c in cells(document, Status.MEANING) if "/b2-t17/" in c)
    done = cli("explain", cell, "--report", folder / "out")
    assert done.code == 1
    words = " ".join(done.out.split())
    for text in (
        cell,
        "MEANING",
        "LayerNormalization",
        "norms.py:",
        "injected",
        "b1-t1",
        "--against layer-norm",
        *EPSILON,
    ):
        assert text in words
    for line in done.out.splitlines():
        assert len(line) <= 80 or cell in line or "reproduce.py" in line, line


def test_explain_as_json_holds_verdict_and_location(folder: Path, document: dict[str, Any]) -> None:
    (location,) = document["locations"]
    cell = next(c for c in cells(document, Status.MEANING) if "/b1-t1/" in c)
    done = cli("explain", cell.removesuffix("/normal"), "--report", folder / "out" / "report.json", "--json", "-")
    found = json.loads(done.out)
    assert (done.code, found["exit_code"], found["verdict"]["id"]) == (1, 1, cell)
    assert found["location"]["node"] == location["node"]


def test_a_cell_that_passes_has_nothing_to_explain(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    done = cli("explain", PASSING)
    assert done.code == 0
    assert "nothing to explain" in done.out and "of its budget" in done.out
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("text", "words"),
    [("faulty/*", "more than one cell"), ("faulty/file-23/float32/onnx-float64/b2-t17/nornal", "no cell")],
)
def test_a_cell_that_is_none_or_several_is_wrong_usage(folder: Path, text: str, words: str) -> None:
    done = cli("explain", text, "--report", folder / "out")
    assert done.code == 2 and words in done.err
    assert "faulty/file-23/float32/onnx-float64/b2-t17/normal" in done.err
    assert "Traceback" not in done.err


def test_without_explaining_the_report_names_no_cause(folder: Path, tmp_path: Path) -> None:
    flags = ("--against", "layer-norm", "--quick", "--latency", "none", "--no-explain", "--out", tmp_path / "out")
    done = cli("verify", folder / "faulty.onnx", *flags, "--json", "-")
    assert done.code == 1
    assert done.document()["locations"] == []
    assert not (tmp_path / "out" / "reproductions").exists()
