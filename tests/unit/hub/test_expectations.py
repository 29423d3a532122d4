"""A list of known failures cannot hide another failure, outlive its causes, or excuse missing evidence."""

from __future__ import annotations

from pathlib import Path

import pytest

from onnxparity.errors import UsageError
from onnxparity.expectations import apply, load, unmatched
from onnxparity.outcome import Expectation, Status
from tests.unit.hub.subjects import cell, verdict

ENTRY = """[[expect]]
cells = "subject/*/ort-cpu/*"
status = "ARITHMETIC"
reason = "a reason"
link = "https://example.org/1"
"""
KNOWN = Expectation("subject/*/ort-cpu/*", Status.ARITHMETIC, "a reason", "https://example.org/1")
EXPECTABLE = (
    Status.MEANING,
    Status.ARITHMETIC,
    Status.PROPERTY,
    Status.STRUCTURE,
    Status.NONFINITE,
    Status.EXPORT_ERROR,
    Status.LINT_ERROR,
    Status.LOAD_ERROR,
    Status.RUN_ERROR,
    Status.TIMEOUT,
    Status.CRASH,
)


def write(folder: Path, text: str | bytes) -> Path:
    """A file of expectations."""
    path = folder / "known.toml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def test_entries_are_read(tmp_path: Path) -> None:
    second = ENTRY.replace("ARITHMETIC", "CRASH")
    found = load(write(tmp_path, ENTRY + second))
    assert found[0] == KNOWN
    assert [e.status for e in found] == [Status.ARITHMETIC, Status.CRASH]


@pytest.mark.parametrize("text", ["", "# nothing is known\n", "expect = []\n"])
def test_a_file_without_entries_expects_nothing(tmp_path: Path, text: str) -> None:
    assert load(write(tmp_path, text)) == ()


@pytest.mark.parametrize("status", EXPECTABLE)
def test_every_fault_can_be_expected(tmp_path: Path, status: Status) -> None:
    (found,) = load(write(tmp_path, ENTRY.replace("ARITHMETIC", status)))
    assert found.status is status


@pytest.mark.parametrize("status", sorted(set(Status) - set(EXPECTABLE)))
def test_neither_success_nor_missing_evidence_can_be_expected(tmp_path: Path, status: Status) -> None:
    with pytest.raises(UsageError, match=f"entry 1 expects '{status}'"):
        load(write(tmp_path, ENTRY.replace("ARITHMETIC", status)))


@pytest.mark.parametrize(
    "text",
    [
        ENTRY.replace('link = "https://example.org/1"\n', ""),
        ENTRY.replace('reason = "a reason"', 'reason = " "'),
        ENTRY.replace('reason = "a reason"', "reason = 3"),
        ENTRY.replace('reason = "a reason"', 'reason = ["a"]'),
        ENTRY + 'until = "2030"\n',
        ENTRY + 'unless = "*"\n',
        ENTRY + "unless = [3]\n",
        ENTRY + 'unless = [""]\n',
        ENTRY + "unless = {}\n",
        ENTRY.replace('cells = "subject/*/ort-cpu/*"', 'unless = ["*"]'),
        ENTRY.replace("ARITHMETIC", "arithmetic"),
        ENTRY.replace("ARITHMETIC", "BROKEN"),
        ENTRY.replace("[[expect]]", "[expect]"),
        ENTRY.replace("[[expect]]", "[[expected]]"),
        "version = 1\n" + ENTRY,
        "expect = 3\n",
        "expect = true\n",
        "expect = [3]\n",
        "expect = [[]]\n",
        'expect = "all of it"\n',
        'expect = ["all of it"]\n',
        "[[expect]\n",
        b"\xff\xfe",
    ],
)
def test_a_wrong_file_is_one_clear_error(tmp_path: Path, text: str | bytes) -> None:
    path = write(tmp_path, text)
    with pytest.raises(UsageError) as raised:
        load(path)
    assert str(path) in str(raised.value)


def test_the_entry_that_is_wrong_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="entry 2"):
        load(write(tmp_path, ENTRY + ENTRY.replace("ARITHMETIC", "PASS")))


def test_a_missing_file_and_a_folder_are_errors(tmp_path: Path) -> None:
    for path in (tmp_path / "nothing.toml", tmp_path):
        with pytest.raises(UsageError, match="cannot read"):
            load(path)


def test_the_expected_failure_is_a_known_one() -> None:
    found = apply(verdict(Status.ARITHMETIC), [KNOWN])
    assert (found.status, found.found, found.expectation) == (Status.XFAIL, Status.ARITHMETIC, KNOWN)


def test_an_expected_failure_that_passes_is_reported() -> None:
    found = apply(verdict(Status.PASS), [KNOWN])
    assert (found.status, found.found, found.expectation) == (Status.XPASS, Status.PASS, KNOWN)
    assert "remove the expectation" in found.message


@pytest.mark.parametrize("status", sorted(set(Status) - {Status.ARITHMETIC, Status.PASS}))
def test_an_expectation_hides_no_other_status(status: Status) -> None:
    before = verdict(status)
    assert apply(before, [KNOWN]) == before


@pytest.mark.parametrize("where", [cell(runtime="ort-cuda"), cell(runtime="ORT-CPU"), cell(runtime="ort-cpu-basic")])
def test_an_expectation_hides_nothing_elsewhere(where: object) -> None:
    assert isinstance(where, type(cell()))
    for status in (Status.ARITHMETIC, Status.PASS):
        before = verdict(status, where)
        assert apply(before, [KNOWN]) == before


def test_an_expectation_holds_for_no_cell_that_it_leaves_out(tmp_path: Path) -> None:
    (known,) = load(write(tmp_path, ENTRY + 'unless = ["*/tiny", "*/b1-*/*"]\n'))
    assert known.unless == ("*/tiny", "*/b1-*/*")
    for where in (cell("tiny"), cell(shape="b1-t1")):
        for status in (Status.ARITHMETIC, Status.PASS):
            before = verdict(status, where)
            assert apply(before, [known]) == before
        assert unmatched([where.id], [known]) == (known,)
    assert apply(verdict(Status.ARITHMETIC), [known]).status is Status.XFAIL
    assert unmatched([cell().id], [known]) == ()


def test_of_several_expectations_the_one_that_comes_true_counts() -> None:
    crash = Expectation("*", Status.CRASH, "another", "https://example.org/2")
    for order in ([KNOWN, crash], [crash, KNOWN]):
        assert apply(verdict(Status.ARITHMETIC), order).expectation == KNOWN
        assert apply(verdict(Status.CRASH), order).expectation == crash
        assert apply(verdict(Status.PASS), order).expectation == order[0]
        assert apply(verdict(Status.MEANING), order).status is Status.MEANING


def test_what_fits_no_planned_cell_is_found() -> None:
    ids = [cell().id, cell("tiny").id]
    gone = Expectation("subject/*/ort-cuda/*", Status.CRASH, "another", "https://example.org/2")
    assert unmatched(ids, [KNOWN, gone]) == (gone,)
    assert unmatched([], [KNOWN]) == (KNOWN,)
    assert unmatched(ids, []) == ()
