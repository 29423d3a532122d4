"""The Python API: `onnxparity.verify(...)`, of the same shape as the command line."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from fnmatch import fnmatchcase
from pathlib import Path

from onnxparity import expectations, plugins
from onnxparity.errors import UsageError
from onnxparity.pipeline import Listener, Settings, run
from onnxparity.planning import QUICK_OPSETS, Options, plan
from onnxparity.probing import probe_all
from onnxparity.protocols import Availability
from onnxparity.record import Report
from onnxparity.selection import Selected, select

__all__ = ["DEFAULT_DTYPES", "DEFAULT_OPSETS", "verify", "verify_with"]

DEFAULT_OPSETS = (18, 20, 23, 24, 25)
"""The last is the newest that the exporter writes: ONNX Runtime 1.31 runs 26, which torch 2.13 answers with 18."""
DEFAULT_DTYPES = ("float32", "float16")
TIMED_BY_DEFAULT = 4
"""Where no more subjects than this are selected, their latency is measured without being asked for."""
LONGEST = 1e6
"""Seconds; the system's own wait takes no more than about twice that."""
KNOWN_FAILURES = Path(__file__).parent / "models" / "expectations.toml"


def verify(*targets: str, **settings: object) -> Report:
    """Verifies subjects and returns the report; nothing is printed.

    Args:
        targets: catalogue names or globs, `package.module:factory`, `FILE.onnx`; the whole catalogue for none.
        settings: as the parameters of `verify_with`.

    Raises:
        UsageError: a wrong name, file or setting, or nothing selected.
        SubjectError: a subject that cannot be built or described.
    """
    return verify_with(targets, **settings)  # type: ignore[arg-type]  # the names and types are those of verify_with


def verify_with(
    targets: Sequence[str],
    *,
    against: str | None = None,
    renamed: Mapping[str, str] | None = None,
    opsets: Sequence[int] | None = None,
    dtypes: Sequence[str] | None = None,
    runtimes: Sequence[str] | None = None,
    shapes: Sequence[str] = (),
    cells: Sequence[str] = (),
    quick: bool = False,
    latency: Sequence[str] | None = None,
    expect: Sequence[Path] = (),
    out: Path = Path("onnxparity-report"),
    resume: bool = False,
    use_cache: bool = True,
    jobs: int | None = None,
    limit: float = 300.0,
    command: str = "onnxparity.verify",
    listener: Listener | None = None,
) -> Report:
    """Verifies subjects; each parameter is the flag of the same name of `onnxparity verify`.

    Raises:
        UsageError: a wrong name, file or setting, or nothing selected.
        SubjectError: a subject that cannot be built or described.
    """
    directory = Path.cwd()
    _check(jobs, limit)
    with ThreadPoolExecutor(1) as pool:  # both wait for a worker of their own
        probing = pool.submit(_runtimes, runtimes, quick=quick)
        selected, notes = select(targets, directory, against=against, renamed=renamed)
        probed, used = probing.result()
    _check_files(selected, opsets, dtypes)
    options = Options(
        opsets=tuple(opsets or (QUICK_OPSETS if quick else DEFAULT_OPSETS)),
        dtypes=tuple(dtypes or (DEFAULT_DTYPES[:1] if quick else DEFAULT_DTYPES)),
        runtimes=used,
        shapes=tuple(shapes),
        quick=quick,
        cells=tuple(cells),
    )
    settings = Settings(
        out=out,
        command=command,
        slots=jobs or os.cpu_count() or 1,
        limit=limit,
        resume=resume,
        use_cache=use_cache,
        expectations=tuple(e for path in expect for e in expectations.load(path)),
        catalogue_expectations=expectations.load(KNOWN_FAILURES),
        timed=_timed(latency, selected),
        runtimes=probed,
        limits=(*notes, *_limits(probed), *_unplanned(selected, options)),
        directory=directory,
    )
    return run(selected, options, settings, listener or Listener())


def _runtimes(asked: Sequence[str] | None, *, quick: bool) -> tuple[tuple[Availability, ...], tuple[str, ...]]:
    """What was probed, and what is planned: all that was asked for, or every default that is there.

    The runtimes that the verdict on meaning rests on are always planned.
    """
    names = list(plugins.DEFAULT_RUNTIMES if asked is None else map(plugins.check_name, asked))
    if quick:
        names = [n for n in names if n not in plugins.LEVELS]
    names = list(dict.fromkeys(["torch-float64", plugins.MEANING, *names]))
    probed = probe_all(names)
    there = {a.runtime for a in probed if a.available}
    return probed, tuple(n for n in names if n in there or asked is not None or n not in plugins.OPTIONAL)


def _check(jobs: int | None, limit: float) -> None:
    """Raises UsageError for numbers with which nothing could run."""
    if jobs is not None and jobs < 1:
        raise UsageError("--jobs is too small", expected="at least 1", got=str(jobs))
    if not 0 < limit <= LONGEST:
        bounds = f"seconds above 0 and at most {LONGEST:g}"
        raise UsageError("--limit is no time that could be waited for", expected=bounds, got=f"{limit:g}")


def _check_files(selected: Sequence[Selected], opsets: Sequence[int] | None, dtypes: Sequence[str] | None) -> None:
    """Raises UsageError for a file that is not what was asked for: its opset and dtype are what they are."""
    for key in (s.target.given for s in selected if s.target.given is not None):
        for flag, asked, got in (("--opset", opsets, key.opset), ("--dtype", dtypes, key.dtype)):
            if asked and got not in asked:
                remedy = f"leave {flag} out, or name a PyTorch subject, which is exported as asked"
                expected = ", ".join(map(str, asked))
                raise UsageError(
                    f"{key.subject} is a file, and {flag} leaves it out", expected=expected, got=str(got), remedy=remedy
                )


def _timed(latency: Sequence[str] | None, selected: Sequence[Selected]) -> tuple[str, ...]:
    if latency is None:
        return ("*",) if len(selected) <= TIMED_BY_DEFAULT else ()
    if "none" in latency:
        if len(latency) > 1:
            raise UsageError("--latency none and a glob contradict each other", got=", ".join(latency))
        return ()
    names = [s.target.subject.name for s in selected]
    for glob in latency:
        if not any(fnmatchcase(name, glob) for name in names):
            raise UsageError(f"--latency {glob} fits no selected subject", expected="such as " + ", ".join(names[:3]))
    return tuple(latency)


def _unplanned(selected: Sequence[Selected], options: Options) -> tuple[str, ...]:
    """Selected subjects for which no cell is planned at all."""
    if options.cells:
        return ()
    return tuple(
        f"{s.target.subject.name} has no cell in this run: it comes in {', '.join(s.target.subject.dtypes)}"
        for s in selected
        if not plan(s.target, options)
    )


def _limits(probed: Sequence[Availability]) -> tuple[str, ...]:
    reasons = {a.runtime: (a.reason.splitlines() or ["it gave no reason"])[0] for a in probed if not a.available}
    return tuple(
        f"{name} was not available, so nothing here says anything about it: {reason}"
        for name, reason in reasons.items()
    )
