"""Runtimes by name: an unknown one is an error with near matches, and one that does not load is not silent."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import EntryPoint

import pytest

from onnxparity import plugins
from onnxparity.errors import UnavailableError, UsageError


@pytest.fixture
def brought(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[EntryPoint]]:
    """Entry points that another package would register."""
    found: list[EntryPoint] = []

    def entry_points(*, group: str, name: str | None = None) -> tuple[EntryPoint, ...]:
        assert group == plugins.GROUP
        return tuple(p for p in found if name in (None, p.name))

    monkeypatch.setattr(plugins, "entry_points", entry_points)
    plugins.names.cache_clear()
    plugins.runtime.cache_clear()
    yield found
    plugins.names.cache_clear()
    plugins.runtime.cache_clear()


def point(name: str, value: str) -> EntryPoint:
    """One entry point."""
    return EntryPoint(name, value, plugins.GROUP)


def test_every_default_runtime_has_a_name_and_a_question() -> None:
    assert set(plugins.DEFAULT_RUNTIMES) <= set(plugins.names())
    assert {plugins.question(n) for n in plugins.names()} == {"oracle", "meaning", "arithmetic"}
    assert plugins.question(plugins.MEANING) == "meaning"


def test_an_unknown_name_is_an_error_with_near_matches() -> None:
    with pytest.raises(UsageError, match="did you mean ort-cpu"):
        plugins.check_name("ort-cpuu")
    with pytest.raises(UsageError, match="unknown runtime"):
        plugins.runtime("")


def test_a_plugin_joins_by_its_name(brought: list[EntryPoint]) -> None:
    brought.append(point("mine", "builtins:dict"))
    assert plugins.check_name("mine") == "mine"
    assert type(plugins.runtime("mine")).__name__ == "dict"
    assert plugins.question("mine") == "arithmetic"


def test_a_plugin_that_takes_a_name_in_use_is_an_error(brought: list[EntryPoint]) -> None:
    brought.append(point("ort-cpu", "builtins:dict"))
    with pytest.raises(UsageError, match="registered twice: ort-cpu"):
        plugins.names()


@pytest.mark.parametrize("value", ["no_such_module:Runtime", "builtins:NoSuchThing", "builtins:len"])
def test_a_plugin_that_does_not_load_is_unavailable_with_its_reason(brought: list[EntryPoint], value: str) -> None:
    brought.append(point("broken", value))
    with pytest.raises(UnavailableError, match="broken does not load"):
        plugins.runtime("broken")
    found = plugins.probe("broken")
    assert not found.available
    assert "Error: " in found.reason
