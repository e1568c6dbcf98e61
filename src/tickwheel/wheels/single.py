"""
One ring with one tick per slot: the simplest wheel.

With `tick=1, slots=8`, at the end of tick 10:

    slot       0    1    2    3    4    5    6    7
    tick      16   17   18   11   12   13   14   15        slot = tick mod 8
                         ^ pointer: tick 10 has been emptied, so the slot holds tick 18

| operation         | cost      | why                                                                     |
|-------------------|-----------|-------------------------------------------------------------------------|
| `insert`          | O(1)      | one division                                                            |
| `cancel`, move    | O(1)      | the slot removes any entry                                              |
| `advance`         | O(1)      | for each entry that expires; empty slots are skipped                    |
| `next_expiration` | O(slots)  | a search through the bits of the ring, after the earliest entry has left|

A slot represents one tick, so the longest delay, the span, is `(slots - 1) * tick`. A longer delay is refused, and the
message gives the span. Many wheels on the web reduce such a delay modulo the ring, so that the entry expires a turn
early.

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

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

from tickwheel.typing import Seconds
from tickwheel.wheels._ring import Ring
from tickwheel.wheels.card import SLOTS_MAX, Card, Geometry, Load, in_words, round_tick, suitable_tick
from tickwheel.wheels.ticked import TickedWheel, checked_slots
from tickwheel.wheels.view import RingView

if TYPE_CHECKING:
    from collections.abc import Collection

    from tickwheel.wheels.entry import Entry

__all__ = ["SingleWheel"]


class SingleWheel(TickedWheel):
    """
    A ring of *slots* slots (at least 2) of *tick* seconds. The longest delay is `(slots - 1) * tick`.

    An entry expires up to one tick late.
    """

    def __init__(self, tick: Seconds = 0.1, slots: int = 3_600) -> None:
        super().__init__(tick, OneTurn(checked_slots(slots)))


class OneTurn:
    cascades = 0

    def __init__(self, size: int) -> None:
        self.pointer = 0
        self.turn: int | None = size
        self._ring = Ring(size)

    def add(self, entry: Entry) -> None:
        self._ring.add(entry, entry.tick % self._ring.size)

    def step(self, reached: int) -> Collection[Entry]:
        tick = self.first()
        self.pointer = reached if tick is None else min(tick, reached)
        return () if tick != self.pointer else self._ring.take(tick % self._ring.size).values()

    def first(self) -> int | None:
        for distance in self._ring.occupied_after(self.pointer % self._ring.size):
            return self.pointer + distance
        return None

    def places(self) -> tuple[Ring]:
        return (self._ring,)

    def views(self, tick_ns: int) -> list[RingView]:
        ring = self._ring
        return [RingView("ring", ring.size, tick_ns, self.pointer % ring.size, ring.counts())]

    def where(self, entry: Entry) -> tuple[int, int]:
        return 0, entry.index

    def check(self) -> None:
        self._ring.check()
        for entry in self._ring:
            assert entry.index == entry.tick % self._ring.size
            assert self.turn is None or entry.tick - self.pointer <= self.turn, "one turn only"


def _advise(load: Load) -> Geometry:
    tick_us, because = suitable_tick(load)
    slots, longest = _slots_for(load, tick_us), in_words(load.longest_us)
    if slots > SLOTS_MAX:
        return Geometry(None, (because, f"the longest delay, {longest}, takes {slots} slots, too many for a ring"))
    return Geometry(
        {"tick": tick_us / 1e6, "slots": slots}, (because, f"{slots} slots hold the longest delay, {longest}")
    )


def _fit(_: Card, load: Load, given: Mapping[str, float]) -> Mapping[str, float]:
    # If no ring suits the load, use the finest tick that the largest ring allows.
    advised = _advise(load).options or {"tick": round_tick(load.longest_us / SLOTS_MAX * 2) / 1e6}
    tick = given.get("tick", advised["tick"])
    return {"tick": tick, "slots": given.get("slots", _slots_for(load, tick * 1e6))}


def _shown(load: Load) -> Mapping[str, float]:
    tick_us = round_tick(load.longest_us / 40)
    return {"tick": tick_us / 1e6, "slots": _slots_for(load, tick_us)}


def _slots_for(load: Load, tick_us: float) -> int:
    return max(2, math.ceil(load.longest_us / tick_us) + 2)


CARD = Card(
    "single",
    SingleWheel,
    "#009e73",
    "the span: a delay longer than the ring is refused",
    ("ring",),
    _advise,
    _shown,
    _fit,
    options=("tick", "slots"),
    compared={"tick": 0.001},
    trials=({"tick": 1e-9, "slots": 64}, {"tick": 0.001, "slots": 512}, {"tick": 1e-7, "slots": 2}),
    is_ticked=True,
)
