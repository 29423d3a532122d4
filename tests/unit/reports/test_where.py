"""What is said of a cause, in every rendering: nothing left out, nothing twice, no link that is none of ours."""

from __future__ import annotations

import dataclasses
import typing
import xml.etree.ElementTree as ET

import pytest

from onnxparity.location import Origin
from onnxparity.record import Report
from onnxparity.reports.html import MAX_LOCATIONS, render_html
from onnxparity.reports.junit import render_junit
from onnxparity.reports.markdown import render_markdown
from onnxparity.reports.where import ORIGINS, by_cell, evidence, facts, headed, link


def test_every_origin_has_words() -> None:
    assert set(ORIGINS) == set(typing.get_args(Origin))


def test_facts_name_all_that_was_found(full: Report) -> None:
    found = dict(facts(dataclasses.replace(full.locations[1], optimizer="BiasGeluFusion")))
    node = full.locations[1].node
    assert node is not None
    assert (found["module"], found["source"], found["optimizer"]) == (node.module, node.source, "BiasGeluFusion")
    assert found["node"] == "Concat node_cat_1" and found["region"].startswith("7 of 52 nodes")
    assert found["smallest shape"].startswith("b1-t1-p1") and found["reproduction"].startswith("reproductions/")


def test_what_is_not_known_is_left_out(full: Report) -> None:
    assert [name for name, _ in facts(full.locations[2])] == ["origin", "smallest shape", "explains"]


def test_a_fixed_shape_is_not_called_the_smallest(full: Report) -> None:
    fixed = dataclasses.replace(full.locations[0], smallest_shape="fixed")
    assert "smallest shape" not in dict(facts(fixed))


def test_a_title_names_operator_and_module_or_what_failed(full: Report) -> None:
    assert [headed(x) for x in full.locations[:2]] == ["Gelu in layers.11.mlp", "Concat in decoder.layers.0.attention"]
    assert headed(full.locations[2]) == "ort-cpu on acme.ranker/file-17/float32"


def test_a_cell_is_explained_by_the_first_that_names_it(full: Report) -> None:
    first = full.locations[0]
    twice = dataclasses.replace(full, locations=(*full.locations, dataclasses.replace(first, message="later")))
    assert by_cell(twice)[first.explains[0]] == (1, first)
    assert {n for n, _ in by_cell(full).values()} == {1, 2, 3}


def test_evidence_that_the_message_has_is_not_repeated(full: Report) -> None:
    assert evidence(full.locations[0]) == ["the reference computes there: aten.gelu.default gelu_11"]


@pytest.mark.parametrize(
    "text",
    ["javascript:alert(1)", "reproductions/..", "../reproductions/a", "reproductions/a b", "https://x.org/a"],
)
def test_what_is_no_folder_of_ours_is_no_link(full: Report, text: str) -> None:
    assert link(text) == ""
    changed = dataclasses.replace(full.locations[1], reproduction=text)
    assert f'href="{text}' not in render_html(dataclasses.replace(full, locations=(changed,)))


def test_a_reproduction_is_linked_relative_to_the_report(full: Report) -> None:
    assert link("reproductions/a-1.b_c") == "reproductions/a-1.b_c/"
    assert '<a href="reproductions/decoder-with-kv-cache-1/">' in render_html(full)


def test_each_red_verdict_leads_to_its_cause_on_the_page(full: Report) -> None:
    page = render_html(full)
    shown = [c for c in by_cell(full) if any(v.cell.id == c for v in full.verdicts)]
    for place in (1, 2, 3):
        assert page.count(f'id="where-{place}"') == 1
    assert page.count('href="#where-') == len(shown) == 3
    assert page.index('id="where"') < page.index('id="artifacts"')


def test_causes_beyond_the_limit_are_counted_and_not_linked(full: Report) -> None:
    first, *rest = full.locations
    many = tuple(dataclasses.replace(first, explains=()) for _ in range(MAX_LOCATIONS))
    page = render_html(dataclasses.replace(full, locations=(*many, *rest)))
    assert f"<b>{len(rest)} more</b> are in the JSON report" in page
    assert 'href="#where-' not in page


def test_a_report_without_causes_says_nothing_of_them(green: Report) -> None:
    bare = dataclasses.replace(green, locations=())
    assert "Where it goes wrong" not in render_html(bare) + render_markdown(bare) + render_junit(bare)


def test_the_cause_stands_in_the_text_of_each_failure_of_junit(full: Report) -> None:
    root = ET.fromstring(render_junit(full))
    for location in full.locations:
        kind, _, rest = location.explains[0].rpartition(location.cell.runtime)
        case = root.find(f".//testcase[@classname='{kind.strip('/')}'][@name='{location.cell.runtime}{rest}']")
        assert case is not None
        text = "".join(case.itertext())
        assert location.message in text and location.smallest_shape in text
        assert location.node is None or location.node.source in text
