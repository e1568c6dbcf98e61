"""
The promise that every wheel design keeps, and the protocol of a wheel.

The promise
===========

1. Never early. No entry expires while the given time is before its deadline. Exactly at its deadline, it is due.
2. Bounded lateness. An entry is late by at most one tick, plus the driver's wake-up, plus the work queued before it.
3. Ordered. One `advance` delivers its entries in order of deadline, and equal deadlines in the order in which they were
   set. A design that cannot distinguish deadlines inside a tick delivers by tick, and within a tick in the order of
   arrival (`Abilities.exact_order`).
4. One outcome. An entry either expires once, or is cancelled once, alone or by a drain of all entries.
5. Anything goes in a callback. The driver keeps this part of the promise, because a wheel calls no code.
6. Bounded work. `advance(now, limit)` stops at the limit, even inside one slot, and the next call continues there.
7. Idle is free. `next_expiration()` returns the exact time at which there is something to do, or None.
8. Cancel gives back. After a cancel, the wheel holds no reference to the payload.
9. Close is clean. `drain()` returns the pending entries and leaves the wheel empty and usable.
10. Any number is safe. Every integer in 0..NEVER is a deadline; any other value is refused, and the error names it.

A wheel has no clock, no lock and no thread, and calls no other code; the time is an argument. The owner of a wheel must
use it in one thread at a time. A new wheel is at time 0, so its owner must call `advance(now)` before the first insert;
on an empty wheel this costs nothing.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

from tickwheel.clock import NEVER
from tickwheel.errors import InvalidDeadlineError
from tickwheel.typing import Expired

__all__ = ["NEVER", "Abilities", "Expired", "Wheel", "checked_count", "checked_deadline", "checked_limit"]


class Abilities(NamedTuple):
    """
    The declared abilities of a design; the tests of the contract read them.

    Attributes:
        tick_ns: Length of a tick in nanoseconds; 0 if deadlines are exact. An entry expires at the end of its tick: the
            first multiple of *tick_ns* that is not before its deadline.
        exact_order: True if entries of one tick expire in order of their deadlines, False if in order of arrival.
        span_ns: The longest delay that fits, in nanoseconds; None if any delay fits. `NEVER` always fits.
    """

    tick_ns: int = 0
    exact_order: bool = True
    span_ns: int | None = None

    def due_at(self, deadline: int) -> int | None:
        """
        Return the first time at which `advance` delivers an entry with this *deadline*, or None for `NEVER`.

        In a design with ticks, this is the end of the entry's tick. The last tick is cut short at `NEVER`.
        """
        if deadline == NEVER:
            return None
        return min(-(-deadline // self.tick_ns) * self.tick_ns, NEVER) if self.tick_ns else deadline


class Wheel(Protocol):
    """
    The protocol of a design: entries are inserted with a deadline, and expire when the time has reached it.

    `insert` returns an id: a positive integer below 2**63 that the wheel never uses twice. An id is stale once its
    entry has expired, or was cancelled or drained. For a stale or unknown id, methods return False (or None) and do not
    raise.
    """

    abilities: Abilities

    def insert(self, deadline: int, payload: Any) -> int:
        """
        File *payload* under *deadline* and return its id.

        A deadline that has passed is allowed: the entry expires at the next `advance`. In a design with ticks, it
        expires at the end of its tick, which may be in the future (`Abilities.due_at`). `NEVER` is allowed: the entry
        never expires, but can be cancelled, moved and drained like any other.

        Raises:
            InvalidDeadlineError: If *deadline* is an integer outside of 0..NEVER. Nothing was filed.
            TypeError: If *deadline* is not an integer, or is a bool. Nothing was filed.
            SpanExceededError: If *deadline* is further from the latest `advance` than the design's span. Nothing was
                filed.
        """

    def cancel(self, id: int) -> bool:
        """
        Remove the entry. Return True if it was pending, which means that it will never expire.
        """

    def reschedule(self, id: int, deadline: int) -> bool:
        """
        Move the entry to *deadline* under the same id. Return True if the entry was pending.

        Among equal deadlines, the entry counts as newly set. The errors are those of `insert`. After an error, the
        entry stays where it was.
        """

    def deadline(self, id: int) -> int | None:
        """
        Return the deadline of a pending entry, or None.
        """

    def advance(self, now: int, limit: int | None = None) -> list[Expired]:
        """
        Remove and return the entries that are due at *now*, in order, at most *limit* of them (None: all).

        *now* may be less than in an earlier call; entries with later deadlines then stay. If the result has *limit*
        entries, call again. `limit=0` returns an empty list.

        Raises:
            InvalidDeadlineError: If *now* is an integer outside of 0..NEVER.
            ValueError: If *limit* is negative.
        """

    def next_expiration(self) -> int | None:
        """
        Return the earliest time at which `advance` will return an entry, or None.

        In an exact design that is the earliest deadline; in a design with ticks, the end of the earliest tick.
        """

    def drain(self) -> list[Expired]:
        """
        Remove all entries and return them, sorted by deadline, then in order of arrival.
        """

    def stats(self) -> dict[str, Any]:
        """
        Return counters, at least `pending`, `sets`, `moves`, `cancels`, `fires` and `cascades`. The call costs O(1).

        Drained entries count as cancelled, so `sets` is always `pending + fires + cancels`.
        """

    def check(self) -> None:
        """
        Walk the whole structure and raise AssertionError if an invariant is broken. The walk costs O(n).
        """

    def __len__(self) -> int: ...


def checked_deadline(value: object, name: str = "deadline") -> int:
    """
    Return *value* if it is a valid deadline. *name* is the argument's name in error messages.

    Raises:
        InvalidDeadlineError: If *value* is an integer outside of 0..NEVER.
    """
    if type(value) is not int:
        message = f"{name} is {value!r}: pass an integer of nanoseconds, not {type(value).__name__}"
        raise TypeError(message)
    if not 0 <= value <= NEVER:
        raise InvalidDeadlineError(value, name)
    return value


def checked_limit(value: object) -> int | None:
    """
    Return *value* if it is a valid limit: None, or an integer that is not negative.
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
    Return *value* if it is a valid count, of at least *least*.

    *name* is the argument's name in error messages. *otherwise* is appended to these messages, to list other allowed
    values.

    Raises:
        ValueError: If *value* is below *least*, or has more than 63 bits.
    """
    if type(value) is int and least <= value <= NEVER:
        return value
    bound = "below 2**63" if type(value) is int and value > NEVER else f"{least} or more"
    message = f"{name} is {value!r}: pass an integer, {bound}{otherwise}"
    raise (ValueError if type(value) is int else TypeError)(message)
