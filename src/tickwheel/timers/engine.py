"""
Internal: the engine in Python, for any wheel. Callbacks, clocks and users' destructors run outside of its lock.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Coroutine, Iterable, Sequence
from contextvars import Context, copy_context
from typing import Any, Final, TypeVarTuple, Unpack

from tickwheel.clock import NEVER, Clock, MonotonicClock, to_deadline, to_delay
from tickwheel.errors import ClosedError, ReentrantError, TickwheelError, TooManyTimersError
from tickwheel.threads import get_ident
from tickwheel.timers._bulk import BulkTimer, BulkVerbs
from tickwheel.timers._coroutines import check_callback, check_context, hand_on, is_coroutine
from tickwheel.timers._filing import Filing
from tickwheel.timers._in_context import call_in
from tickwheel.timers._slack import loosened
from tickwheel.timers._timer import WheelTimer
from tickwheel.timers.locks import INNER, new_lock
from tickwheel.timers.log import log_error
from tickwheel.timers.proxy import TimerProxy
from tickwheel.typing import Callback, ErrorHandler, Pending, Seconds
from tickwheel.wheels.contract import Wheel, checked_limit

__all__ = ["WheelEngine", "log_error"]

Ts = TypeVarTuple("Ts")

UNARMED: Final = -1
"""The value of `_armed` before `arm` is called. No deadline is below it, so no new timer wakes the driver."""


class WheelEngine(BulkVerbs):
    """
    Timers over a *wheel* of any design; `timers.contract.Engine` documents the methods.

    *wheel* must be empty, and only this engine may use it. If a signal handler interrupts the wheel's code with an
    exception, the wheel may become inconsistent.
    """

    def __init__(self, wheel: Wheel, clock: Clock | None = None, *, max_pending: int | None = None) -> None:
        super().__init__(wheel)
        self.clock: Clock = MonotonicClock() if clock is None else clock
        self.on_earlier: Callable[[], object] | None = None
        self.on_error: ErrorHandler | None = None
        self.on_coroutine: Callable[[Coroutine[Any, Any, Any], Any], object] | None = None
        self.captures_context = False
        self.runner: Callable[[Any], object] | None = None
        self._filing = Filing(wheel)
        self._has_ticks = wheel.abilities.tick_ns > 0
        self._max_pending = max_pending
        self._lock = new_lock(INNER)
        self._armed = UNARMED
        self._firing: int | None = None
        self._is_closed = False
        self._counts = {"sets": 0, "moves": 0, "cancels": 0, "fires": 0}
        self._lateness = [0] * 64

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {len(self)} pending>"

    def __len__(self) -> int:
        return len(self._filing.live)

    def has(self, timer: WheelTimer) -> bool:
        return timer in self._filing.live

    def call_at(
        self,
        when: Seconds,
        callback: Callable[[*Ts], object],
        /,
        *args: Unpack[Ts],
        slack: Seconds = 0.0,
        context: Context | None = None,
    ) -> WheelTimer:
        deadline, slack_ns = to_deadline(when), to_deadline(slack, "slack")
        return self._set(self.loosened(deadline, slack_ns), callback, args, context)

    def call_later(
        self,
        delay: Seconds,
        callback: Callable[[*Ts], object],
        /,
        *args: Unpack[Ts],
        slack: Seconds = 0.0,
        context: Context | None = None,
    ) -> WheelTimer:
        deadline, slack_ns = self.deadline_in(delay), to_deadline(slack, "slack")
        return self._set(self.loosened(deadline, slack_ns), callback, args, context)

    def deadline_in(self, delay: Seconds) -> int:
        return self.deadlines_in([to_delay(delay)])[0]

    def deadlines_in(self, delays_ns: Iterable[int]) -> list[int]:
        now = self.clock.monotonic_ns()
        return [min(now + delay, NEVER) for delay in delays_ns]

    def loosened(self, deadline: int, slack_ns: int) -> int:
        if not slack_ns or self.span_ns is None:
            return loosened(deadline, slack_ns)
        return loosened(deadline, slack_ns, min(self.clock.monotonic_ns() + self.span_ns, NEVER - 1))

    def _set(self, deadline: int, callback: Callback, args: tuple[Any, ...], context: Context | None) -> WheelTimer:
        check_callback(callback, is_awaited=self.on_coroutine is not None)
        if context is None:
            context = copy_context() if self.captures_context else None
        else:
            check_context(context)
        timer = WheelTimer(self, deadline, callback, args, context)
        self.set_all([timer])
        return timer

    def set_all(self, timers: Sequence[WheelTimer]) -> None:
        self._advance_to_now()
        with self._lock:
            if self._is_closed:
                raise ClosedError
            admitted = 0
            try:
                for timer in timers:
                    self._admit(timer, len(timers) - admitted)
                    admitted += 1
            except TickwheelError:
                for timer in timers[:admitted]:
                    self._filing.live.pop(timer, None)
                    self._filing.file(timer)
                raise
            refused = self._withdraw_if_closed(timers)
            self._counts["sets"] += admitted - refused
            if refused:
                raise ClosedError
            is_earlier = self._is_earlier(min((timer.deadline for timer in timers), default=NEVER))
        self._notify(is_earlier=is_earlier)

    def _advance_to_now(self) -> None:
        """
        Advance a wheel with ticks to now, because its span counts from its last `advance`.
        """
        if self._has_ticks:
            now = self.clock.monotonic_ns()
            with self._lock:
                self._filing.stand_at(now)

    def _admit(self, timer: WheelTimer, count: int = 1) -> None:
        """
        Make *timer* pending if there is room for *count* timers. After an error, nothing has changed.
        """
        if self._max_pending is not None and len(self) + count > self._max_pending:
            raise TooManyTimersError(self._max_pending)
        self._filing.live[timer] = None
        try:
            self._filing.file(timer)
        except TickwheelError:
            self._filing.live.pop(timer, None)
            raise

    def _withdraw_if_closed(self, timers: Iterable[WheelTimer]) -> int:
        """
        Remove those of *timers* that were set although the wheel was closed. Return their number.
        """
        # a signal handler may close the wheel during a set or move; `close` has not returned the timers of that call
        late = [timer for timer in timers if timer in self._filing.live] if self._is_closed else []
        for timer in late:
            self._filing.live.pop(timer, None)
            self._filing.file(timer)
        return len(late)

    def move(self, timer: WheelTimer, deadline: int) -> bool:
        """
        Move *timer*. If *timer* is firing, it fires once more. Return True if *timer* is going to fire at *deadline*.
        """
        self._advance_to_now()
        with self._lock:
            before = timer.deadline
            if self._filing.renew(timer, deadline):
                file, verb = self._filing.file, "moves"
            elif timer.has_fired and (timer.is_due or timer.running) and not self._is_closed:
                timer.deadline = deadline
                file, verb = self._admit, "sets"
            else:
                return False
            try:
                file(timer)
            except TickwheelError:
                timer.deadline = before
                raise
            if self._withdraw_if_closed([timer]):
                timer.deadline = before
                self._counts["cancels"] += verb == "moves"  # a timer that was set again was not counted as a set
                return False
            timer.has_fired = timer.is_due = False
            self._counts[verb] += 1
            is_earlier = self._is_earlier(deadline)
        self._notify(is_earlier=is_earlier)
        return True

    def cancel(self, timer: WheelTimer) -> bool:
        with self._lock:
            if not self._filing.remove(timer):
                return False
            self._counts["cancels"] += 1
            held = self._let_go(timer)
            self._filing.file(timer)
        del held
        return True

    def _let_go(self, timer: WheelTimer) -> object:
        """
        Remove and return the references of an ended timer. The caller drops them outside of the lock.
        """
        if timer in self._filing.live or timer.is_due or timer.running:
            return None
        held = timer.call, timer.words, timer.context
        timer.call, timer.words, timer.context = None, (), None
        return held

    def arm(self) -> int | None:
        with self._lock:
            deadline = self._filing.next_expiration()
            self._armed = NEVER if deadline is None else deadline
            return deadline

    def disarm(self) -> None:
        with self._lock:
            self._armed = NEVER

    def _is_earlier(self, deadline: int) -> bool:
        if deadline >= self._armed:
            return False
        due = self._filing.next_expiration()
        if due is None or due >= self._armed:
            return False  # in a wheel with ticks: due at the end of the tick for which the driver already waits
        self._armed = UNARMED
        return True

    def _notify(self, *, is_earlier: bool) -> None:
        if is_earlier and self.on_earlier is not None:
            try:
                self.on_earlier()
            except BaseException:
                with self._lock:
                    self._armed = NEVER  # so that the next set wakes the driver
                raise

    def fire_due(self, limit: int | None = None) -> int:
        limit = checked_limit(limit)
        now, me = self.clock.monotonic_ns(), get_ident()
        with self._lock:
            if self._firing == me:
                raise ReentrantError("fire_due")
            if self._firing is not None or self._filing.is_in_step:
                return 0
            self._firing = me
        try:
            with self._lock:
                self._filing.collect(now, limit)
            return self._fire(now, limit)
        finally:
            self._firing = None

    def _fire(self, now: int, limit: int | None) -> int:
        fired = 0
        while (limit is None or fired < limit) and (timer := self._take(now)) is not None:
            fired += 1
            if self.runner is None:
                self.run(timer)
            else:
                self._hand_over(timer, self.runner)
        return fired

    def _take(self, now: int) -> WheelTimer | None:
        with self._lock:
            timer = self._filing.take()
            if timer is not None:
                self._counts["fires"] += 1
                self._lateness[max(now - timer.deadline, 0).bit_length()] += 1
            return timer

    def _hand_over(self, timer: WheelTimer, runner: Callable[[Any], object]) -> None:
        try:
            runner(timer)
        except BaseException as error:
            self._refuse(timer)
            if not isinstance(error, Exception):
                raise
            self._report(error, timer)

    def _refuse(self, timer: WheelTimer) -> None:
        with self._lock:
            callback = timer.call if timer.is_due else None
        try:
            if isinstance(callback, TimerProxy):
                try:
                    callback.refused()
                except BaseException:
                    callback.failed()
                    raise
        except Exception as error:  # noqa: BLE001  reported like errors of callbacks
            self._report(error, timer)
        finally:
            with self._lock:
                timer.is_due = False
                held = self._let_go(timer)
            del held

    def run(self, timer: WheelTimer) -> Any:
        with self._lock:
            if not timer.is_due:
                return None
            timer.is_due = False
            timer.running += 1
            callback, args, context = timer.call, timer.arguments(), timer.context
        assert callback is not None
        result = failure = None
        try:
            result = call_in(context, self._call, timer, callback, args)
        except Exception as error:  # noqa: BLE001  after any error the other timers must still fire
            failure = error
        finally:
            with self._lock:
                timer.running -= 1
                self._let_go(timer)  # the locals above hold its references until the lock is free
        if failure is not None:
            self._report(failure, self._source(timer, callback))
        return result

    def _call(self, timer: WheelTimer, callback: Callback, args: tuple[Any, ...]) -> Any:
        try:
            result = callback(*args)
            if not is_coroutine(result):
                return result
            hand_on(result, callback, self._source(timer, callback), self.on_coroutine)
        except BaseException:
            if isinstance(callback, TimerProxy):
                callback.failed()
            raise

    def _source(self, timer: WheelTimer, callback: Callback) -> WheelTimer | Callback:
        """
        Return what `on_error` and `on_coroutine` receive: *timer*, or *callback* for a timer without a handle.
        """
        return callback if isinstance(timer, BulkTimer) and self.runner is None else timer

    def _report(self, error: Exception, source: WheelTimer | Callback) -> None:
        (self.on_error or log_error)(error, source)

    def pending(self, limit: int | None = None) -> list[Pending]:
        limit, now = checked_limit(limit), self.clock.monotonic_ns()
        with self._lock:
            live = list(self._filing.live)  # a copy, because user code that is called below may re-enter
            first = heapq.nsmallest(len(live) if limit is None else limit, live, key=lambda timer: timer.deadline)
            return [timer.described(now, None if isinstance(timer, BulkTimer) else timer) for timer in first]

    def drain(self) -> list[Pending]:
        now = self.clock.monotonic_ns()
        with self._lock:
            timers, held = self._filing.take_all()
            self._counts["cancels"] = len(timers) + self._counts["cancels"]  # `len` comes first: it may re-enter
            drained = [timer.described(now) for timer in timers]
            for timer in timers:
                self._let_go(timer)
        del held
        return drained

    def close(self) -> list[Pending]:
        self._is_closed = True
        return self.drain()

    def closed(self) -> bool:
        return self._is_closed

    def after_fork(self) -> None:
        if self._firing != get_ident():
            self._firing = None
        self.drain()

    def stats(self) -> dict[str, Any]:
        return {**self._filing.wheel.stats(), **self._counts, "pending": len(self), "lateness": list(self._lateness)}

    def check(self) -> None:
        with self._lock:
            self._filing.check()
            counts = self._counts
            assert counts["sets"] == counts["cancels"] + counts["fires"] + len(self._filing.live), counts
