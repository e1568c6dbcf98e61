"""
The protocol of an engine: a wheel, a clock, and timers that are called.

Sans-IO: it starts no thread and waits for nothing.
Two implement it: `tickwheel._core.Engine` (the native wheel, the default) and `timers/engine.py` (any wheel).
A driver owns one engine, waits until `arm()` says, and calls `fire_due()`.
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
    A handle on one timer. Its states: pending, then firing, then fired; or pending, then cancelled.

    All methods may be called from any thread, at any time, also after the end. None of them runs the callback.
    """

    def cancel(self) -> bool:
        """
        End this timer; return True if it will never run because of this call.

        False: it has fired, is firing, or was cancelled before. Never raises.
        Callback and arguments are let go at once.
        """

    @property
    def callback(self) -> Callback | None:
        """
        Return what it calls, as the user gave it; None once it never will again.
        """

    @property
    def args(self) -> tuple[Any, ...]:
        """
        With which arguments; none once it never will again.
        """

    def cancelled(self) -> bool:
        """
        Return whether the timer was cancelled (by its handle, in bulk, or by its wheel's drain or close).
        """

    def pending(self) -> bool:
        """
        Return whether the timer is still going to fire.
        """

    def when(self) -> float:
        """
        Return the deadline in seconds of the wheel's clock; `inf` for never. Survives both ends.
        """

    def reschedule(self, when: Seconds) -> bool:
        """
        Move this timer to a new deadline.

        While it fires (from inside its own callback, or from elsewhere) this begins a new life of the same timer, which
        the running call cannot end; not so once the engine is closed. Slack does not carry over.
        Among equal deadlines a moved timer counts as set now.

        Args:
            when: Seconds of the wheel's clock. A past time fires at the next drain.

        Returns:
            Whether the timer is now going to fire at *when*; False if it had fired or been cancelled, be it a new life
            of the firing that is under way.

        Raises:
            InvalidDelayError: If *when* is NaN. The timer stays as it was.
            TooManyTimersError: If a new life would be one more than max_pending.
        """

    def restart(self, delay: Seconds) -> bool:
        """
        Move this timer to *delay* seconds from now; otherwise as `reschedule`.
        """


class DueTimer(Timer, Protocol):
    """
    A timer as the engine's runner gets it: due, counted as fired, not yet called.
    """

    def run(self) -> Any:
        """
        Call the callback, in this thread, holding no lock, and return what it returns.

        An `Exception` goes to the engine's `on_error`, and None is returned; anything else is raised.
        Does nothing if this firing was overtaken: by a run before, or by a new life, which comes to its own.
        """


