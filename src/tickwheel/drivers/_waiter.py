"""
How the thread driver waits: until a time, or until it is woken, whichever comes first.

A waiter keeps one token. `wake()` puts it there, `wait()` takes it: a wake-up between computing a deadline and waiting
for it is not lost, and a thousand of them are one.
"""

from __future__ import annotations

import threading
import time
from typing import Protocol

from tickwheel.clock import BootClock, Clock, MonotonicClock
from tickwheel.drivers._boot_waiter import BootWaiter

__all__ = ["ClockWaiter", "LockWaiter", "Waiter", "new_waiter"]


class Waiter(Protocol):
    """
    One thread waits; any thread, also in a finalizer or a signal handler, may wake it.
    """

    def wait(self, deadline: int | None) -> bool:
        """
        Wait until the clock reads *deadline* nanoseconds (None: for ever) or the token is there, and take the token.

        Returns:
            Whether the token was there.
        """

    def wake(self) -> None:
        """
        Put the token there; never blocks.
        """


class LockWaiter:
    """
    Waits on CLOCK_MONOTONIC. A lock is a token with an exact wait: free while the token is there.
    """

    def __init__(self) -> None:
        self._token = threading.Lock()
        self._token.acquire()

    def wait(self, deadline: int | None) -> bool:
        """
        Wait until *deadline* or a wake-up.
        """
        if deadline is None:
            return self._token.acquire()
        remaining = (deadline - time.monotonic_ns()) / 1e9
        return self._token.acquire(timeout=min(max(remaining, 0.0), threading.TIMEOUT_MAX))

    def wake(self) -> None:
        """
        Let the waiting thread, or else the next wait, return at once.
        """
        try:
            self._token.release()
        except RuntimeError:  # it was there already
            return


class ClockWaiter:
    """
    Waits on any clock by the time that is missing on it; its owner looks again when it wakes.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._waiter = LockWaiter()
        self.wake = self._waiter.wake

    def wait(self, deadline: int | None) -> bool:
        """
        Wait until *deadline* or a wake-up.
        """
        if deadline is not None:
            deadline += time.monotonic_ns() - self._clock.monotonic_ns()
        return self._waiter.wait(deadline)


def new_waiter(clock: Clock) -> Waiter:
    """
    Return what waits on *clock* most exactly.
    """
    if type(clock) is MonotonicClock:
        return LockWaiter()
    if type(clock) is BootClock and BootWaiter.is_available():
        return BootWaiter()
    return ClockWaiter(clock)
