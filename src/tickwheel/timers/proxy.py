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
    A callback, given to an engine, that does more than call the user's function.
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
        Return the user's handle. By default it is the engine's *timer*.
        """
        return timer

    def times(self, pending: Pending) -> tuple[float, float]:
        """
        Return the user's deadline and remaining time. They may differ from those of the engine's timer, *pending*.
        """
        return pending.deadline, pending.remaining

    def ended(self) -> None:
        """
        Called after the wheel has drained or closed this timer.
        """

    def failed(self) -> None:
        """
        Called after a call of this object, or of `refused`, has raised. Complete the steps that are not done.

        The exception may come from a signal handler, at any line, so steps that are done must not be repeated. The
        timer can still be rescheduled.
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
    Convert an engine's description of a timer to the user's terms.
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
    A callback for a wheel's `on_expire` that does more than call *callback*, the user's function.
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
