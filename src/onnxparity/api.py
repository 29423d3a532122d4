"""The Python API: `onnxparity.verify(...)`, of the same shape as the command line."""

from __future__ import annotations

import difflib
import os
import shlex
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from fnmatch import fnmatchcase
from pathlib import Path

from onnxparity import expectations, invariants, plugins
from onnxparity.errors import UsageError
from onnxparity.feeding import feeds
from onnxparity.planning.planner import QUICK_OPSETS, Options, keys, plan, served
from onnxparity.planning.selection import OPERATOR_CASES, Selected, select
from onnxparity.protocols import Availability
from onnxparity.record import Report
from onnxparity.running.pipeline import Explain, Listener, Settings, run
from onnxparity.running.probing import probe_all
from onnxparity.running.worker import Worker

__all__ = ["DEFAULT_DTYPES", "DEFAULT_OPSETS", "verify", "verify_with"]

DEFAULT_OPSETS = (18, 20, 23, 24, 25)
"""The last is the newest that the exporter writes: ONNX Runtime 1.31 runs 26, which torch 2.13 answers with 18."""
DEFAULT_DTYPES = ("float32", "float16")
TIMED_BY_DEFAULT = 4
"""Where no more subjects than this are selected, their latency is measured without being asked for."""
LONGEST = 1e6
"""Seconds; the system's own wait takes no more than about twice that."""
KNOWN_FAILURES = Path(__file__).parent / "models" / "expectations.toml"
KNOWN_CASE_FAILURES = Path(__file__).parent / "models" / "operator_expectations.toml"


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
    regimes: Sequence[str] = (),
    inputs: Sequence[Path | str] = (),
    allow_nonfinite: bool = False,
    roles: Mapping[str, str] | None = None,
    properties: Sequence[str] = (),
    cells: Sequence[str] = (),
    quick: bool = False,
    latency: Sequence[str] | None = None,
    expect: Sequence[Path] = (),
    out: Path = Path("onnxparity-report"),
    resume: bool = False,
    explain: Explain = "red",
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
    with Worker() as native:  # probes, and then judges, having imported what both need
        with ThreadPoolExecutor(1) as pool:  # both wait for a worker of their own
            probing = pool.submit(_runtimes, runtimes, quick=quick, worker=native)
            selected, notes = select(
                targets,
                directory,
                against=against,
                renamed=renamed,
                inputs=list(map(str, inputs)),
                allow_nonfinite=allow_nonfinite,
                roles=roles,
                properties=properties,
            )
            probed, used = probing.result()
        _check_files(selected, opsets, dtypes)
        _check_refused(selected, dtypes)
        _check_regimes(selected, regimes)
        options = Options(
            opsets=tuple(opsets or (QUICK_OPSETS if quick else DEFAULT_OPSETS)),
            dtypes=tuple(dtypes or (DEFAULT_DTYPES[:1] if quick else DEFAULT_DTYPES)),
            runtimes=used,
            shapes=tuple(shapes),
            regimes=tuple(regimes),
            quick=quick,
            cells=tuple(cells),
            own_dtype=dtypes is None,
            asked=tuple(runtimes or ()),
        )
        settings = Settings(
            out=out,
            command=command,
            slots=jobs or os.cpu_count() or 1,
            limit=limit,
            resume=resume,
            explain=explain,
            use_cache=use_cache,
            expectations=tuple(e for path in expect for e in expectations.load(path)),
            catalogue_expectations=expectations.load(KNOWN_FAILURES),
            case_expectations=expectations.load(KNOWN_CASE_FAILURES),
            every_case=_every_case(targets, options) and runtimes is None,
            timed=_timed(latency, selected, against),
            runtimes=probed,
            limits=(
                *notes,
                *_limits(probed),
                *_left_out_dtypes(selected, options),
                *_unplanned(selected, options),
                *_no_kernels(selected, options),
            ),
            directory=directory,
            native=native,
            inputs=_input_flags(inputs, allow_nonfinite=allow_nonfinite),
        )
        return run(selected, options, settings, listener or Listener())


