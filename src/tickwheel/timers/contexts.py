"""
Contexts: deadlines, cancellation and values that are passed down a tree of calls.

    root = background(wheel)
    with with_timeout(root, 2.0) as context:
        for step in steps:
            context.raise_if_ended()
            step(context)

A context ends once: it is cancelled, or its deadline passes. Then its descendants end, too, but not its ancestors.
`err()` returns the reason. The idea and the names come from Go's `context`. A deadline costs one timer of a wheel,
unless the parent's deadline is earlier. All methods may be called from any thread.

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
from tickwheel.typing import NonCopyable, Seconds

__all__ = ["Context", "Timers", "background", "with_cancel", "with_deadline", "with_timeout", "with_value"]

Ts = TypeVarTuple("Ts")


Values: TypeAlias = "tuple[object, Any, Values | None]"
"""A linked list of keys and values, from the nearest context upwards. Contexts share the tails of their lists."""


class Timers(Protocol):
    """
    A source of time and timers for a context, such as a TimerWheel.
    """

    def time(self) -> float:
        """
        Return the time in seconds.
        """

    def call_at(self, when: Seconds, callback: Callable[[*Ts], object], /, *args: Unpack[Ts]) -> Timer: ...

    def call_later(self, delay: Seconds, callback: Callable[[*Ts], object], /, *args: Unpack[Ts]) -> Timer: ...


class Context(NonCopyable):
    """
    One context, made by the functions of this module. It ends by `cancel()`, at its deadline, or with its parent.

    A context that is used as a context manager is cancelled at the end of the block.
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
        """The end of this context; private to this package."""
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
        Return a child context. The child inherits the value of each argument that is None.
        """
        return Context(
            self,
            timers=self._timers if timers is None else timers,
            deadline=self._deadline if deadline is None else deadline,
            values=self._values if values is None else values,
        )

    def deadline(self) -> float | None:
        """
        Return the deadline in seconds of the wheel's clock, or None without a deadline.

        `timers()` returns this wheel, which may differ from the parent's wheel.
        """
        return self._deadline

    def remaining(self) -> float | None:
        """
        Return the number of seconds until the deadline, at least 0, or None without a deadline.
        """
        if self._deadline is None or self._timers is None:
            return None
        return max(self._deadline - self._timers.time(), 0.0)

    def done(self) -> bool:
        """
        Return True if the context has ended.
        """
        return self.ending.reason is not None

    def err(self) -> TickwheelError | None:
        """
        Return the reason for the end, a ContextCancelledError or a DeadlineExceededError; None before the context ends.
        """
        reason = self.ending.reason
        return None if reason is None else reason[0](reason[1])

    def raise_if_ended(self) -> None:
        """
        Raise the error that `err()` returns, if the context has ended.
        """
        error = self.err()
        if error is not None:
            raise error

    def value(self, key: object, default: Any = None) -> Any:
        """
        Return the value of *key* in this context, or in the nearest ancestor that has one.
        """
        values = self._values
        while values is not None:
            name, value, values = values
            if name == key:
                return value
        return default

    def with_value(self, key: object, value: Any) -> Context:
        """
        Return a child context that has *value* for *key*.
        """
        return self.child(values=(key, value, self._values))

    def cancel(self, cause: object = None) -> bool:
        """
        End this context and its descendants. Return False if it had already ended.

        *cause* may be any object. It becomes part of the error that `err()` returns.
        """
        return self.ending.come((ContextCancelledError, cause))

    def wait(self, timeout: Seconds | None = None) -> bool:
        """
        Block until the context ends, at most *timeout* seconds of real time. Return True if the context has ended.
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
        Call *callback* once when this context ends, or now if it has already ended.

        The call is in the thread that ends the context. If *callback* raises an `Exception`, the exception is logged.
        Any other exception, such as SystemExit, is raised after all callbacks have run and all descendants have ended.

        Returns:
            A function that unregisters the callback. It has no effect once the context has ended.

        Raises:
            TypeError: If *callback* is not callable, or is a coroutine function, which would not be awaited.
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
        Cancel *timer* when this context ends, and return the timer.

        The context refers to *timer* until the context ends, even if *timer* has fired. On a long-lived context, use
        the context's `call_later` instead, which drops timers that have ended.
        """
        self.on_end(timer.cancel)
        return timer

    def call_later(self, delay: Seconds, callback: Callable[[*Ts], object], /, *args: Unpack[Ts]) -> Timer:
        """
        Call *callback* with *args* in *delay* seconds, unless the context ends earlier.

        If the context ends while the callback waits in a pool, the callback is not called. The errors are those of the
        wheel's `call_later`.
        """
        return self._bound(callback, args).start(self.timers().call_later, delay)

    def call_at(self, when: Seconds, callback: Callable[[*Ts], object], /, *args: Unpack[Ts]) -> Timer:
        """
        Call *callback* with *args* at *when*, unless the context ends earlier. Errors are as in the wheel's `call_at`.
        """
        return self._bound(callback, args).start(self.timers().call_at, when)

    def _bound(self, callback: Callable[..., object], args: tuple[Any, ...]) -> BoundCallback:
        check_callback(callback, is_awaited=getattr(self.timers(), "awaits_coroutines", True))
        return BoundCallback(self.ending, callback, args)

    def timers(self) -> Timers:
        """
        Return the wheel whose clock and timers this context uses. A TypeError means that the context has no wheel.
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
    Return a root context, which ends only when it is cancelled. *timers* is the wheel for its descendants' deadlines.
    """
    return Context(timers=timers)


def with_cancel(parent: Context) -> Context:
    """
    Return a child that can be cancelled separately.
    """
    return _parent(parent).child()


def with_value(parent: Context, key: object, value: Any) -> Context:
    """
    Return a child in which *key* has *value*. The child's descendants inherit it.
    """
    return _parent(parent).with_value(key, value)


def _parent(parent: Context) -> Context:
    if not isinstance(parent, Context):
        message = f"parent is {parent!r}: pass a context, such as background(wheel)"
        raise TypeError(message)
    return parent


def with_timeout(parent: Context, delay: Seconds, *, timers: Timers | None = None) -> Context:
    """
    Return a child that ends in *delay* seconds, or at its parent's deadline if that is earlier.

    A *delay* of 0 or less ends the child immediately, and `inf` sets no deadline. *timers* is the wheel whose clock the
    deadline uses; None for the parent's wheel. If *timers* is another wheel, the parent's remaining time is counted
    from now by the clock of *timers*.

    Raises:
        TypeError: If *delay* is not a number, or there is no wheel.
    """
    wheel = _parent(parent).timers() if timers is None else timers
    return with_deadline(parent, wheel.time() + to_seconds(delay, "delay"), timers=wheel)


def with_deadline(parent: Context, when: Seconds, *, timers: Timers | None = None) -> Context:
    """
    Return a child that ends at *when*, in seconds of the wheel's clock, or at its parent's deadline if that is earlier.

    The other arguments and the errors are those of `with_timeout`.
    """
    wheel = _parent(parent).timers() if timers is None else timers
    deadline = to_seconds(when, "when")
    above = parent.deadline()
    if above is not None and wheel is not parent.timers():  # another clock, which may differ from the parent's
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
