"""The command line as a gate: exit codes, what it prints, what it writes, and that each flag does something."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from argparse import ArgumentParser
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest

from onnxparity import __version__, environment, plugins
from onnxparity import cli as module
from onnxparity.commands import export as export_verb
from onnxparity.commands import verify as verb
from onnxparity.errors import UsageError
from onnxparity.grammar import parser
from onnxparity.outcome import Status
from onnxparity.planning import selection
from tests.tiny_models import save_tiny

from .running import Here, Ran, cells, cli

FAST = ("--runtime", "ort-cpu", "--latency", "none", "--quick")
VERBS = ("verify", "explain", "export", "list", "placement", "doctor", "report", "gate", "selftest")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The working directory of every command here: good files, one with a fault, and a cache of their own."""
    made = tmp_path_factory.mktemp("cli")
    save_tiny(made / "good.onnx")
    save_tiny(made / "same.onnx")
    save_tiny(made / "fault.onnx", scale=1.01)
    save_tiny(made / "half.onnx", names=("input", "output"), dtype="float16")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ONNXPARITY_CACHE", str(made / "cache"))
        patch.chdir(made)
        yield made


@pytest.fixture(scope="module")
def green(folder: Path) -> Ran:
    """Two equal files."""
    return cli("verify", "good.onnx", "--against", "same.onnx", *FAST, "--out", "green", "--json", "also.json")


@pytest.fixture(scope="module")
def red(folder: Path) -> Ran:
    """Two files that differ."""
    return cli("verify", "fault.onnx", "--against", "good.onnx", *FAST, "--out", "red", "--json", "-")


def test_a_clean_run_exits_with_0_and_writes_every_form(green: Ran, folder: Path) -> None:
    assert green.code == 0
    assert "Conforms: all" in green.out and "green/report.html" in green.out
    assert "cells" in green.err and "Traceback" not in green.err, "progress goes to stderr"
    assert {p.name for p in (folder / "green").iterdir()} == {
        *("report.json", "report.html", "report.md", "junit.xml"),
        "results.jsonl",
    }
    document = green.document(folder / "green" / "report.json")
    assert (folder / "also.json").read_text() == (folder / "green" / "report.json").read_text()
    assert document["conforms"] and set(document["counts"]) == {"PASS"}
    assert document["command"] == "onnxparity " + shlex.join(
        ["verify", "good.onnx", "--against", "same.onnx", *FAST, "--out", "green", "--json", "also.json"]
    )


def test_a_red_run_exits_with_1_and_prints_one_json_document_and_nothing_else(red: Ran, folder: Path) -> None:
    assert red.code == 1
    document = red.document()
    assert document == red.document(folder / "red" / "report.json")
    assert (document["exit_code"], document["conforms"]) == (1, False)
    assert cells(document, Status.MEANING), "the fault is one of meaning"
    assert not cells(document, Status.ARITHMETIC)


def test_the_command_of_a_red_cell_repeats_it_alone(red: Ran) -> None:
    first = next(v for v in red.document()["verdicts"] if v["status"] == "MEANING")
    typed = shlex.split(first["command"])
    assert typed[0] == "onnxparity"
    again = cli(*typed[1:], "--latency", "none", "--out", "again", "--json", "-")
    assert again.code == 1
    (only,) = again.document()["verdicts"]
    assert (only["id"], only["status"], only["ratio"]) == (first["id"], "MEANING", first["ratio"])


def test_a_known_failure_makes_a_red_run_green_and_is_told(red: Ran, folder: Path) -> None:
    known = ("[[expect]]", 'cells = "*/onnx-float64/*"', 'status = "MEANING"', 'reason = "a reason"', 'link = "a link"')
    (folder / "known.toml").write_text("\n".join(known))
    typed = ("verify", "fault.onnx", "--against", "good.onnx", *FAST, "--out", "known", "--expect", "known.toml")
    expected = cli(*typed)
    assert expected.code == 0 and "fail as expected" in expected.out
    document = expected.document(folder / "known" / "report.json")
    assert cells(document, Status.XFAIL) == cells(red.document(), Status.MEANING)


