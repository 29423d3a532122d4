"""Worker processes: native runtimes can abort a process, so nothing of theirs runs in ours.

    python -m onnxparity.running.worker ADDRESS

A worker takes jobs (see `jobs`) and streams what they yield. One that dies or overruns its limit is
an error of the item it was working on; the caller starts another and goes on.
"""

from __future__ import annotations

import importlib
import os
import pickle
import secrets
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Iterator, Mapping
from contextlib import suppress
from multiprocessing import AuthenticationError
from multiprocessing.connection import Client, Connection, Listener
from types import TracebackType
from typing import IO, Any

import psutil

from onnxparity.errors import InternalError, OnnxParityError, WorkerCrashedError, WorkerTimeoutError

__all__ = ["Worker"]

KEY_VARIABLE = "ONNXPARITY_WORKER_KEY"
START_LIMIT = 120.0
"""Seconds a worker may take to start; only a machine in trouble needs more."""
GRACE = 5.0
"""Seconds a worker that has hung up may take to end."""
THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
LAST_WORDS = 2000
GUARD = "onnxparity-worker-start"


class Worker:
    """One worker process, started at the first job and again after it died."""

    def __init__(self, *, threads: int | None = 1) -> None:
        """threads: of the numeric libraries inside the worker; None leaves them alone."""
        self._threads = threads
        self._process: subprocess.Popen[bytes] | None = None
        self._connection: Connection | None = None
        self._output: IO[bytes] | None = None
        self._aborted = False

    def call(self, job: str, request: Any, *, limit: float) -> Iterator[Any]:  # Any: each job has its own types
        """Runs a job and yields its items as they come; a caller that stops listening ends the worker.

        Args:
            job: a name in `jobs.JOBS`, or `package.module:function`.
            limit: seconds that may pass between two items.

        Raises:
            WorkerTimeoutError: no item came within the limit; the worker has been ended.
            WorkerCrashedError: the worker died; `got` says how and what it last wrote.
            InternalError: the job raised something else than its own errors, or an answer cannot be read.
            OnnxParityError: whatever the job itself raised.
        """
        connection = self._start()
        over = False  # else answers that nobody took would reach the next call
        try:
            connection.send((job, request))
            while True:
                if not connection.poll(limit):
                    raise WorkerTimeoutError(f"no answer from {job} within {limit:g} s", remedy="raise --limit")
                kind, value = _read(connection.recv_bytes(), job)
                over = kind != "item"
                if kind == "item":
                    yield value
                elif kind == "done":
                    return
                else:
                    raise value
        except (EOFError, ConnectionError) as error:
            raise self._crashed(job) from error
        finally:
            if not over:
                self.close()

    def suspend(self) -> None:
        """Stops the process so that not even idle threads of its libraries spin."""
        if self._process is not None:
            psutil.Process(self._process.pid).suspend()

    def resume(self) -> None:
        """Lets a suspended process go on."""
        if self._process is not None:
            psutil.Process(self._process.pid).resume()

    def close(self) -> None:
        """Ends the process; the next call starts another."""
        connection, process, output = self._connection, self._process, self._output
        self._connection = self._process = self._output = None  # first, since `abort` comes from another thread
        if connection is not None:
            connection.close()
        if process is not None:
            process.kill()
            process.wait()
        if output is not None:
            output.close()

    def abort(self) -> None:
        """Ends the process for good: a call that waits for it in another thread raises, and so does every later one."""
        self._aborted = True
        self.close()

    def __enter__(self) -> Worker:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _start(self) -> Connection:
        if self._connection is not None and self._process is not None and self._process.poll() is None:
            return self._connection
        self.close()
        if self._aborted:
            raise WorkerCrashedError("the run was aborted")
        key = secrets.token_bytes(32)
        self._output = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the process, closed in close()
        with Listener(authkey=key) as listener:
            process = self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "onnxparity.running.worker", str(listener.address)],
                env=_environment(self._threads) | {KEY_VARIABLE: key.hex()},
                stdin=subprocess.DEVNULL,
                stdout=self._output,
                stderr=self._output,
            )
            if self._aborted:  # while this one was being started
                process.kill()
            self._connection = _accept(listener, process)
        if self._connection is None:
            raise self._crashed("start")
        return self._connection

    def _crashed(self, job: str) -> WorkerCrashedError:
        how, words = "it never started", ""
        if self._process is not None and self._output is not None:
            how = _end(self._process)
            self._output.seek(0, os.SEEK_END)
            self._output.seek(max(0, self._output.tell() - LAST_WORDS))
            words = self._output.read().decode(errors="replace").strip()
        self.close()
        return WorkerCrashedError(f"the worker died in {job}: {how}", got=words or "no last words")


def _environment(threads: int | None) -> dict[str, str]:
    limits: Mapping[str, str] = {} if threads is None else dict.fromkeys(THREAD_VARIABLES, str(threads))
    return {**os.environ, "HF_HUB_OFFLINE": "1", **limits}


def _read(answer: bytes, job: str) -> Any:  # Any: each job has its own types
    try:
        return pickle.loads(answer)
    except Exception as error:
        raise InternalError(f"an answer of {job} cannot be read: {error}", got=traceback.format_exc()) from error


def _end(process: subprocess.Popen[bytes]) -> str:
    """How a process that is no longer heard of ended."""
    try:
        code = process.wait(GRACE)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        return f"it hung up, and had to be ended after {GRACE:g} s"
    return f"signal {-code}" if code < 0 else f"exit code {code}"


def _accept(listener: Listener, process: subprocess.Popen[bytes]) -> Connection | None:
    """The worker's connection, or None where it died, or took too long, before it called."""
    accepted = threading.Event()
    deadline = time.monotonic() + START_LIMIT

    def give_up() -> None:
        """Calls in the worker's place, so that `accept` returns, once nobody else will."""
        while not accepted.wait(0.02):
            if process.poll() is not None or time.monotonic() >= deadline:
                process.kill()
                with suppress(OSError):
                    Client(listener.address, authkey=None).close()
                return

    guard = threading.Thread(target=give_up, name=GUARD, daemon=True)
    guard.start()
    try:
        return listener.accept()
    except (OSError, EOFError, AuthenticationError):
        return None
    finally:
        accepted.set()
        guard.join()


def serve(address: str) -> None:
    """The worker's side: takes jobs until the caller is gone."""
    key = bytes.fromhex(os.environ.pop(KEY_VARIABLE))
    with Client(address, authkey=key) as connection, suppress(EOFError, ConnectionError):
        while True:
            job, request = connection.recv()
            for answer in _answers(job, request):
                connection.send_bytes(answer)


def _answers(job: str, request: Any) -> Iterator[bytes]:  # Any: each job has its own request
    """What a job has to say, ready to be sent: its items, and then `done` or the error it ended with."""
    try:
        for item in _find(job)(request):
            yield pickle.dumps(("item", item))
        yield pickle.dumps(("done", None))
    except OnnxParityError as error:
        yield pickle.dumps(("error", error))
    except Exception as error:
        fault = InternalError(f"{type(error).__name__} in {job}: {error}", got=traceback.format_exc())
        yield pickle.dumps(("error", fault))


def _find(job: str) -> Any:  # Any: a function of one request
    """The job of that name, or the function of that dotted path."""
    from onnxparity.running.jobs import JOBS

    module, colon, function = job.partition(":")
    return getattr(importlib.import_module(module), function) if colon else JOBS[job]


if __name__ == "__main__":
    serve(sys.argv[1])
