"""Companions, what an interrupted run leaves, and many subjects at a time."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from onnxparity.errors import ExportError, WorkerCrashedError
from onnxparity.outcome import Status, Verdict
from onnxparity.planning.planner import Target, plan
from onnxparity.running.schedule import Found, Slot, SubjectWork, run_all
from tests.unit.hub.scripted import (
    FILE,
    KEYS,
    OPTIONS,
    SUBJECT,
    Script,
    artifact,
    dead,
    planned,
    run,
    stubbed,
    verdicts,
    where,
)
from tests.unit.hub.subjects import subject

COMPANION = subject(name="prefill")


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> Script:
    """What this test's workers do."""
    return stubbed(monkeypatch)


@pytest.fixture
def work(tmp_path: Path) -> SubjectWork:
    """The quick plan of a subject with an oracle."""
    return planned(tmp_path)


def test_companions_come_by_role_and_key(script: Script, work: SubjectWork) -> None:
    run(replace(work, companions={"prefill": COMPANION}))
    keys = [r.companions["prefill"].key for r in script.examined]
    assert keys == [replace(key, subject="prefill") for key in KEYS]


def test_a_companion_that_fails_is_missed_by_its_artifact_alone(script: Script, work: SubjectWork) -> None:
    script.refused[replace(KEYS[0], subject="prefill")] = ExportError("none")
    found = run(replace(work, companions={"prefill": COMPANION}))
    assert set(verdicts(found)) == set(work.cells)
    assert [set(r.companions) for r in script.examined] == [set(), {"prefill"}]


