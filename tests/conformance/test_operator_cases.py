"""The operator cases of the onnx package as a gate: the families of a Transformer conform on every runtime here,
for stated causes where they do not, and whatever is spoiled is red."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from onnxparity import api, expectations, plugins
from onnxparity.api import KNOWN_CASE_FAILURES
from onnxparity.export import operator_cases
from onnxparity.export.operator_cases import OperatorCase
from onnxparity.outcome import Status
from onnxparity.planning import selection
from onnxparity.running import schedule

from .running import Here, Ran, cells, cli

FAMILIES = (
    "attention*",
    "rotary_embedding*",
    "rms_normalization*",
    "layer_normalization*",
    "softmax*",
    "gelu*",
    "linear_attention*",
    "tensor_scatter*",
    "flexattention*",
)
RUNTIMES = {"onnx-float64", "onnx-spec", "ort-cpu", *plugins.LEVELS}
FAST = ("--quick", "--latency", "none", "--no-explain", "--json", "-")
GELUS = ("gelu_default_1", "gelu_default_2", "gelu_tanh_1", "relu", "softmax_axis_0")


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Cases are read in this process, once for all tests, and no test touches the user's cache."""
    monkeypatch.setattr(selection, "Worker", Here)
    monkeypatch.setenv("ONNXPARITY_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)


def some(monkeypatch: pytest.MonkeyPatch, **changed: OperatorCase) -> None:
    """Makes the Gelu cases all that there is, some of them changed."""
    every = operator_cases._all()
    few = {name: every[name] for name in GELUS} | changed
    monkeypatch.setattr(operator_cases, "_all", lambda: few)


def spoiled(name: str, factor: float) -> OperatorCase:
    """The case with one element of its stored output off by a factor."""
    case = operator_cases._all()[name]
    ((inputs, (output, *rest)),) = case.values
    wrong = np.array(output)
    wrong.flat[0] *= factor
    return replace(case, values=((inputs, (wrong, *rest)),))


def with_runtime(monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    """Adds the runtime `spoiled`, judged in this process."""
    for module in (api, schedule):
        monkeypatch.setattr(module, "Worker", Here)
    monkeypatch.setitem(plugins.BUILT_IN, "spoiled", f"{__package__}.spoiled_runtime:{kind}")
    plugins.names.cache_clear()
    plugins.runtime.cache_clear()


def statuses(document: Mapping[str, Any], runtime: str) -> dict[str, str]:  # Any: JSON values
    """By case: how a runtime's cell ended."""
    found = [v for v in document["verdicts"] if v["cell"]["runtime"] == runtime]
    return {v["cell"]["artifact"]["subject"].removeprefix("onnx-node-"): v["status"] for v in found}


def reds(ran: Ran) -> list[str]:
    """Ids of the cells that are not green."""
    return [v["id"] for v in ran.document()["verdicts"] if v["status"] not in ("PASS", "XFAIL")]


@pytest.mark.slow
def test_the_families_of_a_transformer_conform_on_every_runtime() -> None:
    ran = cli("verify", *(f"onnx-node:{glob}" for glob in FAMILIES), "--latency", "none", "--json", "-")
    assert ran.code == 0, ran.err or reds(ran)
    document = ran.document()
    assert {v["cell"]["runtime"] for v in document["verdicts"]} >= RUNTIMES
    for glob in FAMILIES:
        names = {f"onnx-node-{case.name}" for case in operator_cases.matching(glob)}
        judged = {v["cell"]["artifact"]["subject"] for v in document["verdicts"]}
        assert names and names <= judged, "none of the family is left out"
    counted = Counter(statuses(document, "onnx-float64").values())
    assert counted["PASS"] > 350 and set(counted) == {"PASS"}, "float64 agrees with every case"
    assert Counter(statuses(document, "ort-cpu").values())["PASS"] > 300
    for found in (v for v in document["verdicts"] if v["status"] == "XFAIL"):
        assert found["expectation"]["reason"] and found["expectation"]["link"].startswith("https://")


def test_list_shows_the_cases() -> None:
    ran = cli("list", "onnx-node:gelu*")
    assert ran.code == 0
    assert "onnx-node:gelu_tanh_1" in ran.out and "8 subjects" in ran.out


@pytest.mark.parametrize("factor", [1.001, -1.0, np.nan])
def test_a_spoiled_stored_output_is_red(factor: float, monkeypatch: pytest.MonkeyPatch) -> None:
    some(monkeypatch, gelu_tanh_1=spoiled("gelu_tanh_1", factor))
    ran = cli("verify", "onnx-node:gelu*", *FAST)
    assert ran.code == 1
    assert reds(ran) == ["onnx-node-gelu_tanh_1/file-20/float32/onnx-float64/fixed/set-0"]
    (found,) = (v for v in ran.document()["verdicts"] if v["id"] in reds(ran))
    assert found["status"] in ("MEANING", "NONFINITE") and found["question"] == "meaning"


def test_a_stored_output_of_another_shape_or_dtype_is_red_everywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    case = operator_cases._all()["gelu_tanh_1"]
    ((inputs, (output,)),) = case.values
    for wrong in (output[None], output.astype(np.float64)):
        some(monkeypatch, gelu_tanh_1=replace(case, values=((inputs, (wrong,)),)))
        red = reds(cli("verify", "onnx-node:gelu_tanh_1", *FAST))
        runtimes = {cell.split("/")[3] for cell in red}
        assert runtimes >= {"ort-cpu", "onnx-spec"}, "float64 tells no dtypes apart"


@pytest.mark.parametrize(
    ("kind", "status"), [("Spoiled", "ARITHMETIC"), ("SpoiledDtype", "STRUCTURE"), ("SpoiledShape", "STRUCTURE")]
)
def test_a_runtime_with_one_operator_wrong_is_red_there_alone(
    kind: str, status: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_runtime(monkeypatch, kind)
    some(monkeypatch)
    ran = cli("verify", "onnx-node:*[!_]", *FAST, "--runtime", "spoiled", "--runtime", "onnx-spec")
    assert ran.code == 1
    wrong = {name for name in GELUS if name.startswith("gelu")}
    assert statuses(ran.document(), "spoiled") == {n: status if n in wrong else "PASS" for n in GELUS}
    assert set(statuses(ran.document(), "onnx-spec").values()) == {"PASS"}


def test_an_expectation_that_fits_no_case_stops_a_run_over_all(monkeypatch: pytest.MonkeyPatch) -> None:
    some(monkeypatch)
    ran = cli("verify", "onnx-node:*", "--latency", "none", "--no-explain")
    assert ran.code == 2
    assert "fits no cell of the operator cases" in ran.err
    assert cli("verify", "onnx-node:gelu*", *FAST).code == 0, "a part of the cases need not have every failure"


def test_a_case_that_passes_after_all_is_red(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    some(monkeypatch)
    listed = tmp_path / "listed.toml"
    listed.write_text(
        '[[expect]]\ncells = "onnx-node-gelu*/*/ort-cpu*/*"\nstatus = "LOAD_ERROR"\nreason = "r"\nlink = "l"\n'
    )
    monkeypatch.setattr(api, "KNOWN_CASE_FAILURES", listed)
    ran = cli("verify", "onnx-node:*", "--latency", "none", "--no-explain", "--json", "-")
    assert ran.code == 1
    assert len(cells(ran.document(), Status.XPASS)) == 3 * len({"ort-cpu", *plugins.LEVELS})


def test_known_failures_of_the_cases_apply_to_no_file_of_the_users(tmp_path: Path) -> None:
    from tests.tiny_models import save_tiny

    name = "onnx-node-scan_sum"  # a file that is called as a case with a known failure
    save_tiny(tmp_path / f"{name}.onnx")
    ran = cli("verify", f"{name}.onnx", *FAST)
    assert ran.code == 0 and not cells(ran.document(), Status.XPASS)


def test_what_is_left_out_is_told_and_asked_for_alone_is_an_error() -> None:
    ran = cli("verify", "onnx-node:bernoulli*", "onnx-node:gelu_tanh_1", *FAST)
    assert ran.code == 0
    told = [limit for limit in ran.document()["limits"] if "left out" in limit]
    assert len(told) == 1 and "random" in told[0]
    assert "onnx-node-bernoulli_double" in told[0] and "onnx-node-bernoulli_expanded" in told[0]
    for name in ("bernoulli", "identity_sequence", "tfidfvectorizer_tf_only_bigrams_skip0", "no_such_case"):
        alone = cli("verify", f"onnx-node:{name}", *FAST)
        assert (alone.code, alone.out) == (2, ""), name
        assert "Traceback" not in alone.err


def test_a_case_takes_no_other_reference_and_its_command_repeats_it() -> None:
    refused = cli("verify", "onnx-node:relu", "--against", "onnx-node:relu", *FAST)
    assert refused.code == 2 and "its own outputs" in refused.err
    document = cli("verify", "onnx-node:cast_FLOAT_to_FLOAT16", *FAST).document()
    command = document["verdicts"][0]["command"].split()
    again = cli(*command[1:], *FAST)
    assert len(again.document()["verdicts"]) == 1


def test_dtypes_that_numpy_lacks_reach_a_runtime_and_come_back() -> None:
    globs = ("castlike_float_to_float8*", "castlike_float8*_to_float16", "castlike_float_to_bfloat16*", "gelu_tanh_1")
    ran = cli("verify", *(f"onnx-node:{glob}" for glob in globs), *FAST)
    assert ran.code == 0, ran.err or reds(ran)
    ended = statuses(ran.document(), "ort-cpu")
    assert len(ended) > 12 and set(ended.values()) == {"PASS"}


def test_every_known_failure_says_why_and_where() -> None:
    known = expectations.load(KNOWN_CASE_FAILURES)
    assert len(known) > 15
    assert all(e.cells.startswith("onnx-node-") and e.link.startswith("https://") for e in known)
