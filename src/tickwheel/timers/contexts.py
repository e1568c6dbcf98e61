"""
Contexts: deadlines, cancellation and values that are passed down a tree of calls.

    root = background(wheel)
    with with_timeout(root, 2.0) as context:
        for step in steps:
            context.raise_if_ended()
            step(context)

A context ends once: it is cancelled, or its deadline passes. Its end ends everything below it, never what is above.
`err()` says why. The idea and the names are those of Go's `context`; deadlines cost one timer of a wheel each, or none
where a parent's is earlier. All methods may be called from any thread.

`tickwheel.ended(context)` and `tickwheel.within(context, awaitable)` are for coroutines.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from types import TracebackType
from typing import Any, Protocol, Self, TypeAlias, TypeVarTuple, Unpack

from tickwheel.clock import to_seconds, to_timeout
from tickwheel.errors import ContextCancelledError, DeadlineExceededError, TickwheelError
from tickwheel.threads import Gate
from tickwheel.timers._coroutines import check_callback, is_coroutine_function
from tickwheel.timers._ending import BoundCallback, DeadlineCallback, Ending
from tickwheel.timers.contract import Timer
from tickwheel.typing import Seconds, Unique

__all__ = ["Context", "Timers", "background", "with_cancel", "with_deadline", "with_timeout", "with_value"]

Ts = TypeVarTuple("Ts")


Values: TypeAlias = "tuple[object, Any, Values | None]"
"""The key and value of the nearest context that has one, and those above: a list that each context shares."""


class Timers(Protocol):
    """
    The source of a context's time: a TimerWheel.
    """

    def time(self) -> float:
        """
        Return the time in seconds.
        """

    def call_at(self, when: Seconds, callback: Callable[[*Ts], object], /, *args: Unpack[Ts]) -> Timer:
        """
        Call *callback* once the time is *when*.
        """

    def call_later(self, delay: Seconds, callback: Callable[[*Ts], object], /, *args: Unpack[Ts]) -> Timer:
        """
        Call *callback* in *delay* seconds.
        """


class Context(Unique):
    """
    One scope: made by the functions of this module, ended by `cancel()`, by its deadline, or with its parent.

    As a context manager it is cancelled at the end of the block.
    """

    def __init__(
        self,
        parent: Context | None = None,
        *,
        timers: Timers | None = None,
        deadline: float | None = None,
        values: Values | None = None,
    ) -> None:
        self.ending = Ending()
        """How it ends; the module's own."""
        self._timers = timers
        self._deadline = deadline
        self._values = values
        if parent is not None:
            self.ending.follow(parent.ending)

    def __repr__(self) -> str:
        error = self.err()
        return f"<Context deadline={self._deadline} {'live' if error is None else repr(error)}>"

    def child(
        self, *, timers: Timers | None = None, deadline: float | None = None, values: Values | None = None
    ) -> Context:
        """
        Return a context below this one, with what is not given as here; `with_cancel` and its likes are plainer.
        """
        return Context(
            self,
            timers=self._timers if timers is None else timers,
            deadline=self._deadline if deadline is None else deadline,
            values=self._values if values is None else values,
        )

    def deadline(self) -> float | None:
        """
        Return when it ends at the latest, in seconds of its wheel's clock, or None if nothing was said.

        Its wheel is `timers()`, which need not be its parent's.
        """
        return self._deadline

    def remaining(self) -> float | None:
        """
        Return how many seconds are left, 0 if none, or None if it has no deadline.
        """
        if self._deadline is None or self._timers is None:
            return None
        return max(self._deadline - self._timers.time(), 0.0)

    def done(self) -> bool:
        """
        Return whether it has ended.
        """
        return self.ending.reason is not None

    def err(self) -> TickwheelError | None:
        """
        Return why it has ended, a ContextCancelledError or a DeadlineExceededError; None while it has not.
        """
        reason = self.ending.reason
        return None if reason is None else reason[0](reason[1])

    def raise_if_ended(self) -> None:
        """
        Raise what `err()` says, if it has ended.
        """
        error = self.err()
        if error is not None:
            raise error

    def value(self, key: object, default: Any = None) -> Any:
        """
        Return the value that this context, or the nearest one above it, has for *key*.
        """
        values = self._values
        while values is not None:
            name, value, values = values
            if name == key:
                return value
        return default

    def with_value(self, key: object, value: Any) -> Context:
        """
        Return a context below this one that has *value* for *key*.
        """
        return self.child(values=(key, value, self._values))

    def cancel(self, cause: object = None) -> bool:
        """
        End it and all below it; return whether this call did. The cause is part of the error that `err()` returns.
        """
        return self.ending.come((ContextCancelledError, cause))

    def wait(self, timeout: Seconds | None = None) -> bool:
        """
        Wait in this thread until it ends, at most *timeout* seconds of the system's clock; return whether it has.
        """
        gate = Gate()
        forget = self.on_end(gate.open)
        try:
            gate.wait(to_timeout(timeout))
        finally:
            forget()
        return self.done()

    def on_end(self, callback: Callable[[], object]) -> Callable[[], object]:
        """
        Call *callback* once when it ends, in the thread that ends it, where what it raises is logged.

        If it has ended, that is here and now.
        What is not an `Exception`, such as SystemExit, is raised there once all that ends with the context has ended.

        Returns:
            A function that takes this back; harmless later.

        Raises:
            TypeError: If *callback* is not callable, or a coroutine function, which nobody would await.
        """
        check_callback(callback, is_awaited=True)
        if is_coroutine_function(callback):
            message = (
                f"callback is {callback!r}, which makes a coroutine, and nobody here would await it: "
                "pass a function that hands it to its event loop by asyncio.run_coroutine_threadsafe"
            )
            raise TypeError(message)
        return self.ending.then(lambda _: callback())

    def bind(self, timer: Timer) -> Timer:
        """
        Cancel *timer* when this context ends; return the timer.

        On a context that lives long, timers are better set by its `call_later`, which forgets those that have ended.
        """
        self.on_end(timer.cancel)
        return timer

    def call_later(self, delay: Seconds, callback: Callable[[*Ts], object], /, *args: Unpack[Ts]) -> Timer:
        """
        Call *callback* with *args* in *delay* seconds, unless the context ends before. Errors as of the wheel's.

        That goes for a callback that waits in a pool, too: it is not called once the context has ended.
        """
        return self._bound(callback, args).start(self.timers().call_later, delay)

    def call_at(self, when: Seconds, callback: Callable[[*Ts], object], /, *args: Unpack[Ts]) -> Timer:
        """
        Call *callback* with *args* at *when*, unless the context ends before. Errors as of the wheel's.
        """
        return self._bound(callback, args).start(self.timers().call_at, when)

    def _bound(self, callback: Callable[..., object], args: tuple[Any, ...]) -> BoundCallback:
        check_callback(callback, is_awaited=getattr(self.timers(), "awaits_coroutines", True))
        return BoundCallback(self.ending, callback, args)

    def timers(self) -> Timers:
        """
        Return the wheel that this context's time comes from.

        Raises:
            TypeError: If it has none.
        """
        if self._timers is None:
            raise TypeError("this context has no wheel: pass one to background() or with_timeout()")
        return self._timers

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.cancel()


