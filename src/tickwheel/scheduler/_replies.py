"""
Passes answers to an event loop with one wake-up per commit. `asyncio.wrap_future` would cost a system call per answer.
"""

from __future__ import annotations

import asyncio
from collections import deque
from concurrent.futures import CancelledError
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

from tickwheel.host.promise import Reply

__all__ = ["Replies"]

_T = TypeVar("_T")


class _Inbox:
    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self._answered: deque[tuple[asyncio.Future[Any], Reply[Any]]] = deque()
        self._is_woken = False

    def put(self, waiter: asyncio.Future[_T], answer: Reply[_T]) -> None:
        self._answered.append((waiter, answer))
        if not self._is_woken:
            self._is_woken = True
            with suppress(RuntimeError):  # the loop was closed: nothing waits
                self.loop.call_soon_threadsafe(self._deliver)

    def _deliver(self) -> None:
        self._is_woken = False  # cleared before the answers are passed on, so that later answers wake the loop again
        while self._answered:
            waiter, answer = self._answered.popleft()
            if waiter.done():  # its task was cancelled
                continue
            try:
                error = answer.exception()
            except CancelledError:
                waiter.cancel()
                continue
            if error is None:
                waiter.set_result(answer.result())
            else:
                waiter.set_exception(error)


class Replies:
    def __init__(self) -> None:
        self._inbox: _Inbox | None = None

    def awaitable(self, answer: Reply[_T]) -> asyncio.Future[_T]:
        """
        Return a future of the running loop for *answer*. Cancelling the future does not cancel the operation.
        """
        loop = asyncio.get_running_loop()
        inbox = self._inbox
        if inbox is None or inbox.loop is not loop:
            inbox = self._inbox = _Inbox(loop)
        waiter: asyncio.Future[_T] = loop.create_future()
        answer.add_done_callback(partial(inbox.put, waiter))
        return waiter
