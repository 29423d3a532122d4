"""The project speaks of itself only: nothing in it names a path of the machine it was made on."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.meta.layout import words_of_a_machine

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("src", "models", "export", "runtimes", "reports", "tests", ".ci", "docs", ".github")
TEXT = re.compile(r"(\.(py|md|toml|txt|cfg|ya?ml|json|jinja|css|js|html|xml|in)|Makefile|LICENSE|run)$")


def texts() -> list[Path]:
    """Every text file of the project, wherever it comes from; hidden and generated folders are left out."""
    found = [path for path in ROOT.iterdir() if path.is_file()]
    for folder in FOLDERS:
        found += [p for p in (ROOT / folder).rglob("*") if p.is_file() and "__pycache__" not in p.parts]
    return sorted(p for p in found if TEXT.search(p.name))


def test_no_file_names_a_path_of_one_machine() -> None:
    found = {str(p.relative_to(ROOT)): words_of_a_machine(p.read_text("utf-8", errors="replace")) for p in texts()}
    assert {name: words for name, words in found.items() if words} == {}
    assert len(found) > 100


@pytest.mark.parametrize("folder", ["work", "root", "tmp"])
@pytest.mark.parametrize("text", ["see {}x/y.py", "'{}a'", "cd {}main", "file://{}a", "={}a", "\n{}a"])
def test_a_path_of_one_machine_is_found(folder: str, text: str) -> None:
    assert words_of_a_machine(text.format(f"/{folder}/")) == [f"/{folder}/"]


def test_a_folder_that_only_the_workplace_has_is_found() -> None:
    name = "shar" + "ed/"
    assert words_of_a_machine(f"as {name}DESIGN.md says") == [name]
    assert words_of_a_machine(f"un{name}x") == []


@pytest.mark.parametrize("text", ["https://example.org/{}/x", "my{}/x", "a/{}/b", "./{}/x", "{}/x"])
@pytest.mark.parametrize("folder", ["work", "root", "tmp"])
def test_other_uses_of_the_words_are_left_alone(folder: str, text: str) -> None:
    assert words_of_a_machine(text.format(folder)) == []
