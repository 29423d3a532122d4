"""What a run ran on goes into the report as JSON, and what is not installed is None."""

from __future__ import annotations

import json

import pytest

from onnxparity import environment


def test_the_environment_is_json_and_names_what_verdicts_rest_on() -> None:
    found = environment.describe()
    assert json.loads(json.dumps(found, allow_nan=False)) == found
    assert {"platform", "machine", "processor", "cores", "memory_bytes", "load_1min", "python", "packages"} == set(
        found
    )
    assert found["cores"] >= 1 and found["memory_bytes"] > 0


def test_versions_name_every_package_and_none_for_those_that_are_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environment, "PACKAGES", ("numpy", "no-such-package-anywhere"))
    found = environment.versions()
    assert list(found) == ["numpy", "no-such-package-anywhere"]
    assert found["numpy"] is not None
    assert found["no-such-package-anywhere"] is None


def test_the_packages_behind_verdicts_are_recorded() -> None:
    assert {"onnxparity", "torch", "onnx", "onnxruntime", "onnxruntime-gpu", "numpy"} <= set(environment.versions())
