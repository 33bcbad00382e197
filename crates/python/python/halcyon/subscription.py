"""Iterators over the changes of a materialized view, and events for streams."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import Any, List, NamedTuple, Optional, Tuple


from .errors import InterfaceError


class Delta(NamedTuple):
    """A changed row: as it was and as it is. ``old`` is None for a new row, ``new`` for one that is gone."""

    old: Optional[Tuple[Any, ...]]
    new: Optional[Tuple[Any, ...]]


class Changes(NamedTuple):
    """The changes of one transaction, or the rows with which a subscription begins.

    ``position``: a subscription that begins behind it continues after these changes.
    """

    position: int
    rows: List[Delta]


# How long an iterator waits at once; it looks between whether it was closed or interrupted.
_WAIT = 0.2


class Subscription:
    """The changes of a materialized view, by whole transactions in the order of their commits.

    Iterate over it, with ``for`` or ``async for``: it does not end by itself. The first changes are the view's rows,
    unless it began at a position. Close it, or use it as a context, when it is no longer needed.
    """

    def __init__(self, inner: Any):
        self._inner = inner
        self._closed = False

    @property
    def columns(self) -> list[str]:
        """Names of the view's columns."""
        return self._inner.names

    @property
    def position(self) -> int:
        """The position behind which another subscription would continue."""
        return self._inner.position

    def get(self, timeout: float | None = None) -> Changes | None:
        """The changes of the next transaction; None if none came within ``timeout`` seconds."""
        found = self._inner.next(1e9 if timeout is None else timeout)
        return None if found is None else _changes(found)

    def __iter__(self) -> Subscription:
        return self

    def __next__(self) -> Changes:
        found = None
        while found is None:
            if self._closed:
                raise StopIteration
            found = self._next()
        return _changes(found)

    def __aiter__(self) -> Subscription:
        return self

    async def __anext__(self) -> Changes:
        # The engine's wait is another thread's; who cancels this task waits no longer than it.
        found = None
        while found is None:
            if self._closed:
                raise StopAsyncIteration
            waiting = asyncio.ensure_future(asyncio.to_thread(self._next))
            try:
                found = await asyncio.shield(waiting)
            except asyncio.CancelledError:
                self._lost(waiting)
                raise
        return _changes(found)

    def _next(self):
        try:
            return self._inner.next(_WAIT)
        except InterfaceError:
            # Closed by another thread or task meanwhile, which ends the iteration.
            if self._closed:
                return None
            raise

    def _lost(self, waiting):
        """Keeps changes that arrive for a task that was cancelled: the next iteration gives them."""
        def keep(done):
            if not done.cancelled() and done.exception() is None and done.result() is not None:
                self._inner = _Kept(self._inner, done.result())

        waiting.add_done_callback(keep)

    def close(self) -> None:
        """Ends the subscription; iterators over it end."""
        self._closed = True
        self._inner.close()

    def __enter__(self) -> Subscription:
        return self

    def __exit__(self, *exc: Any) -> None:
        self.close()

    async def __aenter__(self) -> Subscription:
        return self

    async def __aexit__(self, *exc: Any) -> None:
        self.close()


class _Kept:
    """A subscription with changes that were taken from it already."""

    def __init__(self, inner, first):
        self._inner = inner
        self._first = first

    def __getattr__(self, name):
        return getattr(self._inner, name)

    def next(self, seconds):
        first, self._first = self._first, None
        return first if first is not None else self._inner.next(seconds)


def _changes(found):
    position, rows = found
    return Changes(position, [Delta(*row) for row in rows])


class Stream:
    """A handle that gives a stream events, without SQL. An event is accepted when the call returns."""

    def __init__(self, inner: Any):
        self._inner = inner

    def insert(self, *row: Any) -> None:
        """The event that a tuple is inserted: ``insert(1, "a")``."""
        self._inner.events([(row, 1)])

    def delete(self, *row: Any) -> None:
        """The event that a tuple is deleted."""
        self._inner.events([(row, -1)])

    def insert_many(self, rows: Iterable[Sequence[Any]]) -> None:
        """Inserts of several tuples, all or none."""
        self._inner.events([(row, 1) for row in rows])

    def events(self, events: Iterable[tuple[Sequence[Any], int]]) -> None:
        """Several events, all or none: (tuple, 1) for an insert, (tuple, -1) for a delete."""
        self._inner.events(list(events))

    def close(self) -> None:
        """Gives the handle back."""
        self._inner.close()

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *exc: Any) -> None:
        self.close()
