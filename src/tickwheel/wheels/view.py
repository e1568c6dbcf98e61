"""
A picture of a wheel's rings, for drawing.

Internal: other packages use it, users do not.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

from tickwheel.wheels.contract import Wheel

__all__ = ["RingView", "ShownWheel"]


class RingView(NamedTuple):
    """
    A snapshot of one ring, or of another place with entries.

    Attributes:
        name: Label in the picture.
        slots: Number of slots.
        slot_ns: Length of a slot in nanoseconds; 0 if a slot is not a span of time.
        pointer: The slot of the current time, or None.
        counts: Number of entries per occupied slot.
    """

    name: str
    slots: int
    slot_ns: int
    pointer: int | None
    counts: dict[int, int]


class ShownWheel(Wheel, Protocol):
    def rings(self) -> list[RingView]:
        """
        Return a view of the due entries that are not delivered, then of the rings from fine to coarse. Changes nothing.
        """

    def where(self, id: int) -> tuple[int, int] | None:
        """
        Return the place of the entry, as the index of its ring in `rings` and its slot in that ring. Changes nothing.

        None if the entry is not pending, or is in no ring because it is never due.
        """
