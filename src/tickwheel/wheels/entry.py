"""
Entries of the designs in Python, and the order in which they leave.

Internal: other packages use it, users do not.
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
    One payload under its deadline.

    Attributes:
        id: What the caller holds.
        deadline: When it is due, in nanoseconds.
        sequence: Its arrival; a move counts as a new one.
        payload: What the caller stored.
        tick: The tick at whose end it expires, in designs that have ticks.
        place: The list, ring or heap that holds it now.
        index: Where in that place: a slot of a ring, a position in a heap.
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
        """
        Return what the caller gets.
        """
        return Expired(self.id, self.deadline, self.payload)


class Place(Protocol):
    """
    Whatever holds entries and can let one of them go.
    """

    def discard(self, entry: Entry) -> None:
        """
        Let *entry* go, which this place holds.
        """

    def clear(self) -> None:
        """
        Let everything go.
        """

    def __iter__(self) -> Iterator[Entry]:
        """
        Walk all entries, in any order.
        """

    def __len__(self) -> int:
        """
        Return how many entries are here.
        """


by_order: Callable[[Entry], tuple[int, int]] = attrgetter("deadline", "sequence")
"""Sort key of delivery: deadline, then arrival."""