def background(timers: Timers | None = None) -> Context:
    """
    Return a root, which ends only if it is cancelled.

    Args:
        timers: The wheel for the deadlines below it.
    """
    return Context(timers=timers)


def with_cancel(parent: Context) -> Context:
    """
    Return a child that can be cancelled alone.
    """
    return _parent(parent).child()


def with_value(parent: Context, key: object, value: Any) -> Context:
    """
    Return a child that has *value* for *key*, and so do all below it.
    """
    return _parent(parent).with_value(key, value)


def _parent(parent: Context) -> Context:
    if not isinstance(parent, Context):
        message = f"parent is {parent!r}: pass a context, such as background(wheel)"
        raise TypeError(message)
    return parent


def with_timeout(parent: Context, delay: Seconds, *, timers: Timers | None = None) -> Context:
    """
    Return a child that ends in *delay* seconds, or with its parent's deadline if that is earlier.

    Args:
        parent: What it is below of.
        delay: Seconds; 0 or less has passed already, `inf` sets no deadline of its own.
        timers: The wheel, on whose clock its deadline is; None for the parent's. On another one, what the parent has
            left is counted from now on by that one's clock as well.

    Raises:
        InvalidDelayError: If *delay* is NaN.
        TypeError: If *delay* is no number, or there is no wheel.
        ClosedError: If the wheel is closed.
    """
    wheel = _parent(parent).timers() if timers is None else timers
    return with_deadline(parent, wheel.time() + to_seconds(delay, "delay"), timers=wheel)


def with_deadline(parent: Context, when: Seconds, *, timers: Timers | None = None) -> Context:
    """
    Return a child that ends at *when*, in seconds of the wheel's clock, or at its parent's deadline if that is earlier.

    Arguments and errors are those of `with_timeout`.
    """
    wheel = _parent(parent).timers() if timers is None else timers
    deadline = to_seconds(when, "when")
    above = parent.deadline()
    if above is not None and wheel is not parent.timers():  # another clock, which need not agree with the parent's
        deadline = min(deadline, above - parent.timers().time() + wheel.time())
        above = None
    if deadline == math.inf or (above is not None and above <= deadline):
        return parent.child(timers=wheel)
    context = parent.child(timers=wheel, deadline=deadline)
    if deadline <= wheel.time():
        context.ending.come((DeadlineExceededError, deadline))
        return context
    try:
        timer = wheel.call_at(deadline, DeadlineCallback(context.ending, deadline))
    except BaseException as error:
        context.cancel(error)
        raise
    context.bind(timer)
    return context
