"""
Timers that fire again and again, in fixed phase.

Firing number n has its time at first + n * interval, computed from the start each time, with the interval as the exact
fraction that its float is: nothing adds up, however long it runs. What happens when firings are missed is a choice; the
three are those of tokio's `MissedTickBehavior`:

    time       0    1    2    3    4    5        the callback of 1 takes until 3.5
    skip       x    x-----------)  x    x        goes on with the next one in phase
    burst      x    x-----------)xxx    x        makes up for each, at once
    delay      x    x-----------)    x    x      goes on an interval later, in a new phase
"""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from typing import Any, Final, Literal, TypeAlias, get_args

from tickwheel.clock import NEVER, seconds, to_deadline, to_float
from tickwheel.errors import ClosedError
from tickwheel.timers._contract import Engine, Timer
from tickwheel.timers._coroutines import check_callback, is_coroutine
from tickwheel.timers._locks import OUTER, new_lock
from tickwheel.timers._run import Run
from tickwheel.timers._standin import StandIn
from tickwheel.typing import Callback, Pending, Seconds

__all__ = ["Missed", "Periodic", "Phase"]

Missed: TypeAlias = Literal["skip", "burst", "delay"]
"""What to do about firings whose time has passed."""

NS_PER_S: Final = 1_000_000_000


class Phase:
    """
    The times of a series, in nanoseconds.

    Args:
        first: The time of firing 0.
        interval: Seconds between two, more than 0 and less than for ever.
        missed: What to do about those that were missed.

    Raises:
        ValueError: If *interval* or *missed* is none.
    """

    def __init__(self, first: int, interval: Seconds, missed: Missed) -> None:
        if not 0 < to_deadline(interval, "interval") < NEVER:
            message = f"interval is {interval!r}: pass more than 0 seconds, and less than 292 years"
            raise ValueError(message)
        if missed not in get_args(Missed):
            message = f"missed is {missed!r}: pass one of {', '.join(map(repr, get_args(Missed)))}"
            raise ValueError(message)
        numerator, self._denominator = _ratio(interval)
        self._numerator = numerator * NS_PER_S
        self._missed = missed
        self._first = first
        self._number = 0

    def time(self) -> int:
        """
        Return the time of the firing that is next.
        """
        return min(self._time_of(self._number), NEVER)

    def go_on(self, now: int) -> int:
        """
        Go on from the firing that was next to the one after it, and return how many were left out.
        """
        self._number += 1
        if self._missed == "burst" or self._time_of(self._number) > now:
            return 0
        passed = (now - self._first) * self._denominator // self._numerator
        left_out = passed - self._number + 1
        if self._missed == "skip":
            self._number = passed + 1
        else:
            self._first, self._number = now, 1
        return left_out

    def _time_of(self, number: int) -> int:
        return self._first - (-number * self._numerator // self._denominator)


def _ratio(interval: Seconds) -> tuple[int, int]:
    """
    Return *interval* as an exact fraction of seconds.
    """
    if isinstance(interval, timedelta):
        return interval // timedelta(microseconds=1), 1_000_000
    return (interval if isinstance(interval, int) else float(interval)).as_integer_ratio()


class Periodic(StandIn):
    """
    The handle of a series: what `call_every` returns. All methods may be called from any thread.

    The next firing is set when the callback has returned, or the coroutine that it returned has ended: a series never
    runs twice at once, and goes on if it raises.
    """

    def __init__(
        self,
        engine: Engine,
        phase: Phase,
        callback: Callback,
        args: tuple[Any, ...],
        *,
        times: int | None,
        jitter: Seconds,
    ) -> None:
        jitter_ns = to_deadline(jitter, "jitter")
        if to_float(jitter, "jitter") < 0 or jitter_ns >= NEVER:
            message = f"jitter is {jitter!r}: pass 0 or more seconds, and less than 292 years"
            raise ValueError(message)
        if times is not None and times < 1:
            message = f"times is {times!r}: pass 1 or more, or None for no end"
            raise ValueError(message)
        check_callback(callback, is_awaited=engine.on_coroutine is not None)
        self.fired = 0
        """How many times it has fired."""
        self.missed = 0
        """How many firings were left out because their time had passed."""
        self._engine = engine
        self._phase = phase
        self._callback = callback
        self._args = args
        self._times = times
        self._jitter_ns = jitter_ns
        self._is_over = False
        self._is_cancelled = False
        self._lock = new_lock(OUTER)
        with self._lock:  # it may fire before it knows its timer
            self._timer: Timer = engine.call_at(self._next(), self)

    def __repr__(self) -> str:
        state = "cancelled" if self._is_cancelled else "over" if self._is_over else f"pending when={self.when()}"
        return f"<Periodic {state} fired={self.fired} {self._callback!r}>"

    def cancel(self) -> bool:
        """
        End the series; return True if it would have fired again. A firing that is under way runs to its end.
        """
        with self._lock:
            if self._is_over:
                return False
            self._is_over = self._is_cancelled = True
            self._timer.cancel()
            return True

    def cancelled(self) -> bool:
        """
        Return whether the series was cancelled, by `cancel` or by its wheel's drain or close.
        """
        return self._is_cancelled

    def pending(self) -> bool:
        """
        Return whether the series is going to fire, or is firing and going to fire again.
        """
        return not self._is_over

    def when(self) -> float:
        """
        Return when it fires next, or was to fire last, in seconds of the wheel's clock.
        """
        return self._timer.when()

    def __call__(self) -> object:
        """
        Fire, and set the next firing; if the callback returns a coroutine, at the end of that.
        """
        with self._lock:
            if self._is_over:
                return None
            self.fired += 1
            self._is_over = self.fired == self._times
        result = None
        try:
            result = self._callback(*self._args)
        finally:
            if self._engine.on_coroutine is None or not is_coroutine(result):
                self._go_on(self._reschedule)
            else:
                result = Run(result, self._go_on_anew)
        return result

    def ended(self, pending: Pending) -> Pending:
        """
        End with the wheel, which holds another lock of this rank: so without this one.
        """
        self._is_over = self._is_cancelled = True
        return Pending(self._callback, self._args, pending.deadline, pending.remaining)

    def refused(self) -> None:
        """
        Leave this firing out, and set the next one: a pool that was full once does not end a series.
        """
        with self._lock:
            self.missed += not self._is_over
        self._go_on(self._reschedule)

    def _go_on_anew(self) -> None:
        with suppress(ClosedError):
            self._go_on(self._set)

    def _reschedule(self, when: float) -> bool:
        """
        Set the next firing from inside of this one, as a new life of the same timer.
        """
        return self._timer.reschedule(when)

    def _set(self, when: float) -> bool:
        """
        Set the next firing when this one has ended.
        """
        self._timer = self._engine.call_at(when, self)
        return True

    def _go_on(self, set_next: Callable[[float], bool]) -> None:
        now = self._engine.clock.monotonic_ns()
        with self._lock:
            if self._is_over:
                return
            self.missed += self._phase.go_on(now)
            try:
                if not set_next(self._next()):
                    self._is_over = self._is_cancelled = True
            except BaseException as error:
                self._is_over = True
                self._is_cancelled = isinstance(error, ClosedError)
                raise

    def _next(self) -> float:
        jitter_ns = int(random.random() * self._jitter_ns)  # noqa: S311 - spreads load, guards nothing
        return seconds(self._phase.time() + jitter_ns)
