"""Workers: an error comes back as itself, a death costs one call, and nothing is left running."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import onnx
import psutil
import pytest
from onnx import helper

from onnxparity.artifact import Artifact, FileInput
from onnxparity.errors import InternalError, OnnxParityError, UsageError, WorkerCrashedError, WorkerTimeoutError
from onnxparity.judging.examining import ExamineRequest
from onnxparity.outcome import Status, Verdict
from onnxparity.plan import ArtifactKey
from onnxparity.running import worker as module
from onnxparity.running.worker import Worker
from tests.unit.hub.subjects import WIDTH, cell, subject

LIMIT = 60.0
Answers = list[object]


@pytest.fixture(autouse=True, scope="module")
def _jobs_on_the_path() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(Path(__file__).parent))
        yield


@pytest.fixture
def worker() -> Iterator[Worker]:
    """A worker that is ended with the test."""
    with Worker() as made:
        yield made


@pytest.fixture(scope="module")
def steady() -> Iterator[Worker]:
    """One worker for all tests in which none should die."""
    with Worker() as made:
        yield made


def ask(worker: Worker, job: str, request: object = None, *, limit: float = LIMIT) -> Answers:
    """All items of a job of `worker_jobs`."""
    return list(worker.call(f"worker_jobs:{job}", request, limit=limit))


def pid_of(worker: Worker) -> int:
    """The process behind a worker."""
    (_, pid) = ask(worker, "echo")
    assert isinstance(pid, int) and pid != os.getpid()
    return pid


def children() -> set[int]:
    """Processes that run below this one."""
    return {child.pid for child in psutil.Process().children(recursive=True)}


def works_again(worker: Worker, old: int) -> None:
    """Asserts that the next call is answered, by another process, and that the old one is gone."""
    assert pid_of(worker) != old
    assert not psutil.pid_exists(old)


def test_items_come_in_order_and_one_process_serves_many_calls(steady: Worker) -> None:
    first = pid_of(steady)
    assert ask(steady, "count", 5) == [0, 1, 2, 3, 4]
    assert ask(steady, "echo", {"a": (1, None)}) == [{"a": (1, None)}, first]


def test_no_process_runs_before_the_first_call() -> None:
    before = children()
    with Worker() as idle:
        assert children() == before
        idle.close()
    Worker().close()


def test_an_error_of_this_package_comes_back_as_itself(steady: Worker) -> None:
    pid = pid_of(steady)
    items: Answers = []
    with pytest.raises(UsageError) as raised:
        items.extend(steady.call("worker_jobs:refuse", "no", limit=LIMIT))
    error = raised.value
    assert type(error) is UsageError
    assert (error.what, error.expected, error.got, error.remedy) == ("no", "a", "b", "c")
    assert pid_of(steady) == pid, "the worker lives on"


@pytest.mark.parametrize("kind", [ValueError, KeyError, EOFError, BrokenPipeError, ConnectionResetError, OSError])
def test_any_other_exception_is_an_internal_error_with_its_traceback(steady: Worker, kind: type[Exception]) -> None:
    pid = pid_of(steady)
    with pytest.raises(InternalError, match=f"{kind.__name__} in worker_jobs:stumble: .*stumbled") as raised:
        ask(steady, "stumble", kind)
    assert raised.value.exit_code == 70
    assert raised.value.got is not None and "worker_jobs.py" in raised.value.got
    assert pid_of(steady) == pid


@pytest.mark.parametrize("job", ["nothing", "worker_jobs:nothing", "no_such_module:echo", ""])
def test_an_unknown_job_is_an_internal_error(steady: Worker, job: str) -> None:
    with pytest.raises(InternalError):
        list(steady.call(job, None, limit=LIMIT))
    assert ask(steady, "count", 1) == [0]


def test_what_cannot_be_sent_is_an_internal_error(steady: Worker) -> None:
    pid = pid_of(steady)
    with pytest.raises(InternalError, match="unpicklable"):
        ask(steady, "unpicklable")
    assert pid_of(steady) == pid
    with pytest.raises(Exception, match=r"pickle|local object"):
        ask(steady, "echo", lambda: None)
    assert ask(steady, "count", 1) == [0]


def test_what_cannot_be_received_does_not_reach_the_next_call(worker: Worker) -> None:
    with pytest.raises(InternalError, match="sealed"):
        ask(worker, "sealed")
    assert ask(worker, "count", 2) == [0, 1]


def test_a_call_that_was_left_half_way_does_not_reach_the_next_one(worker: Worker) -> None:
    items = worker.call("worker_jobs:count", 1000, limit=LIMIT)
    assert next(items) == 0
    assert isinstance(items, Iterator)
    items.close()  # type: ignore[attr-defined]  # call is a generator; its type says Iterator
    assert ask(worker, "echo", "mine")[0] == "mine"
    for item in worker.call("worker_jobs:count", 1000, limit=LIMIT):
        if item == 3:
            break
    gc.collect()
    assert ask(worker, "echo", "mine")[0] == "mine"


@pytest.mark.parametrize(("job", "code"), [("leave", 7), ("leave", 0), ("stop", 9)])
def test_a_worker_that_exits_is_a_crash_with_its_code(worker: Worker, job: str, code: int) -> None:
    pid = pid_of(worker)
    items: Answers = []
    with pytest.raises(WorkerCrashedError, match=f"exit code {code}") as raised:
        items.extend(worker.call(f"worker_jobs:{job}", code, limit=LIMIT))
    assert f"worker_jobs:{job}" in raised.value.what
    if job == "leave":
        assert raised.value.got == f"about to leave with {code}"
    works_again(worker, pid)


def test_a_worker_that_aborts_is_a_crash_with_its_signal_and_last_words(worker: Worker) -> None:
    pid = pid_of(worker)
    with pytest.raises(WorkerCrashedError, match="signal 6") as raised:
        ask(worker, "abort", "free(): invalid pointer")
    assert raised.value.got is not None and "free(): invalid pointer" in raised.value.got
    works_again(worker, pid)


def test_the_words_of_an_earlier_worker_are_not_those_of_the_next(worker: Worker) -> None:
    with pytest.raises(WorkerCrashedError):
        ask(worker, "abort", "of the first")
    with pytest.raises(WorkerCrashedError, match=f"signal {signal.SIGKILL:d}") as raised:
        ask(worker, "killed", int(signal.SIGKILL))
    assert raised.value.got == "no last words"


def test_only_the_last_words_are_kept(worker: Worker) -> None:
    with pytest.raises(WorkerCrashedError) as raised:
        ask(worker, "abort", "x" * 10_000 + "the end")
    assert raised.value.got is not None and len(raised.value.got) <= module.LAST_WORDS
    assert "the end" in raised.value.got


def test_a_worker_that_was_killed_between_two_calls_is_replaced(worker: Worker) -> None:
    pid = pid_of(worker)
    psutil.Process(pid).kill()
    psutil.wait_procs([psutil.Process(pid)], timeout=10)
    works_again(worker, pid)


def test_a_worker_over_its_limit_is_ended(worker: Worker) -> None:
    pid = pid_of(worker)
    items: Answers = []
    with pytest.raises(WorkerTimeoutError, match=r"0\.3 s"):
        items.extend(worker.call("worker_jobs:sleep", 600.0, limit=0.3))
    works_again(worker, pid)


def test_a_worker_that_hangs_up_and_lives_on_is_ended(worker: Worker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "GRACE", 0.1)
    pid = pid_of(worker)
    with pytest.raises(WorkerCrashedError, match="hung up"):
        ask(worker, "hang_up", 600.0)
    works_again(worker, pid)


def test_a_worker_outlives_the_limit_of_its_start(worker: Worker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "START_LIMIT", 5.0)
    pid = pid_of(worker)
    monkeypatch.setattr(module, "START_LIMIT", 0.0)
    guards = [t for t in threading.enumerate() if t.name == module.GUARD]
    assert not guards, "nobody waits for a start that is over"
    assert pid_of(worker) == pid


def test_a_worker_that_does_not_start_in_time_is_a_crash(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "START_LIMIT", 0.0)
    before = children()
    with Worker() as slow, pytest.raises(WorkerCrashedError, match="start"):
        ask(slow, "count", 1)
    assert children() == before


def test_a_worker_that_cannot_start_is_a_crash_with_its_last_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with Worker() as broken, pytest.raises(WorkerCrashedError, match="exit code 1"):
        ask(broken, "count", 1)


def test_a_suspended_worker_does_nothing_and_goes_on_when_resumed(worker: Worker) -> None:
    pid = pid_of(worker)
    worker.suspend()
    os.waitid(os.P_PID, pid, os.WSTOPPED | os.WNOWAIT)
    assert psutil.Process(pid).status() == psutil.STATUS_STOPPED
    worker.resume()
    os.waitid(os.P_PID, pid, os.WCONTINUED | os.WNOWAIT)
    assert psutil.Process(pid).status() != psutil.STATUS_STOPPED
    assert pid_of(worker) == pid


def test_a_suspended_worker_is_over_its_limit_and_can_be_ended(worker: Worker) -> None:
    pid = pid_of(worker)
    worker.suspend()
    with pytest.raises(WorkerTimeoutError):
        ask(worker, "count", 1, limit=0.2)
    works_again(worker, pid)


def test_without_a_process_suspend_and_resume_do_nothing(worker: Worker) -> None:
    worker.suspend()
    worker.resume()
    assert pid_of(worker) != os.getpid()


def test_nothing_is_left_running() -> None:
    before = children()
    worker = Worker()
    pid = pid_of(worker)
    assert children() == before | {pid}
    worker.close()
    assert children() == before
    worker.close()
    with pytest.raises(WorkerTimeoutError), Worker() as other:
        ask(other, "sleep", 600.0, limit=0.1)
    assert children() == before


def test_an_aborted_worker_serves_nobody_again(worker: Worker) -> None:
    pid = pid_of(worker)
    worker.abort()
    assert not psutil.pid_exists(pid)
    before = children()
    with pytest.raises(WorkerCrashedError, match="aborted"):
        ask(worker, "count", 1)
    assert children() == before


def test_an_abort_reaches_a_worker_that_is_being_started(worker: Worker, monkeypatch: pytest.MonkeyPatch) -> None:
    before, start = children(), subprocess.Popen

    class Aborted(start[bytes]):  # type: ignore[misc, valid-type]  # a class that is looked up when the test runs
        def __init__(self, *args: object, **kwargs: object) -> None:
            super().__init__(*args, **kwargs)
            worker.abort()  # as another thread would, before anybody knows of the process

    monkeypatch.setattr(subprocess, "Popen", Aborted)
    with pytest.raises(WorkerCrashedError, match="start"):
        ask(worker, "sleep", 600.0)
    assert children() == before


def test_an_abort_ends_a_call_that_another_thread_waits_for(worker: Worker) -> None:
    before, ended = children(), threading.Event()
    items = worker.call("worker_jobs:sleep", 600.0, limit=LIMIT)
    assert next(items) == "first"

    def wait() -> None:
        with pytest.raises((OnnxParityError, OSError)):
            next(items)
        ended.set()

    waiting = threading.Thread(target=wait)
    waiting.start()
    worker.abort()
    waiting.join(LIMIT)
    assert ended.is_set()
    assert children() == before


def test_threads_are_limited_unless_they_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in module.THREAD_VARIABLES:
        monkeypatch.setenv(name, "7")
    with Worker(threads=2) as two, Worker(threads=None) as free:
        assert ask(two, "environment", module.THREAD_VARIABLES) == ["2"] * 3
        assert ask(free, "environment", module.THREAD_VARIABLES) == ["7"] * 3
        assert ask(two, "environment", (module.KEY_VARIABLE,)) == [None], "the key is not passed on"


def test_a_worker_that_probes_never_loads_torch(worker: Worker) -> None:
    found = ask(worker, "modules", (("probe", ("ort-cpu",)),))
    assert "onnxruntime" in found
    assert "onnxparity.runtimes.ort_cpu" in found
    assert not [name for name in found if str(name).split(".")[0] == "torch"]


def test_a_worker_that_judges_never_loads_torch(worker: Worker, tmp_path: Path) -> None:
    x = helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, ["batch", "sequence", WIDTH])
    y = helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, ["batch", "sequence", WIDTH])
    graph = helper.make_graph([helper.make_node("Softmax", ["x"], ["y"])], "softmax", [x], [y])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    onnx.save(model, tmp_path / "softmax.onnx")
    key = ArtifactKey("subject", "file", 18, "float32")
    taken, given = ((FileInput(v, "float32", ("batch", "sequence", WIDTH)),) for v in ("x", "y"))
    path = str(tmp_path / "softmax.onnx")
    artifact = Artifact(key, path, "0", 1, False, 18, 18, 8, {}, taken, given, {"Softmax": 1}, 0, None, False)
    cells = (cell(key=key), cell("causality", key), cell("batch-invariance", key, "onnx-float64"))
    request = ExamineRequest(subject(properties=("causality",)), artifact, cells, use_cache=False)

    verdicts = [v for v in worker.call("examine", request, limit=LIMIT) if isinstance(v, Verdict)]
    assert [(v.cell, v.status) for v in verdicts] == [(c, Status.PASS) for c in cells]
    found = ask(worker, "modules", ())
    assert {"onnxruntime", "onnxparity.judging.examining", "onnxparity.runtimes.onnx_float64"} <= set(found)
    assert not [name for name in found if str(name).split(".")[0] == "torch"]


def test_every_error_of_the_family_can_cross() -> None:
    import pickle

    from onnxparity import errors

    for kind in (getattr(errors, name) for name in errors.__all__):
        error = kind("what", expected="e", got=None, remedy="r")
        back = pickle.loads(pickle.dumps(error))
        assert isinstance(back, OnnxParityError) and type(back) is kind
        assert (back.what, back.expected, back.got, back.remedy) == ("what", "e", None, "r")
        assert str(back) == str(error)