@pytest.mark.parametrize("how", ["refused", "dead", "silent"])
def test_a_property_that_lacks_its_companion_says_why(
    script: Script, work: SubjectWork, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    key = replace(KEYS[0], subject="prefill")
    if how == "refused":
        script.refused[key] = ExportError("dynamo raised TypeError", got="no such dim\nand more")
    elif how == "dead":
        script.deaths[key] = [dead()]
    else:
        monkeypatch.setattr(Script, "author", lambda self, request: iter(()))
        work = replace(work, given=artifact(KEYS[0]))
    script.outcome = lambda cell: Status.RUN_ERROR if cell.runtime == "ort-cpu" else Status.PASS
    found = verdicts(run(replace(work, companions={"prefill": COMPANION})))
    reason = {"refused": "dynamo raised TypeError: no such dim", "dead": "the worker died: signal 11"}
    words = f"its companion prefill (prefill) has no artifact: {reason.get(how, 'it was never exported')}"
    (property_cell,) = where(work, artifact=KEYS[0], runtime="ort-cpu", regime="causality")
    assert found[property_cell].evidence == (words,)
    others = where(work, artifact=KEYS[0], runtime="ort-cpu", regime="normal")
    assert others and all(found[c].evidence == () for c in others), "values need no companion"
    exact = where(work, artifact=KEYS[0], runtime="onnx-float64", regime="causality")
    assert all(found[c].evidence == () for c in exact), "what was judged lacked nothing"


def test_where_companions_kill_the_worker_every_cell_is_still_judged(script: Script, work: SubjectWork) -> None:
    script.deaths[replace(KEYS[0], subject="prefill")] = [dead()]
    found = run(replace(work, companions={"prefill": COMPANION}))
    assert set(verdicts(found)) == set(work.cells)


def done(found: Sequence[Found]) -> dict[str, tuple[Verdict, ...]]:
    """What an interrupted run leaves: verdicts by what they rest on."""
    kept: dict[str, list[Verdict]] = {}
    for each in found:
        if each.basis is not None and each.verdict is not None:
            kept.setdefault(each.basis, []).append(replace(each.verdict, message="of the first run"))
    return {basis: tuple(each) for basis, each in kept.items()}


def judged_again(script: Script, work: SubjectWork) -> int:
    """How many cells of artifacts are judged in a run, all of which end with a verdict."""
    script.examined.clear()
    assert set(verdicts(run(work))) == set(work.cells)
    return sum(len(request.cells) for request in script.examined)


def test_what_is_on_record_is_kept_and_not_judged_again(script: Script, work: SubjectWork) -> None:
    first = run(work)
    kept = {basis: each[1:] for basis, each in done(first).items()}
    script.examined.clear()
    second = run(replace(work, done=kept))
    assert [len(request.cells) for request in script.examined] == [1, 1]
    old = [v for v in verdicts(second).values() if v.message == "of the first run"]
    assert len(old) == sum(map(len, kept.values()))
    assert {f.basis for f in second if f.verdict in old} == {None}, "they are not put on record twice"


def test_where_all_is_on_record_no_artifact_is_judged(script: Script, work: SubjectWork) -> None:
    assert judged_again(script, replace(work, done=done(run(work)))) == 0


@pytest.mark.parametrize("change", ["file", "reference", "names", "against", "companion"])
def test_what_rests_on_something_else_is_judged_again(script: Script, work: SubjectWork, change: str) -> None:
    first = replace(work, against=artifact(FILE), companions={"prefill": COMPANION})
    second = replace(first, done=done(run(first)))
    artifacts = [c for c in work.cells if c.runtime not in ("torch-float64", "torch-eager")]
    assert judged_again(script, second) == 0
    if change == "file":
        script.sha256 = "1"
    elif change == "reference":
        script.contents = "d"
    elif change == "names":
        second = replace(second, renamed={"x": "y"})
    elif change == "against":
        second = replace(second, against=artifact(FILE, "1"))
    else:
        second = replace(second, companions={})
    assert judged_again(script, second) == len(artifacts)


def test_all_works_are_served_and_told_of_in_one_thread(script: Script, work: SubjectWork) -> None:
    works = [replace(work, folder=f"{work.folder}/{n}") for n in range(5)]
    threads: set[int] = set()
    found: list[Found] = []

    def on_found(each: Found) -> None:
        threads.add(threading.get_ident())
        found.append(each)

    run_all(works, slots=2, limit=1.0, on_found=on_found)
    assert threads == {threading.get_ident()}
    counts = Counter(each.verdict.cell for each in found if each.verdict)
    assert counts == Counter(dict.fromkeys(work.cells, 5))
    assert script.aborted == 0


def test_a_listener_that_raises_ends_every_worker(script: Script, work: SubjectWork) -> None:
    def on_found(each: Found) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_all([work, work], slots=2, limit=1.0, on_found=on_found)
    assert script.aborted == 4


def test_a_fault_of_ours_is_raised_after_all_that_was_found(script: Script, work: SubjectWork) -> None:
    found: list[Found] = []
    broken = replace(work, cells=(None,))  # type: ignore[arg-type]  # a fault that no type checker lets pass
    with pytest.raises(AttributeError):
        run_all([broken, work], slots=2, limit=1.0, on_found=found.append)
    assert set(verdicts(found)) == set(work.cells)


def test_an_aborted_slot_does_not_go_on(script: Script, work: SubjectWork) -> None:
    slot = Slot(limit=1.0)
    slot.abort()
    script.deaths = {"build": [dead()]}
    with pytest.raises(WorkerCrashedError):
        list(slot.run(work))
    script.deaths = {step: [dead()] for step in (*work.cells, replace(KEYS[0], subject="prefill"))}
    with pytest.raises(WorkerCrashedError):
        list(slot.run(replace(work, companions={"prefill": COMPANION}, cells=tuple(where(work, runtime="ort-cpu")))))
    given = replace(work, given=artifact(FILE), cells=plan(Target(SUBJECT, given=FILE, has_reference=False), OPTIONS))
    script.deaths = {given.cells[0]: [dead()]}
    with pytest.raises(WorkerCrashedError):
        list(slot.run(given))
