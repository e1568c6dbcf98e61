"""
How timers are set: one, many, again and again.
"""

from __future__ import annotations

import weakref
from array import array
from collections.abc import Callable, Iterable
from contextvars import Context
from typing import Any, Final, TypeVarTuple

from tickwheel.clock import NEVER, seconds, to_deadline
from tickwheel.timers._contract import Engine, Timer
from tickwheel.timers._periodic import Missed, Periodic, Phase
from tickwheel.typing import Seconds

__all__ = ["HOT_VERBS", "TimerVerbs"]

Ts = TypeVarTuple("Ts")

HOT_VERBS: Final = ("call_at", "call_later", "call_later_many", "cancel_many", "move_many")
"""What a wheel takes over from its engine as it is, a Python call cheaper."""


class TimerVerbs:
    """
    The verbs of a wheel for timers without a key.
    """

    _engine: Engine
    _endless: weakref.WeakSet[Periodic]

    def time(self) -> float:
        """
        Return what the wheel's clock reads, in seconds: the time that `call_at` and `Timer.when` speak of.
        """
        return seconds(self._engine.clock.monotonic_ns())

    def call_later(
        self,
        delay: Seconds,
        callback: Callable[[*Ts], object],
        /,
        *args: *Ts,
        slack: Seconds = 0.0,
        context: Context | None = None,
    ) -> Timer:
        """
        Call *callback* with *args* in *delay* seconds.

        Args:
            delay: Seconds, or a timedelta, as for every verb. Negative counts as 0, which fires in the next turn, and
                `inf` as never.
            callback: What to call; its result is ignored.
            args: What to call it with.
            slack: By how many seconds it may be later, so that several timers share one wake-up.
            context: The `contextvars.Context` to run it in; None for the driver's.

        Raises:
            InvalidDelayError: If *delay* is NaN.
            TypeError: If *delay* is no number or *callback* cannot be called.
            ClosedError: After `close`.
            TooManyTimersError: If `max_pending` are pending.
        """
        return self._engine.call_later(delay, callback, *args, slack=slack, context=context)

    def call_at(
        self,
        when: Seconds,
        callback: Callable[[*Ts], object],
        /,
        *args: *Ts,
        slack: Seconds = 0.0,
        context: Context | None = None,
    ) -> Timer:
        """
        Call *callback* with *args* once `time()` reads *when* seconds; a past time fires in the next turn.

        Arguments and errors are those of `call_later`.
        """
        return self._engine.call_at(when, callback, *args, slack=slack, context=context)

    def call_every(
        self,
        interval: Seconds,
        callback: Callable[[*Ts], object],
        /,
        *args: *Ts,
        first: Seconds | None = None,
        times: int | None = None,
        missed: Missed = "skip",
        jitter: Seconds = 0.0,
    ) -> Periodic:
        """
        Call *callback* with *args* every *interval* seconds, in fixed phase, without drift.

        Args:
            interval: Seconds between two firings, more than 0.
            callback: What to call. While it runs the next firing is not set: a series never runs twice at once.
            args: What to call it with.
            first: In how many seconds to begin; None for one interval.
            times: How often to fire; None for no end.
            missed: What to do about firings whose time passed while the callback, or another, ran: "skip" them and go
                on in phase, "burst" to make up for each at once, or "delay" to go on an interval after now.
            jitter: By up to how many seconds each firing is put off at random, so that many series do not fire as one.

        Returns:
            A handle with `cancel()`, `when()`, and the counts `fired` and `missed`.

        Raises:
            ValueError: If one of the numbers is out of its range, or NaN.
            TypeError: If one is no number, or *callback* cannot be called.
            ClosedError: After `close`.
            TooManyTimersError: If `max_pending` are pending.
        """
        wait_ns = to_deadline(interval, "interval") if first is None else to_deadline(first, "first")
        begin = min(self._engine.clock.monotonic_ns() + wait_ns, NEVER)
        phase = Phase(begin, interval, missed)
        series = Periodic(self._engine, phase, callback, args, times=times, jitter=jitter)
        if times is None:
            self._endless.add(series)
        return series

    def call_later_many(self, delays: Iterable[Seconds], callback: Callable[[array[int]], object], /) -> array[int]:
        """
        Set a timer for each of *delays* in one call, a million if need be, and return their ids, in an `array("q")`.

        Timers that are named by ids have no handle, and are the cheapest there are.

        Args:
            delays: Seconds; `array("d")` and NumPy's doubles are read without a Python object for each.
            callback: Called with the ids of those that expired one after the other, in an `array("q")`.

        Raises:
            InvalidDelayError: If one of *delays* is NaN. With this and every error nothing is set.
            TypeError: If one is no number, or *callback* cannot be called.
            ClosedError: After `close`.
            TooManyTimersError: If not all of them fit below `max_pending`.
        """
        return self._engine.call_later_many(delays, callback)

    def cancel_many(self, timers: Iterable[Any], /) -> int:
        """
        Cancel *timers*, by handle or by id, and return how many of them were pending.

        Raises:
            TypeError: If one of them is neither. Nothing was cancelled.
        """
        return self._engine.cancel_many(timers)

    def move_many(self, timers: Iterable[Any], delays: Seconds | Iterable[Seconds], /) -> int:
        """
        Move *timers*, by handle or by id, to new delays from now; return how many of them are going to fire then.

        Args:
            timers: Which.
            delays: Seconds; one for all, or one for each.

        Raises:
            InvalidDelayError: If a delay is NaN. With this and every error nothing was moved.
            TypeError: If a timer is neither handle nor id, or a delay is no number.
            ValueError: If there are neither one delay nor as many as timers.
        """
        return self._engine.move_many(timers, delays)
