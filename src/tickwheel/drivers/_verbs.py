from __future__ import annotations

import weakref
from array import array
from collections.abc import Callable, Iterable
from contextvars import Context
from typing import TYPE_CHECKING, Any, Final, Literal, SupportsIndex, TypeVarTuple, Unpack

from tickwheel.clock import NEVER, seconds, to_deadline
from tickwheel.timers.contract import Engine, Timer
from tickwheel.timers.periodic import Periodic, checked_times
from tickwheel.timers.phase import Missed, Phase
from tickwheel.typing import Instant, Seconds

if TYPE_CHECKING:
    from zoneinfo import ZoneInfo

    from tickwheel.calendar import Misfire
    from tickwheel.drivers._sleeps import Sleep, Ticks
    from tickwheel.timers.wall_phase import WallPhase

__all__ = ["HOT_VERBS", "TimerVerbs"]

Ts = TypeVarTuple("Ts")

HOT_VERBS: Final = ("call_at", "call_later", "call_later_many", "cancel_many", "move_many")
"""Methods that each wheel takes directly from its engine, which saves a Python call."""


class TimerVerbs:
    """
    The methods of a wheel for timers without a key.
    """

    _engine: Engine
    _endless: weakref.WeakSet[Periodic]
    _by_wall: weakref.WeakSet[Periodic]

    def time(self) -> float:
        """
        Return the reading of the wheel's clock in seconds: the time that `call_at` and `Timer.when` use.
        """
        return seconds(self._engine.clock.monotonic_ns())

    def call_later(
        self,
        delay: Seconds,
        callback: Callable[[*Ts], object],
        /,
        *args: Unpack[Ts],
        slack: Seconds = 0.0,
        context: Context | None = None,
    ) -> Timer:
        """
        Call *callback* with *args* in *delay* seconds.

        Args:
            delay: Seconds, or a timedelta, as in every method. 0 or less is due at once, `inf` never. A wheel
                with ticks fires at the end of a tick, even for a delay of 0.
            callback: The function to call; its result is ignored.
            args: Arguments of the callback.
            slack: Maximum additional delay in seconds, so that several timers share one wake-up.
            context: The `contextvars.Context` of the callback; None for the driver's.

        Raises:
            InvalidDelayError: If *delay* is NaN.
            TypeError: If *delay* is not a number or *callback* is not callable.
            ClosedError: After `close`.
            TooManyTimersError: If `max_pending` timers are pending.
        """
        return self._engine.call_later(delay, callback, *args, slack=slack, context=context)

    def call_at(
        self,
        when: Seconds,
        callback: Callable[[*Ts], object],
        /,
        *args: Unpack[Ts],
        slack: Seconds = 0.0,
        context: Context | None = None,
    ) -> Timer:
        """
        Call *callback* with *args* when `time()` has reached *when* seconds. A past time is due at once.

        The other arguments and the errors are those of `call_later`.
        """
        return self._engine.call_at(when, callback, *args, slack=slack, context=context)

    def call_every(
        self,
        interval: Seconds,
        callback: Callable[[*Ts], object],
        /,
        *args: Unpack[Ts],
        first: Seconds | None = None,
        until: Seconds | None = None,
        times: int | None = None,
        missed: Missed = "skip",
        jitter: Seconds = 0.0,
        context: Context | None = None,
    ) -> Periodic:
        """
        Call *callback* with *args* every *interval* seconds, in fixed phase, without drift.

        The method also raises the errors of `call_later`.

        Args:
            interval: Seconds between two firings, more than 0.
            callback: The function to call. The next firing is set after it has returned, so calls of one series never
                overlap.
            args: Arguments of the callback.
            first: Delay of the first firing in seconds, 0 for now; None for one interval.
            until: The time, in seconds of `time()`, after which the series does not fire; None for no end.
            times: Number of firings; None for no end.
            missed: Policy for firings whose time passed while this or another callback ran. "skip" leaves them out and
                continues in phase, "burst" fires once for each, immediately, and "delay" continues one interval after
                now.
            jitter: Maximum random delay of each firing in seconds, so that many series do not fire together. It may
                delay the last firing past *until*. If the jitter is longer than the interval, a firing waits for the
                previous one, and none is left out.
            context: The `contextvars.Context` of every firing; None for the driver's.

        Returns:
            A handle with `cancel()`, `run_now()`, `when()`, and the counters `fired` and `missed`.

        Raises:
            ValueError: If a number is out of its range, or NaN, or *until* is before the first firing.
        """
        return self._begin(self._phase(interval, first, until, missed, jitter), callback, args, times, context)

    def _phase(
        self, interval: Seconds, first: Seconds | None, until: Seconds | None, missed: Missed, jitter: Seconds
    ) -> Phase:
        wait_ns = to_deadline(interval, "interval") if first is None else to_deadline(first, "first")
        begin = min(self._engine.clock.monotonic_ns() + wait_ns, NEVER)
        phase = Phase(begin, interval, missed, jitter, NEVER if until is None else to_deadline(until, "until"))
        if phase.is_over():
            message = f"until is {until!r}, and the first firing is at {seconds(begin)!r}: pass a later time of time()"
            raise ValueError(message)
        return phase

    def every(
        self,
        interval: Seconds,
        *,
        first: Seconds | None = None,
        until: Seconds | None = None,
        times: int | None = None,
        missed: Missed = "skip",
        jitter: Seconds = 0.0,
    ) -> Ticks:
        """
        Return an asynchronous iterator with an item every *interval* seconds, in fixed phase, without drift.

            async for tick in wheel.every(1.0):
                await send_heartbeat()

        The iterator is for coroutines of asyncio or trio, on a wheel with any driver. The wait for the next tick begins
        when the body of the loop has ended, so *missed* applies to a body that takes long. The loop ends when the wheel
        is drained or closed. The arguments and errors are those of `call_every`.
        """
        from tickwheel.drivers._sleeps import Ticks  # noqa: PLC0415 - it imports asyncio

        return Ticks(self._engine, self._phase(interval, first, until, missed, jitter), checked_times(times))

    def sleep(self, delay: Seconds) -> Sleep:
        """
        Return an awaitable timer, which fires in *delay* seconds.

            sleep = wheel.sleep(5.0)
            sleep.restart(9.0)
            assert await sleep  # False if it was cancelled

        The timer is for coroutines of asyncio or trio, on a wheel with any driver. It runs from this call on, even if
        no coroutine awaits it. The errors are those of `call_later`.
        """
        from tickwheel.drivers._sleeps import Sleep  # noqa: PLC0415 - it imports asyncio

        return Sleep(self._engine).start(delay)

    def call_cron(
        self,
        line: str,
        callback: Callable[[*Ts], object],
        /,
        *args: Unpack[Ts],
        tz: str | ZoneInfo = "UTC",
        misfire: Misfire | Literal["once", "all", "skip"] = "once",
        times: int | None = None,
        jitter: Seconds = 0.0,
        context: Context | None = None,
    ) -> Periodic:
        """
        Call *callback* with *args* whenever the wall clock of a zone matches a cron line, never early.

        Lines, zones and rules are the same as for a `Scheduler`'s recurring jobs. The wall clock may be set at any
        time, so a series reads it once a minute and at each firing; `stats()` counts each reading as a firing. If a
        step of the clock or a suspend skips the time of a firing, this firing may be up to a minute late. The method
        also raises the errors of `call_later`.

        Args:
            line: Five fields, minute first, or six, second first; or a nickname such as `@daily`.
            callback: The function to call. The next firing is set after it has returned, so calls of one series never
                overlap.
            args: Arguments of the callback.
            tz: The IANA zone of the wall clock, as a name or a ZoneInfo.
            misfire: Policy for firings that were missed because the callback ran, or the clock was set forward. "once":
                one late firing replaces all. "all": the series fires once for each, immediately. "skip": firings that
                are more than a minute late are left out.
            times: Number of firings; None for no end.
            jitter: Maximum random delay of each firing in seconds, so that many machines do not fire together; as in
                `call_every`.
            context: The `contextvars.Context` of every firing; None for the driver's.

        Returns:
            The handle of a series; `next_at()` is the wall-clock time of its next firing.

        Raises:
            RecurrenceError: If *line* cannot be read, or never fires, or *tz* is unknown.
            ValueError: If another value is out of its range.
            MissingExtraError: If cronsim is not installed; the extra `cron` installs it.
        """
        from tickwheel.timers.wall_phase import by_cron  # noqa: PLC0415 - calendars are imported where they are used

        return self._begin(by_cron(self._engine.clock, line, tz, misfire, jitter), callback, args, times, context)

    def call_at_wall(
        self, when: Instant, callback: Callable[[*Ts], object], /, *args: Unpack[Ts], context: Context | None = None
    ) -> Periodic:
        """
        Call *callback* with *args* once, when the wall clock shows *when*. A past instant is due at once.

        The wall clock is read as for `call_cron`, so the timer follows each change of that clock. The method also
        raises the errors of `call_later`.

        Args:
            when: An aware datetime, ISO 8601 text with an offset, or seconds since the epoch.
            callback: The function to call; its result is ignored.
            args: Arguments of the callback.
            context: As in `call_later`.

        Returns:
            The handle of a series with one firing.

        Raises:
            InvalidValueError: If *when* is a naive datetime, text that is not an instant, or past the year 2262.
        """
        from tickwheel.timers.wall_phase import at_instant  # noqa: PLC0415 - calendars are imported where they are used

        return self._begin(at_instant(self._engine.clock, when), callback, args, 1, context)

    def _begin(
        self,
        phase: Phase | WallPhase,
        callback: Callable[..., object],
        args: tuple[Any, ...],
        times: int | None,
        context: Context | None,
    ) -> Periodic:
        series = Periodic(self._engine, phase, callback, args, times=times, context=context)
        if not isinstance(phase, Phase):
            self._by_wall.add(series)
        if times is None:
            self._endless.add(series)
        series.start()
        return series

    def call_later_many(
        self, delays: Iterable[Seconds], callback: Callable[[array[int]], object], /, *, slack: Seconds = 0.0
    ) -> array[int]:
        """
        Set a timer for each of *delays* in one call, even a million, and return their ids in an `array("q")`.

        These timers have ids instead of handles, and cost less than timers with handles.

        Args:
            delays: Seconds; `array("d")` and NumPy's doubles are read without a Python object for each.
            callback: Called with an `array("q")` of ids. Timers that expire together may share one call.
            slack: Maximum additional delay of each timer in seconds, so that several expire together.

        Raises:
            InvalidDelayError: If a delay, or *slack*, is NaN. After any error, no timer was set.
            TooManyTimersError: If more than `max_pending` timers would be pending.
        """
        return self._engine.call_later_many(delays, callback, slack=slack)

    def cancel_many(self, timers: Iterable[Timer | SupportsIndex], /) -> int:
        """
        Cancel *timers*, by handle or by id, and return how many of them were pending.

        Raises:
            TypeError: If an item is neither handle nor id. Then no timer was cancelled.
        """
        return self._engine.cancel_many(timers)

    def move_many(self, timers: Iterable[Timer | SupportsIndex], delays: Seconds | Iterable[Seconds], /) -> int:
        """
        Move *timers*, by handle or by id, to new delays from now. Return the number of timers that will fire then.

        After any error except `TooManyTimersError`, no timer was moved.

        Args:
            timers: Handles and ids.
            delays: Seconds; one for all, or one for each.

        Raises:
            ValueError: If the number of delays is neither one nor the number of timers.
            SpanExceededError: If a delay is longer than the wheel can hold.
            TooManyTimersError: If moving a timer that is firing would make more than `max_pending` timers pending.
                Timers that precede it in *timers* were moved.
        """
        return self._engine.move_many(timers, delays)
