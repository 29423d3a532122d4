"""What is computed ahead is in order, is never waited for in vain, and loses no error."""

from __future__ import annotations

from threading import Event, get_ident

import pytest

from onnxparity.judging.ahead import Ahead


def test_an_item_is_prepared_when_it_is_reached_and_those_behind_it_are_begun() -> None:
    prepared: list[int] = []
    with Ahead(prepared.append, range(10), threads=2) as ahead:
        ahead.reach(0)
        assert 0 in prepared
        ahead.reach(4)
        assert 4 in prepared
    assert set(prepared) <= set(range(7)), "no further ahead than there are threads"


def test_an_item_is_prepared_once_however_often_it_is_reached() -> None:
    prepared: list[str] = []
    with Ahead(prepared.append, ("a", "b"), threads=2) as ahead:
        for item in ("a", "a", "b", "a"):
            ahead.reach(item)
    assert sorted(prepared) == ["a", "b"]


def test_with_one_thread_nothing_is_prepared() -> None:
    def prepare(item: int) -> None:
        raise AssertionError("nobody asked for this")

    with Ahead(prepare, (1, 2), threads=1) as ahead:
        ahead.reach(1)


def test_the_work_is_done_in_other_threads() -> None:
    where: list[int] = []
    with Ahead(lambda item: where.append(get_ident()), (1,), threads=2) as ahead:
        ahead.reach(1)
    assert where and get_ident() not in where


def test_what_fails_is_left_to_whoever_needs_it() -> None:
    reached: list[int] = []

    def prepare(item: int) -> None:
        if item == 1:
            raise ValueError("no value")
        reached.append(item)

    with Ahead(prepare, (0, 1, 2), threads=2) as ahead:
        for item in (0, 1, 2):
            ahead.reach(item)
    assert sorted(reached) == [0, 2]


def test_what_was_not_begun_is_dropped_at_the_end() -> None:
    go, done = Event(), list[int]()

    def prepare(item: int) -> None:
        if item:
            go.wait(10)
        done.append(item)

    def interrupted() -> None:
        with Ahead(prepare, range(8), threads=2) as ahead:
            ahead.reach(0)
            go.set()
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert len(done) <= 3
