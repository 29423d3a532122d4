"""The graph optimiser that spoils a result is found by switching optimisers off."""

from __future__ import annotations

import os
from collections.abc import Collection
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
from onnx import helper

from onnxparity.runtimes.ort_cpu import OrtCpu, OrtCpuDisabled
from onnxparity.runtimes.ort_cuda import OrtCuda
from onnxparity.runtimes.ort_optimizers import RULES, Optimizing, applied, blamed, replaced
from tests.unit.runtimes.files import block, model, record, value

X = np.random.default_rng(0).standard_normal((2, 5, 8)).astype(np.float32)


def opened(path: Path, *disabled: str, optimized_to: str = "") -> tuple[str, ...]:
    """The optimisers that change the test's block without these."""
    artifact = record(path, block())
    return applied(
        lambda: OrtCpu().load_without(artifact, disabled, level="all", verbose=True, optimized_to=optimized_to)
    )


def test_the_optimisers_that_change_a_graph_are_told_by_name(tmp_path: Path) -> None:
    assert "GeluFusionL1" in opened(tmp_path / "a.onnx")
    assert "GeluFusionL1" not in opened(tmp_path / "a.onnx", "GeluFusionL1")
    artifact = record(tmp_path / "a.onnx", block())
    unoptimised = applied(lambda: OrtCpu().load_without(artifact, (), level="disabled", verbose=True))
    assert "GeluFusionL1" not in unoptimised


def test_what_an_optimiser_replaces_is_told_by_value(tmp_path: Path) -> None:
    files = [tmp_path / "without.onnx", tmp_path / "with.onnx"]
    opened(tmp_path / "a.onnx", "GeluFusionL1", "GeluFusionL2", optimized_to=str(files[0]))
    opened(tmp_path / "a.onnx", optimized_to=str(files[1]))
    gone = replaced(*files)
    assert {"scaled", "erf", "shifted", "gated"} <= gone
    assert not {"weights", "mixed"} & gone
    assert not replaced(files[0], files[0])


def test_a_quiet_session_says_nothing_and_the_streams_come_back(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    artifact = record(tmp_path / "a.onnx", block())
    assert applied(lambda: OrtCpu().load(artifact)) == ()
    os.write(2, b"heard")
    assert capfd.readouterr().err == "heard"


def test_a_rewrite_rule_is_switched_off_by_its_own_name(tmp_path: Path) -> None:
    nodes = [helper.make_node("Identity", ["x"], ["same"]), helper.make_node("Neg", ["same"], ["y"], name="neg")]
    artifact = record(tmp_path / "a.onnx", model(nodes, [value("x", ["n"])], [value("y", ["n"])]))

    def operators(*disabled: str) -> list[str]:
        session = OrtCpu().load_without(artifact, disabled, level="all")
        return sorted(p.operator for p in session.placement() or ())

    assert operators() == ["Neg"]
    assert operators("EliminateIdentity") == ["Identity", "Neg"]
    assert operators("NoSuchOptimizer") == ["Neg"], "an unknown name is passed over in silence"


def test_this_build_holds_every_rule_by_its_name() -> None:
    library = Path(onnxruntime.capi.onnxruntime_pybind11_state.__file__).read_bytes()
    assert [rule for rule in RULES if rule.encode() not in library] == []


def test_the_runtimes_whose_optimisers_can_be_switched_off() -> None:
    assert isinstance(OrtCpu(), Optimizing) and isinstance(OrtCuda(), Optimizing)
    assert OrtCpuDisabled().level == "disabled"


class Scripted:
    """A result that is right without certain optimisers."""

    def __init__(self, *needed: Collection[str]) -> None:
        """needed: sets of optimisers, each of which is enough."""
        self._needed = [frozenset(n) for n in needed]
        self.tries = 0

    def __call__(self, without: Collection[str]) -> bool:
        self.tries += 1
        return any(one <= set(without) for one in self._needed)


NAMES = tuple("abcdefghijklmnop")


@pytest.mark.parametrize("guilty", NAMES)
def test_the_one_at_fault_is_found_in_a_few_tries(guilty: str) -> None:
    passes = Scripted({guilty})
    assert blamed(NAMES, passes) == (guilty,)
    assert passes.tries <= 6, "one for all, four to halve sixteen, one to be sure"


def test_of_one_that_prepares_and_one_that_spoils_the_one_that_spoils_is_named() -> None:
    assert blamed(NAMES, Scripted({"c"}, {"k"})) == ("k",)


def test_two_that_spoil_it_each_are_named_together() -> None:
    assert blamed(NAMES, Scripted({"c", "k"})) == ("c", "k")


def test_a_set_of_rules_is_narrowed_down_to_a_rule() -> None:
    rules = "Level1_RuleBasedTransformer"
    assert blamed(("a", rules, "b"), Scripted({rules}, {"DivMulFusion"})) == ("DivMulFusion",)
    assert blamed(("a", rules, "b"), Scripted({rules})) == (rules,), "two of its rules are at fault"


def test_nobody_is_blamed_where_nothing_helps() -> None:
    assert blamed(NAMES, Scripted()) == ()
    assert blamed((), Scripted(())) == ()
