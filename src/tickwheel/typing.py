"""
Types that several layers share.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    K = TypeVar("K", default=Any)
    V = TypeVar("V", default=Any)
    KeyT = TypeVar("KeyT", default=Any)
    ValueT = TypeVar("ValueT", default=Any)
else:  # before Python 3.13 there are no defaults
    from typing import TypeVar

    K = TypeVar("K")
    V = TypeVar("V")
    KeyT = TypeVar("KeyT")
    ValueT = TypeVar("ValueT")

__all__ = [
    "Callback",
    "Duration",
    "ErrorHandler",
    "ExecutorName",
    "Expired",
    "Instant",
    "K",
    "KeyT",
    "MisfireName",
    "ModeName",
    "NonCopyable",
    "OverlapName",
    "Pending",
    "Seconds",
    "StartRole",
    "StateName",
    "V",
    "ValueT",
]

Seconds: TypeAlias = float | timedelta
"""A delay, or an instant on a wheel's clock, as seconds in an int or a float or as a timedelta."""

Duration: TypeAlias = float | timedelta | str
"""A length of time for the scheduler: seconds, a timedelta, or text such as "90s", "2h30m" or ISO 8601's "PT30M"."""

Instant: TypeAlias = datetime | str | float
"""An instant of the wall clock: an aware datetime, ISO 8601 text with an offset, or seconds since the epoch."""

MisfireName: TypeAlias = Literal["once", "all", "skip"]
"""The policy for missed runs, which no process could fire in time."""

ModeName: TypeAlias = Literal["replace", "keep", "earliest", "restart"]
"""The policy of `set` for a pending job with the same key."""

OverlapName: TypeAlias = Literal["skip", "once", "all", "cancel"]
"""The policy for instants that pass during a run."""

StateName: TypeAlias = Literal["pending", "running", "dead"]
"""The state of a job."""

StartRole: TypeAlias = Literal["owner", "auto"]
"""The role in which a scheduler starts."""

ExecutorName: TypeAlias = Literal["thread", "process"]
"""The executor that runs a handler."""

Callback: TypeAlias = Callable[..., object]
"""A function that a timer calls; its result is ignored."""

ErrorHandler: TypeAlias = Callable[[BaseException, Any], None]
"""Receives an exception that a callback raised, and the timer (see `on_error` in `tickwheel.timers.contract`)."""


class Expired(NamedTuple):
    """
    An entry that has left the wheel.
    """

    id: int
    deadline: int
    payload: Any


class Pending(NamedTuple):
    """
    A timer that is pending, or was pending when its wheel was drained or closed.

    Attributes:
        callback: The callback; None for a keyed timer.
        args: The callback's arguments; for a keyed timer, (key, value).
        deadline: The deadline in seconds of the wheel's clock; inf for never.
        remaining: Seconds from now until the deadline; negative if overdue.
        timer: The handle, a `Timer` or a `Periodic`, while the timer is pending. None for a keyed timer, and for a
            timer that was set in bulk; such a timer's id is its only argument.
    """

    callback: Callback | None
    args: tuple[Any, ...]
    deadline: float
    remaining: float
    timer: Any = None


class NonCopyable:
    """
    A class whose objects cannot be pickled or copied, because a copy would share part of the original's state.
    """

    __slots__ = ()

    def __reduce__(self) -> str:
        message = f"a {type(self).__name__} cannot be pickled or copied: what it holds belongs to it, in this process"
        raise TypeError(message)
