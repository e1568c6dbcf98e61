"""
The promise, and the protocol of every wheel design.

The promise
===========

1. Never early. Nothing expires while the time given reads less than the deadline; exactly at the deadline it is due.
2. Bounded lateness. At most one tick of the design, plus the driver's wake-up, plus the work queued before it.
3. Ordered. By deadline across all that one `advance` delivers; first set, first fired, among equal deadlines.
   A design that cannot distinguish deadlines inside a tick orders by tick, then first set (`Abilities.exact_order`).
4. One outcome. An entry expires, or is cancelled (one by one, or all by a drain): one of them, once.
5. Anything goes in a callback. That is the driver's side of the promise: a wheel calls nothing.
6. Bounded work. `advance(now, limit)` stops at the limit and resumes where it was, also inside one slot.
7. Idle is free. `next_expiration()` returns exactly when there is something to do.
8. Cancel gives back. The wheel holds no reference to the payload afterwards.
9. Close is clean. `drain()` returns what was pending and leaves the wheel empty and usable.
10. Any number is safe. Every integer in 0..NEVER is a deadline; anything else is refused by name.

A wheel has no clock, no lock, no thread, and calls nothing: time comes in as an argument.
It is used by one thread at a time; its owner sees to that.
A new wheel is at time 0: its owner calls `advance(now)` before the first insert, which costs nothing while it is empty.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

from tickwheel.clock import NEVER
from tickwheel.errors import InvalidDeadlineError
from tickwheel.typing import Expired

__all__ = ["NEVER", "Abilities", "Expired", "Wheel", "checked_count", "checked_deadline", "checked_limit"]


class Abilities(NamedTuple):
    """
    The abilities that a design declares; the contract suite reads them instead of guessing.

    Attributes:
        tick_ns: The unit of filing that callers can see: an entry expires at the end of its tick, which is the first
            multiple of *tick_ns* that is not before its deadline. 0 where deadlines are exact.
        exact_order: Whether entries of one tick come out by deadline rather than in the order they were set.
        span_ns: The longest delay that fits, or None where every deadline does. `NEVER` always does.
    """

    tick_ns: int = 0
    exact_order: bool = True
    span_ns: int | None = None

    def due_at(self, deadline: int) -> int | None:
        """
        Return the first time at which `advance` delivers an entry of this *deadline*, or None for `NEVER`.

        The last tick before `NEVER` ends at `NEVER`.
        """
        if deadline == NEVER:
            return None
        return min(-(-deadline // self.tick_ns) * self.tick_ns, NEVER) if self.tick_ns else deadline


class Wheel(Protocol):
    """
    A design: entries go in with a deadline and come out when time has passed it.

    An id is a positive integer below 2**63, made by `insert`, never handed out twice by one wheel, and stale once its
    entry has expired, been cancelled or been drained. A stale or unknown id is answered with False (or None), never
    with an error.
    """

    abilities: Abilities

    def insert(self, deadline: int, payload: Any) -> int:
        """
        File *payload* under *deadline* and return its id.

        A deadline that has passed is allowed: it expires at the next `advance`, of a design with ticks at the first
        that reaches the end of its tick, which may be still to come (`Abilities.due_at`).
        `NEVER` is allowed: it never expires, and can be cancelled, moved and drained like any other.

        Raises:
            InvalidDeadlineError: If *deadline* is an integer outside of 0..NEVER. Nothing was filed.
            TypeError: If it is no integer; a bool is none. Nothing was filed.
            SpanExceededError: If it is past the design's span, counted from the furthest `advance`. Nothing was filed.
        """

    def cancel(self, id: int) -> bool:
        """
        Take the entry out; return whether it was pending, which means that it will now never expire.
        """

    def reschedule(self, id: int, deadline: int) -> bool:
        """
        Move the entry to *deadline*, keeping its id; return whether it was pending.

        Among equal deadlines a moved entry counts as set at the time of the move.

        Raises:
            InvalidDeadlineError: As `insert` does, also where the id is stale. The entry stays where it was.
            SpanExceededError: As `insert` does. The entry stays where it was.
        """

    def deadline(self, id: int) -> int | None:
        """
        Return the deadline of a pending entry, or None.
        """

    def advance(self, now: int, limit: int | None = None) -> list[Expired]:
        """
        Take out what is due at *now*, in order, at most *limit* of it (None: all).

        Time that goes back is not an error: nothing expires whose deadline is past the *now* of this very call.
        Call again while it returns *limit* entries. `limit=0` returns nothing.

        Raises:
            InvalidDeadlineError: If *now* is an integer outside of 0..NEVER.
            TypeError: If *now* or *limit* is no integer.
            ValueError: If *limit* is negative.
        """

    def next_expiration(self) -> int | None:
        """
        Return the earliest time at which `advance` will return something, or None if there is none.

        For an exact design that is the earliest deadline; for one with ticks, the end of its tick.
        """

    def drain(self) -> list[Expired]:
        """
        Take out everything, by deadline then first set, and return it.
        """

    def stats(self) -> dict[str, Any]:
        """
        Return counts: at least `pending`, `sets`, `moves`, `cancels`, `fires`, `cascades`; costs a small constant.

        What is drained counts as cancelled, so `sets` is always `pending + fires + cancels`.
        """

    def check(self) -> None:
        """
        Walk the whole structure and raise AssertionError where an invariant is broken.
        """

    def __len__(self) -> int:
        """
        Return how many entries are pending.
        """


def checked_deadline(value: object, name: str = "deadline") -> int:
    """
    Return *value* if it is a deadline.

    Args:
        value: What the caller passed.
        name: What to call it in an error.

    Raises:
        InvalidDeadlineError: If it is an integer outside of 0..NEVER.
        TypeError: If it is no integer.
    """
    if type(value) is not int:
        message = f"{name} is {value!r}: pass an integer of nanoseconds, not {type(value).__name__}"
        raise TypeError(message)
    if not 0 <= value <= NEVER:
        raise InvalidDeadlineError(value, name)
    return value


def checked_limit(value: object) -> int | None:
    """
    Return *value* if it is a limit: None, or an integer that is not negative.

    Raises:
        TypeError: If it is neither.
        ValueError: If it is negative.
    """
    if value is None:
        return None
    if type(value) is not int:
        message = f"limit is {value!r}: pass an integer or None, not {type(value).__name__}"
        raise TypeError(message)
    if value < 0:
        message = f"limit is {value!r}: pass 0 or more, or None for all that is due"
        raise ValueError(message)
    return value


def checked_count(value: object, name: str, least: int, otherwise: str = "") -> int:
    """
    Return *value* if it counts something.

    Args:
        value: What the caller passed.
        name: What to call it in an error.
        least: The least that it may be.
        otherwise: The end of an error's sentence, with what else may be passed.

    Raises:
        TypeError: If it is not an integer.
        ValueError: If it is below *least*, or has more than 63 bits.
    """
    if type(value) is int and least <= value <= NEVER:
        return value
    bound = "below 2**63" if type(value) is int and value > NEVER else f"{least} or more"
    message = f"{name} is {value!r}: pass an integer, {bound}{otherwise}"
    raise (ValueError if type(value) is int else TypeError)(message)
