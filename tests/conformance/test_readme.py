"""The README is true: its commands run in the order they are given, from a folder outside the checkout."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    """Code blocks of the README in one language."""
    return re.findall(rf"```{language}\n(.*?)```", README, re.DOTALL)


def commands() -> list[list[str]]:
    """Every shell command without its comment, in order."""
    lines = [shlex.split(line, comments=True) for block in blocks("sh") for line in block.splitlines()]
    return [line for line in lines if line]


def run(command: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=600)


@pytest.mark.slow
def test_every_command_runs_as_written(tmp_path: Path) -> None:
    module, script = blocks("python")
    (tmp_path / "mymodel.py").write_text(module)
    ran = [run(c, tmp_path) for c in commands() if c[0] == "onnxparity"]
    assert len(ran) >= 9
    for done in ran:
        assert done.returncode == 0, f"{done.args}\n{done.stdout}\n{done.stderr}"
    script_run = run([sys.executable, "-P", "-c", script], tmp_path)
    assert script_run.stdout.startswith("Conforms"), script_run.stderr


def test_every_make_target_it_names_exists() -> None:
    targets = [c[1] for c in commands() if c[0] == "make"]
    assert targets == ["verify", "test"]
    for target in targets:
        done = run(["make", "--dry-run", target], ROOT)
        assert done.returncode == 0, done.stderr


def test_exit_codes_are_those_of_the_code() -> None:
    from onnxparity import gate

    table = {int(code) for code in re.findall(r"^\| (\d+) \|", README, re.MULTILINE)}
    assert table == {gate.CONFORMS, gate.DOES_NOT, gate.WRONG_USAGE, gate.INCOMPLETE, gate.INTERNAL}


def test_every_file_it_links_to_is_there() -> None:
    links = [link for link in re.findall(r"\]\(([^)#]+)\)", README) if "://" not in link]
    assert links
    for link in links:
        assert (ROOT / link).is_file(), link
