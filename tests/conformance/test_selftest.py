"""The quick self-test through the command line: every fault found, nothing clean red."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.running import cli


@pytest.fixture(scope="module")
def quick(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:  # Any: JSON values
    """The document of `onnxparity selftest --quick --json -`."""
    folder, here = tmp_path_factory.mktemp("selftest"), Path.cwd()
    os.chdir(folder)  # an empty working directory, as a user may have it
    try:
        ran = cli("selftest", "--quick", "--json", "-")
    finally:
        os.chdir(here)
    document: dict[str, Any] = json.loads(ran.out)
    assert ran.code == document["exit_code"]
    return document


@pytest.mark.slow
def test_every_planted_fault_is_found(quick: dict[str, Any]) -> None:  # Any: JSON values
    missed = [fault["name"] for fault in quick["faults"] if not fault["found"]]
    assert missed == []
    assert quick["found"] == quick["planted"] >= 25


@pytest.mark.slow
def test_nothing_clean_is_red(quick: dict[str, Any]) -> None:  # Any: JSON values
    assert quick["clean"]["alarms"] == []
    assert quick["clean"]["cells"] >= 100
    assert quick["clean"]["equivalents"] >= 20


@pytest.mark.slow
def test_everything_ran_and_the_exit_code_says_so(quick: dict[str, Any]) -> None:  # Any: JSON values
    assert quick["incomplete"] == []
    assert quick["exit_code"] == 0
    assert quick["margin"]["clean"]["ratio"] <= 1 < quick["margin"]["fault"]["ratio"]


@pytest.mark.slow
def test_nineteen_of_twenty_faults_are_led_back_to_their_place(quick: dict[str, Any]) -> None:  # Any: JSON values
    elsewhere = [(f["name"], f["location"]) for f in quick["faults"] if not f["located"]]
    assert quick["located_share"] >= 0.95, elsewhere


def test_a_kind_that_there_is_not_is_told_with_those_there_are() -> None:
    ran = cli("selftest", "no-such-kind")
    assert ran.code == 2
    assert "expected:" in ran.err and "rope-base" in ran.err


def test_no_jobs_are_refused() -> None:
    ran = cli("selftest", "--quick", "--jobs", "0")
    assert ran.code == 2
    assert "--jobs is too small" in ran.err
