"""
Internal: timers that fire repeatedly: at an interval, or by the wall clock.
"""

from __future__ import annotations

import math
import operator
from contextvars import Context, copy_context
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from tickwheel.clock import NEVER, seconds
from tickwheel.errors import ClosedError, TickwheelError
from tickwheel.timers._coroutines import check_callback, check_context, is_coroutine
from tickwheel.timers._run import Run
from tickwheel.timers.contract import Engine, Timer
from tickwheel.timers.locks import OUTER, new_lock
from tickwheel.timers.phase import Phase, Reading
from tickwheel.timers.proxy import TimerProxy
from tickwheel.typing import Callback, Pending, Seconds

if TYPE_CHECKING:
    from datetime import datetime

    from tickwheel.timers.wall_phase import WallPhase

__all__ = ["Periodic", "checked_times"]


def checked_times(times: int | None) -> int | None:
    if times is None:
        return None
    try:
        count = operator.index(times)
    except TypeError:
        message = f"times is {times!r}: pass an integer, or None for no end"
        raise TypeError(message) from None
    if count < 1:
        message = f"times is {times!r}: pass 1 or more, or None for no end"
        raise ValueError(message)
    return count


class _Coming:
    """
    Placeholder for the timer of a series, until the engine has returned the timer.
    """

    __slots__ = ("_when",)

    def __init__(self, when: float) -> None:
        self._when = when

    def when(self) -> float:
        return self._when

    def cancel(self) -> bool:
        return False

    cancelled = pending = cancel

    def reschedule(self, _when: Seconds) -> bool:
        return False


class _Firing:
    """
    One firing of a series, compared by identity. *is_extra* is True if `run_now` requested this firing.
    """

    __slots__ = ("is_extra",)

    def __init__(self, *, is_extra: bool) -> None:
        self.is_extra = is_extra


