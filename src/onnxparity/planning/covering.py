"""Covering arrays of strength 2: few rows in which any two values of any two columns stand together at least once.

Most faults of software show at one value or at a pair of values (Kuhn, Wallace and Gallo 2004), so all pairs
find nearly what the full product finds, in a number of rows that grows with its two largest columns alone. Rows are
built greedily, as AETG does (Cohen, Dalal, Fredman and Patton 1997).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import combinations

__all__ = ["Row", "pairs_of", "pairwise"]

Row = Mapping[str, str]
"""A value for each column."""
Place = tuple[str, str]
"""A column and a value in it."""
Pair = frozenset[Place]
Allowed = Callable[[Place, Place], bool]


def pairs_of(row: Row) -> Iterator[Pair]:
    """Every pair that a row covers."""
    return (frozenset(pair) for pair in combinations(row.items(), 2))


def pairwise(columns: Mapping[str, Sequence[str]], *, allowed: Allowed, there: Iterable[Row] = ()) -> tuple[Row, ...]:
    """Rows that cover every allowed pair which the rows that are `there` do not, and every single value.

    The same columns in the same order give the same rows. A pair that can stand in no row, because every
    completion holds a pair that is not allowed, is left out.

    Args:
        columns: the values of each column; where two would serve alike, the earlier one is taken.
        allowed: whether two places may stand in one row; asked in either order.
        there: rows that exist already; they need not obey `allowed`.
    """
    there = tuple(there)
    covered = {pair for row in there for pair in pairs_of(row)}
    left = [pair for pair in _every_pair(columns, allowed) if pair not in covered]
    rows: list[Row] = []
    while left:
        row = _complete(columns, dict(left[0]), set(left), allowed)
        done = {left[0]} if row is None else set(pairs_of(row))
        left = [pair for pair in left if pair not in done]
        rows += [] if row is None else [row]
    seen = {place for row in (*there, *rows) for place in row.items()}
    for column, values in columns.items():  # a value that is alone in its row, or that no pair held
        for value in values:
            row = None if (column, value) in seen else _complete(columns, {column: value}, set(), allowed)
            rows += [] if row is None else [row]
            seen |= set(() if row is None else row.items())
    return tuple(rows)


def _every_pair(columns: Mapping[str, Sequence[str]], allowed: Allowed) -> Iterator[Pair]:
    for one, other in combinations(columns, 2):
        for a in columns[one]:
            for b in columns[other]:
                if allowed((one, a), (other, b)):
                    yield frozenset(((one, a), (other, b)))


def _complete(
    columns: Mapping[str, Sequence[str]], fixed: Mapping[str, str], wanted: set[Pair], allowed: Allowed
) -> Row | None:
    """The row with these places fixed, each further column filled with what covers most; None where nothing fits."""
    column = next((c for c in columns if c not in fixed), None)
    if column is None:
        return {c: fixed[c] for c in columns}

    def gain(value: str) -> int:
        return sum(frozenset(((column, value), place)) in wanted for place in fixed.items())

    for value in sorted(columns[column], key=gain, reverse=True):  # stable: the earlier of two alike comes first
        if all(allowed((column, value), place) for place in fixed.items()):
            row = _complete(columns, {**fixed, column: value}, wanted, allowed)
            if row is not None:
                return row
    return None
