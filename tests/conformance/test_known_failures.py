"""The catalogue's list of known failures names cells that a full run plans, and no others."""

from __future__ import annotations

from onnxparity import expectations, plugins
from onnxparity.api import DEFAULT_DTYPES, DEFAULT_OPSETS, KNOWN_FAILURES
from onnxparity.models import catalogue
from onnxparity.outcome import Expectation, Status
from onnxparity.planning.planner import Options, Target, plan

EVERYTHING = Options(DEFAULT_OPSETS, DEFAULT_DTYPES, plugins.DEFAULT_RUNTIMES)


def planned() -> list[str]:
    """Ids of the cells of a full run over the catalogue."""
    targets = [Target(entry.subject, has_oracle=entry.oracle is not None) for entry in catalogue.entries().values()]
    return [cell.id for target in targets for cell in plan(target, EVERYTHING)]


def test_every_known_failure_fits_a_planned_cell() -> None:
    ids = planned()
    assert len(ids) > 10_000
    known = expectations.load(KNOWN_FAILURES)
    assert known
    assert expectations.unmatched(ids, known) == ()


def test_one_that_fits_nothing_is_seen() -> None:
    gone = Expectation("no-such-subject/*", Status.MEANING, "a reason", "https://example.org")
    assert expectations.unmatched(planned(), [gone]) == (gone,)


def test_the_plan_has_every_subject_at_every_opset() -> None:
    ids = planned()
    for name, entry in catalogue.entries().items():
        for dtype in set(DEFAULT_DTYPES) & set(entry.subject.dtypes):
            for opset in DEFAULT_OPSETS:
                assert any(i.startswith(f"{name}/dynamo-{opset}/{dtype}/onnx-float64/") for i in ids)