class Periodic(TimerProxy):
    """
    The handle of a series: the result of `call_every`, `call_cron` and `call_at_wall`.

    All methods may be called from any thread.

    The next firing is set when the callback, or the coroutine that it returned, has ended. So calls of one series never
    overlap. A series continues if its callback raises.
    """

    def __init__(
        self,
        engine: Engine,
        phase: Phase | WallPhase,
        callback: Callback,
        args: tuple[Any, ...],
        *,
        times: int | None,
        context: Context | None = None,
    ) -> None:
        times = checked_times(times)
        check_callback(callback, is_awaited=engine.on_coroutine is not None)
        if context is not None:
            check_context(context)
        elif engine.captures_context:
            context = copy_context()
        self.fired = 0
        """Number of firings so far."""
        self.missed = 0
        """Number of firings left out because their time had passed. By the wall clock, a gap counts at most 100."""
        self._engine = engine
        self._phase = phase
        self._callback = callback
        self._args = args
        self._times = times
        self._context = context
        self._firing: _Firing | None = None  # the running firing, until the next one is chosen
        self._awaited: _Firing | None = None  # the last firing that returned a coroutine, whose end chooses the next
        self._is_paused = False
        self._is_over = False
        self._is_cancelled = False
        self._is_extra = False  # the next firing comes from `run_now`
        self._lock = new_lock(OUTER)
        self._timer = cast("Timer", _Coming(math.inf))

    def start(self) -> None:
        """
        Set the first firing. The method that made the series calls `start` once.

        From then on, the series may fire, and other threads may find it in its wheel.
        """
        now = self._read()
        when = self._time(self._phase, now)
        with self._lock:  # the timer may fire before `_timer` is set
            coming = self._timer = cast("Timer", _Coming(when))
            try:
                timer = self._engine.call_at(when, self, context=self._context)
            except BaseException:
                self._is_over = self._is_cancelled = True  # the timer may be filed, but the driver was not woken
                raise
            if self._timer is coming:  # otherwise a signal handler has fired it in the meantime
                self._timer = timer

    def __repr__(self) -> str:
        next_at = self.next_at()
        state = f"pending when={self.when()}" if next_at is None else f"pending next={next_at.isoformat()}"
        if self.cancelled():
            state = "cancelled"
        elif self._is_over:
            state = "over"
        elif self._is_paused:
            state = "paused"
        what = "" if self._is_over else f" {self._callback!r}"
        return f"<Periodic {state} fired={self.fired}{what}>"

    def cancel(self) -> bool:
        """
        End the series. Return True if it would have fired again. A firing that is running completes.

        The callback and its arguments are released at once, or at the end of the running firing.
        """
        with self._lock:
            if self._is_over:
                return False
            goes_on = not self._is_lost()
            self._is_over = self._is_cancelled = True
            self._timer.cancel()
        self._let_go()
        return goes_on

    def cancelled(self) -> bool:
        return self._is_cancelled or self._is_lost()

    def pending(self) -> bool:
        """
        Return True if the series is going to fire, or is firing and going to fire again.

        While a firing is running, the wheel neither counts nor drains the series.
        """
        return not (self._is_over or self._is_paused or self._is_lost())

    def paused(self) -> bool:
        """
        Return True if the series waits for `resume`.
        """
        return self._is_paused and not self._is_over

    def pause(self) -> bool:
        """
        Stop firing until `resume`. Return True if the series was going to fire. A running firing completes.

        A paused series is not pending, so its wheel neither counts nor drains it.
        """
        with self._lock:
            if not self.pending():
                return False
            self._is_paused = True
            self._timer.cancel()
            return True

    def resume(self) -> bool:
        """
        Continue after `pause`, with the next time in phase. Return True if the series continues.

        Times that passed during the pause are left out, and do not count as missed; a series of `call_at_wall` keeps
        its only time.

        Raises:
            ClosedError: If the wheel was closed.
            SpanExceededError: If the interval is longer than the wheel can hold.
            TooManyTimersError: If `max_pending` timers are pending.
        """
        now = self._read()
        with self._lock:
            if not self.paused():
                return False
            if self._firing is None:
                self._phase.pass_over(now)
                self._is_over = self._phase.is_over()
                if not self._is_over:
                    self._set(self._time(self._phase, now))
            self._is_paused = False
            goes_on = not self._is_over
        self._let_go()
        return goes_on

    def run_now(self) -> bool:
        """
        Fire once more, as soon as no firing of the series is running. Return True if the series is going to fire.

        All other firings keep their times. The additional firing counts as one of `times`. A series that is paused or
        over does not fire.
        """
        with self._lock:
            if not self.pending():
                return False
            self._is_extra = True
            if self._firing is None:
                self._set(self._now())
            return True

    def set_interval(self, interval: Seconds) -> bool:
        """
        Fire every *interval* seconds, for the first time one interval from now. Return False if the series is over.

        The interval counts from now, even during a firing. A paused series stays paused. A series that followed the
        wall clock no longer follows it. After an error, nothing has changed.

        Raises:
            ValueError: If *interval* is out of its range, or NaN.
            SpanExceededError: If *interval* is longer than the wheel can hold. If the series is paused, `resume` raises
                this error instead; if it is firing, the series ends with this error.
            TooManyTimersError: If a due firing is waiting for a worker, and `max_pending` other timers are pending.
        """
        now = self._read()
        phase = Phase(now[0], interval, self._phase.missed, self._phase.jitter, getattr(self._phase, "until", NEVER))
        with self._lock:
            if self._is_over or self._is_lost():
                return False
            if self._firing is None:
                phase.go_on(now)
                if phase.is_over():
                    self._is_over = True
                    self._timer.cancel()
                elif not (self._is_paused or self._is_extra):
                    self._timer.reschedule(self._time(phase, now))
            self._phase = phase
            goes_on = not self._is_over
        self._let_go()
        return goes_on

    def when(self) -> float:
        """
        Return the time of the next firing, or of the last one, in seconds of the wheel's clock; `inf` while paused.

        For a series that follows the wall clock, the time is computed from the current readings of both clocks.
        """
        if self.paused():
            return math.inf
        phase = self._phase
        if self._is_over or isinstance(phase, Phase):
            return self._timer.when()
        return seconds(phase.when(phase.read(self._engine.clock)))

    def next_at(self) -> datetime | None:
        """
        Return the wall-clock time of the next firing, in the zone of its cron line or datetime.

        The result is None if there is no next firing, or if the series does not follow the wall clock (then use
        `when`).
        """
        return self._phase.next_at() if self.pending() else None

    def __call__(self) -> object:
        # Only a series that follows the wall clock reads a clock before it fires.
        now = None if isinstance(self._phase, Phase) else self._read()
        with self._lock:
            if self._is_over or self._is_paused or self._firing is not None or self._timer.pending():
                return None  # or it was resumed, or its interval was set, while this firing waited
            is_due = self._is_extra or now is None or self._is_due(now)
            if is_due:
                number = self.fired + 1
                firing = _Firing(is_extra=self._is_extra)
                is_last = self._times is not None and number >= self._times
                # One line, so that an exception of a signal handler leaves the firing either begun or still due.
                self.fired, self._firing, self._is_over, self._is_extra = number, firing, is_last, False
        if not is_due:
            self._go_on(None, now)
            return None
        try:
            result = self._callback(*self._args)
            if self._engine.on_coroutine is not None and is_coroutine(result):
                result = Run(result, partial(self._go_on, firing))
                self._awaited = firing
        finally:
            if self._awaited is not firing:
                self._go_on(firing)
        return result

    def failed(self) -> None:
        firing = self._firing
        if firing is None or self._awaited is not firing:
            self._go_on(firing)

    def given(self) -> tuple[Callback, tuple[Any, ...]]:
        return self._callback, self._args

    def handle(self, timer: Timer) -> Periodic:
        return self

    def times(self, pending: Pending) -> tuple[float, float]:
        when = self.when()
        return when, pending.remaining + (when - pending.deadline) if when < math.inf else when

    def ended(self) -> None:
        with self._lock:
            self._is_over = self._is_cancelled = True
        self._let_go()

    def refused(self) -> None:
        """
        Leave this firing out, and set the next one, because a full pool must not end a series.
        """
        now = self._read()
        with self._lock:
            is_due = not self._is_over and (self._is_extra or self._is_due(now))
            if is_due:
                self._move_on(now, self.missed + 1, is_extra=self._is_extra)
        self._go_on(None, now)

    def _is_lost(self) -> bool:
        """
        Return True if the series was cancelled without a call of `ended`, as in the child of a fork.
        """
        with self._lock:
            return not (self._is_over or self._is_paused or self._firing is not None) and self._timer.cancelled()

    def _set(self, when: float) -> None:
        if not self._timer.reschedule(when):
            self._timer = self._engine.call_at(when, self, context=self._context)

    def _go_on(self, firing: _Firing | None, now: Reading | None = None) -> None:
        """
        Complete *firing* if it is running. Then set the next firing, unless it is already set.
        """
        now = now or self._read()
        try:
            with self._lock:
                if firing is not None and self._firing is firing:
                    self._move_on(now, self.missed, is_extra=firing.is_extra)
                is_idle = self._firing is None and not self._timer.pending()
                if is_idle and not (self._is_over or self._is_paused):
                    self._set_next(now)
        finally:
            self._let_go()

    def _move_on(self, now: Reading, missed: int, *, is_extra: bool) -> None:
        """
        Move to the next time, unless this firing is additional (*is_extra*).
        """
        phase = self._phase
        left_out, state = (0, phase.state) if is_extra or self._is_over else phase.following(now)
        stays_extra = self._is_extra and self._firing is not None
        # one line, so that an exception of a signal handler comes before or after all changes
        phase.state, self.missed, self._firing, self._is_extra = state, missed + left_out, None, stays_extra

    def _let_go(self) -> None:
        """
        Drop callback and arguments if the series is over. Call it without the lock, because their finalizers may run.
        """
        if self._is_over and self._firing is None:
            self._callback, self._args, self._context = bool, (), None

    def _is_due(self, now: Reading) -> bool:
        left_out, state = self._phase.look(now)
        self._phase.state, self.missed = state, self.missed + left_out
        return self._phase.is_due(now)

    def _set_next(self, now: Reading) -> None:
        if self._phase.is_over() and not self._is_extra:
            self._is_over = True
            return
        try:
            self._set(self._now() if self._is_extra else self._time(self._phase, now))
        except ClosedError:
            self._is_over = self._is_cancelled = True
        except TickwheelError:
            self._is_over = True
            raise

    def _time(self, phase: Phase | WallPhase, now: Reading) -> float:
        return seconds(phase.time(now, self._engine.span_ns))

    def _now(self) -> float:
        return seconds(self._engine.clock.monotonic_ns())

    def _read(self) -> Reading:
        """
        Read the clock. Call it without the lock, because the clock may be the user's code.
        """
        return self._phase.read(self._engine.clock)
