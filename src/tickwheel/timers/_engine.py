"""
The engine over any wheel of the protocol, in Python.

Who may come in while a step is under way? Other threads wait at the lock. But the same thread can come back: at any
call a collection may run a finalizer, or a signal its handler, and either may set, move or cancel here. So

* what decides about a timer (`live`, its `deadline`) changes in one go, with no call between question and change;
* the wheel follows what was decided, one step at a time. Whoever comes in during a step leaves the timer in `_late`,
  and the one who makes the step files it afterwards.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable
from contextvars import Context
from typing import Any, Final, TypeVar

from tickwheel.clock import NEVER, Clock, MonotonicClock, seconds, to_deadline, to_delay
from tickwheel.errors import ClosedError, ReentrantError, SpanExceededError, TooManyTimersError
from tickwheel.timers._contract import DueTimer, Pending
from tickwheel.timers._locks import INNER, new_lock
from tickwheel.timers._slack import loosened
from tickwheel.timers._timer import WheelTimer
from tickwheel.typing import Callback, ErrorHandler
from tickwheel.wheels._contract import Expired, Wheel

__all__ = ["WheelEngine", "log_error"]

T = TypeVar("T")

UNARMED: Final = -1
"""Nothing is earlier, so nobody is woken until `arm` is called."""

_log: Final = logging.getLogger("tickwheel")


def log_error(error: BaseException, timer: object) -> None:
    """
    Log what a callback raised to the logger `tickwheel`: the default `on_error`.
    """
    _log.error("a callback raised: %r", timer, exc_info=error)


class WheelEngine:
    """
    Timers over a *wheel* of any design; `timers._contract.Engine` says what each method promises.

    Args:
        wheel: An empty wheel, from now on this engine's alone.
        clock: Where time comes from; the system's monotonic clock unless given.
        max_pending: How many timers may be pending at once; None for any number.
    """

    def __init__(self, wheel: Wheel, clock: Clock | None = None, *, max_pending: int | None = None) -> None:
        self.clock: Clock = MonotonicClock() if clock is None else clock
        self.on_earlier: Callable[[], object] | None = None
        self.on_error: ErrorHandler = log_error
        self.runner: Callable[[DueTimer], object] | None = None
        self.live: dict[WheelTimer, None] = {}
        self._wheel = wheel
        self._max_pending = max_pending
        self._lock = new_lock(INNER)
        self._ready: deque[Expired] = deque()
        self._late: deque[WheelTimer] = deque()
        self._in_step = False
        self._armed = UNARMED
        self._firing: int | None = None
        self._is_closed = False
        self._counts = {"sets": 0, "moves": 0, "cancels": 0, "fires": 0}
        self._lateness = [0] * 64

    def __len__(self) -> int:
        return len(self.live)

    # ---- set, move, cancel -----------------------------------------------------------------------------------------

    def call_at(
        self, when: float, callback: Callback, *args: Any, slack: float = 0.0, context: Context | None = None
    ) -> WheelTimer:
        """
        Call *callback* with *args* once the clock reads *when* seconds.
        """
        return self._set(loosened(to_deadline(when), slack), callback, args, context)

    def call_later(
        self, delay: float, callback: Callback, *args: Any, slack: float = 0.0, context: Context | None = None
    ) -> WheelTimer:
        """
        Call *callback* with *args* in *delay* seconds.
        """
        return self._set(loosened(self.deadline_in(to_delay(delay)), slack), callback, args, context)

    def deadline_in(self, delay_ns: int) -> int:
        """
        Return the deadline that is *delay_ns* from now.
        """
        return min(self.clock.monotonic_ns() + delay_ns, NEVER)

    def _set(self, deadline: int, callback: Callback, args: tuple[Any, ...], context: Context | None) -> WheelTimer:
        if not callable(callback):
            message = f"callback is {callback!r}: pass something that can be called"
            raise TypeError(message)
        timer = WheelTimer(self, deadline, callback, args, context)
        with self._lock:
            if self._is_closed:
                raise ClosedError
            self._admit(timer)
            try:
                self._file(timer)
            except SpanExceededError:
                self.live.pop(timer, None)
                raise
            self._counts["sets"] += 1
            is_earlier = self._is_earlier(deadline)
        self._tell(is_earlier)
        return timer

    def move(self, timer: WheelTimer, deadline: int) -> bool:
        """
        Move *timer* to *deadline*; return whether it is going to fire then.
        """
        with self._lock:
            before, is_new_life = timer.deadline, timer not in self.live
            if is_new_life:
                if self._is_closed or not (timer.handed or timer.running):
                    return False
                self._admit(timer)
            else:
                del self.live[timer]  # so that it comes last among equals
                self.live[timer] = None
            timer.deadline, timer.has_fired = deadline, False
            try:
                self._file(timer)
            except SpanExceededError:
                timer.deadline, timer.has_fired = before, is_new_life
                if is_new_life:
                    self.live.pop(timer, None)
                raise
            self._counts["moves"] += 1
            is_earlier = self._is_earlier(deadline)
        self._tell(is_earlier)
        return True

    def cancel(self, timer: WheelTimer) -> bool:
        """
        End *timer*; return whether this call did.
        """
        with self._lock:
            if timer not in self.live:
                return False
            del self.live[timer]
            self._counts["cancels"] += 1
            held = self._let_go(timer)
            self._file(timer)
        del held  # the last reference may run user code: not under the lock
        return True

    def _admit(self, timer: WheelTimer) -> None:
        if self._max_pending is not None and len(self.live) >= self._max_pending:
            raise TooManyTimersError(self._max_pending)
        self.live[timer] = None

    def _let_go(self, timer: WheelTimer) -> object:
        """
        Take callback and arguments from a timer that has ended, unless a firing still needs them, and return them.
        """
        if timer in self.live or timer.handed or timer.running:
            return None
        held = timer.callback, timer.args, timer.context
        timer.callback, timer.args, timer.context = None, (), None
        return held

    # ---- the wheel, one step at a time -----------------------------------------------------------------------------

    def _file(self, timer: WheelTimer) -> None:
        """
        Bring the wheel in line with *timer*, now or when the step under way is done.
        """
        if not self._in_step:
            self._step(self._file_now, timer)
        elif self._wheel.abilities.span_ns is None or timer not in self.live:
            self._late.append(timer)
        else:  # it may be refused, and nobody would be there to hear it
            self.live.pop(timer, None)
            raise ReentrantError("setting on a wheel of limited span")

    def _file_now(self, timer: WheelTimer) -> None:
        if timer not in self.live:
            self._wheel.cancel(timer.entry)
        elif not self._wheel.reschedule(timer.entry, timer.deadline):
            timer.entry = self._wheel.insert(timer.deadline, timer)

    def _step(self, step: Callable[..., T], *args: Any) -> T:
        self._in_step = True
        try:
            return step(*args)
        finally:
            self._in_step = False
            if self._late:
                self._step(self._file_now, self._late.popleft())

    # ---- what a driver does ----------------------------------------------------------------------------------------

    def arm(self) -> int | None:
        """
        Return when to call `fire_due` next, and remember it.
        """
        with self._lock:
            deadline = self._next()
            self._armed = NEVER if deadline is None else deadline
            return deadline

    def _next(self) -> int | None:
        if self._in_step:
            return 0  # nobody can tell before the step is done: look again
        ready = next((entry.deadline for entry in self._ready if self._is_due(entry)), None)
        deadline = self._step(self._wheel.next_expiration)
        return ready if deadline is None else deadline if ready is None else min(ready, deadline)

    def _is_due(self, entry: Expired) -> bool:
        return entry.payload.entry == entry.id and entry.payload in self.live

    def _is_earlier(self, deadline: int) -> bool:
        """
        Return whether the driver is to be told, and if so forget what it waits for.
        """
        if deadline >= self._armed:
            return False
        if not self._in_step and (due := self._next()) is not None and due >= self._armed:
            return False  # a wheel with ticks: due at the end of the tick that the driver waits for
        self._armed = UNARMED
        return True

    def _tell(self, is_earlier: bool) -> None:
        if is_earlier and self.on_earlier is not None:
            self.on_earlier()

    def fire_due(self, limit: int | None = None) -> int:
        """
        Call what is due by the clock, read once at the start, and return how many were called.
        """
        if limit is not None and limit < 0:
            message = f"limit is {limit!r}: pass 0 or more, or None for all that is due"
            raise ValueError(message)
        now, me = self.clock.monotonic_ns(), threading.get_ident()
        with self._lock:
            if self._firing == me:
                raise ReentrantError("fire_due")
            if self._firing is not None or self._in_step:
                return 0
            self._firing = me
        try:
            self._collect(now, limit)
            return self._fire(now, limit)
        finally:
            self._firing = None

    def _collect(self, now: int, limit: int | None) -> None:
        """
        Take what is due from the wheel, behind what an earlier turn left over.
        """
        with self._lock:
            due = self._step(self._wheel.advance, now, limit)
            if self._ready:
                due = sorted([*self._ready, *due], key=lambda entry: entry.deadline)
            self._ready = deque(due)

    def _fire(self, now: int, limit: int | None) -> int:
        fired = 0
        while (limit is None or fired < limit) and (timer := self._take_one(now)) is not None:
            fired += 1
            if self.runner is None:
                self.run(timer)
            else:
                self._hand_over(timer, self.runner)
        return fired

    def _take_one(self, now: int) -> WheelTimer | None:
        with self._lock:
            while self._ready:
                entry = self._ready.popleft()
                timer: WheelTimer = entry.payload
                if timer.entry == entry.id and timer in self.live:
                    del self.live[timer]
                    timer.has_fired = True
                    timer.handed += 1
                    self._counts["fires"] += 1
                    self._lateness[max(now - timer.deadline, 0).bit_length()] += 1
                    return timer
            return None

    def _hand_over(self, timer: WheelTimer, runner: Callable[[DueTimer], object]) -> None:
        try:
            runner(timer)
        except BaseException as error:
            with self._lock:
                timer.handed -= 1
                held = self._let_go(timer)
            if not isinstance(error, Exception):
                raise
            self.on_error(error, timer)
            del held

    def run(self, timer: WheelTimer) -> None:
        """
        Call the callback of a firing that was handed over; without one, do nothing.
        """
        with self._lock:
            if not timer.handed:
                return
            timer.handed -= 1
            timer.running += 1
            callback, args, context = timer.callback, timer.args, timer.context
        assert callback is not None
        try:
            if context is None:
                callback(*args)
            else:
                context.run(callback, *args)
        except Exception as error:  # noqa: BLE001 - whatever it is, the siblings are not to suffer
            self.on_error(error, timer)
        finally:
            with self._lock:
                timer.running -= 1
                self._let_go(timer)  # the locals above hold them until the lock is free

    # ---- the end ---------------------------------------------------------------------------------------------------

    def drain(self) -> list[Pending]:
        """
        Cancel everything that is pending and return it in order.
        """
        now = self.clock.monotonic_ns()
        with self._lock:
            live, self.live = self.live, {}
            timers = sorted(live, key=lambda timer: timer.deadline)
            drained = [_pending(timer, now) for timer in timers]
            self._counts["cancels"] += len(timers)
            self._ready.clear()
            for timer in timers:
                self._let_go(timer)
            held = [] if self._in_step else self._step(self._wheel.drain)
            for timer in timers if self._in_step else ():
                self._file(timer)
        del held
        return drained

    def close(self) -> list[Pending]:
        """
        Drain, and refuse to set from now on.
        """
        self._is_closed = True
        return self.drain()

    def closed(self) -> bool:
        """
        Return whether the engine was closed.
        """
        return self._is_closed

    def after_fork(self) -> None:
        """
        Begin anew in the child of a fork.
        """
        if self._firing != threading.get_ident():
            self._firing = None
        self.drain()

    # ---- what others look at ---------------------------------------------------------------------------------------

    def stats(self) -> dict[str, Any]:
        """
        Return the counters of engine and wheel.
        """
        return {**self._wheel.stats(), **self._counts, "pending": len(self.live), "lateness": list(self._lateness)}

    def check(self) -> None:
        """
        Verify the invariants of engine and wheel.
        """
        with self._lock:
            self._wheel.check()
            ready = {entry.payload for entry in self._ready if self._is_due(entry)}
            assert len(self._wheel) + len(ready) == len(self.live), "every live timer is in the wheel or ready, once"
            assert not self._late, "nothing is left to file"
            for timer in self.live:
                assert timer.callback is not None, f"{timer!r} is live and has no callback"
                filed = timer.deadline if timer in ready else self._wheel.deadline(timer.entry)
                assert filed == timer.deadline, f"{timer!r} is filed at {filed}, not {timer.deadline}"


def _pending(timer: WheelTimer, now: int) -> Pending:
    remaining = seconds(NEVER) if timer.deadline >= NEVER else (timer.deadline - now) / 1e9
    return Pending(timer.callback, timer.args, timer.when(), remaining)
