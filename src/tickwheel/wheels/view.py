"""
Internal: a picture of a wheel's rings, for drawing.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

from tickwheel.wheels.contract import Wheel

__all__ = ["RingView", "ShownWheel"]


class RingView(NamedTuple):
    """
    A snapshot of one ring, or of a list of entries that are in no ring.

    *slot_ns* is the length of a slot in nanoseconds, or 0 if a slot is not a span of time. *pointer* is the slot of the
    current time, or None. *counts* has the number of entries per occupied slot.
    """

    name: str
    slots: int
    slot_ns: int
    pointer: int | None
    counts: dict[int, int]


class ShownWheel(Wheel, Protocol):
    def rings(self) -> list[RingView]:
        """
        Return a view of the undelivered due entries, then of the rings from fine to coarse. The call changes nothing.
        """

    def where(self, id: int) -> tuple[int, int] | None:
        """
        Return the index of the entry's ring in `rings` and its slot in that ring. The call changes nothing.

        The result is None if the entry is not pending, or is in no ring because it is never due.
        """
