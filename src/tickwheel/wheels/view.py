"""
A wheel's rings as a picture of them needs them.

Internal: other packages use it, users do not.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

from tickwheel.wheels.contract import Wheel

__all__ = ["RingView", "ShownWheel"]


class RingView(NamedTuple):
    """
    One ring, or what is not a ring, at one moment.

    Attributes:
        name: What to write beside it.
        slots: How many slots it has.
        slot_ns: What one slot spans; 0 where a slot is not a span of time.
        pointer: The slot that the time is in, or None.
        counts: How many entries each occupied slot holds.
    """

    name: str
    slots: int
    slot_ns: int
    pointer: int | None
    counts: dict[int, int]


class ShownWheel(Wheel, Protocol):
    """
    A wheel that shows its slots, as all designs do that come with tickwheel.
    """

    def rings(self) -> list[RingView]:
        """
        Return what is due and not delivered, then the rings from fine to coarse; changes nothing.
        """

    def where(self, id: int) -> tuple[int, int] | None:
        """
        Return the number of the ring among `rings`, and the slot in it, that hold an entry; changes nothing.

        None where the entry is not pending, or in no ring because it is never due.
        """
