"""JUnit XML: one case a cell, nothing that did not conform looks harmless."""

from __future__ import annotations

import dataclasses
import xml.etree.ElementTree as ET
from types import ModuleType

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from onnxparity.outcome import GREEN, Status
from onnxparity.record import Report
from onnxparity.reports.junit import render_junit

CHILDREN = {
    "testsuites": {"testsuite"},
    "testsuite": {"properties", "testcase"},
    "properties": {"property"},
    "testcase": {"failure", "error", "skipped"},
}
REQUIRED = {
    "testsuites": set[str](),
    "testsuite": {"name", "tests", "failures", "errors"},
    "testcase": {"name"},
    "failure": {"type", "message"},
    "error": {"type", "message"},
    "skipped": {"message"},
    "property": {"name", "value"},
}
OPTIONAL = {
    "testsuites": {"name", "time", "tests", "failures", "errors"},
    "testsuite": {"skipped", "time", "timestamp", "hostname", "id", "package"},
    "testcase": {"classname", "time"},
    "skipped": {"type"},
}


def faults(element: ET.Element) -> list[str]:
    """What the common JUnit schema (Jenkins' junit-10.xsd) would refuse."""
    tag, names = element.tag, set(element.attrib)
    required, optional = REQUIRED.get(tag, set()), OPTIONAL.get(tag, set())
    found = [f"{tag} lacks {n}" for n in required - names] + [f"{tag} has {n}" for n in names - required - optional]
    for child in element:
        if child.tag not in CHILDREN.get(tag, set()):
            found.append(f"{child.tag} inside {tag}")
        found += faults(child)
    if tag == "testsuite":
        found += _miscounted(element)
    if tag == "testcase" and len(element) > 1:
        found.append("two outcomes")
    return found


def _miscounted(suite: ET.Element) -> list[str]:
    cases = suite.findall("testcase")
    counts = {"tests": len(cases)}
    for attribute, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
        counts[attribute] = len([c for c in cases if c.find(tag) is not None])
    return [f"{n} is {suite.get(n)}, not {c}" for n, c in counts.items() if suite.get(n) != str(c)]


def outcomes(report: Report) -> dict[str, str]:
    """Tag of the outcome by `classname/name`, `passed` where there is none."""
    cases = ET.fromstring(render_junit(report)).iter("testcase")
    return {f"{c.get('classname')}/{c.get('name')}": c[0].tag if len(c) else "passed" for c in cases}


@pytest.mark.parametrize("name", ["full", "green", "incomplete", "empty"])
def test_the_structure_is_what_ci_systems_read(sample: ModuleType, name: str) -> None:
    assert faults(ET.fromstring(render_junit(getattr(sample, name)()))) == []


def test_the_structure_check_itself_notices_faults() -> None:
    bad = '<testsuites><testsuite name="a" tests="2" failures="0" errors="0" skipped="0" x="1">'
    bad += '<testcase><error type="a" message="b"/><skipped/></testcase><b/></testsuite></testsuites>'
    assert len(faults(ET.fromstring(bad))) == 8


def test_every_cell_is_one_case_and_the_conclusion_another(full: Report) -> None:
    found = outcomes(full)
    assert set(found) == {"onnxparity/conclusion", *(v.cell.id for v in full.verdicts)}
    assert len(full.verdicts) == len({v.cell.id for v in full.verdicts})


def test_statuses_become_the_outcomes_that_ci_systems_show(full: Report) -> None:
    found = outcomes(full)
    by_status = {v.status: found[v.cell.id] for v in full.verdicts}
    assert set(by_status) == set(Status)
    failed = {s for s in Status if by_status[s] in ("failure", "error")}
    assert {s for s in Status if by_status[s] == "passed"} == {Status.PASS}
    assert {s for s in Status if by_status[s] == "skipped"} == {Status.XFAIL, Status.SKIP, Status.UNAVAILABLE}
    assert {Status.MISSING, Status.FALLBACK, Status.XPASS, Status.CRASH, Status.TIMEOUT} <= failed
    assert failed.isdisjoint(GREEN)


@pytest.mark.parametrize(
    ("name", "outcome"), [("green", "passed"), ("full", "failure"), ("incomplete", "error"), ("empty", "error")]
)
def test_a_run_that_does_not_conform_has_a_red_case(sample: ModuleType, name: str, outcome: str) -> None:
    """A viewer that shows skipped tests as harmless, or an empty file as a success, must still show red."""
    assert outcomes(getattr(sample, name)())["onnxparity/conclusion"] == outcome


def test_a_failure_carries_evidence_and_command(full: Report) -> None:
    verdict = next(v for v in full.verdicts if v.status is Status.ARITHMETIC)
    root = ET.fromstring(render_junit(full))
    failure = next(f for f in root.iter("failure") if f.get("type") == "ARITHMETIC")
    assert failure.get("message") == f"ARITHMETIC: {verdict.message}"
    assert failure.text is not None
    for text in (verdict.cell.id, *verdict.evidence, verdict.command, "got 0.8125, want 0.7998046875"):
        assert text in failure.text


def test_an_expected_failure_carries_its_reason_and_link(full: Report, sample: ModuleType) -> None:
    root = ET.fromstring(render_junit(full))
    text = next(s.text or "" for s in root.iter("skipped") if s.get("type") == "XFAIL")
    assert sample.UNSUPPORTED_MASK.reason in text and sample.UNSUPPORTED_MASK.link in text


def test_times_are_those_of_the_verdicts_and_absent_where_not_measured(full: Report) -> None:
    cases = ET.fromstring(render_junit(full)).iter("testcase")
    times = {f"{c.get('classname')}/{c.get('name')}": c.get("time") for c in cases}
    for verdict in full.verdicts:
        assert times[verdict.cell.id] == (None if verdict.seconds is None else f"{verdict.seconds:.3f}")


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=st.text(st.characters(codec=None), max_size=40))
def test_any_text_gives_well_formed_xml(green: Report, text: str) -> None:
    known = next(v for v in green.verdicts if v.status is Status.XFAIL)
    changed = dataclasses.replace(known, message=text, evidence=(text,), command=text)
    verdicts = tuple(changed if v is known else v for v in green.verdicts)
    root = ET.fromstring(render_junit(dataclasses.replace(green, verdicts=verdicts, limits=(text,))).encode())
    assert faults(root) == []
