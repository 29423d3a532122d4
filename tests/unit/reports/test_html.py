"""The HTML report: complete, self-contained, escaped, never greener than its document."""

from __future__ import annotations

import dataclasses
import re
from html.parser import HTMLParser
from types import ModuleType

import pytest

from onnxparity.outcome import Status
from onnxparity.record import Report
from onnxparity.reports.html import MAX_FAILURES, render_html
from onnxparity.reports.layout import failures

VOID = {"meta", "br", "input", "wbr", "link", "img", "hr"}
HOSTILE = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>{{ 7*7 }}</style>"


class Page(HTMLParser):
    """Collects tags, attributes and text, and notices tags that do not match."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.text: list[str] = []
        self.broken: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open.pop() != tag:
            self.broken.append(tag)

    def handle_data(self, data: str) -> None:
        if not {"script", "style"} & set(self.open):
            self.text.append(data)

    def words(self) -> str:
        """All visible text, with single spaces."""
        return " ".join("".join(self.text).split())

    def values(self, attribute: str) -> list[str]:
        return [a[attribute] or "" for _, a in self.tags if attribute in a]


@pytest.fixture(scope="module")
def page(full: Report) -> Page:
    return Page(render_html(full))


def test_every_tag_is_closed_in_order(page: Page) -> None:
    assert page.broken == []
    assert page.open == []


def test_the_tag_check_itself_notices_a_wrong_page() -> None:
    assert Page("<p><b>x</p></b>").broken == ["p", "b"]


def test_ids_are_unique_and_every_inner_link_has_its_target(page: Page) -> None:
    ids = page.values("id")
    assert len(ids) == len(set(ids))
    targets = [h[1:] for h in page.values("href") if h.startswith("#")]
    assert len(targets) > 10
    assert set(targets) <= set(ids)


def outside(page: Page, text: str) -> list[str]:
    """Everything that a browser would fetch from elsewhere."""
    links = [(t, a) for t, attributes in page.tags for a in attributes.items() if a[0] in ("src", "href", "srcset")]
    loads = [f"{tag} {value}" for tag, (_, value) in links if tag != "a" and not (value or "").startswith("#")]
    return loads + re.findall(r"@import|url\((?!#)[^)]*\)", text)


def test_nothing_is_loaded_from_elsewhere(page: Page, full: Report) -> None:
    assert outside(page, render_html(full)) == []


@pytest.mark.parametrize(
    "text", ['<img src="http://x/y.png">', "<style>a{background:url(http://x)}</style>", '<link href="//x/f.css">']
)
def test_the_load_check_itself_notices_a_request(text: str) -> None:
    assert outside(Page(text), text)


def test_the_page_forbids_the_browser_to_load_anything(page: Page) -> None:
    policies = [a["content"] for t, a in page.tags if a.get("http-equiv") == "Content-Security-Policy"]
    assert policies and "default-src 'none'" in (policies[0] or "")


def test_the_same_document_gives_the_same_bytes(full: Report) -> None:
    assert render_html(full) == render_html(Report.from_json(full.to_json()))


def test_the_first_screen_says_conclusion_exit_code_counts_and_limits(page: Page, full: Report) -> None:
    top = page.words().split("Artifacts Meaning")[0]
    assert full.conclusion in top
    assert "exit code 1" in top
    assert all(limit in top for limit in full.limits)
    assert all(f"{count} {status}" in top for status, count in full.counts.items())


def test_every_failure_shows_its_message_evidence_and_command(page: Page, full: Report) -> None:
    words = page.words()
    for verdict in failures(full):
        for text in (verdict.message, *verdict.evidence, verdict.command):
            assert " ".join(text.split()) in words
    assert "Worst element output[1, 12, 40]: got 0.8125, want 0.7998046875" in words
    assert "got NaN, want -1.25" in words


def test_expected_failures_show_reason_and_link(page: Page, sample: ModuleType) -> None:
    assert sample.UNSUPPORTED_MASK.reason in page.words()
    assert sample.UNSUPPORTED_MASK.link in page.values("href")


def test_a_link_that_is_no_web_address_is_only_text(full: Report, sample: ModuleType) -> None:
    bad = dataclasses.replace(sample.UNSUPPORTED_MASK, link="javascript:alert(1)")
    known = [dataclasses.replace(v, expectation=bad) for v in full.verdicts if v.status is Status.XFAIL]
    page = Page(render_html(sample.assemble([*full.verdicts[:4], *known])))
    assert "javascript:alert(1)" in page.words()
    assert not [h for h in page.values("href") if h.startswith("javascript")]


def test_withheld_times_show_no_number(full: Report, sample: ModuleType) -> None:
    hidden = [dataclasses.replace(x, conforms=False, p50_ms=123.456, note="") for x in full.latency]
    words = Page(render_html(dataclasses.replace(full, latency=tuple(hidden)))).words()
    assert "123" not in words.split("Latency Subject")[1].split("Cells Every")[0]
    assert "withheld" in words and "the same artifact and runtime do not conform" in words


@pytest.mark.parametrize("name", ["empty", "incomplete", "full"])
def test_only_a_conforming_report_looks_green(sample: ModuleType, name: str) -> None:
    def header(text: str) -> str:
        return next(a["class"] or "" for t, a in Page(text).tags if t == "header")

    assert header(render_html(sample.green())) == "verdict good"
    assert "good" not in header(render_html(getattr(sample, name)()))


def test_an_empty_report_says_that_nothing_was_shown(empty: Report) -> None:
    words = Page(render_html(empty)).words()
    assert "Evidence incomplete" in words and "exit code 3" in words
    assert "nothing was planned, so nothing was shown" in words


def hostile(report: Report) -> Report:
    """The report with a hostile text in every text it has."""

    def poison(value: object) -> object:
        if isinstance(value, str):
            return value if value in KEPT or isinstance(value, Status) else value + HOSTILE
        if isinstance(value, tuple):
            return tuple(poison(v) for v in value)
        if isinstance(value, dict):
            return {k if k in KEPT else f"{k}{HOSTILE}": poison(v) for k, v in value.items()}
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            names = [f.name for f in dataclasses.fields(value)]
            return dataclasses.replace(value, **{name: poison(getattr(value, name)) for name in names})
        return value

    poisoned = poison(dataclasses.replace(report, subjects=()))
    assert isinstance(poisoned, Report)
    subjects = tuple(dataclasses.replace(s, summary=HOSTILE, origin=HOSTILE) for s in report.subjects)
    return dataclasses.replace(poisoned, subjects=subjects)


KEPT = {*(str(s) for s in Status), "oracle", "meaning", "arithmetic", "property"}


def test_hostile_text_stays_text_everywhere(full: Report) -> None:
    plain, attacked = Page(render_html(full)), Page(render_html(hostile(full)))
    assert attacked.broken == [] and attacked.open == []
    assert len([t for t, _ in attacked.tags if t == "script"]) == 1
    assert not [t for t, a in attacked.tags if t == "img" or any(name.startswith("on") for name in a)]
    assert attacked.words().count("<script>alert(1)</script>") > 200
    assert {t for t, _ in attacked.tags} == {t for t, _ in plain.tags}


def test_control_and_bidirectional_characters_become_visible(full: Report) -> None:
    changed = dataclasses.replace(full, conclusion="red \u202ekO\x1b[2J\x00")
    assert "red \\u202ekO\\u001b[2J\\u0000" in Page(render_html(changed)).words()


def test_twenty_thousand_cells_stay_below_five_megabytes_and_lose_nothing(sample: ModuleType) -> None:
    report = sample.large(350, 57, failing_every=20)
    text = render_html(report)
    page = Page(text)
    red = failures(report)
    in_full = [a for t, a in page.tags if t == "details" and "failure" in (a.get("class") or "")]
    left = [int(n) for n in re.findall(r"(\d+) more of this artifact are not green", page.words())]
    assert len(text.encode()) < 5_000_000
    assert len(red) > MAX_FAILURES == len(in_full)
    assert sum(left) == len(red) - MAX_FAILURES
    cells = page.words().split("Cells Every cell")[1]
    assert all(f"{v.cell.shape}/{v.cell.regime} {v.status}" in cells for v in red)
