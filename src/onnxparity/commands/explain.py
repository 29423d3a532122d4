"""`onnxparity explain`: judges one cell again and leads it back to its cause."""

from __future__ import annotations

import argparse
import io
import json
import shlex
import shutil
import tempfile
from collections.abc import Mapping
from contextlib import redirect_stderr
from dataclasses import replace
from difflib import get_close_matches
from fnmatch import fnmatchcase
from pathlib import Path

from onnxparity import gate, invariants, plugins
from onnxparity.case import Subject
from onnxparity.errors import SubjectError, UsageError
from onnxparity.locating.diagnosing import FOLDER, reproductions
from onnxparity.outcome import GREEN
from onnxparity.plan import ArtifactKey, Cell, slug
from onnxparity.record import Report, verdict_to_json

__all__ = ["explain"]

DEFAULT = Path("onnxparity-report")
NEAREST = 5
FORM = "SUBJECT/EXPORTER-OPSET/DTYPE/RUNTIME/SHAPE/REGIME"


def explain(options: argparse.Namespace) -> int:
    """Prints why a cell fails and where; exits as `verify` would for this cell.

    Raises UsageError for a cell that nothing has, with the nearest ids.
    """
    from rich.console import Console

    from onnxparity.reports.explanation import print_explanation

    report, folder = _report(options.report)
    cell, out = _find(options.cell, report), options.out or folder
    with tempfile.TemporaryDirectory(prefix="onnxparity-") as scratch:
        judged = _judged(cell, _flags(cell, report, options, Path(scratch)), report)
        location = next((found for found in judged.locations if cell.id in found.explains), None)
        if location is not None and location.reproduction:
            location = replace(location, reproduction=_kept(Path(scratch) / location.reproduction, out, slug(cell.id)))
    verdict = next(v for v in judged.verdicts if v.cell == cell)
    code = gate.CONFORMS if verdict.status in GREEN else gate.conclude([verdict]).exit_code
    if options.json is not None:
        found = None if location is None else replace(judged, locations=(location,)).to_json()["locations"][0]
        document = {"verdict": verdict_to_json(verdict), "location": found, "out": str(out), "exit_code": code}
        _write(document, options.json)
    if options.json != "-":
        notes = [limit for limit in judged.limits if limit.startswith(cell.id)]
        print_explanation(verdict, location, Console(), out=str(out), notes=notes)
    return code


def _judged(cell: Cell, flags: argparse.Namespace, report: Report | None) -> Report:
    """The run of this cell. Raises UsageError where there is no such cell."""
    from onnxparity.commands.progress import Progress
    from onnxparity.commands.verify import judge

    try:
        with Progress() as progress:
            return judge(flags, progress)
    except (SubjectError, UsageError) as error:
        if flags.cell[1:] and flags.cell[1] in error.what:  # eager PyTorch is not tried there
            flags.cell, flags.runtime = flags.cell[:1], flags.runtime[:1]
            return _judged(cell, flags, report)
        raise _unknown(cell.id, report, error) if _is_unknown(error, cell) else error from None


def _report(named: Path | None) -> tuple[Report | None, Path]:
    """The report and its folder; none where none is named and none lies in the usual place."""
    path = named or DEFAULT
    folder, path = (path, path / "report.json") if path.suffix != ".json" else (path.parent, path)
    if named is None and not path.is_file():
        return None, folder
    return Report.read(path), folder


def _find(text: str, report: Report | None) -> Cell:
    """The one cell that an id, a glob or a prefix stands for; an id that no report names is tried all the same."""
    verdicts = [] if report is None else report.verdicts
    found = [v for v in verdicts if v.cell.id == text]
    found = found or [v for v in verdicts if fnmatchcase(v.cell.id, text) or v.cell.id.startswith(text)]
    if len(found) > 1:
        first = sorted(found, key=lambda v: v.status in GREEN)[:NEAREST]
        got = f"{len(found)}, such as " + ", ".join(f"{v.cell.id} ({v.status})" for v in first)
        raise UsageError(f"{text} stands for more than one cell", expected="one", got=got)
    cell = found[0].cell if found else _parsed(text)
    if cell is None:
        raise _unknown(text, report)
    return cell


def _parsed(text: str) -> Cell | None:
    """The cell of a whole id; None for a text that is none."""
    parts = text.rsplit("/", 5)
    exporter, _, opset = parts[1].rpartition("-") if len(parts) == 6 else ("", "", "")
    if len(parts) != 6 or not (parts[1] == "torch" or (exporter and opset.isdecimal())):
        return None
    key = ArtifactKey(parts[0], exporter or parts[1], int(opset) if exporter else None, parts[2])
    return Cell(key, *parts[3:])


