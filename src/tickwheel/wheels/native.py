"""
The wheel of the native core, the default.

    level    one slot spans    a turn of 64 slots spans
    0        2^10 ns           2^16 ns
    1        2^16 ns           2^22 ns
    2        2^22 ns           2^28 ns
    ...      ...               ...

An entry's level depends on the highest bit in which its deadline differs from the current time. Every deadline fits.
When the time of a slot begins, its entries are sorted, so each entry expires at its exact deadline. `crates/wheel` has
the algorithm and its table of costs. This module wraps the crate in the protocol.

    >>> wheel = NativeWheel()
    >>> tea = wheel.insert(240, "tea")
    >>> eggs = wheel.insert(360, "eggs")
    >>> wheel.reschedule(eggs, 180)
    True
    >>> wheel.next_expiration()
    180
    >>> [entry.payload for entry in wheel.advance(240)]
    ['eggs', 'tea']
"""

from __future__ import annotations

from tickwheel._core import Wheel
from tickwheel.typing import NonCopyable
from tickwheel.wheels.card import Card, Geometry, Load
from tickwheel.wheels.contract import Abilities
from tickwheel.wheels.view import RingView

__all__ = ["NativeWheel"]

SLOTS = 64


class NativeWheel(NonCopyable):
    """
    The native wheel, as a `Wheel`: exact deadlines, any span, every operation O(1).

    Its methods are the native methods, bound once in the constructor, which saves a Python call.
    """

    __slots__ = (
        "_wheel",
        "advance",
        "cancel",
        "check",
        "deadline",
        "drain",
        "insert",
        "next_expiration",
        "reschedule",
        "stats",
    )

    abilities = Abilities()

    def __init__(self) -> None:
        wheel = Wheel()
        self._wheel = wheel
        self.insert = wheel.insert
        self.cancel = wheel.cancel
        self.reschedule = wheel.reschedule
        self.deadline = wheel.deadline
        self.advance = wheel.advance
        self.next_expiration = wheel.next_expiration
        self.drain = wheel.drain
        self.stats = wheel.stats
        self.check = wheel.check

    def __repr__(self) -> str:
        return f"<NativeWheel {len(self)} pending>"

    def rings(self) -> list[RingView]:
        """
        Return the entries of slots whose time has begun, then the levels from fine to coarse.
        """
        levels = [
            RingView(f"level {level}", SLOTS, slot_ns, hand, counts)
            for level, (slot_ns, hand, counts) in enumerate(self._wheel.occupancy())
        ]
        begun = len(self) - sum(sum(level.counts.values()) for level in levels)
        return [RingView("begun", 1, 0, None, {0: begun} if begun else {}), *levels]

    def where(self, id: int) -> tuple[int, int] | None:
        """
        Return the index of the entry's ring in `rings` and its slot in that ring, or None if the entry is not pending.
        """
        place = self._wheel.slot_of(id)
        if place is not None:
            return place[0] + 1, place[1]
        return None if self._wheel.deadline(id) is None else (0, 0)

    def __len__(self) -> int:
        return len(self._wheel)


def _advise(_: Load) -> Geometry:
    return Geometry({}, ("it has no tick and no slots to choose, and every operation is O(1)",))


CARD = Card("native", NativeWheel, "#0072b2", "nowhere on this load", ("operation",), _advise)
