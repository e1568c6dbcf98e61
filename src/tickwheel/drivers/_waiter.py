"""
How the thread driver waits: until a time, or until it is woken, whichever comes first.

A waiter keeps one token. `wake()` puts it there, `wait()` takes it: a wake-up between computing a deadline and waiting
for it is not lost, and a thousand of them are one.
"""

from __future__ import annotations

import time
from typing import Protocol

from tickwheel._core import Waiter as MonotonicWaiter
from tickwheel.clock import BootClock, Clock, MonotonicClock

__all__ = ["ClockWaiter", "Waiter", "new_waiter"]


class Waiter(Protocol):
    """
    One thread waits; any thread, also in a finalizer or a signal handler, may wake it.
    """

    def wait(self, deadline_ns: int | None) -> bool:
        """
        Wait until the clock reads *deadline_ns* (None: for ever) or the token is there, and take the token.

        Returns:
            Whether the token was there.
        """

    def wake(self) -> None:
        """
        Put the token there; never blocks.
        """


class ClockWaiter:
    """
    Waits on any clock by the time that is missing on it; its owner looks again when it wakes.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._waiter = MonotonicWaiter()
        self.wake = self._waiter.wake

    def wait(self, deadline_ns: int | None) -> bool:
        """
        Wait until *deadline_ns* or a wake-up.
        """
        if deadline_ns is not None:
            deadline_ns = max(deadline_ns - self._clock.monotonic_ns() + time.monotonic_ns(), 0)
        return self._waiter.wait(deadline_ns)


def new_waiter(clock: Clock) -> Waiter:
    """
    Return what waits on *clock* most exactly.
    """
    if type(clock) is MonotonicClock:
        return MonotonicWaiter()
    if type(clock) is BootClock:
        from tickwheel.drivers._boot_waiter import BootWaiter  # noqa: PLC0415 - it imports ctypes

        if BootWaiter.is_available():
            return BootWaiter()
    return ClockWaiter(clock)
