"""
Clocks, and the conversion of seconds to nanoseconds (`tickwheel._core.to_ns`).

Internally, a time is an integer of nanoseconds. Callers use seconds in a float, as everywhere in Python. There are two
rules of conversion:

* `seconds(ns)` is `ns / 1e9`, which is also how `time.monotonic()` follows from `time.monotonic_ns()`.
* `to_deadline(s)` is the least integer whose `seconds()` is not below *s*. If *s* is exact, such as an int, the
  integer is also not below `s * 10**9` in exact arithmetic.

So a timer that fires at its integer deadline is never early for a caller that compares floats.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from functools import partial
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
"""The deadline that no clock reaches: the largest int64, which is 292 years in nanoseconds."""


@runtime_checkable
class Clock(Protocol):
    """
    The source of time for a wheel's driver.

    `monotonic_ns()` never goes back and never jumps; deadlines are readings of this clock. `wall_ns()` is the time
    since the epoch; only instants of the wall clock, such as "at 09:00", use it. Both may be called from any thread.
    """

    def monotonic_ns(self) -> int:
        """
        Return the nanoseconds since a fixed point. The result is never less than an earlier result.
        """

    def wall_ns(self) -> int:
        """
        Return the nanoseconds since the epoch. This time may step forward or back.
        """


_boot_ns: Final[Callable[[], int]] = (
    partial(time.clock_gettime_ns, time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic_ns
)
"""Returns the time since boot, including suspend, if the system has it. A C function, because it is called often."""


class MonotonicClock:
    """
    The system's monotonic clock, which stops while the machine is suspended.

    The native engine recognises this class, and reads the clock without a Python call. A test that replaces
    `time.monotonic_ns` therefore affects neither the engine nor this class.
    """

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"

    monotonic_ns: Callable[[], int] = staticmethod(time.monotonic_ns)
    """The C function `time.monotonic_ns` itself, because the scheduler reads the clock a dozen times for each job."""

    def wall_ns(self) -> int:
        return time.time_ns()

    elapsed_ns: Callable[[], int] = staticmethod(_boot_ns)
    """
    Returns the time since boot, including suspend, on systems with CLOCK_BOOTTIME; elsewhere, the monotonic time.

    The scheduler compares this time with the wall clock to detect that the wall clock was set. If a clock lacks this
    method, `monotonic_ns` is used.
    """


class BootClock(MonotonicClock):
    """
    The time since boot, including suspend: a one-hour timer is due after an hour even if the machine sleeps.

    On systems without CLOCK_BOOTTIME (macOS, Windows) this clock is CLOCK_MONOTONIC.
    """

    monotonic_ns: Callable[[], int] = staticmethod(_boot_ns)


def seconds(ns: int) -> float:
    """
    Return *ns* in seconds; `NEVER` is `inf`.
    """
    return math.inf if ns >= NEVER else ns / 1e9


def to_deadline(when: Seconds, name: str = "when") -> int:
    """
    Return the least deadline in nanoseconds that is not before *when*.

    Exact numbers (an int, a Fraction, a Decimal, a timedelta of Python, NumPy or pandas) are not rounded to a float
    first, so their deadline is not even a nanosecond early.

    Args:
        when: Seconds on a clock, or a timedelta. A negative value counts as zero; `inf`, or more than 292 years, means
            never.
        name: Name of the value in error messages.

    Returns:
        An integer in 0..NEVER.
    """
    return max(to_ns(when, name), 0)


def to_delay(delay: Seconds) -> int:
    """
    Return the least number of nanoseconds that is not below *delay*. A negative delay counts as zero.
    """
    return max(to_ns(delay, "delay"), 0)


def to_timeout(timeout: Seconds | None) -> float | None:
    """
    Return the maximum wait in seconds, within the limits of Python's locks, or None for no limit.
    """
    if timeout is None:
        return None
    wait_s = to_seconds(timeout, "timeout")
    return None if wait_s > threading.TIMEOUT_MAX else max(wait_s, 0.0)
