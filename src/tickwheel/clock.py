"""
Where time comes from, and the one place where seconds become nanoseconds.

Inside, a time is an integer of nanoseconds; outside, seconds in a float, as everywhere in Python.
The two rules of conversion:

* `seconds(ns)` is `ns / 1e9`, which is what `time.monotonic()` computes from `time.monotonic_ns()`.
* `to_deadline(s)` is the least integer whose `seconds()` is not below *s*.

So a timer that fires at its integer deadline is never early for a caller who compares floats.
"""

from __future__ import annotations

import math
import time
from typing import Final, Protocol, runtime_checkable

from tickwheel.errors import InvalidDelayError

__all__ = ["NEVER", "BootClock", "Clock", "MonotonicClock", "seconds", "to_deadline", "to_delay"]

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
    The system's monotonic clock, which stands still while the machine is suspended.

    The native engine recognises this class and reads the clock without a Python call.
    """

    def monotonic_ns(self) -> int:
        """
        Return CLOCK_MONOTONIC.
        """
        return time.monotonic_ns()

    def wall_ns(self) -> int:
        """
        Return CLOCK_REALTIME.
        """
        return time.time_ns()


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


def _boot_ns(clock_id: int | None = getattr(time, "CLOCK_BOOTTIME", None)) -> int:
    return time.monotonic_ns() if clock_id is None else time.clock_gettime_ns(clock_id)


def seconds(ns: int) -> float:
    """
    Return *ns* in seconds; `NEVER` is `inf`.
    """
    return math.inf if ns >= NEVER else ns / 1e9


def to_deadline(when: float, name: str = "when") -> int:
    """
    Return the least deadline in nanoseconds that is not before *when*.

    Args:
        when: Seconds on a clock; below zero counts as zero, `inf` or anything past 292 years as never.
        name: What to call the value in an error.

    Returns:
        An integer in 0..NEVER.

    Raises:
        InvalidDelayError: If *when* is NaN.
        TypeError: If *when* is not a number.
    """
    if not isinstance(when, float | int) and not hasattr(when, "__float__"):
        message = f"{name} is {when!r}: pass seconds as a number, not {type(when).__name__}"
        raise TypeError(message)
    try:
        value = float(when)
    except OverflowError:  # an int past 1.8e308
        return NEVER if when > 0 else 0
    if math.isnan(value):
        raise InvalidDelayError(name, when)
    if value <= 0:
        return 0
    if value >= NEVER / 1e9:
        return NEVER
    ns = math.ceil(value * 1e9)
    # The product is rounded: step to the exact boundary, at most one or two away.
    while ns > 0 and (ns - 1) / 1e9 >= value:
        ns -= 1
    while ns / 1e9 < value:
        ns += 1
    return min(ns, NEVER)


def to_delay(delay: float) -> int:
    """
    Return the least number of nanoseconds that is not below *delay*; negative counts as zero.

    Raises:
        InvalidDelayError: If *delay* is NaN.
        TypeError: If *delay* is not a number.
    """
    return to_deadline(delay, "delay")
