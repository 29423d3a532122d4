"""Worker processes: native runtimes can abort a process, so nothing of theirs runs in ours.

    python -m onnxparity.worker ADDRESS

A worker takes jobs (see `jobs`) and streams what they yield. One that dies or overruns its limit is
an error of the item it was working on; the caller starts another and goes on.
"""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Iterator, Mapping
from multiprocessing.connection import Client, Connection, Listener
from types import TracebackType
from typing import Any

import psutil

from onnxparity.errors import OnnxParityError, WorkerCrashedError, WorkerTimeoutError

__all__ = ["InternalError", "Worker"]

KEY_VARIABLE = "ONNXPARITY_WORKER_KEY"
START_LIMIT = 120.0
"""Seconds a worker may take to start; only a machine in trouble needs more."""
THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
LAST_WORDS = 2000


class InternalError(OnnxParityError):
    """A fault of this package inside a worker; `got` carries the traceback."""

    exit_code = 70


class Worker:
    """One worker process, started at the first job and again after it died."""

    def __init__(self, *, threads: int | None = 1) -> None:
        """threads: of the numeric libraries inside the worker; None leaves them alone."""
        self._threads = threads
        self._process: subprocess.Popen[bytes] | None = None
        self._connection: Connection | None = None
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the worker, closed in close()

    def call(self, job: str, request: Any, *, limit: float) -> Iterator[Any]:  # Any: each job has its own types
        """Runs a job and yields its items as they come.

        Args:
            job: a name in `jobs.JOBS`.
            limit: seconds that may pass between two items.

        Raises:
            WorkerTimeoutError: no item came within the limit; the worker has been ended.
            WorkerCrashedError: the worker died; `got` says how and what it last wrote.
            OnnxParityError: whatever the job itself raised.
        """
        connection = self._start()
        try:
            connection.send((job, request))
            while True:
                if not connection.poll(limit):
                    self.close()
                    raise WorkerTimeoutError(f"no answer from {job} within {limit:g} s", remedy="raise --limit")
                kind, value = connection.recv()
                if kind == "item":
                    yield value
                elif kind == "done":
                    return
                else:
                    raise value
        except (EOFError, ConnectionError, BrokenPipeError) as error:
            raise self._crashed(job) from error

    def suspend(self) -> None:
        """Stops the process so that not even idle threads of its libraries spin."""
        if self._process is not None:
            psutil.Process(self._process.pid).suspend()

    def resume(self) -> None:
        """Lets a suspended process go on."""
        if self._process is not None:
            psutil.Process(self._process.pid).resume()

    def peak_bytes(self) -> int | None:
        """Resident memory now; None where no process runs."""
        return None if self._process is None else int(psutil.Process(self._process.pid).memory_info().rss)

    def close(self) -> None:
        """Ends the process; the next call starts another."""
        if self._connection is not None:
            self._connection.close()
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        self._connection = self._process = None

    def __enter__(self) -> Worker:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
        self._stderr.close()

    def _start(self) -> Connection:
        if self._connection is not None and self._process is not None and self._process.poll() is None:
            return self._connection
        self.close()
        key = secrets.token_bytes(32)
        with Listener(authkey=key) as listener:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "onnxparity.worker", str(listener.address)],
                env=_environment(self._threads) | {KEY_VARIABLE: key.hex()},
                stdin=subprocess.DEVNULL,
                stdout=self._stderr,
                stderr=self._stderr,
            )
            self._connection = _accept(listener, self._process)
        if self._connection is None:
            raise self._crashed("start")
        return self._connection

    def _crashed(self, job: str) -> WorkerCrashedError:
        code = self._process.wait() if self._process is not None else None
        how = "it never started" if code is None else f"signal {-code}" if code < 0 else f"exit code {code}"
        self._stderr.seek(0, os.SEEK_END)
        self._stderr.seek(max(0, self._stderr.tell() - LAST_WORDS))
        words = self._stderr.read().decode(errors="replace").strip()
        self.close()
        return WorkerCrashedError(f"the worker died in {job}: {how}", got=words or "no last words")


def _environment(threads: int | None) -> dict[str, str]:
    limits: Mapping[str, str] = {} if threads is None else dict.fromkeys(THREAD_VARIABLES, str(threads))
    return {**os.environ, "HF_HUB_OFFLINE": "1", **limits}


def _accept(listener: Listener, process: subprocess.Popen[bytes]) -> Connection | None:
    """The worker's connection, or None where it died before it called."""
    import threading

    def give_up_when_dead() -> None:
        try:
            process.wait(START_LIMIT)
        except subprocess.TimeoutExpired:
            process.kill()
        if not accepted.is_set():
            Client(listener.address, authkey=None).close()

    accepted = threading.Event()
    threading.Thread(target=give_up_when_dead, daemon=True).start()
    try:
        connection = listener.accept()
    except (OSError, EOFError):
        return None
    accepted.set()
    return connection


def serve(address: str) -> None:
    """The worker's side: takes jobs until the caller is gone."""
    from onnxparity.jobs import JOBS

    with Client(address, authkey=bytes.fromhex(os.environ.pop(KEY_VARIABLE))) as connection:
        while True:
            try:
                job, request = connection.recv()
            except (EOFError, ConnectionError):
                return
            try:
                for item in JOBS[job](request):
                    connection.send(("item", item))
                connection.send(("done", None))
            except (BrokenPipeError, ConnectionResetError):
                return
            except OnnxParityError as error:
                connection.send(("error", error))
            except Exception as error:
                fault = InternalError(f"{type(error).__name__} in {job}: {error}", got=traceback.format_exc())
                connection.send(("error", fault))


if __name__ == "__main__":
    serve(sys.argv[1])
