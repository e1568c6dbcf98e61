"""
One call of a loader that is under way, and the keys that it loads.
"""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import Future
from typing import Any, TypeAlias

__all__ = ["Flight", "Load", "Ticket"]

Ticket: TypeAlias = tuple[int, list[int]]
"""Since when the cache watches which hashes, as `_core.Cache.begin_load` returns it."""


class Flight:
    """
    One call of a loader: a function in a thread, or a coroutine in a task of its loop.

    Args:
        loop: Where the task runs; None for a thread.
        is_background: Whether it goes on when nobody waits for it.
    """

    __slots__ = ("is_abandoned", "is_background", "loop", "task", "thread", "waiting")

    def __init__(self, loop: asyncio.AbstractEventLoop | None = None, *, is_background: bool = False) -> None:
        self.loop = loop
        self.thread: int | None = threading.get_ident()
        self.task: asyncio.Task[Any] | None = None
        self.is_background = is_background
        self.is_abandoned = False
        self.waiting = 0

    def is_lost(self) -> bool:
        """
        Return whether it will never end, as its loop was closed.
        """
        return self.loop is not None and self.loop.is_closed()

    def can_be_waited_for(self, loop: asyncio.AbstractEventLoop | None) -> bool:
        """
        Return whether this thread, or a task of *loop* on it, would see the end.

        A thread cannot wait for a task of the loop that it runs itself, and nobody for one whose loop is blocked.
        """
        if self.is_abandoned:
            return False
        if self.loop is None or self.loop is loop:
            return True
        return self.loop.is_running() and self.thread != threading.get_ident()

    def leave(self) -> None:
        """
        Give up waiting; the last one cancels the task. The caller holds the lock of the flights.
        """
        self.waiting -= 1
        if self.waiting or self.is_background or self.task is None or self.loop is None or self.task.done():
            return
        self.is_abandoned = True
        if self.is_lost():
            return
        if self.thread == threading.get_ident():
            self.task.cancel()
        else:
            self.loop.call_soon_threadsafe(self.task.cancel)


class Load:
    """
    One key of a flight. The future's result is `(value,)`, an error, or None where somebody else has to load.

    An error is a result, too: some, as a CancelledError or StopIteration, mean something else to a future.
    """

    __slots__ = ("flight", "future", "ticket")

    def __init__(self, flight: Flight, ticket: Ticket) -> None:
        self.flight = flight
        self.ticket = ticket
        self.future: Future[tuple[Any] | BaseException | None] = Future()
        self.future.set_running_or_notify_cancel()  # so that nobody who gives up waiting cancels it for the others
