"""
Callbacks of ours that replace one of the user's.

Internal: other packages use it, users do not.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from operator import attrgetter
from typing import Any

from tickwheel.typing import Callback, Pending, Unique

__all__ = ["KeyedStandIn", "StandIn", "end_all", "given", "listed", "shown"]


class StandIn(ABC, Unique):
    """
    A callable for an engine, where there is more to do than to call the user's function.
    """

    __slots__ = ()

    @abstractmethod
    def __call__(self) -> object:
        """
        Do what is due.
        """

    def given(self) -> tuple[Callback | None, tuple[Any, ...]]:
        """
        Return the callback and the arguments that the user gave; None, with key and value, for a keyed timer.

        Where no user gave any, it is this itself.
        """
        return self, ()

    def handle(self, timer: Any) -> Any:
        """
        Return the handle that the user has, where that is not the engine's own *timer*.
        """
        return timer

    def times(self, pending: Pending) -> tuple[float, float]:
        """
        Return deadline and time that remains, where they are not those of its timer, which *pending* describes.
        """
        return pending.deadline, pending.remaining

    def ended(self) -> None:
        """
        Note that its wheel was drained or closed.
        """

    def failed(self) -> None:
        """
        Note that its call, or `refused`, has raised, maybe as a signal's handler did at any line: do what is left.

        The timer can still be rescheduled. What was done before is not done again.
        """

    def refused(self) -> None:
        """
        Note that an executor would not run it: what is ours is done nevertheless, the user's function is not called.

        The timer is still due, so it can be rescheduled; where it is not, it ends when this returns.
        """


def given(callback: Callback | None, args: tuple[Any, ...]) -> tuple[Callback | None, tuple[Any, ...]]:
    """
    Return the callback and the arguments that the user gave, of those that an engine has.
    """
    return callback.given() if isinstance(callback, StandIn) else (callback, args)


def shown(pending: Pending) -> Pending:
    """
    Return *pending*, which an engine describes, as the user knows it.
    """
    callback = pending.callback
    if not isinstance(callback, StandIn):
        return pending
    return Pending(*callback.given(), *callback.times(pending), callback.handle(pending.timer))


def listed(pending: list[Pending]) -> list[Pending]:
    """
    Return each as the user knows it, in order of the deadlines that the user knows.
    """
    return sorted(map(shown, pending), key=attrgetter("deadline"))


def end_all(pending: Iterable[Pending]) -> None:
    """
    Let what is ours of those that an engine has drained note that.

    What leaves a callback of a context and is not an `Exception` is raised once all have ended.
    """
    failures: list[BaseException] = []
    for each in pending:
        if isinstance(each.callback, StandIn):
            try:
                each.callback.ended()  # which may call the user's functions
            except BaseException as failure:  # noqa: BLE001 - the others are to end as well
                failures.append(failure)
    if failures:
        raise failures[0]


class KeyedStandIn(ABC):
    """
    A callable for a wheel's `on_expire`, where there is more to do than to call the user's.

    Attributes:
        callback: The user's.
    """

    __slots__ = ("callback",)

    callback: Callable[[Any, Any], object]

    @abstractmethod
    def __call__(self, key: Any, value: Any, /) -> object:
        """
        Do what is to be done when *key* expires.
        """

    @abstractmethod
    def refused(self, key: Any, value: Any, /) -> None:
        """
        Note that *key* expired, and an executor would not report it.
        """
