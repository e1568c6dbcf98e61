"""
Types that several layers name.
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
"""A delay, or an instant on a wheel's clock: seconds in an int or a float, or a timedelta."""

Duration: TypeAlias = float | timedelta | str
"""A length of time for the scheduler: seconds, a timedelta, or text such as "90s", "2h30m" or ISO 8601's "PT30M"."""

Instant: TypeAlias = datetime | str | float
"""An instant of the wall clock: an aware datetime, ISO 8601 text with an offset, or seconds since the epoch."""

MisfireName: TypeAlias = Literal["once", "all", "skip"]
"""What to do about runs that nobody could fire."""

ModeName: TypeAlias = Literal["replace", "keep", "earliest", "restart"]
"""How `set` treats a pending job of the same key."""

OverlapName: TypeAlias = Literal["skip", "once", "all", "cancel"]
"""What to do about instants that pass while a run lasts."""

StateName: TypeAlias = Literal["pending", "running", "dead"]
"""How far a job has come."""

StartRole: TypeAlias = Literal["owner", "auto"]
"""How a scheduler starts."""

ExecutorName: TypeAlias = Literal["thread", "process"]
"""Where a handler runs."""

Callback: TypeAlias = Callable[..., object]
"""What a timer calls; its result is ignored."""

ErrorHandler: TypeAlias = Callable[[BaseException, Any], None]
"""Gets an exception that a callback raised, and the timer it was raised in."""


class Expired(NamedTuple):
    """
    An entry as it leaves the wheel.
    """

    id: int
    deadline: int
    payload: Any


class Pending(NamedTuple):
    """
    A timer that is pending, or that was when its wheel was drained or closed.

    Attributes:
        callback: What it calls, or would have called; for a keyed timer, None.
        args: With which arguments; for a keyed timer, (key, value).
        deadline: When, in seconds of the wheel's clock; inf for never.
        remaining: How long that is from now, in seconds; negative if it is overdue.
        timer: Its handle, a `Timer` or a `Periodic`, while it is pending; None for a keyed timer, or for one that is
            named by an id, which is its only argument.
    """

    callback: Callback | None
    args: tuple[Any, ...]
    deadline: float
    remaining: float
    timer: Any = None


class NonCopyable:
    """
    Something that is in one place: it can be neither pickled nor copied, as a copy would share half of its state.
    """

    __slots__ = ()

    def __reduce__(self) -> str:
        message = f"a {type(self).__name__} cannot be pickled or copied: what it holds belongs to it, in this process"
        raise TypeError(message)
