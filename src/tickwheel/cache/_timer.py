"""
A user's time function as the clock of a cache. Its results only need to support comparison and addition.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from datetime import timedelta
from numbers import Number
from typing import Any, Final, Self

from tickwheel.clock import NEVER, to_ns

__all__ = ["CacheTimer", "TimerClock", "duration_ns", "life_between"]

ENDS: Final = (math.inf, -math.inf)
LONGEST_NS: Final = 2**62
"""The longest finite lifetime in a cache with a user's timer: 146 years."""
_ENDLESS: Final = 1e24
"""Lifetimes of at least this many units are endless."""
_STEP_S: Final = 2**20
"""Maximum number of seconds that are converted at once. A larger float would not resolve nanoseconds."""
_REMEDY: Final = "or give the cache a clock, whose nanoseconds are known by its type: clock=MonotonicClock()"


class CacheTimer:
    """
    The time of a cache, `cache.timer`. A call returns the time, and a `with` block freezes it.

    The object also has the attributes of *function*, the source of the time. Within the block, every thread gets the
    same time. A block stops the expiry in a cache with a user's time function, but not in a cache on the system's
    clock.
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
        Return the time function that this timer calls.
        """
        return self._function

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._function!r})"

    def __getattr__(self, name: str) -> Any:
        if name == "_function":  # copy and pickle look it up before it is set
            raise AttributeError(name)
        return getattr(self._function, name)

    def __reduce__(self) -> tuple[type[Self], tuple[Callable[[], Any]]]:
        return type(self), (self._function,)


class TimerClock:
    """
    Converts the results of a user's time function to nanoseconds since the first result, as a clock for the wheel.

    The results are treated as seconds. If they are microseconds, the nanoseconds may need more than 64 bits. A
    TypeError is raised if *timer* does not return numbers or times, or returns nanoseconds.
    """

    def __init__(self, timer: CacheTimer) -> None:
        _refuse_nanoseconds(timer)
        self._timer = timer
        self._first = _plain(timer())
        self.is_numeric = _is_number(self._first)
        self.to_ns(self._first)

    def monotonic_ns(self) -> int:
        return self.to_ns(self._timer())

    def wall_ns(self) -> int:
        return self.monotonic_ns()

    def to_ns(self, reading: Any) -> int:
        passed = self._passed(reading)
        ns = duration_ns(passed, "time", is_signed=True)
        if ns <= _STEP_S * 10**9:
            return ns
        if _is_end(passed):
            return 2**126  # later than any reading, and still an i128
        steps, rest = divmod(passed, _step_of(passed))
        return int(steps) * _STEP_S * 10**9 + duration_ns(rest, "time", is_signed=True)

    def _passed(self, reading: Any) -> Any:
        reading = _plain(reading)
        if _is_end(reading):
            return reading
        try:
            return reading - self._first
        except TypeError as error:
            message = f"the timer returned {reading!r} after {self._first!r}: return seconds, or a datetime each time"
            raise TypeError(message) from error

    def life_ns(self, duration: Any, name: str) -> int:
        """
        Return a lifetime in nanoseconds; NEVER for `inf`. Raise a ValueError for NaN, less than 0, or over 146 years.
        """
        ns = duration_ns(duration, name)
        is_endless = _is_number(duration) and duration >= _ENDLESS
        if ns > LONGEST_NS and self.is_numeric and not is_endless:
            message = (
                f"{name} is {duration!r}: pass at most 146 years, in seconds as the timer's, or math.inf for no end"
            )
            raise ValueError(message)
        return ns


def life_between(clock: TimerClock | None, now: Any, deadline: Any) -> tuple[int, int]:
    """
    Return *now*, and the time from *now* to *deadline*, in ns. Without a *clock*, the arguments are in seconds.
    """
    if clock is None:
        now_ns, deadline_ns = (duration_ns(reading, "time", is_signed=True) for reading in (now, deadline))
        return now_ns, NEVER if deadline_ns >= NEVER else max(deadline_ns - now_ns, 0)
    now_ns, deadline_ns = clock.to_ns(now), clock.to_ns(deadline)
    life_ns = max(deadline_ns - now_ns, 0)
    if life_ns <= LONGEST_NS:
        return now_ns, life_ns
    return now_ns, clock.life_ns(deadline if _is_end(deadline) else deadline - now, "the time until the deadline")


def _is_end(time: Any) -> bool:
    return _is_number(time) and time in ENDS


def _is_number(value: object) -> bool:
    return isinstance(value, Number) and _kind(value) != "m"  # NumPy's timedelta64 is registered as an integer


def _plain(value: Any) -> Any:
    """
    Convert a NumPy number to a Python number, because differences of NumPy's short integers wrap around.
    """
    return value.item() if _kind(value) in tuple("biuf") else value


def _kind(value: object) -> object:
    return getattr(getattr(value, "dtype", None), "kind", None)


def _step_of(passed: Any) -> Any:
    if _is_number(passed):
        return _STEP_S
    return timedelta(seconds=_STEP_S) if isinstance(passed, timedelta) else passed.dtype.type(_STEP_S, "s")


def _refuse_nanoseconds(timer: CacheTimer) -> None:
    name = getattr(timer, "__name__", "")
    if name.endswith("_ns") and getattr(time, name, None) == timer.function:
        message = f"timer is time.{name}: pass a function that returns seconds, {_REMEDY}"
        raise TypeError(message)


def duration_ns(duration: Any, name: str, *, is_signed: bool = False) -> int:
    """
    Convert a number of seconds or a timedelta to nanoseconds, rounded up; `inf` becomes NEVER.

    Timedeltas of NumPy and pandas are allowed. If *is_signed* is True, a negative duration counts as 0.
    """
    if duration is None:
        message = f"{name} is None: pass seconds as a number, math.inf for no end"
        raise TypeError(message)
    ns = to_ns(duration, name)
    if ns < 0 and not is_signed:
        message = f"{name} is {duration!r}: pass 0 or more, math.inf for no end"
        raise ValueError(message)
    return max(ns, 0)
