"""Statements that asyncio awaits: they run on a thread of their connection, in the order in which they were asked for."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Callable, TypeVar

T = TypeVar("T")

# How often a statement is told to end whose task was cancelled: it may only be about to begin.
_AGAIN = 0.01


class Turns:
    """The thread of a connection, which is made by the first statement that is awaited."""

    def __init__(self, cancel: Callable[[], None]):
        self._cancel = cancel
        self._threads: ThreadPoolExecutor | None = None
        self._making = threading.Lock()

    def _submit(self, work: Callable[..., T], args: tuple[Any, ...]) -> Future[T]:
        with self._making:
            if self._threads is None:
                self._threads = ThreadPoolExecutor(1, "halcyon-await")
            return self._threads.submit(work, *args)

    async def run(self, work: Callable[..., T], *args: Any) -> T:
        """What ``work`` returns, done by the connection's thread. The loop runs on meanwhile.

        A task that is cancelled ends its statement, and hears of the cancel once the statement has ended, so that the
        connection is free. A statement whose turn has not come does not run.
        """
        running = self._submit(work, args)
        waiting = asyncio.wrap_future(running)
        try:
            return await asyncio.shield(waiting)
        except asyncio.CancelledError:
            if not running.cancel():
                await self._end(running, waiting)
            raise

    async def _end(self, running: Future[Any], waiting: asyncio.Future[Any]) -> None:
        while not running.done():
            self._cancel()
            try:
                await asyncio.wait([waiting], timeout=_AGAIN)
            except asyncio.CancelledError:
                # Cancelled once more: the statement has to end in any case.
                pass
        if not waiting.cancelled() and waiting.done():
            waiting.exception()

    def close(self) -> None:
        """Ends the thread once its statement has ended."""
        with self._making:
            if self._threads is not None:
                self._threads.shutdown(wait=False)
                self._threads = None
