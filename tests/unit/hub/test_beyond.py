"""Beyond its end an artifact may refuse or agree; numbers that nobody can vouch for are a fault."""

from __future__ import annotations

import numpy as np
import pytest

from onnxparity.errors import LoadError, RunError, SubjectError
from onnxparity.numerics.compare import Comparison
from onnxparity.outcome import Status
from onnxparity.planning.beyond import refuses_or_agrees

AGREES = Comparison(Status.PASS, "agrees", 0.25)
DIFFERS = Comparison(Status.MEANING, "differs", 7.0)


def answers() -> object:
    """A run that gives values."""
    return {"y": np.ones(3)}


def refuses() -> Comparison:
    """A run that does not."""
    raise RunError("Gather failed", got="index 256 is out of bounds")


def cannot() -> Comparison:
    """A reference that has no value."""
    raise SubjectError("the reference has no value")


def test_a_clear_error_passes_whatever_the_reference_does() -> None:
    for compared in (refuses, cannot, lambda: DIFFERS):
        found = refuses_or_agrees(refuses, compared, failure=Status.MEANING)
        assert (found.status, found.ratio) == (Status.PASS, 0.0)
        assert found.evidence == ("Gather failed", "index 256 is out of bounds")


@pytest.mark.parametrize("compared", [refuses, cannot])
@pytest.mark.parametrize("failure", [Status.MEANING, Status.ARITHMETIC])
def test_values_where_the_reference_has_none_fail(compared: object, failure: Status) -> None:
    assert callable(compared)
    found = refuses_or_agrees(answers, compared, failure=failure)
    assert found.status is failure
    assert found.ratio is None and found.evidence


def test_values_on_both_sides_are_compared() -> None:
    assert refuses_or_agrees(answers, lambda: AGREES, failure=Status.MEANING) is AGREES
    assert refuses_or_agrees(answers, lambda: DIFFERS, failure=Status.MEANING) is DIFFERS


def test_an_error_that_is_no_refusal_is_none() -> None:
    def breaks() -> object:
        raise LoadError("no such kernel")

    with pytest.raises(LoadError):
        refuses_or_agrees(breaks, lambda: AGREES, failure=Status.MEANING)
    with pytest.raises(ZeroDivisionError):
        refuses_or_agrees(lambda: 1 // 0, lambda: AGREES, failure=Status.MEANING)
