"""
One ring, one tick a slot: the simplest wheel.

With `tick=1, slots=8`, standing at the end of tick 10:

    slot       0    1    2    3    4    5    6    7
    tick      16   17   18   11   12   13   14   15        slot = tick mod 8
                         ^ pointer: tick 10 has been emptied, so the slot holds tick 18

| operation         | cost      | why                                                                     |
|-------------------|-----------|-------------------------------------------------------------------------|
| `insert`          | O(1)      | one division                                                            |
| `cancel`, move    | O(1)      | the slot lets any entry go                                              |
| `advance`         | O(1)      | for each entry that expires; empty slots are jumped over                |
| `next_expiration` | O(slots)  | a search through the bits of the ring, after the earliest entry has left|

A slot stands for one tick, so the ring holds no delay of more than its span, `(slots - 1) * tick`. (Not `slots * tick`:
a delay that starts late in a tick ends late in its last one.) A longer one is refused with the span named; taken
modulo the ring it would expire a turn early, as in many a wheel on the web.

The source: G. Varghese and T. Lauck, "Hashed and Hierarchical Timing Wheels", 1987, scheme 4.

    >>> wheel = SingleWheel(tick=1, slots=8)
    >>> second = 1_000_000_000
    >>> tea, eggs = wheel.insert(4 * second, "tea"), wheel.insert(2 * second + 1, "eggs")
    >>> wheel.next_expiration() // second
    3
    >>> [entry.payload for entry in wheel.advance(7 * second)]
    ['eggs', 'tea']
    >>> wheel.insert(15 * second, "bread")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    tickwheel.errors.SpanExceededError: a delay of 8000000000 ns is past this wheel's span of 7000000000 ns: ...
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tickwheel.errors import SpanExceededError
from tickwheel.typing import Seconds
from tickwheel.wheels._contract import NEVER, Expired
from tickwheel.wheels._one_ring import OneRingWheel
from tickwheel.wheels._ticked import checked_slots

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tickwheel.wheels._entry import Entry

__all__ = ["SingleWheel"]


class SingleWheel(OneRingWheel):
    """
    A ring of *slots* ticks.

    Args:
        tick: Seconds to a slot; an entry expires up to one tick late.
        slots: How many, 2 or more; the longest delay is one tick less than the ring.

    Raises:
        ValueError: If *tick* is zero, negative or not finite, or there are fewer than two slots.
    """

    def __init__(self, tick: Seconds = 0.1, slots: int = 3_600) -> None:
        super().__init__(tick, slots, span_ticks=checked_slots(slots) - 1)
        self._latest = 0

    def advance(self, now: int, limit: int | None = None) -> list[Expired]:
        """
        Take out what is due at *now*, slot by slot, at most *limit* of it.
        """
        expired = super().advance(now, limit)
        self._latest = max(self._latest, now)
        return expired

    def _admit(self, deadline: int) -> None:
        span_ns = self.abilities.span_ns
        if span_ns is not None and deadline != NEVER and deadline - self._latest > span_ns:
            raise SpanExceededError(deadline - self._latest, span_ns)

    def _place(self, entry: Entry) -> None:
        # Where a limit has held the pointer back, this entry's slot may still hold the turn before: empty it first.
        while self._step(entry.tick - self._ring.size):
            pass
        super()._place(entry)

    def _take(self, tick: int) -> Iterable[Entry]:
        return self._ring.take(self._index(tick)).values()

    def _find_next(self) -> int | None:
        for distance in self._ring.occupied_after(self._index(self._pointer)):
            return self._pointer + distance
        return None

    def _check_slots(self) -> None:
        super()._check_slots()
        assert all(entry.tick - self._pointer <= self._ring.size for entry in self._ring), "one turn only"
