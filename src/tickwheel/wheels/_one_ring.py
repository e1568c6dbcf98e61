"""
What the designs of one ring share: the pointer goes from one tick that expires to the next.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING

from tickwheel.typing import Seconds
from tickwheel.wheels._ring import Ring
from tickwheel.wheels._ticked import TickedWheel, checked_slots
from tickwheel.wheels._view import RingView

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tickwheel.wheels._entry import Entry

__all__ = ["OneRingWheel"]


class OneRingWheel(TickedWheel):
    """
    A wheel whose entries are in the slot of their tick modulo *slots*.

    Args:
        tick: Seconds to a slot.
        slots: How many, 2 or more.
        span_ticks: The longest delay that fits, in ticks, or None.

    Raises:
        ValueError: If *tick* is zero, negative or not finite, or there are fewer than two slots.
    """

    def __init__(self, tick: Seconds, slots: int, span_ticks: int | None = None) -> None:
        super().__init__(tick, span_ticks)
        self._ring = Ring(checked_slots(slots))

    def _index(self, tick: int) -> int:
        return tick % self._ring.size

    def _place(self, entry: Entry) -> None:
        self._ring.add(entry, self._index(entry.tick))

    def _step(self, reached: int) -> bool:
        tick = self._next_tick()
        if tick is None or tick > reached:
            self._pointer = max(self._pointer, reached)
            return False
        self._pointer = tick
        self._deliver(self._take(tick))
        return True

    @abstractmethod
    def _take(self, tick: int) -> Iterable[Entry]:
        """
        Take out the entries of *tick*, which is the earliest there is.
        """

    def _places(self) -> tuple[Ring]:
        return (self._ring,)

    def _ring_views(self) -> list[RingView]:
        pointer = self._index(self._pointer)
        return [RingView("ring", self._ring.size, self._tick_ns, pointer, self._ring.counts())]

    def _check_slots(self) -> None:
        self._ring.check()
        assert all(entry.index == self._index(entry.tick) for entry in self._ring)
