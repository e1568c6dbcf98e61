"""
Clocks, and the one place where seconds become nanoseconds.

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
from datetime import timedelta
from typing import Final, Protocol, runtime_checkable

from tickwheel.errors import InvalidDelayError
from tickwheel.typing import Seconds

__all__ = [
    "NEVER",
    "BootClock",
    "Clock",
    "MonotonicClock",
    "seconds",
    "to_deadline",
    "to_delay",
    "to_float",
    "to_timeout",
]

NEVER: Final = 2**63 - 1
"""The deadline that no clock reaches: the largest int64, 292 years of nanoseconds."""


NS_PER_S: Final = 1_000_000_000
MICROSECOND: Final = timedelta(microseconds=1)


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

    An int and a timedelta are exact: their deadline is not before them in nanoseconds either.

    Args:
        when: Seconds on a clock, or a timedelta; below zero counts as zero, `inf` or anything past 292 years as never.
        name: What to call the value in an error.

    Returns:
        An integer in 0..NEVER.

    Raises:
        InvalidDelayError: If *when* is NaN.
        TypeError: If *when* is not a number.
    """
    if isinstance(when, int):
        return _not_before(when * NS_PER_S, when)
    if isinstance(when, timedelta):
        return _not_before(when // MICROSECOND * 1_000, when.total_seconds())
    value = to_float(when, name)
    if abs(value) < NEVER / 1e9:
        ns = math.ceil(value * 1e9)
        # The product is rounded: step to the exact boundary, at most one or two away.
        while ns > 0 and (ns - 1) / 1e9 >= value:
            ns -= 1
        return _not_before(ns, value)
    return NEVER if value > 0 else 0


def _not_before(ns: int, value: float) -> int:
    """
    Return *ns*, or what is least above it and does not read as less than *value* seconds.
    """
    if ns <= 0:
        return 0
    while ns < NEVER and ns / 1e9 < value:
        ns += 1
    return min(ns, NEVER)


def to_delay(delay: Seconds) -> int:
    """
    Return the least number of nanoseconds that is not below *delay*; negative counts as zero.

    Raises:
        InvalidDelayError: If *delay* is NaN.
        TypeError: If *delay* is not a number.
    """
    return to_deadline(delay, "delay")


def to_float(value: Seconds, name: str) -> float:
    """
    Return *value* in seconds as a float; an int past all floats is `inf`.

    Raises:
        InvalidDelayError: If *value* is NaN.
        TypeError: If *value* is not a number.
    """
    if isinstance(value, timedelta):
        return value.total_seconds()
    if not isinstance(value, float | int) and not (hasattr(value, "__float__") or hasattr(value, "__index__")):
        message = f"{name} is {value!r}: pass seconds as a number or a timedelta, not {type(value).__name__}"
        raise TypeError(message)
    try:
        converted = float(value)
    except OverflowError:  # an int past 1.8e308
        return math.inf if value > 0 else -math.inf
    except ValueError:
        if not _is_nan(value):
            raise
        converted = math.nan
    if math.isnan(converted):
        raise InvalidDelayError(name, value)
    return converted


def _is_nan(value: object) -> bool:
    """
    Return whether *value* is a NaN that cannot be made a float: a signalling one of a Decimal.
    """
    is_nan = getattr(value, "is_nan", None)
    return callable(is_nan) and bool(is_nan())


def to_timeout(timeout: Seconds | None) -> float | None:
    """
    Return how long to wait at most, in seconds as Python's own locks take them; None for no end.

    Raises:
        InvalidDelayError: If *timeout* is NaN.
        TypeError: If *timeout* is not a number.
    """
    if timeout is None:
        return None
    wait_s = to_float(timeout, "timeout")
    return None if wait_s > threading.TIMEOUT_MAX else max(wait_s, 0.0)
