"""JUnit XML for CI systems: one test case for each cell, and one for the conclusion.

CI systems show a skipped test as harmless and an empty file as a success. So whatever is not conforming
also fails the case `onnxparity/conclusion`: no viewer can show such a run without a red test.
"""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Iterable
from typing import Literal

from onnxparity.location import Location
from onnxparity.outcome import Status, Verdict
from onnxparity.plan import ArtifactKey
from onnxparity.record import Report
from onnxparity.reports.layout import check, exact, headline, number, printable, ratio, suffix
from onnxparity.reports.where import by_cell, evidence, facts

__all__ = ["render_junit"]

Kind = Literal["failure", "error", "skipped"]
FAILURES = {Status.MEANING, Status.ARITHMETIC, Status.PROPERTY, Status.STRUCTURE, Status.NONFINITE, Status.XPASS}
SKIPPED = {Status.XFAIL, Status.SKIP, Status.UNAVAILABLE}
CONCLUSION = "onnxparity"


def render_junit(report: Report) -> str:
    """The report as JUnit XML (the structure that Jenkins, GitLab and GitHub actions read).

    Raises UsageError for a damaged document.
    """
    check(report)
    root = ET.Element("testsuites", name=CONCLUSION, time=f"{report.seconds:.3f}")
    root.append(_conclusion(report))
    located = {cell: found for cell, (_, found) in by_cell(report).items()}
    for key, group in _by_artifact(report.verdicts).items():
        cases = [_case(v, located.get(v.cell.id)) for v in group]
        root.append(_suite(key.id, report.created, cases))
    for count in ("tests", "failures", "errors"):
        root.set(count, str(sum(int(suite.attrib[count]) for suite in root)))
    ET.indent(root, " ")
    return ET.tostring(root, encoding="unicode", xml_declaration=False).join(
        ('<?xml version="1.0" encoding="UTF-8"?>\n', "\n")
    )


def _by_artifact(verdicts: Iterable[Verdict]) -> dict[ArtifactKey, list[Verdict]]:
    groups: dict[ArtifactKey, list[Verdict]] = {}
    for verdict in verdicts:
        groups.setdefault(verdict.cell.artifact, []).append(verdict)
    return groups


def _suite(name: str, created: str, cases: list[ET.Element]) -> ET.Element:
    suite = ET.Element("testsuite", name=printable(name), timestamp=printable(created), tests=str(len(cases)))
    for attribute, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
        suite.set(attribute, str(sum(case.find(tag) is not None for case in cases)))
    suite.extend(cases)
    return suite


def _conclusion(report: Report) -> ET.Element:
    head = headline(report)
    case = ET.Element("testcase", classname=CONCLUSION, name="conclusion", time=f"{report.seconds:.3f}")
    if head.tone != "good":
        kind: Kind = "error" if head.tone == "unknown" else "failure"
        _outcome(case, kind, head.words, head.sentence, (head.sentence, *report.limits))
    suite = _suite(CONCLUSION, report.created, [case])
    facts = {"version": report.tool_version, "command": report.command, "exit code": str(report.exit_code)}
    properties = ET.Element("properties")
    for name, value in (*facts.items(), *(("limit", limit) for limit in report.limits)):
        ET.SubElement(properties, "property", name=name, value=printable(value))
    suite.insert(0, properties)
    return suite


def _case(verdict: Verdict, location: Location | None) -> ET.Element:
    case = ET.Element("testcase", classname=printable(verdict.cell.artifact.id), name=printable(suffix(verdict)))
    if verdict.seconds is not None:
        case.set("time", f"{verdict.seconds:.3f}")
    if verdict.status is not Status.PASS:
        message = verdict.message.splitlines()[0] if verdict.message else str(verdict.status)
        _outcome(
            case,
            _kind(verdict.status),
            str(verdict.status),
            f"{verdict.status}: {message}",
            _details(verdict, location),
        )
    return case


def _kind(status: Status) -> Kind:
    """A status nobody thought of is an error, never silence."""
    return "failure" if status in FAILURES else "skipped" if status in SKIPPED else "error"


def _outcome(case: ET.Element, kind: Kind, name: str, message: str, details: Iterable[str]) -> None:
    outcome = ET.SubElement(case, kind, type=name, message=printable(message))
    outcome.text = printable("\n".join(details))


def _details(verdict: Verdict, location: Location | None) -> list[str]:
    """Everything the cell has to say; CI systems show the text of an outcome as it is."""
    lines = [verdict.cell.id, verdict.message, *verdict.evidence]
    if verdict.expectation is not None:
        lines += [f"expected {verdict.expectation.status}: {verdict.expectation.reason}", verdict.expectation.link]
    if verdict.ratio is not None:
        lines.append(f"error/budget {ratio(verdict.ratio)} (at most 1 passes)")
    if verdict.worst is not None:
        worst = verdict.worst
        lines.append(f"worst {worst.output}{list(worst.index)}: got {exact(worst.got)}, want {exact(worst.want)}")
    lines += [
        f"{m.output}: max abs {number(m.max_abs)}, max rel {number(m.max_rel)}, budget {number(m.budget)}"
        for m in verdict.outputs
    ]
    if location is not None:
        lines += [f"where it goes wrong: {location.message}", *(f"  {name}: {text}" for name, text in facts(location))]
        lines += [f"  {line}" for line in evidence(location)]
    return [*lines, f"repeat: {verdict.command}"] if verdict.command else lines
