"""The content-addressed cache: files found again by the hash of what made them, verified before they are trusted.

One entry is a folder, published whole by renaming, so that readers never see half of one, and two processes that
write the same entry end with one of the two equal ones. What does not verify is thrown away and made again.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

__all__ = ["ENVIRONMENT", "CacheDir", "Entry", "cache_folder", "sha256_of"]

ENVIRONMENT = "ONNXPARITY_CACHE"
"""The environment variable that names another folder."""

_MANIFEST = "manifest.json"
_CONTENT = "content"
_CHUNK = 1 << 20


def sha256_of(*files: Path) -> str:
    """Of the files' bytes, one after the other."""
    digest = hashlib.sha256()
    for file in files:
        with file.open("rb") as stream:
            while chunk := stream.read(_CHUNK):
                digest.update(chunk)
    return digest.hexdigest()


def cache_folder() -> Path:
    """The folder named by ONNXPARITY_CACHE, else the user's cache folder for onnxparity."""
    named = os.environ.get(ENVIRONMENT)
    if named:
        return Path(named)
    import platformdirs  # here, because what only reads reports does without it

    return Path(platformdirs.user_cache_dir("onnxparity"))


@dataclass(frozen=True)
class Entry:
    """A verified entry."""

    folder: Path
    files: tuple[str, ...]
    meta: Mapping[str, Any]  # Any: JSON
    """What was stored beside the files."""


class CacheDir:
    """Entries by kind and key below one folder. A cache that cannot be used is empty and says why in `problem`."""

    def __init__(self, root: Path | None = None) -> None:
        self.root = cache_folder() if root is None else root
        self.problem: str | None = None
        """Why the last entry could not be stored or was thrown away; None where all went well."""

    def get(self, kind: str, key: str, suffix: str) -> Path | None:
        """The file that `put` stored, verified by its hash, or None."""
        entry = self.load(kind, key)
        return entry.folder / f"{_CONTENT}{suffix}" if entry and f"{_CONTENT}{suffix}" in entry.files else None

    def put(self, kind: str, key: str, suffix: str, data: bytes) -> Path | None:
        """Stores one file; where it now is, or None where the folder cannot be written (see `problem`)."""
        name = f"{_CONTENT}{suffix}"
        with tempfile.TemporaryDirectory() as scratch:
            source = Path(scratch) / name
            source.write_bytes(data)
            folder = self.save(kind, key, {name: source}, {})
        return folder / name if folder else None

    def load(self, kind: str, key: str) -> Entry | None:
        """The entry, if it is there and has the hashes it was stored with; a damaged one is removed."""
        folder = self._folder(kind, key)
        try:
            manifest = json.loads((folder / _MANIFEST).read_text(encoding="utf-8"))
            if manifest["sha256"] != _manifest_hash(manifest["files"], manifest["meta"]):
                raise ValueError("its manifest was changed")
            for name, sha in manifest["files"].items():
                if sha256_of(folder / name) != sha:
                    raise ValueError(f"{name} was changed")
            return Entry(folder, tuple(manifest["files"]), manifest["meta"])
        except FileNotFoundError as error:
            if folder.is_dir():
                self.discard(folder, f"{Path(str(error.filename)).name} is missing")
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            self.discard(folder, str(error))
        return None

    def save(self, kind: str, key: str, files: Mapping[str, Path], meta: Mapping[str, Any]) -> Path | None:  # Any: JSON
        """Stores copies of the files under the given names, and `meta`; the entry's folder, or None (see `problem`)."""
        folder = self._folder(kind, key)
        scratch: Path | None = None
        try:
            folder.parent.mkdir(parents=True, exist_ok=True)
            scratch = Path(tempfile.mkdtemp(dir=folder.parent, prefix=".new-"))
            for name, file in files.items():
                shutil.copyfile(file, scratch / name)
            hashes = {name: sha256_of(scratch / name) for name in files}
            manifest = {"files": hashes, "meta": dict(meta), "sha256": _manifest_hash(hashes, meta)}
            (scratch / _MANIFEST).write_text(json.dumps(manifest, indent=1), encoding="utf-8")
            return self._publish(scratch, folder, kind, key)
        except OSError as error:
            self.problem = f"not cached in {self.root}: {error.strerror or error}"
            return None
        finally:
            if scratch is not None:
                shutil.rmtree(scratch, ignore_errors=True)

    def discard(self, folder: Path, why: str) -> None:
        """Removes an entry that is not what it should be, and remembers why."""
        self.problem = f"a damaged cache entry was thrown away: {why}"
        shutil.rmtree(folder, ignore_errors=True)

    def _publish(self, scratch: Path, folder: Path, kind: str, key: str) -> Path | None:
        for _ in range(2):
            try:
                os.replace(scratch, folder)
                return folder
            except OSError:
                # A folder with content is in the way: someone was first, or `load` removes it as damaged.
                if self.load(kind, key) is not None:
                    return folder
        self.problem = f"not cached in {self.root}: {folder.name} cannot be replaced"
        return None

    def _folder(self, kind: str, key: str) -> Path:
        for part in (kind, key):
            if not part or not all(c.isalnum() or c in "-_" for c in part):
                raise ValueError(f"a cache kind or key holds letters, digits, - and _, got {part!r}")
        return self.root / kind / key[:2] / key


def _manifest_hash(files: Mapping[str, str], meta: Mapping[str, Any]) -> str:  # Any: JSON
    return hashlib.sha256(json.dumps([dict(files), dict(meta)], sort_keys=True).encode()).hexdigest()
