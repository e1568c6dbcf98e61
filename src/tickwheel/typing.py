"""
Types that several layers name.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, NamedTuple, TypeAlias

__all__ = ["Callback", "ErrorHandler", "Expired", "Pending", "Seconds"]

Seconds: TypeAlias = float | timedelta
"""A delay, or an instant on a wheel's clock: seconds in an int or a float, or a timedelta."""

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


@dataclass(frozen=True, slots=True)
class Pending:
    """
    A timer that was pending when its wheel was drained or closed.

    Attributes:
        callback: What it would have called; for a keyed timer, None.
        args: With which arguments; for a keyed timer, (key, value).
        deadline: When, in seconds of the wheel's clock; inf for never.
        remaining: How long that would still have been, in seconds; negative if it was overdue.
    """

    callback: Callback | None
    args: tuple[Any, ...]
    deadline: float
    remaining: float
