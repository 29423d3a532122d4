"""Few draws settle what is far within its budget, and nothing fails before many were drawn."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from onnxparity.judging.draws import CONFIRMING_DRAWS, DRAWS, FAR_WITHIN, FIRST_DRAWS, SERIES, larger, settled
from onnxparity.numerics.compare import Comparison
from onnxparity.outcome import Status


def scripted(ratios: dict[int, float], asked: list[int]) -> Callable[[int], Comparison]:
    """A comparison whose ratio depends on how many draws stand behind it."""

    def against(draws: int) -> Comparison:
        asked.append(draws)
        ratio = ratios[draws]
        return Comparison(Status.PASS if ratio <= 1 else Status.ARITHMETIC, "", ratio)

    return against


@pytest.mark.parametrize(
    ("ratios", "draws", "status"),
    [
        ({1: FAR_WITHIN}, [1], Status.PASS),
        ({1: FAR_WITHIN + 0.01, 3: 0.2}, [1, 3], Status.PASS),
        ({1: 1.5, 3: 0.9}, [1, 3], Status.PASS),
        ({1: 1.5, 3: 1.1, 12: 0.99}, [1, 3, 12], Status.PASS),
        ({1: 90.0, 3: 80.0, 12: 70.0}, [1, 3, 12], Status.ARITHMETIC),
    ],
)
def test_as_many_draws_as_it_takes(ratios: dict[int, float], draws: list[int], status: Status) -> None:
    asked: list[int] = []
    found = settled(scripted(ratios, asked))
    assert (asked, found.status, found.ratio) == (draws, status, ratios[draws[-1]])


@pytest.mark.parametrize("status", [Status.STRUCTURE, Status.NONFINITE])
def test_what_no_budget_could_mend_is_not_drawn_for_again(status: Status) -> None:
    asked: list[int] = []

    def against(draws: int) -> Comparison:
        asked.append(draws)
        return Comparison(status, "", float("inf"))

    assert settled(against).status is status
    assert asked == [FIRST_DRAWS]


def test_each_number_of_draws_adds_to_the_one_before() -> None:
    assert SERIES == {FIRST_DRAWS: 0, DRAWS: FIRST_DRAWS, CONFIRMING_DRAWS: DRAWS}
    assert FIRST_DRAWS < DRAWS < CONFIRMING_DRAWS


def test_more_draws_never_make_a_noise_smaller() -> None:
    more = larger({"y": np.array([1.0, 5.0])}, {"y": np.array([3.0, 2.0]), "z": np.array([9.0])})
    assert more["y"].tolist() == [3.0, 5.0]
    assert set(more) == {"y"}
