"""`explain` finds the one cell that is meant, and judges it as the report's command did."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from onnxparity import gate
from onnxparity.commands import explain as command
from onnxparity.commands import verify as verifying
from onnxparity.errors import UsageError
from onnxparity.grammar import parser
from onnxparity.locating.diagnosing import FOLDER, MARKER
from onnxparity.location import Location, Node
from onnxparity.outcome import Status, Verdict
from onnxparity.plan import ArtifactKey
from onnxparity.record import Report, summarise
from onnxparity.running.pipeline import Listener
from tests.unit.hub.subjects import cell, subject, verdict

NAME = "new-file-18-float32-onnx-float64-b2-t17-normal"
FILE = ArtifactKey("new", "file", 18, "float32")
RED = cell(key=FILE, runtime="onnx-float64")
COMMAND = "onnxparity verify new.onnx --against old.onnx --map x=y --expect known.toml --quick --runtime ort-cpu"


def report(verdicts: Sequence[Verdict], locations: Sequence[Location] = (), **changes: object) -> Report:
    """A report around verdicts, of a file held against another."""
    end = gate.conclude(verdicts)
    file = replace(subject(name="new"), kind="onnx", origin="'some dir/new.onnx' --against old.onnx")
    made = Report(
        tool_version="0",
        command=COMMAND,
        created="",
        seconds=0.0,
        environment={},
        subjects=(file,),
        artifacts=(),
        runtimes=(),
        placements={},
        verdicts=tuple(verdicts),
        summary=summarise(verdicts),
        latency=(),
        conforms=end.conforms,
        exit_code=end.exit_code,
        conclusion=end.sentence,
        locations=tuple(locations),
    )
    return replace(made, **changes)  # type: ignore[arg-type]  # fields of Report


@dataclass
class Judge:
    """Stands for the run of `verify`: what it was asked for, and what it finds."""

    status: Status = Status.MEANING
    error: Exception | None = None
    eager_missing: bool = False
    located: bool = True
    limits: tuple[str, ...] = ()
    flags: list[argparse.Namespace] = field(default_factory=list)

    def __call__(self, flags: argparse.Namespace, listener: Listener) -> Report:
        self.flags.append(argparse.Namespace(**vars(flags)))
        if self.eager_missing and len(flags.cell) > 1:
            raise UsageError(f"--cell {flags.cell[1]} fits no planned cell")
        if self.error is not None:
            raise self.error
        where = next(c for c in (RED, cell()) if c.id == flags.cell[0])
        found = verdict(self.status, where)
        made = flags.out / FOLDER / "name"
        made.mkdir(parents=True)
        (made / "reproduce.py").write_text("pass")
        node = Node("Softmax", "n", ("x",), ("y",), "attention", "model.py:3: softmax(x)")
        there = Location(where, self.status, "it is wrong", "injected", node, 1, 9, "b1-t2", explains=(where.id,))
        located = [replace(there, reproduction=f"{FOLDER}/name")] if self.located else []
        return report([found], located, limits=self.limits)


@pytest.fixture
def judge(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Judge:
    """No worker is started, and the working directory is empty."""
    made = Judge()
    monkeypatch.setattr(verifying, "judge", made)
    monkeypatch.chdir(tmp_path)
    return made


@pytest.fixture
def written(tmp_path: Path) -> Path:
    """A report in the usual place: one red cell, one green one."""
    folder = tmp_path / "onnxparity-report"
    folder.mkdir()
    red = verdict(Status.MEANING, RED)
    report([red, verdict(Status.PASS, replace(RED, shape="b1-t1"))]).write(folder / "report.json")
    return folder


def explain(*arguments: object) -> int:
    """As the command line calls it. Errors are raised, not printed."""
    typed = [str(a) for a in arguments]
    return command.explain(parser().parse_args(["explain", *typed], argparse.Namespace(typed=("explain", *typed))))


def test_the_flags_are_those_of_the_report_and_the_cell(judge: Judge, written: Path) -> None:
    assert explain(RED.id) == 1
    (flags,) = judge.flags
    assert (flags.targets, flags.against, flags.map) == (["some dir/new.onnx"], "old.onnx", ["x=y"])
    assert (flags.cell, flags.shape, flags.runtime) == ([RED.id], ["b2-t17"], ["onnx-float64"])
    assert flags.regime == ["normal"], "some regimes are tried only when they are asked for"
    assert (flags.opset, flags.dtype) == (None, None), "a file's are what they are"
    assert flags.expect == [Path("known.toml")]
    assert (flags.quick, flags.latency, flags.explain, flags.resume) == (False, ["none"], "all", False)


def test_flags_of_its_own_come_first(judge: Judge, written: Path) -> None:
    explain(RED.id, "--against", "third.onnx", "--map", "a=b", "--no-cache", "--limit", "7")
    (flags,) = judge.flags
    assert (flags.against, flags.map, flags.no_cache, flags.limit) == ("third.onnx", ["a=b"], True, 7.0)


@pytest.mark.parametrize("text", ["new/*/b2-t17/*", "new/file-18/float32/onnx-float64/b2", RED.id])
def test_a_glob_or_prefix_that_fits_one_cell_is_enough(judge: Judge, written: Path, text: str) -> None:
    explain(text)
    assert judge.flags[0].cell == [RED.id]


def test_one_that_fits_several_is_refused_with_the_red_ones_first(judge: Judge, written: Path) -> None:
    with pytest.raises(UsageError, match="stands for more than one cell") as raised:
        explain("new/*")
    assert raised.value.got is not None and raised.value.got.startswith(f"2, such as {RED.id} (MEANING)")
    assert judge.flags == []


@pytest.mark.parametrize("place", ["onnxparity-report", "onnxparity-report/report.json"])
def test_a_report_is_named_by_its_folder_or_file(judge: Judge, written: Path, tmp_path: Path, place: str) -> None:
    other = tmp_path / "elsewhere"
    written.rename(other)
    assert explain(RED.id, "--report", place.replace("onnxparity-report", str(other))) == 1
    assert (other / FOLDER / NAME / "reproduce.py").is_file()


def test_an_unknown_cell_is_refused_with_the_nearest_ids(judge: Judge, written: Path) -> None:
    with pytest.raises(UsageError, match="no cell new/file-18/float32/onnx-floot64/normal") as raised:
        explain("new/file-18/float32/onnx-floot64/normal")
    assert raised.value.expected is not None and RED.id in raised.value.expected
    assert raised.value.exit_code == 2


def test_a_cell_that_the_run_does_not_have_is_refused_with_its_reason(judge: Judge, written: Path) -> None:
    judge.error = UsageError("--cell x fits no planned cell", expected="such as y")
    with pytest.raises(UsageError, match="no cell new/") as raised:
        explain(replace(RED, regime="normel").id)
    assert raised.value.got == "--cell x fits no planned cell"
    assert raised.value.expected is not None and RED.id in raised.value.expected


def test_what_else_goes_wrong_in_the_run_is_told_as_it_is(judge: Judge, written: Path) -> None:
    judge.error = UsageError("cannot read old.onnx")
    with pytest.raises(UsageError, match="cannot read old"):
        explain(RED.id)


def test_a_catalogue_cell_needs_no_report(judge: Judge) -> None:
    judge.status = Status.ARITHMETIC
    assert explain(cell().id) == 1
    (flags,) = judge.flags
    assert (flags.targets, flags.against, flags.opset, flags.dtype) == (["subject"], None, [23], ["float32"])
    eager = "subject/torch/float32/torch-eager/b2-t17/normal"
    assert (flags.cell, flags.runtime) == ([cell().id, eager], ["ort-cpu", "torch-eager"])


def test_a_report_of_another_subject_says_nothing_about_a_catalogue_cell(judge: Judge, written: Path) -> None:
    explain(cell().id)
    (flags,) = judge.flags
    assert (flags.targets, flags.against, flags.map, flags.expect) == (["subject"], None, [], [])


def test_where_eager_is_not_tried_the_cell_is_judged_alone(judge: Judge) -> None:
    judge.eager_missing = True
    assert explain(cell().id) == 1
    assert [len(flags.cell) for flags in judge.flags] == [2, 1]
    assert judge.flags[1].runtime == ["ort-cpu"]


def test_a_files_cell_without_a_report_is_refused(judge: Judge) -> None:
    with pytest.raises(UsageError, match="nothing says where the file of new lies"):
        explain(RED.id)


@pytest.mark.parametrize("text", ["subject", "a/b/c/d/e/f", "subject/dynamo-x/float32/ort-cpu/b1/normal"])
def test_what_is_no_id_needs_a_report(judge: Judge, text: str) -> None:
    with pytest.raises(UsageError, match="no cell") as raised:
        explain(text)
    assert raised.value.remedy is not None and "--report" in raised.value.remedy


def test_a_report_of_the_python_api_serves_as_well(judge: Judge, written: Path) -> None:
    report([verdict(Status.MEANING, RED)], command="onnxparity.verify").write(written / "report.json")
    explain(RED.id)
    assert (judge.flags[0].against, judge.flags[0].map) == ("old.onnx", [])


def test_a_command_that_cannot_be_read_is_refused(judge: Judge, written: Path) -> None:
    report([verdict(Status.MEANING, RED)], command="onnxparity verify --gone 1").write(written / "report.json")
    with pytest.raises(UsageError, match="the report's command cannot be read"):
        explain(RED.id)


def test_the_reproduction_replaces_an_older_one_of_its_cell(
    judge: Judge, written: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    old, others = (written / FOLDER / name for name in (NAME, "name"))
    others.mkdir(parents=True)
    old.mkdir()
    (old / "stale").touch()
    explain(RED.id)
    assert [p.name for p in old.iterdir()] == ["reproduce.py"]
    assert others.is_dir() and not list(others.iterdir()), "the report's own is not touched"
    assert f"python onnxparity-report/{FOLDER}/{NAME}/reproduce.py" in capsys.readouterr().out


def test_out_says_where_the_reproduction_goes(judge: Judge, written: Path, tmp_path: Path) -> None:
    explain(RED.id, "--out", tmp_path / "mine")
    assert (tmp_path / "mine" / FOLDER / NAME / "reproduce.py").is_file()
    assert (tmp_path / "mine" / FOLDER / MARKER).is_file() and not (written / FOLDER).exists()


def test_it_prints_why_and_where(judge: Judge, written: Path, capsys: pytest.CaptureFixture[str]) -> None:
    explain(RED.id)
    printed = " ".join(capsys.readouterr().out.split())
    for words in (RED.id, "it is MEANING", "it is wrong", "Softmax n", "attention", "model.py:3: softmax(x)", "b1-t2"):
        assert words in printed


def test_json_is_all_that_stdout_holds(judge: Judge, written: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert explain(RED.id, "--json", "-") == 1
    document = json.loads(capsys.readouterr().out)
    assert (document["verdict"]["id"], document["exit_code"]) == (RED.id, 1)
    assert document["location"]["node"]["operator"] == "Softmax"
    assert document["location"]["smallest_shape"] == "b1-t2"
    assert document["location"]["reproduction"] == f"{FOLDER}/{NAME}"


def test_json_goes_to_a_file_beside_the_text(
    judge: Judge, written: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    explain(RED.id, "--json", tmp_path / "why.json")
    assert json.loads((tmp_path / "why.json").read_text())["verdict"]["status"] == "MEANING"
    assert RED.id in capsys.readouterr().out
    with pytest.raises(UsageError, match="cannot write"):
        explain(RED.id, "--json", tmp_path / "none" / "why.json")


@pytest.mark.parametrize(
    ("status", "code", "words"),
    [
        (Status.PASS, 0, "nothing to explain"),
        (Status.UNAVAILABLE, 3, "Nothing was shown"),
        (Status.CRASH, 1, "not led back to a node"),
    ],
)
def test_without_a_location_it_says_so_and_exits_as_verify_would(
    judge: Judge, written: Path, capsys: pytest.CaptureFixture[str], status: Status, code: int, words: str
) -> None:
    judge.status, judge.located = status, False
    assert explain(RED.id) == code
    assert words in capsys.readouterr().out


def test_why_there_is_no_location_is_told(judge: Judge, written: Path, capsys: pytest.CaptureFixture[str]) -> None:
    judge.located, judge.limits = False, ("something else", f"{RED.id} was not led back to its cause: too late")
    assert explain(RED.id) == 1
    printed = " ".join(capsys.readouterr().out.split())
    assert "was not led back to its cause: too late" in printed and "something else" not in printed


def test_an_expected_failure_is_explained_and_green(judge: Judge, written: Path) -> None:
    judge.status = Status.XFAIL
    assert explain(RED.id) == 0
