"""
A user's time function as the clock of a cache: its results need comparison and addition only.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from numbers import Real
from typing import Any, Final, Self

from tickwheel.clock import NEVER, to_ns

__all__ = ["CacheTimer", "TimerClock", "duration_ns"]

ENDS: Final = (math.inf, -math.inf)
_WATCH_S: Final = 60.0
"""Seconds of real time after which the rate of a timer is compared with that of the system's clock."""
_RATES: Final = {1e3: "milliseconds", 1e6: "microseconds", 1e9: "nanoseconds"}
_REMEDY: Final = "or give the cache a clock, whose nanoseconds are known by its type: clock=MonotonicClock()"


class CacheTimer:
    """
    The time of a cache, `cache.timer`: a call returns the time, and a `with` block freezes it.

    Attributes are those of the function. Within the block it returns the same time to every thread. A cache with
    a time function of its own is frozen too, a cache on the system's clock is not.

    Args:
        function: Returns the time.
    """

    def __init__(self, function: Callable[[], Any]) -> None:
        self._function = function
        self._depth = 0
        self._frozen: Any = None

    def __call__(self) -> Any:
        return self._frozen if self._depth else self._function()

    def __enter__(self) -> Any:
        if self._depth == 0:
            self._frozen = self._function()
        self._depth += 1
        return self._frozen

    def __exit__(self, *_: object) -> None:
        self._depth -= 1

    @property
    def function(self) -> Callable[[], Any]:
        """
        Return the function.
        """
        return self._function

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._function!r})"

    def __getattr__(self, name: str) -> Any:
        if name == "_function":  # asked before there is one, by copy or pickle
            raise AttributeError(name)
        return getattr(self._function, name)

    def __reduce__(self) -> tuple[type[Self], tuple[Callable[[], Any]]]:
        return type(self), (self._function,)


class TimerClock:
    """
    The readings of a time function in nanoseconds, as a clock for the wheel.

    Time is the difference to the first reading, a number of seconds or a timedelta; earlier readings count as that one.

    Args:
        timer: Returns the time; it is called once.

    Raises:
        TypeError: If it is one of the standard library's functions that return nanoseconds.
    """

    def __init__(self, timer: CacheTimer) -> None:
        _refuse_nanoseconds(timer)
        self._timer = timer
        self._first = timer()
        self.is_numeric = isinstance(self._first, Real)
        self._watch: tuple[Any, float] | None = (self._first, time.monotonic()) if self.is_numeric else None
        self._suspect: float | None = None

    def monotonic_ns(self) -> int:
        """
        Return the time.

        Raises:
            ValueError: If more than 292 years have passed since the first reading, or it does not return seconds.
        """
        reading = self._timer()
        if self._watch is not None:
            self._compare(reading, *self._watch)
        now = self.to_ns(reading)
        if now >= NEVER and self.is_numeric:
            message = f"timer returned {reading!r}, 292 years after {self._first!r}: return seconds, {_REMEDY}"
            raise ValueError(message)
        return now

    def _compare(self, reading: Any, since: Any, begun_s: float) -> None:
        """
        Refuse a timer that twice runs a thousand times as fast as the system's clock, before its range is used up.

        A timer of milliseconds would overflow the range of 292 years of seconds after 107 days. A manual timer has no
        such rate.
        """
        now_s = time.monotonic()
        passed_s = now_s - begun_s
        if passed_s < _WATCH_S:
            return
        rate = (reading - since) / passed_s
        factor = next((factor for factor in _RATES if math.isclose(rate, factor, rel_tol=0.02)), None)
        if factor is not None and factor == self._suspect:
            message = f"timer returned {reading!r}, in {_RATES[factor]}: return seconds, {_REMEDY}"
            raise ValueError(message)
        self._suspect = factor
        self._watch = None if factor is None else (reading, now_s)

    def wall_ns(self) -> int:
        """
        Return the same time: a timer has no wall-clock time.
        """
        return self.monotonic_ns()

    def to_ns(self, reading: Any) -> int:
        """
        Convert a reading to nanoseconds, at least 0; monotonic: order is preserved.
        """
        passed = reading if reading in ENDS else reading - self._first
        return duration_ns(passed, "time", is_signed=True)


def _refuse_nanoseconds(timer: CacheTimer) -> None:
    name = getattr(timer, "__name__", "")
    if name.endswith("_ns") and getattr(time, name, None) == timer.function:
        message = f"timer is time.{name}: pass a function that returns seconds, {_REMEDY}"
        raise TypeError(message)


def duration_ns(duration: Any, name: str, *, is_signed: bool = False) -> int:
    """
    Convert a duration to nanoseconds, rounded up; `inf` is NEVER.

    Args:
        duration: A number of seconds, or a timedelta of Python, NumPy or pandas.
        name: Name of the argument in error messages.
        is_signed: True if a negative duration counts as 0.

    Raises:
        ValueError: If it is NaN or negative.
        TypeError: If it is neither a number nor a timedelta.
    """
    if duration is None:
        message = f"{name} is None: pass seconds as a number, math.inf for no end"
        raise TypeError(message)
    ns = to_ns(duration, name)
    if ns < 0 and not is_signed:
        message = f"{name} is {duration!r}: pass 0 or more, math.inf for no end"
        raise ValueError(message)
    return max(ns, 0)
