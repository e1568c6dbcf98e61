"""
Internal callbacks that replace one of the user's.

Internal: other packages use it, users do not.
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
    A callable for an engine that does more than call the user's function.
    """

    __slots__ = ()

    @abstractmethod
    def __call__(self) -> object: ...

    def given(self) -> tuple[Callback | None, tuple[Any, ...]]:
        """
        Return the user's callback and arguments; for a keyed timer, None and (key, value).

        If there is no user's callback, it returns itself.
        """
        return self, ()

    def handle(self, timer: Any) -> Any:
        """
        Return the user's handle, if that is not the engine's own *timer*.
        """
        return timer

    def times(self, pending: Pending) -> tuple[float, float]:
        """
        Return the deadline and the remaining time, which may differ from those of its timer, *pending*.
        """
        return pending.deadline, pending.remaining

    def ended(self) -> None:
        """
        Called when its wheel was drained or closed.
        """

    def failed(self) -> None:
        """
        Called after its call, or `refused`, has raised, perhaps in a signal handler at any line: complete the work.

        The timer can still be rescheduled. Steps that were done are not repeated.
        """

    def refused(self) -> None:
        """
        Called if an executor refused to run it: do the internal work, without calling the user's function.

        The timer is still due, so it can be rescheduled; otherwise it ends when this returns.
        """


def given(callback: Callback | None, args: tuple[Any, ...]) -> tuple[Callback | None, tuple[Any, ...]]:
    """
    Return the user's callback and arguments for those that an engine has.
    """
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
    """
    Convert engines' descriptions to the user's terms, sorted by the deadlines that the user knows.
    """
    return sorted(map(shown, pending), key=attrgetter("deadline"))


def end_all(pending: Iterable[Pending]) -> None:
    """
    Call `ended` of each `TimerProxy` among the drained timers.

    If callbacks of a context raise exceptions other than `Exception`, one is raised once all timers have ended.
    """
    failures: list[BaseException] = []
    for each in pending:
        if isinstance(each.callback, TimerProxy):
            try:
                each.callback.ended()  # it may call the user's functions
            except BaseException as failure:  # noqa: BLE001  the others must also end
                failures.append(failure)
    if failures:
        raise failures[0]


class KeyedTimerProxy(ABC):
    """
    A callable for a wheel's `on_expire` that does more than call the user's function.

    Attributes:
        callback: The user's function.
    """

    __slots__ = ("callback",)

    callback: Callable[[Any, Any], object]

    @abstractmethod
    def __call__(self, key: Any, value: Any, /) -> object: ...

    @abstractmethod
    def refused(self, key: Any, value: Any, /) -> None:
        """
        Called if *key* expired and an executor refused to report it.
        """
