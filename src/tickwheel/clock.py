"""
Clocks, and the conversion of seconds to nanoseconds, which is `tickwheel._core.to_ns`.

Inside, a time is an integer of nanoseconds; outside, seconds in a float, as everywhere in Python.
The two rules of conversion:

* `seconds(ns)` is `ns / 1e9`, which is what `time.monotonic()` computes from `time.monotonic_ns()`.
* `to_deadline(s)` is the least integer whose `seconds()` is not below *s*, nor itself below *s* where that is exact.

So a timer that fires at its integer deadline is never early for a caller who compares floats.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from typing import Final, Protocol, runtime_checkable

from tickwheel._core import to_ns, to_seconds
from tickwheel.typing import Seconds

__all__ = [
    "NEVER",
    "BootClock",
    "Clock",
    "MonotonicClock",
    "seconds",
    "to_deadline",
    "to_delay",
    "to_ns",
    "to_seconds",
    "to_timeout",
]

NEVER: Final = 2**63 - 1
"""The deadline that no clock reaches: the largest int64, 292 years of nanoseconds."""


@runtime_checkable
class Clock(Protocol):
    """
    Time as a wheel's driver reads it.

    `monotonic_ns()` never goes back and never jumps; deadlines are on it.
    `wall_ns()` is the time of day since the epoch; only "at 09:00" looks at it.
    Both may be called from any thread.
    """

    def monotonic_ns(self) -> int:
        """
        Return the nanoseconds since some fixed point, never fewer than before.
        """

    def wall_ns(self) -> int:
        """
        Return the nanoseconds since the epoch; may step either way.
        """


class MonotonicClock:
    """
    The system's monotonic clock, which stops while the machine is suspended.

    The native engine recognises this class and reads the clock without a Python call. So a test that replaces
    `time.monotonic_ns` has no part in it, here neither: the two would be different clocks.
    """

    _read = staticmethod(time.monotonic_ns)

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"

    def monotonic_ns(self) -> int:
        """
        Return CLOCK_MONOTONIC.
        """
        return self._read()

    def wall_ns(self) -> int:
        """
        Return CLOCK_REALTIME.
        """
        return time.time_ns()

    def elapsed_ns(self) -> int:
        """
        Return CLOCK_BOOTTIME where there is one: what the time of day is compared with to see that it was set.

        A clock need not have this method; its `monotonic_ns` is taken then.
        """
        return _boot_ns()


class BootClock(MonotonicClock):
    """
    The time since boot, which counts suspend: a one-hour timer is due an hour later, lid closed or not.

    Where the system has no CLOCK_BOOTTIME (macOS, Windows) this is CLOCK_MONOTONIC.
    """

    def monotonic_ns(self) -> int:
        """
        Return CLOCK_BOOTTIME.
        """
        return _boot_ns()


def _boot_ns(
    clock_id: int | None = getattr(time, "CLOCK_BOOTTIME", None), read: Callable[[], int] = time.monotonic_ns
) -> int:
    return read() if clock_id is None else time.clock_gettime_ns(clock_id)


def seconds(ns: int) -> float:
    """
    Return *ns* in seconds; `NEVER` is `inf`.
    """
    return math.inf if ns >= NEVER else ns / 1e9


def to_deadline(when: Seconds, name: str = "when") -> int:
    """
    Return the least deadline in nanoseconds that is not before *when*.

    Exact numbers (an int, a Fraction, a Decimal, a timedelta of Python, NumPy or pandas) are not rounded to a float:
    their deadline is not before them even by a nanosecond.

    Args:
        when: Seconds on a clock, or a timedelta; below zero counts as zero, `inf` or anything past 292 years as never.
        name: What to call the value in an error.

    Returns:
        An integer in 0..NEVER.

    Raises:
        InvalidDelayError: If *when* is NaN or NaT.
        TypeError: If *when* is neither a number nor a timedelta of a fixed length.
    """
    return max(to_ns(when, name), 0)


def to_delay(delay: Seconds) -> int:
    """
    Return the least number of nanoseconds that is not below *delay*; negative counts as zero.

    Raises:
        InvalidDelayError: If *delay* is NaN.
        TypeError: If *delay* is not a number.
    """
    return max(to_ns(delay, "delay"), 0)


def to_timeout(timeout: Seconds | None) -> float | None:
    """
    Return how long to wait at most, in seconds as Python's own locks take them; None for no end.

    Raises:
        InvalidDelayError: If *timeout* is NaN.
        TypeError: If *timeout* is not a number.
    """
    if timeout is None:
        return None
    wait_s = to_seconds(timeout, "timeout")
    return None if wait_s > threading.TIMEOUT_MAX else max(wait_s, 0.0)
