"""
A timer of one's own as the time of a cache: any function whose results can be compared and added to.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import timedelta
from numbers import Real
from typing import Any, Final, Self

from tickwheel.clock import NEVER, to_deadline

__all__ = ["CacheTimer", "TimerClock", "duration_ns"]

SECOND: Final = 1_000_000_000
ENDS: Final = (math.inf, -math.inf)


class CacheTimer:
    """
    What `cache.timer` is: call it for the time, or enter it to have that stand still for a while.

    Attributes are those of the function. While it is entered it tells every thread the same time; a cache that goes by
    a function of its own then stands still too, one that goes by the system's clock does not.

    Args:
        function: Tells the time.
    """

    def __init__(self, function: Callable[[], Any]) -> None:
        self._function = function
        self._depth = 0
        self._frozen: Any = None

    def __call__(self) -> Any:
        """
        Return the time.
        """
        return self._frozen if self._depth else self._function()

    def __enter__(self) -> Any:
        if self._depth == 0:
            self._frozen = self._function()
        self._depth += 1
        return self._frozen

    def __exit__(self, *_: object) -> None:
        self._depth -= 1

    def __getattr__(self, name: str) -> Any:
        if name == "_function":  # asked before there is one, by copy or pickle
            raise AttributeError(name)
        return getattr(self._function, name)

    def __reduce__(self) -> tuple[type[Self], tuple[Callable[[], Any]]]:
        return type(self), (self._function,)


class TimerClock:
    """
    The clock that a timer makes: its readings in nanoseconds, for the wheel.

    What counts is the difference to the first reading, a number or a timedelta; what is before that is that.
    Numbers are seconds. Integers too large for that, past 292 years, are nanoseconds, as of `time.monotonic_ns`.

    Args:
        timer: Tells the time; it is read once to see what it is.
    """

    def __init__(self, timer: CacheTimer) -> None:
        self._timer = timer
        self._first = timer()
        self.is_numeric = isinstance(self._first, Real)
        is_ns = isinstance(self._first, int) and self._first > NEVER // SECOND
        self._unit = 1 if is_ns else SECOND

    def monotonic_ns(self) -> int:
        """
        Return the time.
        """
        return self.to_ns(self._timer())

    def wall_ns(self) -> int:
        """
        Return the same: a timer knows no other time.
        """
        return self.monotonic_ns()

    def to_ns(self, reading: Any) -> int:
        """
        Return a reading of the timer in nanoseconds, never below 0; of two readings the later is never less.
        """
        passed = reading if reading in ENDS else reading - self._first
        return duration_ns(passed, "time", self._unit, is_signed=True)

    def span_ns(self, duration: Any, name: str) -> int:
        """
        Return a duration in the timer's unit in nanoseconds.
        """
        return duration_ns(duration, name, self._unit)


def duration_ns(duration: Any, name: str, unit: int = SECOND, *, is_signed: bool = False) -> int:
    """
    Return a duration in nanoseconds, rounded up; `inf` is NEVER.

    Args:
        duration: A number, or a timedelta.
        name: What to call it in an error.
        unit: How many nanoseconds the number 1 means.
        is_signed: Whether a negative one counts as 0.

    Raises:
        ValueError: If it is NaN or negative.
        TypeError: If it is neither a number nor a timedelta.
    """
    if isinstance(duration, timedelta):
        ns = duration // timedelta(microseconds=1) * 1000
    elif unit == 1 and isinstance(duration, int):
        ns = duration
    else:
        if duration is None:
            message = f"{name} is None: pass seconds as a number, math.inf for no end"
            raise TypeError(message)
        ns = to_deadline(duration, name)  # refuses NaN and what is no number, by name
        ns = -1 if duration < 0 else ns
        if unit == 1 and ns < NEVER:
            ns = -(-ns // SECOND)
    if ns < 0 and not is_signed:
        message = f"{name} is {duration!r}: pass 0 or more, math.inf for no end"
        raise ValueError(message)
    return min(max(ns, 0), NEVER)
