"""
Timers that fire again and again: at an interval, or by the wall clock.

Internal: other packages use it, users do not.
"""

from __future__ import annotations

import math
import operator
from contextvars import Context, copy_context
from typing import TYPE_CHECKING, Any, cast

from tickwheel.clock import NEVER, seconds
from tickwheel.errors import ClosedError
from tickwheel.timers._coroutines import check_callback, check_context, is_coroutine
from tickwheel.timers._run import Run
from tickwheel.timers.contract import Engine, Timer
from tickwheel.timers.locks import OUTER, new_lock
from tickwheel.timers.phase import Phase, Reading
from tickwheel.timers.standin import StandIn
from tickwheel.typing import Callback, Pending, Seconds

if TYPE_CHECKING:
    from datetime import datetime

    from tickwheel.timers.wall_phase import WallPhase

__all__ = ["Periodic", "checked_times"]


def checked_times(times: int | None) -> int | None:
    """
    Return *times*, or refuse it.

    Raises:
        TypeError: If it is neither an integer nor None.
        ValueError: If it is below 1.
    """
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
    The timer of a series that is being set, until its engine has answered.
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


class Periodic(StandIn):
    """
    The handle of a series: what `call_every`, `call_cron` and `call_at_wall` return.

    All methods may be called from any thread.

    The next firing is set when the callback has returned, or the coroutine that it returned has ended: a series never
    runs twice at once, and goes on if it raises.
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
        """How many times it has fired."""
        self.missed = 0
        """How many firings were left out because their time had passed; by the wall clock at most 100 at once."""
        self._engine = engine
        self._phase = phase
        self._callback = callback
        self._args = args
        self._times = times
        self._context = context
        self._is_firing = False
        self._is_paused = False
        self._is_over = False
        self._is_cancelled = False
        self._is_extra = False  # the next firing is one of `run_now`
        self._was_extra = False  # the one under way is
        self._lock = new_lock(OUTER)
        self._timer = cast("Timer", _Coming(math.inf))

    def start(self) -> None:
        """
        Set the first firing; called once, by the verb that made the series.

        From here on other threads find it in its wheel, and it may fire.
        """
        now = self._read()
        when = seconds(self._phase.time(now))
        with self._lock:  # it may fire before it knows its timer
            coming = self._timer = cast("Timer", _Coming(when))
            try:
                timer = self._engine.call_at(when, self, context=self._context)
            except BaseException:
                self._is_over = self._is_cancelled = True  # it may have been filed, where the driver could not go on
                raise
            if self._timer is coming:  # else a signal handler has fired it meanwhile
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
        End the series; return True if it would have fired again. A firing that is under way runs to its end.

        Callback and arguments are let go at once, or at the end of that firing.
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
        """
        Return whether the series was cancelled, by `cancel` or by its wheel's drain or close.
        """
        return self._is_cancelled or self._is_lost()

    def pending(self) -> bool:
        """
        Return whether the series is going to fire, or is firing and going to fire again.

        While it fires, its wheel neither counts nor drains it.
        """
        return not (self._is_over or self._is_paused or self._is_lost())

    def paused(self) -> bool:
        """
        Return whether the series waits for `resume`.
        """
        return self._is_paused and not self._is_over

    def pause(self) -> bool:
        """
        Stop firing until `resume`; return whether it was going to. A firing that is under way runs to its end.

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
        Go on after `pause`, with the next time in phase; return whether it was paused and goes on.

        Times that passed meanwhile are left out, and do not count as missed. The one of `call_at_wall` was its last.

        Raises:
            ClosedError: If its wheel was closed.
            SpanExceededError: If its interval is longer than the wheel can hold.
            TooManyTimersError: If `max_pending` are pending.
        """
        now = self._read()
        with self._lock:
            if not self.paused():
                return False
            if not self._is_firing:
                self._phase.pass_over(now)
                self._is_over = self._phase.is_over()
                if not self._is_over:
                    self._set(seconds(self._phase.time(now)))
            self._is_paused = False
            goes_on = not self._is_over
        self._let_go()
        return goes_on

    def run_now(self) -> bool:
        """
        Fire in the next turn as well, or, during a firing, after that; return whether it is going to.

        The firings in phase stay as they are; this one counts as one of `times`. A series that is paused or over does
        not fire.
        """
        with self._lock:
            if not self.pending():
                return False
            self._is_extra = True
            if not self._is_firing:
                self._set(self._now())
            return True

    def set_interval(self, interval: Seconds) -> bool:
        """
        Fire every *interval* seconds from now on, the first time an interval from now; return False if it is over.

        Set during a firing it counts from now as well. A paused series stays paused. A series that followed the wall
        clock no longer does. With an error nothing is changed.

        Raises:
            ValueError: If *interval* is out of its range, or NaN.
            SpanExceededError: If it is longer than the wheel can hold. Set while the series is paused or firing, that
                shows only at the next firing's set: `resume` raises it, and a firing series ends by it.
            TooManyTimersError: If the firing waits for a worker, and `max_pending` others are pending.
            TypeError: If it is no number.
        """
        now = self._read()
        phase = Phase(now[0], interval, self._phase.missed, self._phase.jitter, getattr(self._phase, "until", NEVER))
        with self._lock:
            if self._is_over or self._is_lost():
                return False
            if not self._is_firing:
                phase.go_on(now)
                if phase.is_over():
                    self._is_over = True
                    self._timer.cancel()
                elif not (self._is_paused or self._is_extra):
                    self._timer.reschedule(seconds(phase.time(now)))
            self._phase = phase
            goes_on = not self._is_over
        self._let_go()
        return goes_on

    def when(self) -> float:
        """
        Return when it fires next, or was to fire last, in seconds of the wheel's clock; `inf` while it is paused.

        If it follows the wall clock, that is by the present readings of the two clocks.
        """
        if self.paused():
            return math.inf
        phase = self._phase
        if self._is_over or isinstance(phase, Phase):
            return self._timer.when()
        return seconds(phase.when(phase.read(self._engine.clock)))

    def next_at(self) -> datetime | None:
        """
        Return the time of day of the next firing, in the zone of its cron line or datetime.

        None if there is none, or if it does not follow the wall clock: see `when`.
        """
        return self._phase.next_at() if self.pending() else None

    def __call__(self) -> object:
        """
        Fire, and set the next firing; if the callback returns a coroutine, at the end of that.
        """
        result, now, is_due, is_left = None, None, False, False
        try:
            # A series that only counts time fires with its timer, and asks no clock before.
            now = None if isinstance(self._phase, Phase) else self._read()
            with self._lock:
                if self._is_over or self._is_paused or self._is_firing or self._timer.pending():
                    is_left = True  # the last two: it was resumed, or its interval set, while this firing waited
                    return None
                if self._is_extra or now is None or self._is_due(now):
                    self._is_firing = True
                    self._was_extra, self._is_extra = self._is_extra, False
                    self.fired += 1
                    self._is_over = self._times is not None and self.fired >= self._times
                    is_due = True
            if is_due:
                result = self._callback(*self._args)
                if self._engine.on_coroutine is not None and is_coroutine(result):
                    result = Run(result, self._go_on)
                    is_left = True
        finally:  # also if a signal handler raises: then it has either fired, or is still due
            if not is_left:
                self._go_on(None if is_due else now or self._read())
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

    def times(self, pending: Pending) -> tuple[float, float]:
        """
        Return when it fires, which need not be when its timer does.
        """
        when = self.when()
        return when, pending.remaining + (when - pending.deadline) if when < math.inf else when

    def ended(self) -> None:
        """
        End with the wheel.
        """
        with self._lock:
            self._is_over = self._is_cancelled = True
        self._let_go()

    def refused(self) -> None:
        """
        Leave this firing out, and set the next one: a pool that was full once does not end a series.
        """
        now = self._read()
        with self._lock:
            self._was_extra, self._is_extra = self._is_extra, False
            is_due = not self._is_over and (self._was_extra or self._is_due(now))
            self.missed += is_due
        self._go_on(None if is_due else now)

    def _is_lost(self) -> bool:
        """
        Return whether its wheel was emptied without a word, as in the child of a fork.
        """
        with self._lock:
            return not (self._is_over or self._is_paused or self._is_firing) and self._timer.cancelled()

    def _set(self, when: float) -> None:
        """
        Set the next firing, as a new life of the timer if that fires or waits for a worker, which is void then.
        """
        if not self._timer.reschedule(when):
            self._timer = self._engine.call_at(when, self, context=self._context)

    def _go_on(self, look: Reading | None = None) -> None:
        """
        Set the next firing; that is the same one as before where a *look* at the clock found that it is not due.
        """
        try:
            now = self._read() if look is None else look
            with self._lock:
                self._is_firing = False
                if self._is_over:
                    return
                was_extra, self._was_extra = self._was_extra, False
                if look is None and not was_extra:
                    self.missed += self._phase.go_on(now)
                if not self._is_paused:
                    self._set_next(now)
        except Exception:
            raise
        except BaseException:  # a signal handler has raised in between
            with self._lock:
                self._is_firing = False
                if not (self._is_over or self._is_paused or self._timer.pending()):
                    self._set_next(self._read())
            raise
        finally:
            if self._is_over:
                self._let_go()

    def _let_go(self) -> None:
        """
        Drop what is called, once it never is again; with no lock held, as it is the user's.
        """
        if self._is_over and not self._is_firing:
            self._callback, self._args, self._context = bool, (), None

    def _is_due(self, now: Reading) -> bool:
        self.missed += self._phase.look(now)
        return self._phase.is_due(now)

    def _set_next(self, now: Reading) -> None:
        if self._phase.is_over() and not self._is_extra:
            self._is_over = True
            return
        try:
            self._set(self._now() if self._is_extra else seconds(self._phase.time(now)))
        except ClosedError:
            self._is_over = self._is_cancelled = True
        except BaseException:
            self._is_over = True
            raise

    def _now(self) -> float:
        return seconds(self._engine.clock.monotonic_ns())

    def _read(self) -> Reading:
        """
        Return what the clock reads; with no lock held, as it may be anybody's.
        """
        return self._phase.read(self._engine.clock)
