"""
The protocol of an engine: a wheel, a clock, and timers with callbacks.

An engine does no I/O: it starts no thread and never blocks.

There are two implementations: `tickwheel._core.Engine` (the native wheel, the default) and `timers/engine.py` (any
wheel). A driver owns one engine, waits for the time that `arm()` returns, and calls `fire_due()`.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Coroutine, Iterable
from contextvars import Context
from typing import Any, Protocol, SupportsIndex, TypeVarTuple, Unpack, runtime_checkable

from tickwheel.clock import Clock
from tickwheel.typing import Callback, ErrorHandler, Pending, Seconds

__all__ = ["DueTimer", "Engine", "Pending", "Timer"]

Ts = TypeVarTuple("Ts")


@runtime_checkable
class Timer(Protocol):
    """
    A handle of one timer. Its states: pending, then firing, then fired; or pending, then cancelled.

    All methods may be called from any thread, at any time, also after the end. None of them runs the callback.
    """

    def cancel(self) -> bool:
        """
        End this timer; return True if it will never run because of this call.

        False means that it has fired, is firing, or was cancelled before. Never raises.
        The callback and its arguments are released at once.
        """

    @property
    def callback(self) -> Callback | None:
        """
        Return the user's callback; None after the timer's end.
        """

    @property
    def args(self) -> tuple[Any, ...]:
        """
        Return the callback's arguments; empty after the timer's end.
        """

    def cancelled(self) -> bool:
        """
        Return True if the timer was cancelled: by its handle, in bulk, or by its wheel's drain or close.
        """

    def pending(self) -> bool:
        """
        Return True if the timer is still going to fire.
        """

    def when(self) -> float:
        """
        Return the deadline in seconds of the wheel's clock; `inf` for never. Also available after the timer's end.
        """

    def reschedule(self, when: Seconds) -> bool:
        """
        Move this timer to a new deadline.

        While the timer fires (from inside its own callback, or from elsewhere) this schedules it to fire once more; the
        end of the running call does not affect that. This does not work once the engine is closed. Slack does not carry
        over. Among equal deadlines a moved timer counts as set now.

        Args:
            when: Seconds of the wheel's clock. A past time fires at the next drain.

        Returns:
            True if the timer is now going to fire at *when*; False if it had fired or been cancelled.

        Raises:
            InvalidDelayError: If *when* is NaN. The timer stays as it was.
            TooManyTimersError: If a timer that fires would be pending once more beyond `max_pending`.
        """

    def restart(self, delay: Seconds) -> bool:
        """
        Move this timer to *delay* seconds from now; otherwise as `reschedule`.
        """


class DueTimer(Timer, Protocol):
    """
    A timer as the engine passes it to its runner: due, counted as fired, not yet called.
    """

    def run(self) -> Any:
        """
        Call the callback in this thread, holding no lock, and return its result.

        An `Exception` goes to the engine's `on_error`, and None is returned; any other exception is raised.
        Does nothing if this firing was overtaken: by an earlier run, or by a reschedule, which fires separately.
        """


class Engine(Protocol):
    """
    A wheel with a clock and callbacks.

    Every method may be called from any thread. `fire_due` runs callbacks in the thread that calls it, holding no lock.
    """

    @property
    def clock(self) -> Clock:
        """
        Return the engine's source of time.
        """

    @property
    def span_ns(self) -> int | None:
        """
        Return the longest delay that the wheel can hold, in nanoseconds; None for no limit.
        """

    on_earlier: Callable[[], object] | None
    """Called without a lock, by the thread that sets or moves a timer, if its deadline is before the armed one.

    It is called once per arming: the engine first marks itself as unarmed, so a thousand earlier timers wake the driver
    once. An exception that it raises propagates from the call that set or moved; the timer is set, and the next set or
    move calls it again."""
    on_error: ErrorHandler | None
    """Receives every `Exception` that a callback raises, with the timer, which has fired by then.

    Other BaseExceptions propagate from `fire_due`, which leaves the state consistent.
    An exception that it raises itself propagates from `fire_due` too. If it is None, errors go to `sys.unraisablehook`.
    Before either, the `failed` method of a callback that is a `TimerProxy` is called for every exception that leaves
    it."""
    on_coroutine: Callable[[Coroutine[Any, Any, Any], Any], object] | None
    """Receives every coroutine that a callback returned, with the timer, or the callback of a batch, in the callback's
    context.

    None means that coroutines are not awaited. Then a coroutine function is refused when it is set. A coroutine that
    another callback returns is closed, and `on_error` receives a TypeError."""
    captures_context: bool
    """True if each timer's callback runs in a copy of the `contextvars.Context` of the call that set it.

    While a call is in that copy, or in the one that was given by `context=`, another call runs in a copy of it.
    If False, callbacks run in the context of the firing thread. Callbacks of `call_later_many` always do."""
    runner: Callable[[Any], object] | None
    """If set, `fire_due` passes it every due timer (a `DueTimer`); it must have `timer.run()` called once.

    If it raises, the timer counts as fired and the error goes to `on_error`; the `refused` method of a `TimerProxy` is
    called."""

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
        Call *callback* with *args* once the clock reads *when* seconds.

        A past time is due at the next drain, never inside this call.

        Args:
            when: Seconds of the clock, or a timedelta, as every delay and instant below.
            callback: The function to call; its result is ignored.
            args: Arguments of the callback.
            slack: Maximum delay in seconds for shared wake-ups: the deadline becomes the instant in [when, when +
                slack] with the most trailing zero bits, in nanoseconds.
            context: The `contextvars.Context` of the callback; for None see `captures_context`.

        Raises:
            InvalidDelayError: If *when* is NaN.
            TypeError: If *when* is not a number, or *callback* is not callable, or is a coroutine function without an
                event loop.
            ClosedError: After close.
            TooManyTimersError: At max_pending.
        """

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
        Call *callback* with *args* in *delay* seconds; negative counts as 0, `inf` as never. Errors as `call_at`.
        """

    def call_later_many(
        self, delays: Iterable[Seconds], callback: Callable[[array[int]], object], /, *, slack: Seconds = 0.0
    ) -> array[int]:
        """
        Set a timer for each of *delays* and return their ids, integers that `cancel_many` and `move_many` take.

        Args:
            delays: Seconds; an array of doubles is read without a Python object for each.
            callback: Called with the ids of one or more timers that expired in succession.
            slack: Maximum delay of each deadline in seconds, as in `call_at`; equal deadlines share one call.

        Raises:
            InvalidDelayError: If one of *delays*, or *slack*, is NaN. With this and every error nothing was set.
            TypeError: If one is not a number or *callback* is not callable.
            ClosedError: After close.
            TooManyTimersError: If not all of them fit below max_pending.
        """

    def has_id(self, id: SupportsIndex, /) -> bool:
        """
        Return True if *id* is the id of a pending timer of `call_later_many`.
        """

    def cancel_many(self, timers: Iterable[Any], /) -> int:
        """
        Cancel *timers*, by handle or by id, and return how many of them were pending.

        Raises:
            TypeError: If one of them is neither. Nothing was cancelled.
        """

    def move_many(self, timers: Iterable[Any], delays: Seconds | Iterable[Seconds], /) -> int:
        """
        Move *timers*, by handle or by id, to new delays from now; return how many of them are going to fire then.

        With every error except `TooManyTimersError`, nothing was moved.

        Args:
            timers: Handles and ids.
            delays: Seconds; one for all, or one for each.

        Raises:
            InvalidDelayError: If a delay is NaN.
            TypeError: If a timer is neither handle nor id, or a delay is not a number.
            ValueError: If the number of delays is neither one nor the number of timers.
            SpanExceededError: If a delay is longer than the wheel can hold.
            TooManyTimersError: If moving a timer that is firing would make more than max_pending timers pending. Those
                before it were moved.
        """

    def arm(self) -> int | None:
        """
        Arm `on_earlier`, and return the time of the next `fire_due` in clock nanoseconds (None: no call is needed).

        From then on `on_earlier` is called, once, when an earlier deadline arrives.
        If a timer is due, the result is a time in the past.
        """

    def disarm(self) -> None:
        """
        Make the next set or move call `on_earlier`, whatever its deadline: the driver's wait was lost.
        """

    def fire_due(self, limit: int | None = None) -> int:
        """
        Call the callbacks of all timers that are due by the clock, read once at the start, and return their number.

        A *limit* also bounds the search for due timers, so a result below *limit*, even 0, does not mean that no timer
        is left. In that case `arm()` returns a time in the past. Without a limit, no timer that was due is left. Timers
        that a callback sets are not called in this turn, whatever their deadline. After *limit* calls the other timers
        stay due, in order. If a callback raises an exception that is not an `Exception`, it propagates from here, and
        the other timers stay due.

        Raises:
            ReentrantError: If this thread is inside a callback of the same engine.
        """

    def pending(self, limit: int | None = None) -> list[Pending]:
        """
        Return at most *limit* pending timers, by deadline, then in order of arrival; O(n), mostly without the lock.

        Raises:
            ValueError: If *limit* is negative.
        """

    def drain(self) -> list[Pending]:
        """
        Cancel all pending timers, including undelivered ones of a batch that is being fired, and return them in order.
        """

    def close(self) -> list[Pending]:
        """
        Drain, and refuse further timers. May be called twice and then returns [].
        """

    def closed(self) -> bool:
        """
        Return True if the engine was closed.
        """

    def after_fork(self) -> None:
        """
        Start again in the child of a fork: cancel all pending timers, and forget firings of other threads.

        If the fork was made inside a callback of this thread, that firing continues.
        """

    def stats(self) -> dict[str, Any]:
        """
        Return the counters of engine and wheel, without stopping either.

        At least `pending`, `sets` (repeated lives included), `cancels` (drained ones included), `fires`, `moves`, so
        that `sets == pending + cancels + fires`; and `lateness`: a list whose item i counts the firings that were less
        than 2**i ns late and not less than 2**(i - 1).
        """

    def check(self) -> None:
        """
        Verify the invariants of engine and wheel; raises AssertionError; O(n).
        """

    def __len__(self) -> int: ...
