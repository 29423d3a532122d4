"""A user's mistake is exit code 2 and one clear message on stderr: no traceback, no output, no report."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from onnxparity import api
from onnxparity.cli import main
from onnxparity.planning import selection
from onnxparity.protocols import Availability
from tests.tiny_models import save_tiny

from .running import Here
from .wrong_inputs import save_empty, save_external, save_wrong_inputs

FACTORIES = """
import os
import torch
from torch import nn

def three(): return nn.Linear(2, 2), 1, 2
def raises(): raise RuntimeError("boom")
def takes(x): return x
def exits(): raise SystemExit(3)
def dies(): os._exit(0)
def misfit(): return nn.Linear(2, 2), (torch.zeros(3, 3),)
def without_tensors(): return nn.Linear(2, 2), ()
def no_module(): return 3, (torch.zeros(1),)
def nothing(): return None
def strange_shapes(): return nn.Linear(2, 2), (torch.zeros(3, 2),), {}, {"inputs": {0: torch.export.Dim("b")}}
number = 3
"""
IDLE = '[[expect]]\ncells = "nothing/*"\nstatus = "MEANING"\nreason = "r"\nlink = "l"\n'
WRONG_STATUS = IDLE.replace("MEANING", "UNAVAILABLE")


def all_there(names: Sequence[str], worker: object) -> tuple[Availability, ...]:
    """As `probe_all`, where every runtime is available."""
    return tuple(Availability(name, True, "", "1") for name in names)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Everything that can be wrong, and two good files."""
    made = tmp_path_factory.mktemp("mistakes")
    whole = save_tiny(made / "good.onnx").read_bytes()
    save_tiny(made / "renamed.onnx", names=("input", "output"))
    contents = {
        "empty.onnx": b"",
        "garbage.onnx": bytes(range(255, 0, -1)),
        "text.onnx": b"this is no model\n",
        "cut.onnx": whole[: len(whole) // 2],
        "plain.txt": b"text",
        "badfactories.py": FACTORIES.encode(),
        "badsyntax.py": b"def x(:\n",
        "badimport.py": b"import no_such_package_anywhere\n",
        "broken.toml": b"[[expect",
        "idle.toml": IDLE.encode(),
        "status.toml": WRONG_STATUS.encode(),
        "half.json": b"[1,",
        "foreign.json": b'{"schema": "another/1"}',
        "list.json": b"[]",
        "binary.json": b"\xff\xfe\x00",
    }
    for name, content in contents.items():
        (made / name).write_bytes(content)
    save_wrong_inputs(made)
    save_external(made / "external.onnx")
    save_empty(made / "no-elements.onnx", output=True)
    save_empty(made / "no-outputs.onnx", output=False)
    (made / "folder.onnx").mkdir()
    (made / "folder").mkdir()
    yield made
    for name in ("badfactories", "badsyntax", "badimport"):
        sys.modules.pop(name, None)


@pytest.fixture(autouse=True)
def _inside(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    monkeypatch.setattr(selection, "Worker", Here)
    monkeypatch.setattr(api, "probe_all", all_there)


MISTAKES = (
    ("verify nothing.onnx", "cannot read", "No such file"),
    ("verify folder.onnx", "cannot read", "Is a directory"),
    ("verify empty.onnx", "not an ONNX file", "0 bytes"),
    ("verify garbage.onnx", "not an ONNX file", "remedy"),
    ("verify text.onnx", "not an ONNX file", "remedy"),
    ("verify plain.txt", "not an ONNX file", "remedy"),
    ("verify cut.onnx", "truncated or damaged", "copy or export the file again"),
    ("verify causal-atention", "unknown subject 'causal-atention'", "such as causal-attention"),
    ("verify folder", "unknown subject 'folder'", "onnxparity list"),
    ("verify zzz*", "no subject matches", "onnxparity list"),
    ("verify badfactories:rases", "has no 'rases'", "raises"),
    ("verify badfactories:three", "something else than a subject", "a tuple of 3"),
    ("verify badfactories:raises", "badfactories:raises failed", "RuntimeError: boom (badfactories.py, line 7)"),
    ("verify badfactories:takes", "badfactories:takes failed", "called without arguments"),
    ("verify badfactories:exits", "badfactories:exits failed", "SystemExit: 3"),
    ("verify badfactories:misfit", "does not run on its example", "cannot be multiplied"),
    ("verify badfactories:without_tensors", "does not fit forward", "missing"),
    ("verify badfactories:no_module", "something else than a subject", "int for the module"),
    ("verify badfactories:nothing", "something else than a subject", "NoneType"),
    ("verify badfactories:strange_shapes", "badfactories:strange_shapes", "inputs"),
    ("verify badfactories:number", "is not a factory", "int"),
    ("verify no_such_module:factory", "no module 'no_such_module'", "run from the folder"),
    ("verify badsyntax:factory", "importing 'badsyntax' failed", "SyntaxError"),
    ("verify badimport:factory", "importing 'badimport' failed", "no_such_package_anywhere"),
    ("verify badfactories:", "does not name a factory", "package.module:factory"),
    ("verify :factory", "does not name a factory", "package.module:factory"),
    ("verify good.onnx --shape b2", "shape 'b2' does not fit", "write bN-tN"),
    ("verify good.onnx --shape b2-t0", "out of range", "1 to any size"),
    ("verify good.onnx --shape seventeen", "does not fit", "write bN-tN"),
    ("verify good.onnx --cell nothing", "no cell was selected", "--cell"),
    ("verify good.onnx --cell */normal --cell nothing", "--cell nothing fits no planned cell", "such as good/"),
    ("verify good.onnx --map x=y", "--map needs --against", "--against"),
    ("verify good.onnx --map x", "'x' is not a pair", "REFERENCE_NAME=FILE_NAME"),
    ("verify good.onnx --map =x", "'=x' is not a pair", "REFERENCE_NAME=FILE_NAME"),
    ("verify good.onnx --against good.onnx --map nothing=y", "'nothing'", "x, y"),
    ("verify good.onnx --against good.onnx --map x=nothing", "not those of the reference", "nothing"),
    ("verify renamed.onnx --against good.onnx", "not those of the reference", "--map"),
    ("verify good.onnx --against nothing.onnx", "cannot read", "No such file"),
    ("verify good.onnx --against folder.onnx", "cannot read", "Is a directory"),
    ("verify good.onnx --against plain.txt", "not an ONNX file", "remedy"),
    ("verify good.onnx --against minilmm", "unknown subject 'minilmm'", "minilm"),
    ("verify good.onnx --against c*", "more than one subject", "causal-attention"),
    ("verify causal-attention --against good.onnx", "causal-attention is not a file", "leave --against out"),
    ("verify --against good.onnx", "--against needs a file", "FILE.onnx"),
    ("verify good.onnx --out plain.txt", "cannot write to plain.txt", "--out"),
    ("verify good.onnx --out plain.txt/below", "cannot write to", "--out"),
    ("verify good.onnx --expect nothing.toml", "cannot read expectations", "No such file"),
    ("verify good.onnx --expect broken.toml", "broken.toml is not TOML", "got"),
    ("verify good.onnx --expect status.toml", "expects 'UNAVAILABLE'", "MEANING"),
    ("verify good.onnx --expect idle.toml", "nothing/* fits no planned cell", "mend its glob"),
    ("verify good.onnx --runtime ort-cpx", "unknown runtime 'ort-cpx'", "did you mean ort-cpu"),
    ("verify good.onnx --runtime torch-eager", "no cell was selected", "--runtime"),
    ("verify good.onnx --regime satured", "no selected subject has the regime 'satured'", "saturated"),
    ("verify good.onnx --opset 23", "is a file", "leave --opset out"),
    ("verify good.onnx --dtype float16", "is a file", "leave --dtype out"),
    ("verify good.onnx --latency none --latency good", "contradict", "none, good"),
    ("verify good.onnx --latency nothing", "--latency nothing fits no selected subject", "good"),
    ("verify good.onnx --jobs 0", "--jobs", "at least 1"),
    ("verify good.onnx --limit 0", "--limit", "above 0"),
    ("verify good.onnx folder/../good.onnx", "same name", "rename"),
    ("export good.onnx", "not one PyTorch subject", "package.module:factory"),
    ("export c*", "not one PyTorch subject", "package.module:factory"),
    ("export causal-atention", "unknown subject", "such as causal-attention"),
    ("list causal-atention", "unknown subject", "such as causal-attention"),
    ("report nothing.json", "cannot read", "No such file"),
    ("report folder", "cannot read", "Is a directory"),
    ("report half.json", "half.json is not JSON", "onnxparity verify"),
    ("report binary.json", "binary.json is not JSON", "onnxparity verify"),
    ("report foreign.json", "not an onnxparity report", "another/1"),
    ("report list.json", "not an onnxparity report", "list"),
    ("gate nothing.json", "cannot read", "No such file"),
    ("gate half.json", "half.json is not JSON", "onnxparity verify"),
    ("gate foreign.json", "not an onnxparity report", "another/1"),
)


@pytest.mark.parametrize(("typed", "what", "help_with_it"), MISTAKES, ids=[typed for typed, _, _ in MISTAKES])
def test_a_mistake_is_one_clear_message(
    typed: str, what: str, help_with_it: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = sorted(folder.rglob("*"))
    code = main(typed.split())
    said = capsys.readouterr()
    assert (code, said.out) == (2, "")
    assert said.err.startswith("onnxparity: ") and said.err.count("onnxparity: ") == 1
    first, *rest = said.err.rstrip("\n").split("\n")
    assert what in first and help_with_it in said.err
    assert "Traceback" not in said.err and "site-packages" not in said.err
    assert all(line.startswith(("  expected: ", "  got: ", "  remedy: ")) for line in rest)
    assert [p for p in sorted(folder.rglob("*")) if "__pycache__" not in p.parts] == before


FED = "verify good.onnx --inputs"
COMPLETE = (
    ("verify text.onnx", "not an ONNX file"),
    ("verify cut.onnx", "truncated or damaged"),
    ("verify nothing.onnx", "cannot read"),
    ("verify external.onnx", "external data of 'W' is not usable"),
    ("verify no-elements.onnx", "nothing to compare"),
    ("verify no-outputs.onnx", "nothing to compare"),
    (f"{FED} unknown.npz", "unknown 'z'"),
    (f"{FED} missing.npz", "no 'x' and unknown 'z'"),
    (f"{FED} double.npz", "wrong dtype"),
    (f"{FED} flat.npz", "wrong rank"),
    (f"{FED} narrow.npz", "wrong shape"),
    (f"{FED} nobody.npz", "batch is out of range"),
    (f"{FED} holes.npz", "holds NaN or infinity"),
    (f"{FED} huge.npz", "holds NaN or infinity"),
    (f"{FED} pickled.npz", "holds pickled objects"),
    (f"{FED} nothing.npz", "holds no array"),
    (f"{FED} cut.npz", "truncated or damaged"),
    (f"{FED} blank.npz", "is empty"),
    (f"{FED} text.npz", "is no .npz file"),
    (f"{FED} absent.npz", "cannot read"),
    (f"{FED} cut-set", "truncated or no tensor"),
    (f"{FED} text-set", "truncated or no tensor"),
    (f"{FED} gap-set", "does not hold one file for each input"),
    (f"{FED} no-set", "holds no inputs"),
    (f"{FED} good.npz --inputs two/good", "two sets of inputs have the same name"),
    (f"{FED} missing.npz --against good.onnx", "no 'x' and unknown 'z'"),
)


@pytest.mark.parametrize(("typed", "what"), COMPLETE, ids=[typed for typed, _ in COMPLETE])
def test_a_wrong_file_or_input_is_told_with_what_expected_got_and_remedy(
    typed: str, what: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code = main(typed.split())
    said = capsys.readouterr()
    assert (code, said.out) == (2, "")
    first, *rest = said.err.rstrip("\n").split("\n")
    assert first.startswith("onnxparity: ") and what in first
    assert [line.split(":")[0].strip() for line in rest] == ["expected", "got", "remedy"]
    assert "Traceback" not in said.err


@pytest.mark.parametrize(
    ("typed", "word"),
    [
        ("", "VERB"),
        ("verfy", "verfy"),
        ("verify good.onnx --dtype float8", "float8"),
        ("verify good.onnx --opset new", "new"),
        ("verify good.onnx --jobs many", "many"),
        ("verify good.onnx --limit long", "long"),
        ("verify good.onnx --tolerance 1e-3", "--tolerance"),
        ("verify good.onnx --against", "--against"),
        ("export", "SUBJECT"),
        ("gate", "REPORT.json"),
    ],
)
def test_what_the_grammar_does_not_take_is_told_with_the_usage(
    typed: str, word: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as left:
        main(typed.split())
    said = capsys.readouterr()
    assert (left.value.code, said.out) == (2, "")
    assert said.err.startswith("usage: onnxparity") and word in said.err.splitlines()[-1]


def shell(folder: Path, *typed: str) -> subprocess.CompletedProcess[str]:
    """The command as a user runs it, from a folder of theirs."""
    environment = {**os.environ, "ONNXPARITY_CACHE": str(folder / "cache")}
    return subprocess.run(
        [sys.executable, "-m", "onnxparity", *typed], cwd=folder, env=environment, capture_output=True, text=True
    )


@pytest.mark.parametrize(
    ("typed", "words"),
    [
        (("verify", "no such file.onnx"), "cannot read"),
        (("verify", "badfactories:dies"), "badfactories:dies cannot be described: the worker died"),
    ],
)
def test_a_mistake_reaches_the_shell_from_outside_the_checkout(
    folder: Path, typed: tuple[str, ...], words: str
) -> None:
    done = shell(folder, *typed)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("onnxparity: ") and words in done.stderr
    assert "Traceback" not in done.stderr