@pytest.mark.parametrize(("name", "code", "sentence"), [("green", 0, "Conforms: all"), ("red", 1, "Does not conform")])
def test_report_and_gate_exit_with_the_verdict(
    name: str, code: int, sentence: str, green: Ran, red: Ran, folder: Path
) -> None:
    document = folder / name / "report.json"
    shown = cli("report", document)
    assert shown.code == code and sentence in shown.out
    judged = cli("gate", document)
    assert judged.code == code and judged.out.startswith(sentence) and judged.out.count("\n") == 1
    written = cli("report", document, "--html", "r.html", "--markdown", "r.md", "--junit", "r.xml")
    assert (written.code, written.out) == (code, "")
    for again, first in (("r.html", "report.html"), ("r.md", "report.md"), ("r.xml", "junit.xml")):
        assert (folder / again).read_text() == (folder / name / first).read_text()


def test_a_report_that_cannot_be_written_is_told(green: Ran, folder: Path) -> None:
    for flag in ("--html", "--markdown", "--junit"):
        refused = cli("report", folder / "green" / "report.json", flag, "green")
        assert (refused.code, refused.out) == (2, "") and "cannot write green" in refused.err


def test_a_file_alone_is_judged_on_arithmetic_and_says_so(folder: Path) -> None:
    alone = cli("verify", "good.onnx", *FAST, "--out", "alone")
    assert alone.code == 0
    document = alone.document(folder / "alone" / "report.json")
    assert {v["question"] for v in document["verdicts"]} == {"arithmetic", "property"}
    assert len([limit for limit in document["limits"] if "nothing is said on meaning" in limit]) == 1
    assert "nothing is said on meaning" in " ".join(alone.out.split()) and "--against" in alone.out
    assert "nothing is said on meaning" in (folder / "alone" / "report.md").read_text()


def test_another_dtype_and_other_names_are_held_together_and_timed(folder: Path) -> None:
    mapped = ("--map", "x=input", "--map", "y=output")
    typed = ("verify", "half.onnx", "--against", "good.onnx", *mapped, "--runtime", "ort-cpu", "--quick", "--json", "-")
    half = cli(*typed, "--latency", "half", "--out", "half")
    assert half.code == 0, half.out
    document = half.document()
    assert {v["question"] for v in document["verdicts"]} == {"meaning", "arithmetic", "property"}
    assert {v["cell"]["artifact"]["dtype"] for v in document["verdicts"]} == {"float16"}
    assert len(document["latency"]) == 3
    for row in document["latency"]:
        assert (row["runtime"], row["conforms"], row["note"]) == ("ort-cpu", True, "")
        samples = row["samples_ms"]
        assert len(samples) >= row["turns"] and row["p50_ms"] == pytest.approx(float(np.median(samples)))


def test_cuda_that_is_asked_for_and_absent_leaves_the_evidence_incomplete(folder: Path) -> None:
    typed = ("verify", "good.onnx", "--against", "same.onnx", "--runtime", "ort-cuda", "--quick", "--json", "-")
    asked = cli(*typed, "--latency", "none", "--out", "cuda")
    document = asked.document()
    (probed,) = [r for r in document["runtimes"] if r["runtime"] == "ort-cuda"]
    if probed["available"]:
        pytest.skip("a CUDA device is there")
    assert asked.code == 3
    on_cuda = [v for v in document["verdicts"] if v["cell"]["runtime"] == "ort-cuda"]
    assert {v["status"] for v in on_cuda} == {"UNAVAILABLE"}
    told = " ".join((on_cuda[0]["message"], *on_cuda[0]["evidence"]))
    assert probed["reason"].splitlines()[0] in told
    assert {v["status"] for v in document["verdicts"] if v["cell"]["runtime"] == "onnx-float64"} == {"PASS"}
    assert probed["reason"].splitlines()[0] in document["limits"][0]
    assert not json.loads((folder / "cuda" / "report.json").read_text())["conforms"]
    assert cli("gate", folder / "cuda" / "report.json").code == 3


