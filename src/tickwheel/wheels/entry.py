"""
Internal: the entries of the wheels that are written in Python, and the order in which they are delivered.
"""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING, Any, Protocol

from tickwheel.wheels.contract import Expired

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["Entry", "Place", "by_order"]


class Entry:
    """
    One payload under its deadline, in nanoseconds.

    *sequence* numbers entries in order of arrival; a move counts as a new arrival. In designs with ticks, the entry
    expires at the end of *tick*. *place* is the list, ring or heap that holds the entry now, and *index* is the entry's
    position there.
    """

    __slots__ = ("deadline", "id", "index", "payload", "place", "sequence", "tick")

    place: Place

    def __init__(self, id: int, deadline: int, payload: Any) -> None:
        self.id = id
        self.deadline = deadline
        self.sequence = id
        self.payload = payload
        self.tick = 0
        self.index = 0

    def __lt__(self, other: Entry) -> bool:
        if self.deadline != other.deadline:
            return self.deadline < other.deadline
        return self.sequence < other.sequence

    def expired(self) -> Expired:
        return Expired(self.id, self.deadline, self.payload)


class Place(Protocol):
    def discard(self, entry: Entry) -> None: ...

    def clear(self) -> None: ...

    def __iter__(self) -> Iterator[Entry]: ...

    def __len__(self) -> int: ...


by_order: Callable[[Entry], tuple[int, int]] = attrgetter("deadline", "sequence")
"""Sort key of delivery: deadline, then arrival."""
