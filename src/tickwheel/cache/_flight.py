"""
A flight: one running call of a loader, and the keys that it loads.

A signal handler, such as a time limit or Ctrl-C, may raise an exception between any two lines, but no key may stay
blocked. So the state of an object in C shows whether a flight is running: a lock that the flight's thread holds, or a
task that has not ended. The clean-up, which removes the loads and wakes the waiters, may be repeated. It is called
twice, the second time in a `finally`. If both calls are interrupted, the next caller of `take` cleans up.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any, Final, ParamSpec, TypeAlias, TypeVar

from tickwheel.timers.error_copies import copy_error

__all__ = ["OPEN", "FailedLoadError", "Failure", "Flight", "Load", "Ticket", "held"]

P = ParamSpec("P")
T = TypeVar("T")

Ticket: TypeAlias = tuple[int, list[int]]
"""The result of `_core.Cache._begin_load`: the number of the last write, and hashes of the key."""

OPEN: Final = object()
"""The outcome of a load that is still running."""


def held(lock: Any, step: Callable[P, T], *args: P.args, **keywords: P.kwargs) -> T:
    """
    Call *step* while holding a *lock*.
    """
    # on one line, because a debugger's line trace may raise at the end of a `with` on two lines, before the release
    with lock: return step(*args, **keywords)  # noqa: E701 - see above # fmt: skip


class FailedLoadError(Exception):
    """
    Wraps the error of a load, to distinguish it from an exception of a signal handler, which may have any type.
    """

    def __init__(self, error: BaseException) -> None:
        super().__init__()
        self.error = error


class Failure:
    """
    The error of a load, for all callers that wait for the load.

    *outer* is the error that the thread was handling when it called the loader. If *is_given* is True, the loading
    thread itself raises the original, and each waiter gets a copy. Otherwise, the first waiter gets the original.
    """

    __slots__ = ("_first", "_template", "_traceback", "is_exception")

    def __init__(self, error: BaseException, outer: BaseException | None = None, *, is_given: bool = False) -> None:
        self._traceback = _from_the_loader(error.__traceback__)
        self._template = copy_error(error, self._traceback, outer)  # copied before a caller can change it
        self._first = [] if is_given or self._template is error else [error]
        self.is_exception = isinstance(error, Exception)

    def error(self) -> BaseException:
        try:
            return self._first.pop()
        except IndexError:
            return copy_error(self._template, self._traceback)


def _from_the_loader(traceback: TracebackType | None) -> TracebackType | None:
    """
    Return the part of *traceback* that begins in the loader.
    """
    while traceback is not None and str(traceback.tb_frame.f_globals.get("__name__")).startswith("tickwheel.cache."):
        traceback = traceback.tb_next
    return traceback


class Flight:
    """
    One call of a loader: a function in a thread (*loop* is None), or a coroutine in a task of its *loop*.

    If *is_background* is True, the load continues without waiters. *timeout_s* limits the wait of each caller.
    """

    __slots__ = (
        "failure",
        "gate",
        "is_abandoned",
        "is_background",
        "is_ended",
        "is_queued",
        "loads",
        "loop",
        "on_failure",
        "task",
        "thread",
        "tickets",
        "timeout_s",
        "until",
        "waiters",
    )

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop | None = None,
        *,
        is_background: bool = False,
        timeout_s: float | None = None,
    ) -> None:
        self.loop = loop
        self.thread: int | None = threading.get_ident()
        self.task: asyncio.Task[Any] | None = None
        self.is_background = is_background
        self.timeout_s = timeout_s
        self.until = None if timeout_s is None else time.monotonic() + timeout_s
        self.gate = threading.Lock()
        """A lock that is held while the loads are registered. A loading thread holds this lock until the load ends."""
        self.is_queued = False
        self.is_ended = False
        self.is_abandoned = False
        self.loads: dict[Any, Load] = {}
        self.tickets: list[Ticket] = []
        self.failure: Failure | None = None
        self.on_failure: Callable[[Any, list[Any]], object] | None = None
        """Called with the cache and the keys when a load fails, before the flight ends."""
        self.waiters: dict[object, Callable[[], object]] = {}
        """The waiters, each with a function that wakes it."""

    def is_over(self) -> bool:
        """
        Return True if the flight has ended, was interrupted, or can never end because its loop was closed.
        """
        if self.is_ended or self.is_lost():
            return True
        if self.gate.locked():
            return False
        if self.task is not None:
            return self.task.done()
        return not self.is_queued

    def is_lost(self) -> bool:
        return self.loop is not None and self.loop.is_closed()

    def is_late(self) -> bool:
        return self.until is not None and time.monotonic() >= self.until

    def can_be_waited_for(self, loop: asyncio.AbstractEventLoop | None) -> bool:
        """
        Return True if a caller on *loop* (None: in a thread) can wait for the end of the flight.

        A thread cannot wait for a task of its own event loop, or of an event loop that has stopped.
        """
        if self.is_abandoned:
            return False
        if self.loop is None or self.loop is loop:
            return True
        return self.loop.is_running() and self.thread != threading.get_ident()

    def wake(self) -> None:
        while self.waiters:
            try:
                _, wake = self.waiters.popitem()
            except KeyError:  # the last waiter has just left
                return
            wake()

    def leave(self, waiter: object) -> None:
        self.waiters.pop(waiter, None)
        if self.waiters or self.is_background or self.is_ended:
            return
        if self.task is None or self.loop is None or self.task.done():
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
    One key of a flight. *outcome* is `(value,)`, a `Failure`, or None if another caller must load the key.
    """

    __slots__ = ("flight", "outcome", "ticket")

    def __init__(self, flight: Flight, ticket: Ticket) -> None:
        self.flight = flight
        self.ticket = ticket
        self.outcome: Any = OPEN