class Engine(Protocol):
    """
    A wheel with a clock and callbacks.

    Every method may be called from any thread. `fire_due` runs callbacks in the thread that calls it, holding no lock.
    """

    @property
    def clock(self) -> Clock:
        """
        Return the clock that time comes from.
        """

    on_earlier: Callable[[], object] | None
    """
    Called with no lock held, by the thread that sets or moves a timer, when its deadline is before the armed one.

    Once per arming: the engine marks itself as unarmed first, so a thousand earlier timers wake the driver once.
    What it raises leaves the call that set or moved; the timer is set, and the next set or move calls it again.
    """
    on_error: ErrorHandler | None
    """
    Gets every `Exception` that a callback raised, and the timer, which has fired by then.

    Other BaseExceptions leave `fire_due`, with the state in order.

    What it raises itself leaves `fire_due`, too. None: the error goes to `sys.unraisablehook`.
    Before either, a callback that is a `StandIn` hears of every exception that leaves it, by its `failed`.
    """
    on_coroutine: Callable[[Coroutine[Any, Any, Any], Any], object] | None
    """
    Gets every coroutine that a callback returned, and the timer, or the callback of a batch, in the callback's context.

    None: nobody awaits. Then a coroutine function is refused when it is set, and a coroutine that is returned
    nevertheless is closed, and a TypeError goes to `on_error`.
    """
    captures_context: bool
    """
    Whether a timer's callback runs in a copy of the `contextvars.Context` that it was set in; it has one of its own.
    While a call is in that, or in the one that was given by `context=`, another one runs in a copy of it.

    False: in that of the thread that fires. Those of `call_later_many` always do.
    """
    runner: Callable[[Any], object] | None
    """
    Where set, `fire_due` hands every due timer (a `DueTimer`) to it; it must see that `timer.run()` is called once.

    If it raises, the timer counts as fired and the error goes to `on_error`; a callback that is a `StandIn` notes it.
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
        Call *callback* with *args* once the clock reads *when* seconds.

        A past time is due at the next drain, never inside this call.

        Args:
            when: Seconds of the clock, or a timedelta, as every delay and instant below.
            callback: What to call; its result is ignored.
            args: What to call it with.
            slack: By how many seconds the deadline may be put off so that several timers share one wake-up: it becomes
                the instant in [when, when + slack] with the most trailing zero bits, in nanoseconds.
            context: A `contextvars.Context` to run the callback in; None: see `captures_context`.

        Raises:
            InvalidDelayError: If *when* is NaN.
            TypeError: If *when* is no number, or *callback* cannot be called or is a coroutine function nobody awaits.
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
            callback: Called with the ids of one or more of them that expired one after the other.
            slack: By how many seconds each deadline may be put off, as in `call_at`; those that meet share one call.

        Raises:
            InvalidDelayError: If one of *delays*, or *slack*, is NaN. With this and every error nothing was set.
            TypeError: If one is no number or *callback* is not callable.
            ClosedError: After close.
            TooManyTimersError: If not all of them fit below max_pending.
        """

    def has_id(self, id: SupportsIndex, /) -> bool:
        """
        Return whether *id* is that of a pending timer of `call_later_many`.
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

        Args:
            timers: Which.
            delays: Seconds; one for all, or one for each.

        Raises:
            InvalidDelayError: If a delay is NaN. With this and every error but the last nothing was moved.
            TypeError: If a timer is neither handle nor id, or a delay is no number.
            ValueError: If there are neither one delay nor as many as timers.
            SpanExceededError: If a delay is longer than the wheel can hold.
            TooManyTimersError: If a new life of one that is firing would be one more than max_pending. Those before
                it were moved.
        """

    def arm(self) -> int | None:
        """
        Return when to call `fire_due` next, in clock nanoseconds (None: not before something is set), and remember it.

        From here on `on_earlier` is called, once, when something earlier arrives.
        Something due returns a time that has passed.
        """

    def disarm(self) -> None:
        """
        Have the next set or move call `on_earlier`, whatever its deadline: what the driver waited for is gone.
        """

    def fire_due(self, limit: int | None = None) -> int:
        """
        Call what is due by the clock, read once at the start, and return how many were called.

        With a limit the work done to find what is due is bounded too, so fewer than *limit*, even 0, does not say that
        nothing is left: `arm()` does, by a time that has passed. Without a limit, nothing that was due is left.

        What a callback sets is not called in this turn, whatever its deadline.
        Stops after *limit*; the rest stays due, in order.
        What leaves a callback and is not an `Exception` propagates from here, and the rest stays due.

        Raises:
            ReentrantError: From inside a callback of the same engine that this thread is running.
        """

    def pending(self, limit: int | None = None) -> list[Pending]:
        """
        Return what is pending, at most *limit* of it, by deadline then first set; O(n), and no lock is held for longer.

        Raises:
            ValueError: If *limit* is negative.
        """

    def drain(self) -> list[Pending]:
        """
        Cancel everything that is pending, also undelivered siblings of a batch being fired, and return it in order.
        """

    def close(self) -> list[Pending]:
        """
        `drain()`, and refuse to set from now on. Twice is allowed and returns [].
        """

    def closed(self) -> bool:
        """
        Return whether the engine was closed.
        """

    def after_fork(self) -> None:
        """
        Begin again in the child of a fork: cancel what is pending, and forget the firing of threads that are not here.

        If the fork was made inside a callback of this thread, that firing goes on.
        """

    def stats(self) -> dict[str, Any]:
        """
        Return the counters of engine and wheel, without stopping either.

        At least `pending`, `sets` (new lives included), `cancels` (drained ones included), `fires`, `moves`, so that
        `sets == pending + cancels + fires`; and `lateness`: a list whose item i counts the firings that were less than
        2**i ns late and not less than 2**(i - 1).
        """

    def check(self) -> None:
        """
        Verify the invariants of engine and wheel; raises AssertionError.
        """

    def __len__(self) -> int:
        """
        Return how many timers are pending.
        """
