"""
Internal: callbacks that wrap a user's callback.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from operator import attrgetter
from typing import Any

from tickwheel.typing import Callback, NonCopyable, Pending

__all__ = ["KeyedTimerProxy", "TimerProxy", "end_all", "given", "listed", "shown"]


class TimerProxy(ABC, NonCopyable):
    """
    Wraps the user's function as the callback of an engine's timer, and does additional work at the call.
    """

    __slots__ = ()

    @abstractmethod
    def __call__(self) -> object: ...

    def given(self) -> tuple[Callback | None, tuple[Any, ...]]:
        """
        Return the user's callback and arguments; for a keyed timer, None and (key, value).

        If the user gave no callback, return this object instead.
        """
        return self, ()

    def handle(self, timer: Any) -> Any:
        """
        Return the object that users get as the timer's handle. By default, it is the engine's *timer*.
        """
        return timer

    def times(self, pending: Pending) -> tuple[float, float]:
        """
        Return the deadline and remaining time that users see; by default, those of *pending*, the engine's timer.
        """
        return pending.deadline, pending.remaining

    def ended(self) -> None:
        """
        Called after the wheel has drained or closed this timer.
        """

    def failed(self) -> None:
        """
        Complete the remaining steps after a call of this object, or of `refused`, has raised.

        A signal handler may raise at any line, so an implementation must not repeat completed steps. The timer can
        still be rescheduled.
        """

    def refused(self) -> None:
        """
        Complete this firing without calling the user's function, because an executor refused to run the timer.

        The timer is still due, so it can be rescheduled. If it is not rescheduled, it ends when this method returns.
        """


def given(callback: Callback | None, args: tuple[Any, ...]) -> tuple[Callback | None, tuple[Any, ...]]:
    return callback.given() if isinstance(callback, TimerProxy) else (callback, args)


def shown(pending: Pending) -> Pending:
    """
    Return *pending* with the user's callback, times and handle in place of the engine's.
    """
    callback = pending.callback
    if not isinstance(callback, TimerProxy):
        return pending
    return Pending(*callback.given(), *callback.times(pending), callback.handle(pending.timer))


def listed(pending: list[Pending]) -> list[Pending]:
    return sorted(map(shown, pending), key=attrgetter("deadline"))


def end_all(pending: Iterable[Pending]) -> None:
    """
    Call `ended` of each `TimerProxy` among the drained timers.

    If a context's callback raises a `BaseException` that is not an `Exception`, it is raised after all timers have
    ended.
    """
    failures: list[BaseException] = []
    for each in pending:
        if isinstance(each.callback, TimerProxy):
            try:
                each.callback.ended()  # this may call the user's functions
            except BaseException as failure:  # noqa: BLE001  the others must also end
                failures.append(failure)
    if failures:
        raise failures[0]


class KeyedTimerProxy(ABC):
    """
    Wraps *callback*, the user's `on_expire`, and does additional work at each call.
    """

    __slots__ = ("callback",)

    callback: Callable[[Any, Any], object]

    @abstractmethod
    def __call__(self, key: Any, value: Any, /) -> object: ...

    @abstractmethod
    def refused(self, key: Any, value: Any, /) -> None:
        """
        Called if *key* has expired, but an executor refused to call this object.
        """
