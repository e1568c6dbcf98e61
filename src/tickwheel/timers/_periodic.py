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

import math
import operator
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
from tickwheel.typing import Callback, Seconds

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
        self.missed: Final = missed
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
        if self.missed == "burst" or self._time_of(self._number) > now:
            return 0
        passed = self._passed(now)
        left_out = passed - self._number + 1
        if self.missed == "skip":
            self._number = passed + 1
        else:
            self._first, self._number = now, 1
        return left_out

    def pass_over(self, now: int) -> None:
        """
        Leave out what has passed.
        """
        if self._time_of(self._number) <= now:
            self._number = self._passed(now) + 1

    def _passed(self, now: int) -> int:
        return (now - self._first) * self._denominator // self._numerator

    def _time_of(self, number: int) -> int:
        return self._first - (-number * self._numerator // self._denominator)


def _count(times: Any) -> int:
    try:
        return operator.index(times)
    except TypeError:
        message = f"times is {times!r}: pass an integer, or None for no end"
        raise TypeError(message) from None


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
        if times is not None and _count(times) < 1:
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
        self._is_firing = False
        self._is_paused = False
        self._is_over = False
        self._is_cancelled = False
        self._lock = new_lock(OUTER)
        with self._lock:  # it may fire before it knows its timer
            self._timer: Timer = engine.call_at(self._next(), self)

    def __repr__(self) -> str:
        state = f"pending when={self.when()}"
        if self._is_over:
            state = "cancelled" if self._is_cancelled else "over"
        elif self._is_paused:
            state = "paused"
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
        return not self._is_over and not self._is_paused

    def paused(self) -> bool:
        """
        Return whether the series waits for `resume`.
        """
        return self._is_paused and not self._is_over

    def pause(self) -> bool:
        """
        Fire no more until `resume`; return whether it was going to. A firing that is under way runs to its end.

        A paused series is not pending: its wheel neither counts nor drains it.
        """
        with self._lock:
            if not self.pending():
                return False
            self._is_paused = True
            self._timer.cancel()
            return True

    def resume(self) -> bool:
        """
        Go on after `pause`, with the next time in phase; return whether it was paused.

        Times that passed meanwhile are left out, and do not count as missed.

        Raises:
            ClosedError: If its wheel was closed.
            TooManyTimersError: If `max_pending` are pending.
        """
        now = self._engine.clock.monotonic_ns()
        with self._lock:
            if not self.paused():
                return False
            if not self._is_firing:
                self._phase.pass_over(now)
                self._timer = self._engine.call_at(self._next(), self)
            self._is_paused = False
            return True

    def set_interval(self, interval: Seconds) -> bool:
        """
        Fire every *interval* seconds from now on, the first time an interval from now; return False if it is over.

        Set during a firing it counts from now as well. A paused series stays paused.

        Raises:
            ValueError: If *interval* is out of its range, or NaN.
            TypeError: If it is no number.
        """
        now = self._engine.clock.monotonic_ns()
        phase = Phase(now, interval, self._phase.missed)
        with self._lock:
            if self._is_over:
                return False
            self._phase = phase
            if not self._is_firing:
                phase.go_on(now)
                if not self._is_paused:
                    self._timer.reschedule(self._next())
            return True

    def when(self) -> float:
        """
        Return when it fires next, or was to fire last, in seconds of the wheel's clock; `inf` while it is paused.
        """
        return math.inf if self.paused() else self._timer.when()

    def __call__(self) -> object:
        """
        Fire, and set the next firing; if the callback returns a coroutine, at the end of that.
        """
        with self._lock:
            if self._is_over or self._is_paused:
                return None
            self.fired += 1
            self._is_firing = True
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

    def given(self) -> tuple[Callback, tuple[Any, ...]]:
        """
        Return the user's callback with its arguments.
        """
        return self._callback, self._args

    def handle(self, timer: Timer) -> Periodic:
        """
        Return this, which is what the user has of it.
        """
        return self

    def ended(self) -> None:
        """
        End with the wheel, which holds another lock of this rank: so without this one.
        """
        self._is_over = self._is_cancelled = True

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
            self._is_firing = False
            if self._is_over:
                return
            self.missed += self._phase.go_on(now)
            if self._is_paused:
                return
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
