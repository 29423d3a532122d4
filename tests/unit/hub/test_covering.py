"""A covering array holds every allowed pair, is far smaller than the full product, and never changes."""

from __future__ import annotations

from itertools import combinations, product
from math import prod

from hypothesis import given
from hypothesis import strategies as st

from onnxparity.planning.covering import Pair, Place, Row, pairs_of, pairwise

COLUMNS = {"a": ("1", "2", "3"), "b": ("1", "2", "3", "4"), "c": ("1", "2"), "d": ("1", "2", "3")}


def anything(one: Place, other: Place) -> bool:
    """No pair is forbidden."""
    return True


def no_two_large(one: Place, other: Place) -> bool:
    """At most one column may hold a 3 or more."""
    return min(int(one[1]), int(other[1])) < 3


def uncovered(columns: dict[str, tuple[str, ...]], rows: tuple[Row, ...]) -> set[Pair]:
    """Pairs that stand in no row, whatever is allowed."""
    every = {
        frozenset(((a, x), (b, y))) for a, b in combinations(columns, 2) for x, y in product(columns[a], columns[b])
    }
    return every - {pair for row in rows for pair in pairs_of(row)}


@given(st.lists(st.integers(1, 6), max_size=5))
def test_every_pair_and_every_value_is_covered(counts: list[int]) -> None:
    columns = {f"c{n}": tuple(map(str, range(count))) for n, count in enumerate(counts)}
    rows = pairwise(columns, allowed=anything)
    assert not uncovered(columns, rows)
    for column, values in columns.items():
        assert {row[column] for row in rows} == set(values)
    assert all(list(row) == list(columns) for row in rows)


def test_a_pair_that_no_row_holds_is_seen() -> None:
    rows = pairwise(COLUMNS, allowed=anything)
    assert uncovered(COLUMNS, rows[1:]), "each row is there for a pair of its own"


def test_it_is_far_smaller_than_the_product() -> None:
    columns = {f"c{n}": tuple(map(str, range(5))) for n in range(4)}
    rows = pairwise(columns, allowed=anything)
    assert 25 <= len(rows) <= 40 < prod(map(len, columns.values()))


def test_forbidden_pairs_stand_in_no_row_and_all_others_in_one() -> None:
    rows = pairwise(COLUMNS, allowed=no_two_large)
    left = uncovered(COLUMNS, rows)
    assert left
    assert all(not no_two_large(*pair) for pair in left)
    assert all(no_two_large(*pair) for row in rows for pair in map(tuple, pairs_of(row)))


def test_a_value_that_every_partner_forbids_is_left_out() -> None:
    rows = pairwise({"a": ("1", "2"), "b": ("1", "2")}, allowed=lambda one, other: "2" not in (one[1], other[1]))
    assert rows == ({"a": "1", "b": "1"},)


def test_rows_that_are_there_already_are_not_repeated() -> None:
    there = pairwise(COLUMNS, allowed=anything)
    assert pairwise(COLUMNS, allowed=anything, there=there) == ()
    fewer = pairwise(COLUMNS, allowed=anything, there=there[:5])
    assert not uncovered(COLUMNS, there[:5] + fewer)
    assert len(fewer) < len(there)


def test_the_same_columns_give_the_same_rows() -> None:
    assert pairwise(COLUMNS, allowed=anything) == pairwise(dict(COLUMNS), allowed=anything)


def test_no_column_needs_no_row_and_one_column_needs_each_value_once() -> None:
    assert pairwise({}, allowed=anything) == ()
    assert pairwise({"a": ("1", "2")}, allowed=anything) == ({"a": "1"}, {"a": "2"})
