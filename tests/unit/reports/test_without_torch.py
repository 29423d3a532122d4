"""Reports are rendered where torch, onnx and onnxruntime are not installed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from onnxparity.record import Report

RENDER = """
import sys, importlib.abc
from pathlib import Path

class Absent(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ABSENT:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

ABSENT = {"torch", "onnx", "onnxruntime", "onnxscript", "openvino"}
sys.meta_path.insert(0, Absent())
from rich.console import Console
from onnxparity.record import Report
from onnxparity.reports.html import render_html
from onnxparity.reports.junit import render_junit
from onnxparity.reports.markdown import render_markdown
from onnxparity.reports.terminal import print_report

report = Report.read(Path(sys.argv[1]))
print_report(report, Console(width=80))
for render in (render_html, render_markdown, render_junit):
    print(len(render(report)))
print("loaded:", sorted(ABSENT & set(sys.modules)))
IMPORT
"""


def rendered(path: Path, extra: str = "") -> subprocess.CompletedProcess[str]:
    code = RENDER.replace("IMPORT", extra)
    return subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, encoding="utf-8")


def test_every_rendering_works_without_torch_onnx_and_onnxruntime(full: Report, tmp_path: Path) -> None:
    full.write(tmp_path / "report.json")
    result = rendered(tmp_path / "report.json")
    assert result.returncode == 0, result.stderr
    assert result.stdout.endswith("loaded: []\n")


def test_the_check_itself_notices_an_import(full: Report, tmp_path: Path) -> None:
    full.write(tmp_path / "report.json")
    result = rendered(tmp_path / "report.json", "import torch")
    assert result.returncode == 1
    assert "No module named 'torch'" in result.stderr
