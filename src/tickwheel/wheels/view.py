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
    One ring, or another place of entries, at one moment.

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
        Return the due entries that are not delivered, then the rings from fine to coarse; changes nothing.
        """

    def where(self, id: int) -> tuple[int, int] | None:
        """
        Return the index of the ring in `rings` and the slot in that ring where the entry is; changes nothing.

        None if the entry is not pending, or is in no ring because it is never due.
        """
