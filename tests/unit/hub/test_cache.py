"""The cache: what comes out is what went in, or nothing; never half of it, and never in the way."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import platformdirs
import pytest

from onnxparity.cache import CacheDir, cache_folder

KEY = "ab" * 32


@pytest.fixture
def cache(tmp_path: Path) -> CacheDir:
    return CacheDir(tmp_path / "cache")


def test_what_is_put_is_got_again(cache: CacheDir) -> None:
    assert cache.get("oracle", KEY, ".npz") is None
    stored = cache.put("oracle", KEY, ".npz", b"numbers")
    found = cache.get("oracle", KEY, ".npz")

    assert found is not None
    assert found == stored
    assert found.read_bytes() == b"numbers"
    assert found.suffix == ".npz"
    assert cache.get("oracle", KEY, ".txt") is None
    assert cache.get("other", KEY, ".npz") is None
    assert cache.get("oracle", "cd" * 32, ".npz") is None


def test_an_entry_keeps_its_files_and_what_was_said_about_them(cache: CacheDir, tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).write_text(name)
    folder = cache.save("artifact", KEY, {"one": tmp_path / "a", "two": tmp_path / "b"}, {"opset": 20})
    entry = cache.load("artifact", KEY)

    assert entry is not None
    assert entry.folder == folder
    assert [(name, (entry.folder / name).read_text()) for name in entry.files] == [("one", "a"), ("two", "b")]
    assert entry.meta == {"opset": 20}


def change_content(folder: Path) -> None:
    (folder / "content.bin").write_bytes(b"numberz")


def truncate_content(folder: Path) -> None:
    (folder / "content.bin").write_bytes(b"")


def remove_content(folder: Path) -> None:
    (folder / "content.bin").unlink()


def remove_manifest(folder: Path) -> None:
    (folder / "manifest.json").unlink()


def break_manifest(folder: Path) -> None:
    (folder / "manifest.json").write_text('{"files": {')


def empty_manifest(folder: Path) -> None:
    (folder / "manifest.json").write_text("[]")


def change_manifest(folder: Path) -> None:
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["meta"]["opset"] = 23
    (folder / "manifest.json").write_text(json.dumps(manifest))


@pytest.mark.parametrize(
    "damage",
    [
        change_content,
        truncate_content,
        remove_content,
        remove_manifest,
        break_manifest,
        empty_manifest,
        change_manifest,
    ],
)
def test_a_damaged_entry_is_thrown_away_and_can_be_made_again(cache: CacheDir, damage: object) -> None:
    stored = cache.put("artifact", KEY, ".bin", b"numbers")
    assert stored is not None
    assert callable(damage)
    damage(stored.parent)

    assert cache.get("artifact", KEY, ".bin") is None
    assert cache.problem is not None
    assert "thrown away" in cache.problem
    assert not stored.parent.exists()
    again = cache.put("artifact", KEY, ".bin", b"numbers")
    assert again is not None
    assert again.read_bytes() == b"numbers"


def test_storing_over_a_damaged_entry_replaces_it(cache: CacheDir) -> None:
    stored = cache.put("artifact", KEY, ".bin", b"numbers")
    assert stored is not None
    change_content(stored.parent)

    again = cache.put("artifact", KEY, ".bin", b"numbers")

    assert again is not None
    assert again.read_bytes() == b"numbers"


def test_storing_twice_leaves_nothing_behind(cache: CacheDir) -> None:
    first, second = (cache.put("artifact", KEY, ".bin", b"numbers") for _ in range(2))

    assert first == second
    assert first is not None
    assert list(first.parent.parent.iterdir()) == [first.parent]


def test_a_folder_that_cannot_be_written_is_an_empty_cache_with_a_reason(tmp_path: Path) -> None:
    blocked = tmp_path / "a-file"
    blocked.write_text("in the way")
    cache = CacheDir(blocked)

    assert cache.put("artifact", KEY, ".bin", b"numbers") is None
    assert cache.problem is not None
    assert cache.problem.startswith("not cached in ")
    assert cache.get("artifact", KEY, ".bin") is None


@pytest.mark.parametrize("name", ["../up", "", "a/b", "."])
def test_a_key_cannot_leave_the_folder(cache: CacheDir, name: str) -> None:
    with pytest.raises(ValueError, match="holds letters"):
        cache.get("artifact", name, ".bin")
    with pytest.raises(ValueError, match="holds letters"):
        cache.put(name, KEY, ".bin", b"")


def test_the_folder_is_the_users_unless_the_environment_names_another(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("ONNXPARITY_CACHE", str(tmp_path))
    assert CacheDir().root == tmp_path
    monkeypatch.delenv("ONNXPARITY_CACHE")
    assert cache_folder() == Path(platformdirs.user_cache_dir("onnxparity"))


WRITER = """
import sys
from pathlib import Path
from onnxparity.cache import CacheDir
cache = CacheDir(Path(sys.argv[1]))
for _ in range(100):
    stored = cache.put("artifact", "ab" * 32, ".bin", b"n" * 200_000)
    found = cache.get("artifact", "ab" * 32, ".bin")
    assert stored is not None and found is not None and cache.problem is None, cache.problem
    assert found.read_bytes() == b"n" * 200_000
"""


def test_processes_that_write_the_same_entry_do_not_disturb_each_other(tmp_path: Path) -> None:
    command = [sys.executable, "-c", WRITER, str(tmp_path / "cache")]
    running = [subprocess.Popen(command, stderr=subprocess.PIPE, text=True) for _ in range(3)]

    assert [process.communicate()[1] for process in running] == ["", "", ""]
    assert [process.returncode for process in running] == [0, 0, 0]
    assert len(list((tmp_path / "cache" / "artifact" / "ab").iterdir())) == 1