def _runtimes(
    asked: Sequence[str] | None, *, quick: bool, worker: Worker
) -> tuple[tuple[Availability, ...], tuple[str, ...]]:
    """What was probed, and what is planned: all that was asked for, or every default that is there.

    The runtimes that the verdict on meaning rests on are always planned.
    """
    names = list(plugins.DEFAULT_RUNTIMES if asked is None else map(plugins.check_name, asked))
    if quick:
        names = [n for n in names if n not in plugins.LEVELS]
    names = list(dict.fromkeys(["torch-float64", plugins.MEANING, *names]))
    probed = probe_all(names, worker)
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


def _every_case(targets: Sequence[str], options: Options) -> bool:
    """Whether all operator cases are planned in all their cells."""
    return f"{OPERATOR_CASES}*" in targets and not (options.cells or options.shapes or options.regimes or options.quick)


def _check_refused(selected: Sequence[Selected], dtypes: Sequence[str] | None) -> None:
    """Raises UsageError for a dtype that was asked for and in which a module does not run at all."""
    for each in selected:
        for dtype in (d for d in dtypes or () if d in each.described.refused):
            raise UsageError(
                f"{each.described.text} does not run in {dtype} in PyTorch itself",
                expected=f"a module that runs on its own example in {dtype}",
                got=each.described.refused[dtype],
                remedy=f"leave --dtype {dtype} out, or let the module make its tensors in the dtype of its input",
            )


def _left_out_dtypes(selected: Sequence[Selected], options: Options) -> tuple[str, ...]:
    """Modules that are not judged in a dtype of this run, since they do not run in it."""
    return tuple(
        f"{s.described.text} is not judged in {dtype}: the module itself does not run in it: {why}"
        for s in selected
        for dtype, why in s.described.refused.items()
        if dtype in options.dtypes
    )


def _check_regimes(selected: Sequence[Selected], regimes: Sequence[str]) -> None:
    """Raises UsageError, with near matches, for a regime that no selected subject has."""
    known = {name for s in selected for name in feeds.regimes(s.target.subject)} | {feeds.BEYOND}
    known |= {name for s in selected for name in (*s.target.subject.properties, *(p.regime for p in s.target.examples))}
    known |= {*invariants.UNIVERSAL}
    for name in regimes:
        if name not in known:
            near = difflib.get_close_matches(name, known) or sorted(known)
            expected, remedy = ", ".join(near), "name a regime, a property, or a set of --inputs such as given-NAME"
            raise UsageError(f"no selected subject has the regime {name!r}", expected=expected, got=name, remedy=remedy)


def _input_flags(inputs: Sequence[Path | str], *, allow_nonfinite: bool) -> str:
    """What has to be typed again to repeat a cell with real inputs."""
    flags = [f"--inputs {shlex.quote(str(each))}" for each in inputs]
    return " ".join([*flags, *(["--allow-nonfinite"] if allow_nonfinite else [])]) if flags else ""


def _timed(latency: Sequence[str] | None, selected: Sequence[Selected], against: str | None) -> tuple[str, ...]:
    """Globs over the subjects to time. Whether a file is another is no question of its speed."""
    if latency is None:
        cases = any(s.described.examples_only for s in selected)  # of a few numbers each, whose time tells nothing
        return ("*",) if len(selected) <= TIMED_BY_DEFAULT and against is None and not cases else ()
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


def _no_kernels(selected: Sequence[Selected], options: Options) -> tuple[str, ...]:
    """Runtimes that are left out of a dtype, for which they are known to have no kernels."""
    left_out = {
        (key.dtype, runtime)
        for s in selected
        for key in keys(s.target, options)
        for runtime in options.runtimes
        if not served(s.target, options, key, runtime)
    }
    return tuple(
        f"{runtime} has no kernels for {dtype}, so nothing here says anything about it; "
        f"ask for it with --runtime {runtime} to see it refuse, and for ort-cuda, which has them"
        for dtype, runtime in sorted(left_out)
    )


def _limits(probed: Sequence[Availability]) -> tuple[str, ...]:
    reasons = {a.runtime: (a.reason.splitlines() or ["it gave no reason"])[0] for a in probed if not a.available}
    return tuple(
        f"{name} was not available, so nothing here says anything about it: {reason}"
        for name, reason in reasons.items()
    )