def test_doctor_tells_what_is_there_and_why_not_the_rest(folder: Path) -> None:
    found = cli("doctor", "--json")
    document = json.loads(found.out)
    assert found.code == (1 if document["conflict"] else 0)
    assert [r["runtime"] for r in document["runtimes"]] == list(plugins.names())
    assert document["environment"]["packages"] == environment.versions()
    for runtime in document["runtimes"]:
        assert runtime["available"] or runtime["reason"]
    assert {r["runtime"] for r in document["runtimes"] if r["available"]} >= {"onnx-float64", "onnx-spec", "ort-cpu"}


def test_doctor_prints_a_row_per_runtime(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from onnxparity.commands import doctor
    from onnxparity.protocols import Availability

    def probed(names: tuple[str, ...]) -> tuple[Availability, ...]:
        return tuple(Availability(n, n != "ort-cuda", "no library", "1", "install it") for n in names)

    monkeypatch.setattr(doctor, "probe_all", probed)
    shown = cli("doctor")
    assert [name for name in plugins.names() if not re.search(rf"^{name} +(yes|no)", shown.out, re.MULTILINE)] == []
    assert "no library" in shown.out and "install it" in shown.out


def test_list_shows_the_catalogue_or_some_of_it(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selection, "Worker", Here)
    named = json.loads(cli("list", "--json").out)
    assert len(named) > 40 and {"causal-attention", "layer-norm"} <= {s["name"] for s in named}
    some = cli("list", "causal-*")
    assert some.code == 0
    wanted = [s["name"] for s in named if s["name"].startswith("causal-")]
    assert [line.split()[0] for line in some.out.splitlines() if "parameters" in line] == wanted
    assert f"{len(wanted)} subjects" in some.out


def test_export_writes_a_file_that_runs_and_its_record(folder: Path) -> None:
    made = cli("export", "layer-norm", "--opset", "20", "--dtype", "float16", "--out", "new/norm.onnx", "--json")
    assert made.code == 0, made.err
    record = json.loads(made.out)
    assert (record["opset_got"], record["key"]["dtype"], record["path"]) == (20, "float16", "new/norm.onnx")
    assert record["bytes"] == (folder / "new" / "norm.onnx").stat().st_size
    session = onnxruntime.InferenceSession(folder / "new" / "norm.onnx", providers=["CPUExecutionProvider"])
    (y,) = session.run(None, {session.get_inputs()[0].name: np.ones((2, 5, 32), np.float16)})
    assert y.shape == (2, 5, 32) and y.dtype == np.float16


def test_export_names_the_file_itself_and_refuses_what_cannot_be(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(export_verb, "Worker", Here)
    monkeypatch.setattr(selection, "Worker", Here)
    made = cli("export", "layer-norm")
    assert made.code == 0 and made.out.startswith("layer-norm-23-float32.onnx: opset 23, ")
    assert (folder / "layer-norm-23-float32.onnx").is_file()
    refused = cli("export", "layer-norm", "--opset", "10", "--out", "never.onnx")
    assert (refused.code, refused.out) == (1, "") and refused.err.startswith("onnxparity: ")
    assert not (folder / "never.onnx").exists()


def test_the_version_and_a_verb_run_as_a_module_outside_the_checkout(folder: Path, red: Ran) -> None:
    def shell(*typed: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([sys.executable, "-m", "onnxparity", *typed], cwd=folder, capture_output=True, text=True)

    told = shell("--version")
    assert (told.returncode, told.stdout, told.stderr) == (0, f"onnxparity {__version__}\n", "")
    assert shell("gate", "red/report.json").returncode == 1


def subparsers() -> dict[str, ArgumentParser]:
    """The parser of each verb."""
    (choices,) = [a.choices for a in parser()._actions if isinstance(a.choices, dict)]
    return choices


def test_every_verb_explains_itself() -> None:
    assert tuple(subparsers()) == VERBS
    for name in VERBS:
        shown = cli(name, "--help")
        assert shown.code == 0 and shown.err == ""
        assert "exit codes:" in shown.out or "example" in shown.out
    assert "exit codes:" in cli("--help").out and "exit codes:" in cli("verify", "--help").out


def test_every_example_in_the_help_can_be_typed() -> None:
    typed = [shlex.split(line) for name in VERBS for line in (subparsers()[name].epilog or "").splitlines()]
    examples = [words[1:] for words in typed if words[:1] == ["onnxparity"]]
    assert len(examples) >= 8
    for words in examples:
        stop = next((n for n, word in enumerate(words) if word in ("the", "some", "your", "two", "a")), None)
        assert parser().parse_args(words[:stop]).verb


FLAGS: dict[str, tuple[list[str], str]] = {
    "--against": (["a"], "against"),
    "--map": (["x=y"], "renamed"),
    "--opset": (["23"], "opsets"),
    "--dtype": (["float16"], "dtypes"),
    "--runtime": (["ort-cpu"], "runtimes"),
    "--shape": (["b1-t1"], "shapes"),
    "--regime": (["saturated"], "regimes"),
    "--role": (["x=tokens"], "roles"),
    "--property": (["causality"], "properties"),
    "--inputs": (["real.npz"], "inputs"),
    "--allow-nonfinite": ([], "allow_nonfinite"),
    "--cell": (["*"], "cells"),
    "--quick": ([], "quick"),
    "--latency": (["none"], "latency"),
    "--expect": (["file"], "expect"),
    "--out": (["elsewhere"], "out"),
    "--resume": ([], "resume"),
    "--no-explain": ([], "explain"),
    "--no-cache": ([], "use_cache"),
    "--jobs": (["2"], "jobs"),
    "--limit": (["5"], "limit"),
}


def test_every_flag_of_verify_sets_one_thing(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[dict[str, Any]] = []  # Any: each setting has its own type

    def caught(targets: list[str], **settings: Any) -> None:  # Any: as above
        seen.append(settings)
        raise UsageError("stopped here")

    monkeypatch.setattr(verb, "verify_with", caught)
    options = {flag for a in subparsers()["verify"]._actions for flag in a.option_strings if flag.startswith("--")}
    assert options - {"--help", "--json"} == set(FLAGS)
    cli("verify")
    for flag, (values, name) in FLAGS.items():
        cli("verify", flag, *values)
        changed = {n for n, value in seen[-1].items() if value != seen[0][n]}
        assert changed - {"listener", "command"} == {name}, flag


def test_a_fault_of_ours_is_exit_code_70_with_its_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **settings: object) -> None:
        raise RuntimeError("a fault of ours")

    monkeypatch.setattr(verb, "verify_with", broken)
    ended = cli("verify")
    assert (ended.code, ended.out) == (70, "")
    assert "Traceback" in ended.err and "a fault of ours" in ended.err and "please report it" in ended.err


def test_an_interrupted_command_says_how_to_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, **settings: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(verb, "verify_with", interrupted)
    ended = cli("verify")
    assert (ended.code, ended.out) == (130, "") and "--resume" in ended.err and "Traceback" not in ended.err


@pytest.mark.parametrize("typed", ["gate", "report"])
def test_a_red_verdict_that_nobody_reads_to_the_end_is_not_green(typed: str, red: Ran, folder: Path) -> None:
    reader, writer = subprocess.Popen(["true"], stdin=subprocess.PIPE), [sys.executable, "-m", "onnxparity"]
    assert reader.stdin is not None
    reader.wait()
    done = subprocess.run(
        [*writer, typed, "red/report.json"], cwd=folder, stdout=reader.stdin, stderr=subprocess.PIPE, text=True
    )
    reader.stdin.close()
    assert done.returncode in (1, module.BROKEN_PIPE)
    assert "Traceback" not in done.stderr and "Exception" not in done.stderr
