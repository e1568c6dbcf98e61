"""
The wait of the thread driver, until a deadline or a wake-up, whichever comes first.

A waiter has one token. `wake()` sets the token, and `wait()` takes it. A wake-up between the computation of a deadline
and the wait is therefore not lost. A thousand wake-ups count as one.
"""

from __future__ import annotations

import time
from typing import Final, Protocol

from tickwheel._core import Waiter as MonotonicWaiter
from tickwheel.clock import BootClock, Clock, MonotonicClock

__all__ = ["ClockWaiter", "Waiter", "new_waiter"]

PAUSE_MIN_NS: Final = 250_000
PAUSE_MAX_NS: Final = 16_000_000
"""Maximum pause in nanoseconds while a clock shows the same time. The coarsest common clocks tick every 15.6 ms."""


class Waiter(Protocol):
    """
    Lets one thread wait. Any thread may wake this thread, also from a finalizer or a signal handler.
    """

    def wait(self, deadline_ns: int | None) -> bool:
        """
        Wait until the clock reads *deadline_ns* (None: no deadline), or until `wake` is called.

        Return True if `wake` was called, before or during the wait. Several calls count as one.
        """

    def wake(self) -> None: ...


class ClockWaiter:
    """
    Waits for a deadline on any clock. It may return early, so the caller must read the clock again.

    The wait is measured in real time. While a coarse clock shows the same time, each pause is twice as long as the
    previous one, up to 16 ms. This keeps the number of wake-ups small.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._read_ns = -1
        self._pause_ns = 0
        self._waiter = MonotonicWaiter()
        self.wake = self._waiter.wake

    def wait(self, deadline_ns: int | None) -> bool:
        if deadline_ns is not None:
            now = self._clock.monotonic_ns()
            stands_still = now == self._read_ns
            self._pause_ns = min(max(2 * self._pause_ns, PAUSE_MIN_NS), PAUSE_MAX_NS) if stands_still else 0
            self._read_ns = now
            deadline_ns = max(max(deadline_ns - now, self._pause_ns) + time.monotonic_ns(), 0)
        return self._waiter.wait(deadline_ns)


def new_waiter(clock: Clock) -> Waiter:
    if type(clock) is MonotonicClock:
        return MonotonicWaiter()
    if type(clock) is BootClock:
        from tickwheel.drivers._boot_waiter import BootWaiter  # noqa: PLC0415 - it imports ctypes

        if BootWaiter.is_available():
            return BootWaiter()
    return ClockWaiter(clock)
