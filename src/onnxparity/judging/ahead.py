"""What is computed ahead: in threads, while what stands before it is used.

Only for what cannot crash, such as evaluations in NumPy, so that a dead worker still tells by its cell who killed it.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from types import TracebackType
from typing import Generic, TypeVar

__all__ = ["Ahead"]

Item = TypeVar("Item", bound=Hashable)


class Ahead(Generic[Item]):
    """Prepares items in order, a few more than have been asked for."""

    def __init__(self, prepare: Callable[[Item], object], items: Sequence[Item], *, threads: int) -> None:
        """prepare: keeps what it computes where `reach`'s caller finds it; what it raises is left to that caller.

        threads: with one, nothing is prepared and every caller computes for itself.
        """
        self._prepare, self._items, self._threads = prepare, tuple(items), threads
        self._places = {item: place for place, item in enumerate(items)}
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="onnxparity-ahead") if threads > 1 else None
        self._started: list[Future[object]] = []

    def reach(self, item: Item) -> None:
        """Waits until the item is prepared, and has those behind it begun."""
        place = self._places.get(item)
        if self._pool is None or place is None:
            return
        for following in self._items[len(self._started) : place + 1 + self._threads]:
            self._started.append(self._pool.submit(self._prepare, following))
        with suppress(Exception):  # whoever needs the value computes it again, and is told
            self._started[place].result()

    def __enter__(self) -> Ahead[Item]:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)
