"""The latency table of a report: which subjects, at which artifact and lengths, and only what conforms."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from onnxparity import plugins
from onnxparity.artifact import Artifact
from onnxparity.case import shape_id
from onnxparity.outcome import Status, Verdict
from onnxparity.plan import ArtifactKey
from onnxparity.planning.planner import Options
from onnxparity.planning.selection import Selected
from onnxparity.record import Latency
from onnxparity.running.worker import Worker
from onnxparity.speed.timing import Series, TimeRequest, curve, interleave, percentiles

__all__ = ["measure"]

NOT_TIMED = ("torch-float64", plugins.MEANING, plugins.SPEC, *plugins.LEVELS)
"""Runtimes that exist to judge, not to serve."""


def measure(
    selected: Sequence[Selected],
    artifacts: Sequence[Artifact],
    verdicts: Sequence[Verdict],
    options: Options,
    globs: Sequence[str],
    directory: Path,
    announce: Callable[[str], None],
) -> tuple[Latency, ...]:
    """Times each wanted subject at its newest artifact in float32 (else its first dtype), runtimes in turns."""
    rows: list[Latency] = []
    for each in selected:
        name = each.target.subject.name
        if any(fnmatchcase(name, glob) for glob in globs):
            rows += _subject(each, artifacts, verdicts, options, directory, announce)
    return tuple(rows)


def _subject(
    selected: Selected,
    artifacts: Sequence[Artifact],
    verdicts: Sequence[Verdict],
    options: Options,
    directory: Path,
    announce: Callable[[str], None],
) -> list[Latency]:
    subject = selected.target.subject
    mine = [a for a in artifacts if a.key.subject == subject.name]
    if selected.described.artifact is not None:
        mine = [selected.described.artifact]
    runtimes = [r for r in options.runtimes if r not in NOT_TIMED]
    artifact = _newest_conforming(mine, verdicts)
    if artifact is None:
        key = mine[-1].key if mine else ArtifactKey(subject.name, "dynamo", max(options.opsets), options.dtypes[0])
        return [_withheld(key, r, "", "no artifact conforms, so no number is shown") for r in runtimes]
    rows: list[Latency] = []
    workers: dict[str, Worker] = {}
    try:
        for sizes in curve(subject):
            shape = shape_id(subject, sizes)
            announce(f"{artifact.key.id} {shape}")
            requests, withheld = _requests(selected, artifact, runtimes, shape, verdicts, directory)
            series = interleave(requests, workers=workers)
            rows += [*withheld, *(_row(r, s, artifact.key) for r, s in zip(requests, series, strict=True))]
    finally:
        for worker in workers.values():
            worker.close()
    return rows


def _requests(
    selected: Selected,
    artifact: Artifact,
    runtimes: Sequence[str],
    shape: str,
    verdicts: Sequence[Verdict],
    directory: Path,
) -> tuple[list[TimeRequest], list[Latency]]:
    """What is timed at one shape, and the rows of what may not be."""
    subject, threads = selected.target.subject, os.cpu_count() or 1
    requests: list[TimeRequest] = []
    withheld: list[Latency] = []
    for runtime in runtimes:
        eager = runtime == "torch-eager"
        if eager and selected.described.artifact is not None:
            continue
        key = ArtifactKey(subject.name, "torch", None, artifact.key.dtype) if eager else artifact.key
        why = _not_conforming(key, runtime, verdicts)
        if why:
            withheld.append(_withheld(key, runtime, shape, why))
        else:
            path = None if eager else artifact
            dtype, renamed = artifact.key.dtype, selected.renamed
            requests.append(TimeRequest(subject, runtime, shape, dtype, path, str(directory), threads, renamed))
    return requests, withheld


def _newest_conforming(artifacts: Sequence[Artifact], verdicts: Sequence[Verdict]) -> Artifact | None:
    """The artifact with the highest opset that passed throughout, float32 before other dtypes."""
    passed = [a for a in artifacts if _all_pass([v for v in verdicts if v.cell.artifact == a.key])]
    return max(passed, key=lambda a: (a.key.dtype == "float32", a.key.opset or 0), default=None)


def _not_conforming(key: ArtifactKey, runtime: str, verdicts: Sequence[Verdict]) -> str:
    """Why a runtime's number may not be shown; empty where it may."""
    own = [v for v in verdicts if v.cell.artifact == key and v.cell.runtime == runtime]
    if not own:
        return "this runtime was not verified for this artifact"
    red = next((v for v in own if v.status is not Status.PASS), None)
    return "" if red is None else f"{red.cell.id} is {red.status}"


def _all_pass(verdicts: Sequence[Verdict]) -> bool:
    return bool(verdicts) and all(v.status is Status.PASS for v in verdicts)


def _withheld(key: ArtifactKey, runtime: str, shape: str, why: str) -> Latency:
    return Latency(key, runtime, shape, (), None, None, None, 0, 0, None, False, why)


def _row(request: TimeRequest, series: Series, key: ArtifactKey) -> Latency:
    own = key if request.artifact is not None else ArtifactKey(key.subject, "torch", None, key.dtype)
    if not series.samples_ms:
        return _withheld(own, request.runtime, request.shape, series.error or "no sample was taken")
    p50, p90, p99 = percentiles(series.samples_ms)
    return Latency(
        own,
        request.runtime,
        request.shape,
        series.samples_ms,
        p50,
        p90,
        p99,
        series.warmup_runs,
        series.turns,
        request.threads,
        True,
    )
