"""The wheel, as a user gets it: built, installed in an empty environment, run from outside the checkout."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
RENDERING = ("numpy", "rich", "jinja2", "matplotlib", "psutil")
"""All that `report` and `gate` may need."""

pytestmark = pytest.mark.packaging


def run(*command: object, cwd: Path, expected: int = 0) -> str:
    """Runs a command away from the checkout's own environment and returns its stdout."""
    env = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "VIRTUAL_ENV"))}
    done = subprocess.run([*map(str, command)], cwd=cwd, env=env, capture_output=True, text=True, timeout=1200)
    assert done.returncode == expected, f"{command} gave {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def environment(folder: Path) -> Path:
    """An empty virtual environment; returns its folder of programs."""
    run(sys.executable, "-m", "venv", folder, cwd=folder.parent)
    return folder / "bin"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from the sdist as PyPI would have it."""
    folder = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "build", "--outdir", folder, ROOT, cwd=folder)
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Programs of an environment with the wheel and its dependencies, and a folder to run them in."""
    folder = tmp_path_factory.mktemp("installed")
    programs = environment(folder / "venv")
    run(programs / "python", "-m", "pip", "install", "--quiet", "-c", ROOT / "constraints.txt", wheel, cwd=folder)
    return programs, folder


def test_wheel_holds_every_package_and_its_data(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    for folder, package in (
        ("models", "models"),
        ("export", "export"),
        ("runtimes", "runtimes"),
        ("reports", "reports"),
    ):
        for path in (ROOT / folder).rglob("*"):
            if path.is_file() and "__pycache__" not in path.parts:
                assert f"onnxparity/{package}/{path.relative_to(ROOT / folder)}" in names
    assert "onnxparity/py.typed" in names
    assert not any(name.split("/")[0] in ("models", "export", "runtimes", "reports", "tests") for name in names)


def test_installed_tool_verifies_from_outside_the_checkout(installed: tuple[Path, Path]) -> None:
    programs, folder = installed
    run(programs / "onnxparity", "verify", "causal-attention", "--quick", "--opset", "23", "--out", "out", cwd=folder)
    document = json.loads((folder / "out" / "report.json").read_text())
    assert document["conforms"] is True
    assert document["counts"]["PASS"] > 10
    assert (folder / "out" / "report.html").stat().st_size > 10_000


def test_module_form_and_version(installed: tuple[Path, Path]) -> None:
    programs, folder = installed
    assert run(programs / "python", "-m", "onnxparity", "--version", cwd=folder).startswith("onnxparity ")


def test_report_and_gate_work_without_torch_onnx_and_onnxruntime(
    wheel: Path, installed: tuple[Path, Path], tmp_path: Path
) -> None:
    full, folder = installed
    run(full / "onnxparity", "verify", "layer-norm", "--quick", "--latency", "none", "--out", "small", cwd=folder)
    programs = environment(tmp_path / "venv")
    pip = (programs / "python", "-m", "pip", "install", "--quiet", "-c", ROOT / "constraints.txt")
    run(*pip, *RENDERING, cwd=tmp_path)
    run(*pip, "--no-deps", wheel, cwd=tmp_path)
    document = folder / "small" / "report.json"
    run(
        programs / "onnxparity",
        "report",
        document,
        "--html",
        "r.html",
        "--markdown",
        "r.md",
        "--junit",
        "r.xml",
        cwd=tmp_path,
    )
    assert "layer-norm" in (tmp_path / "r.html").read_text()
    assert run(programs / "onnxparity", "gate", document, cwd=tmp_path).startswith("Conforms")
    missing = "import importlib.util as u; print([n for n in ('torch', 'onnx', 'onnxruntime') if u.find_spec(n)])"
    assert run(programs / "python", "-c", missing, cwd=tmp_path).strip() == "[]"