def _flags(cell: Cell, report: Report | None, options: argparse.Namespace, scratch: Path) -> argparse.Namespace:
    """The flags of `verify` that judge this cell as the report's command did."""
    if report is not None and cell.artifact.subject not in {s.name for s in report.subjects}:
        report = None  # of another subject, whose flags say nothing about this one
    flags = _command(report)
    target, against = _origin(cell, report)
    key, eager = cell.artifact, _eager(cell)
    flags.targets = [target]
    flags.against = options.against or against
    flags.map = options.map or flags.map
    flags.opset = [key.opset] if key.exporter == "dynamo" else None
    flags.dtype = [key.dtype] if key.exporter == "dynamo" or cell.runtime == "torch-eager" else None
    flags.runtime = [cell.runtime, *(["torch-eager"] if eager else [])]
    flags.shape, flags.regime = [cell.shape], [cell.regime]
    flags.cell = [cell.id, *eager]
    flags.latency, flags.quick, flags.resume, flags.explain = ["none"], False, False, "all"
    flags.out, flags.limit, flags.no_cache, flags.typed = scratch, options.limit, options.no_cache, options.typed
    return flags


def _command(report: Report | None) -> argparse.Namespace:
    """The flags of the report's command; those of a bare `verify` where it was not run from the command line."""
    from onnxparity.grammar import parser

    words = shlex.split(report.command)[1:] if report is not None else []
    words = words if words[:1] == ["verify"] else ["verify"]
    try:
        with redirect_stderr(io.StringIO()):
            return parser().parse_args(words)
    except SystemExit:
        remedy = "write the report again, or name a folder without one with --report"
        raise UsageError("the report's command cannot be read", got=shlex.join(words), remedy=remedy) from None


def _origin(cell: Cell, report: Report | None) -> tuple[str, str | None]:
    """What the subject was found by, and what it was held against."""
    subjects: dict[str, Subject] = {} if report is None else {s.name: s for s in report.subjects}
    name = cell.artifact.subject
    if name in subjects:
        target, *rest = shlex.split(subjects[name].origin)
        return target, rest[rest.index("--against") + 1] if "--against" in rest else None
    if cell.artifact.exporter == "file":
        remedy = "name the report that has this cell with --report"
        raise UsageError(
            f"nothing says where the file of {name} lies", expected="a report that names it", remedy=remedy
        )
    return name, None


def _eager(cell: Cell) -> list[str]:
    """The cell of eager PyTorch beside one on arithmetic: whether the model is ill-conditioned."""
    arithmetic = plugins.question(cell.runtime) == "arithmetic" and cell.runtime not in plugins.TORCH_RUNTIMES
    if cell.artifact.exporter != "dynamo" or not arithmetic or cell.regime in invariants.PROPERTIES:
        return []
    return [f"{cell.artifact.subject}/torch/{cell.artifact.dtype}/torch-eager/{cell.shape}/{cell.regime}"]


def _is_unknown(error: SubjectError | UsageError, cell: Cell) -> bool:
    """Whether the run found no such cell, rather than something wrong with the files or flags."""
    nothing = error.what.startswith(("no cell was selected", "--cell ", "shape ", "no selected subject has the regime"))
    return nothing or (isinstance(error, SubjectError) and cell.artifact.subject in error.what)


def _unknown(text: str, report: Report | None, error: SubjectError | UsageError | None = None) -> UsageError:
    known = [] if report is None else [v.cell.id for v in report.verdicts]
    names = dict.fromkeys(i.split("/")[0] for i in known)
    subjects = get_close_matches(text.split("/")[0], names, 1, cutoff=0.3)  # first, since ids are many
    near = get_close_matches(text, [i for i in known if i.split("/")[0] in subjects], NEAREST, cutoff=0.3)
    reason = None if error is None else ": ".join(part for part in (error.what, error.got) if part)
    remedy = (error and error.remedy) or (None if known else "name a report with --report, or give a whole id")
    expected = ", ".join(near) or (error and error.expected) or FORM
    return UsageError(f"no cell {text}", expected=expected, got=reason, remedy=remedy)


def _kept(made: Path, out: Path, name: str) -> str:
    """Moves a reproduction out of the scratch folder, over an older one of the same cell; its place below `out`."""
    target = reproductions(out) / name
    try:
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(made, target)
    except OSError as error:
        raise UsageError(
            f"cannot write {target}", got=error.strerror, remedy="name another folder with --out"
        ) from error
    return f"{FOLDER}/{name}"


def _write(document: Mapping[str, object], target: str) -> None:
    text = json.dumps({"schema": "onnxparity-explanation/1", **document}, allow_nan=False)
    if target == "-":
        print(text)
        return
    try:
        Path(target).write_text(text + "\n", encoding="utf-8")
    except OSError as error:
        raise UsageError(
            f"cannot write {target}", got=error.strerror, remedy="name another file with --json"
        ) from error
