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
    A handle of one timer. A timer is first pending. Then it is either cancelled, or firing and finally fired.

    All methods may be called from any thread, at any time, also after the end. None of them runs the callback.
    """

    def cancel(self) -> bool:
        """
        End this timer. Return True if this call prevented its run.

        False means that the timer has fired, is firing, or was already cancelled. This method never raises. The
        callback and its arguments are released at once.
        """

    @property
    def callback(self) -> Callback | None:
        """
        Return the user's callback, or None after the timer's end.
        """

    @property
    def args(self) -> tuple[Any, ...]:
        """
        Return the callback's arguments; empty after the timer's end.
        """

    def cancelled(self) -> bool:
        """
        Return True if the timer was cancelled, by its handle, in bulk, or by its wheel's drain or close.
        """

    def pending(self) -> bool:
        """
        Return True if the timer is still going to fire.
        """

    def when(self) -> float:
        """
        Return the deadline in seconds of the wheel's clock; `inf` for never. The value stays available after the end.
        """

    def reschedule(self, when: Seconds) -> bool:
        """
        Move this timer to a new deadline.

        If the timer is firing, it fires once more, whether this method is called by the timer's own callback or from
        elsewhere. In a closed engine, it does not fire again. The timer loses its slack. Among timers with equal
        deadlines, it counts as set now.

        Args:
            when: Seconds of the wheel's clock. A past time is due at once.

        Returns:
            True if the timer is now going to fire at *when*; False if it had fired or been cancelled.

        Raises:
            InvalidDelayError: If *when* is NaN. The timer stays as it was.
            TooManyTimersError: If the timer is firing, and `max_pending` other timers are pending.
        """

    def restart(self, delay: Seconds) -> bool:
        """
        Move this timer to *delay* seconds from now. The rules and errors are those of `reschedule`.
        """


class DueTimer(Timer, Protocol):
    """
    A timer that the engine passes to its runner. It is due, counts as fired, and was not called yet.
    """

    def run(self) -> Any:
        """
        Call the callback in this thread, holding no lock, and return its result.

        If the callback raises an `Exception`, the engine's `on_error` receives it, and the result is None. Any other
        exception propagates. The method does nothing if the timer was already run. It also does nothing if the timer
        was rescheduled before this call: the timer then fires at its new deadline.
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
        Return the longest delay that the wheel can hold, in nanoseconds, or None for no limit.
        """

    on_earlier: Callable[[], object] | None
    """
    Called when a timer is set or moved to a deadline before the time that `arm` returned.

    The call comes from the thread that sets or moves the timer, without a lock. After `arm`, there is one call at most,
    so a thousand earlier timers wake the driver once. If `on_earlier` raises, the timer is still set, and the exception
    propagates to the caller. The next earlier timer then calls `on_earlier` again.
    """
    on_error: ErrorHandler | None
    """
    Receives every `Exception` that a callback raises, and the timer, which has fired by then.

    For timers of `call_later_many`, the second argument is the callback or, if a `runner` is set, the `DueTimer` that
    the runner has received. If `on_error` is None, errors go to `sys.unraisablehook`. Other BaseExceptions, and
    exceptions that `on_error` itself raises, propagate from `fire_due`. If the callback is a `TimerProxy`, its `failed`
    method is called first, for every exception.
    """
    on_coroutine: Callable[[Coroutine[Any, Any, Any], Any], object] | None
    """
    Receives every coroutine that a callback returns, and the callback's timer.

    For timers of `call_later_many`, the second argument is as in `on_error`. `on_coroutine` is called in the callback's
    context. None means that coroutines are not awaited. Then a coroutine function is refused when its timer is set. If
    an ordinary function returns a coroutine, the coroutine is closed, and `on_error` receives a TypeError.
    """
    captures_context: bool
    """
    True if each timer's callback runs in a copy of the `contextvars.Context` that was current when the timer was set.

    If that copy, or a context given by `context=`, is still in use by another call, the callback runs in a further
    copy. If False, callbacks run in the context of the firing thread, as callbacks of `call_later_many` always do.
    """
    runner: Callable[[Any], object] | None
    """
    If set, this function receives every due timer (a `DueTimer`) from `fire_due`, and must cause one call of
    `timer.run()`.

    If the function raises, the timer counts as fired, and the error goes to `on_error`. If the callback is a
    `TimerProxy`, its `refused` method is called.
    """

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
        Call *callback* with *args* when the clock has reached *when* seconds.

        A past time is due at the next `fire_due`, never inside this call.

        Args:
            when: Seconds of the clock, or a timedelta; the same holds for every delay and instant below.
            callback: The function to call; its result is ignored.
            args: Arguments of the callback.
            slack: Maximum delay in seconds for shared wake-ups. The deadline becomes the instant in [when, when +
                slack] with the most trailing zero bits, in nanoseconds.
            context: The `contextvars.Context` of the callback; for None see `captures_context`.

        Raises:
            InvalidDelayError: If *when* is NaN.
            TypeError: If *when* is not a number, or *callback* is not callable, or is a coroutine function without an
                event loop.
            ClosedError: After `close`.
            TooManyTimersError: If `max_pending` timers are pending.
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
        Call *callback* with *args* in *delay* seconds. Negative counts as 0, `inf` as never.

        The errors are those of `call_at`.
        """

    def call_later_many(
        self, delays: Iterable[Seconds], callback: Callable[[array[int]], object], /, *, slack: Seconds = 0.0
    ) -> array[int]:
        """
        Set a timer for each of *delays*, and return their ids. *callback* receives the ids of timers that have expired.

        The arguments and the errors are those of `TimerVerbs.call_later_many`.
        """

    def has_id(self, id: SupportsIndex, /) -> bool:
        """
        Return True if *id* is the id of a pending timer of `call_later_many`.
        """

    def cancel_many(self, timers: Iterable[Any], /) -> int:
        """
        Cancel *timers*. `TimerVerbs.cancel_many` describes the arguments, the result and the errors.
        """

    def move_many(self, timers: Iterable[Any], delays: Seconds | Iterable[Seconds], /) -> int:
        """
        Move *timers* to new delays from now. `TimerVerbs.move_many` describes the arguments, the result and the errors.
        """

    def arm(self) -> int | None:
        """
        Return the time of the next `fire_due` in clock nanoseconds, or None if no call of `fire_due` is needed.

        If a timer is due, the result is a time in the past. After this call, `on_earlier` is called once when a timer
        gets an earlier deadline.
        """

    def disarm(self) -> None:
        """
        Let the next timer that is set or moved call `on_earlier`, whatever its deadline.

        A driver calls this method if it has lost its wake-up.
        """

    def fire_due(self, limit: int | None = None) -> int:
        """
        Call the callbacks of all timers that are due by the clock, and return their number. The clock is read once.

        After *limit* calls, all further timers stay due, in order. The limit also bounds the search for due timers, so
        some may stay due even if the result is below *limit*; then `arm()` returns a time in the past. Timers that a
        callback sets are not called in this turn, whatever their deadline. If a callback raises an exception that is
        not an `Exception`, the exception propagates, and all later timers stay due.

        Raises:
            ReentrantError: If this thread is inside a callback of the same engine.
        """

    def pending(self, limit: int | None = None) -> list[Pending]:
        """
        Return at most *limit* pending timers, sorted by deadline, then by arrival. Costs O(n), mostly without the lock.
        """

    def drain(self) -> list[Pending]:
        """
        Cancel all pending timers, including due timers that were not called yet. Return them, sorted by deadline.
        """

    def close(self) -> list[Pending]:
        """
        Drain, and refuse further timers. A second call returns [].
        """

    def closed(self) -> bool:
        """
        Return True if the engine was closed.
        """

    def after_fork(self) -> None:
        """
        Start again in the child of a fork: cancel all pending timers, and forget the firings of other threads.

        If this thread forked inside a callback, that firing continues.
        """

    def stats(self) -> dict[str, Any]:
        """
        Return the counters of engine and wheel, without stopping either.

        There are at least `pending`, `sets`, `cancels`, `fires`, `moves` and `lateness`. `sets` includes reschedules of
        timers that were firing, and `cancels` includes drained timers, so that `sets == pending + cancels + fires`.
        Item i of the list `lateness` counts the firings that were late by at least 2**(i - 1) ns and less than 2**i ns.
        """

    def check(self) -> None:
        """
        Verify the invariants of engine and wheel, in O(n). Raise AssertionError if an invariant is broken.
        """

    def __len__(self) -> int: ...
