"""The sample reports as fixtures."""

from __future__ import annotations

import importlib.util
import os
import re
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from onnxparity.record import Report

GOLDEN = Path(__file__).with_name("golden")


@pytest.fixture(scope="session")
def sample() -> ModuleType:
    """`sample.py`, which importlib mode keeps off the path."""
    spec = importlib.util.spec_from_file_location("sample_reports", Path(__file__).with_name("sample.py"))
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def full(sample: ModuleType) -> Report:
    report = sample.full()
    assert isinstance(report, Report)
    return report


@pytest.fixture(scope="session")
def green(sample: ModuleType) -> Report:
    report = sample.green()
    assert isinstance(report, Report)
    return report


@pytest.fixture(scope="session")
def incomplete(sample: ModuleType) -> Report:
    report = sample.incomplete()
    assert isinstance(report, Report)
    return report


@pytest.fixture(scope="session")
def empty(sample: ModuleType) -> Report:
    report = sample.empty()
    assert isinstance(report, Report)
    return report


@pytest.fixture
def golden() -> Callable[[str, str], None]:
    """Compares a text with its golden file; `UPDATE_GOLDEN=1 pytest tests/unit/reports` writes it anew."""

    def check(name: str, text: str) -> None:
        path = GOLDEN / name
        if os.environ.get("UPDATE_GOLDEN") == "1":
            path.write_text(text, encoding="utf-8")
        assert path.exists(), f"no golden file {name}: run with UPDATE_GOLDEN=1"
        assert text == path.read_text(encoding="utf-8"), f"{name} changed: look, then run with UPDATE_GOLDEN=1"

    return check


@pytest.fixture
def without_charts() -> Callable[[str], str]:
    """Drops what depends on the versions of other packages (charts) or has its own file (style, script)."""

    def normalise(text: str) -> str:
        for tag in ("svg", "style", "script"):
            text = re.sub(rf"<{tag}\b.*?</{tag}>", f"<{tag}></{tag}>", text, flags=re.DOTALL)
        return text

    return normalise
