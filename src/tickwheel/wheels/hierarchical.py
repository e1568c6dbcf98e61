"""
Wheels over wheels, made on demand, and a queue of occupied slots that drives the clock.

With `tick=1, slots=8`:

    wheel   a slot spans   a turn spans   accepts delays
    0       1 tick         8 ticks        below 8 ticks, counted from the pointer (the current tick)
    1       8 ticks        64 ticks       below 64 ticks; made when wheel 0 cannot accept a delay
    2       64 ticks       512 ticks      below 512 ticks; made when wheel 1 cannot accept a delay
    ...                                   of any length, because each wheel spans 8 times as much as the last

    queue   the occupied slots of all wheels, by their first ticks: [wheel 0: 5] [wheel 0: 7] [wheel 1: 8] ...

When the first slot in the queue begins, it expires if it belongs to wheel 0. A slot of any other wheel cascades: its
entries, which are nearer now, are filed again in a finer wheel.

| operation         | cost                  | why                                                              |
|-------------------|-----------------------|------------------------------------------------------------------|
| `insert`          | O(wheels)             | finds the wheel; O(log slots in use) if its slot was empty       |
| `cancel`, move    | O(1)                  | O(log slots in use) if the slot was or becomes empty             |
| `advance`         | O(wheels)             | per entry, which cascades at most once in each wheel             |
| `next_expiration` | O(slots in use)       | once the earliest entry has left: reads slots in order, as long  |
|                   |                       | as a slot may have an earlier entry; else O(1)                   |

The source: G. Varghese and T. Lauck, "Hashed and Hierarchical Timing Wheels", 1987, scheme 7. The queue of slots, with
which a wheel needs no periodic tick, comes from Kafka's purgatory (`kafka.utils.timer`).

    >>> wheel = HierarchicalWheel(tick=1, slots=8)
    >>> second = 1_000_000_000
    >>> _ = wheel.insert(3 * second, "near"), wheel.insert(100 * second, "far")
    >>> wheel.levels
    3
    >>> [entry.payload for entry in wheel.advance(99 * second)]
    ['near']
    >>> wheel.stats()["cascades"]
    2
    >>> [entry.payload for entry in wheel.advance(100 * second)]
    ['far']
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from tickwheel.clock import to_deadline
from tickwheel.typing import Seconds
from tickwheel.wheels._slot import Slot
from tickwheel.wheels.card import Card, Geometry, Load, in_words, round_tick, suitable_tick
from tickwheel.wheels.entry import Entry
from tickwheel.wheels.heap import EntryHeap
from tickwheel.wheels.ticked import TickedWheel, checked_slots
from tickwheel.wheels.view import RingView

__all__ = ["HierarchicalWheel"]


class HierarchicalWheel(TickedWheel):
    """
    Hierarchical wheels of *slots* slots each (at least 2). A coarser wheel is added when a delay needs it.

    A slot of the finest wheel spans *tick* seconds. An entry expires up to one tick late. The wheel's time begins at
    *start*, in seconds.

    Raises:
        ValueError: If *tick* is zero, negative or not finite, or there are fewer than two slots.
    """

    def __init__(self, tick: Seconds = 0.001, slots: int = 64, start: Seconds = 0.0) -> None:
        self._wheels = Wheels(checked_slots(slots))
        super().__init__(tick, self._wheels)
        self.advance(to_deadline(start, "start"))

    @property
    def levels(self) -> int:
        """
        Return the current number of wheels.
        """
        return self._wheels.levels


class Wheels:
    turn: int | None = None

    def __init__(self, size: int) -> None:
        self.pointer = 0
        self.cascades = 0
        self._size = size
        self._queue = EntryHeap[Slot]()
        self._wheels: list[list[Slot]] = []
        self._grow()

    @property
    def levels(self) -> int:
        return len(self._wheels)

    def add(self, entry: Entry) -> None:
        # Counted in the unit of a wheel, its slots cover one turn, which begins with the pointer's slot.
        level, unit = 0, 1
        while entry.tick // unit - self.pointer // unit >= self._size:
            level, unit = level + 1, unit * self._size
            if level == len(self._wheels):
                self._grow()
        number = entry.tick // unit
        self._wheels[level][number % self._size].add(entry, number * unit)

    def step(self, reached: int) -> list[Entry]:
        due: list[Entry] = []
        while not due and (slot := self._queue.first()) is not None and slot.deadline <= reached:
            self.pointer = slot.deadline
            # Slots of several wheels may begin at this tick; all are needed to deliver in order.
            while (slot := self._queue.first()) is not None and slot.deadline == self.pointer:
                for entry in slot.take().values():
                    if entry.tick == self.pointer:
                        due.append(entry)
                    else:
                        self.add(entry)
                        self.cascades += 1
        if not due:
            self.pointer = reached
        return due

    def first(self) -> int | None:
        """
        Return the earliest tick. Slots are read in order, until no later slot can have an earlier tick.
        """
        earliest = None
        for slot in sorted(self._queue):
            if earliest is not None and slot.deadline >= earliest:
                break
            first = min(entry.tick for entry in slot)
            earliest = first if earliest is None else min(first, earliest)
        return earliest

    def places(self) -> list[Slot]:
        return [slot for wheel in self._wheels for slot in wheel]

    def views(self, tick_ns: int) -> list[RingView]:
        found, unit = [], 1
        for level, wheel in enumerate(self._wheels):
            counts = {index: len(slot) for index, slot in enumerate(wheel) if len(slot)}
            pointer = self.pointer // unit % self._size
            found.append(RingView(f"wheel {level}", self._size, unit * tick_ns, pointer, counts))
            unit *= self._size
        return found

    def where(self, entry: Entry) -> tuple[int, int]:
        assert isinstance(entry.place, Slot)
        return divmod(entry.place.id, self._size)

    def check(self) -> None:
        self._queue.check()
        assert {id(slot) for slot in self._queue} == {id(slot) for slot in self.places() if len(slot)}
        unit = 1
        for wheel in self._wheels:
            for index, slot in enumerate(wheel):
                for entry in slot:
                    assert slot.deadline == entry.tick // unit * unit
                    assert slot.deadline // unit % self._size == index
                    assert slot.deadline > self.pointer, "a slot that has begun was emptied"
                    assert entry.place is slot
            unit *= self._size

    def _grow(self) -> None:
        # Add the wheel into which the coarsest one overflows.
        first = len(self._wheels) * self._size
        self._wheels.append([Slot(first + index, self._queue) for index in range(self._size)])


def _advise(load: Load) -> Geometry:
    tick_us, because = suitable_tick(load)
    slots = 64
    levels = max(1, math.ceil(math.log(max(load.longest_us / tick_us, 2), slots)))
    reach = f"{levels} wheels of {slots} slots hold the longest delay, {in_words(load.longest_us)}"
    return Geometry({"tick": tick_us / 1e6, "slots": slots}, (because, reach))


def _shown(load: Load) -> Mapping[str, float]:
    return {"tick": round_tick(load.median_us / 120) / 1e6, "slots": 16}


CARD = Card(
    "hierarchical",
    HierarchicalWheel,
    "#e69f00",
    "the burst: a coarse slot cascades all at once",
    ("burst",),
    _advise,
    _shown,
    options=("tick", "slots"),
    compared={"tick": 0.001, "slots": 64},
    trials=({"tick": 1e-9, "slots": 64}, {"tick": 0.001, "slots": 20}, {"tick": 1e-7, "slots": 2}),
)
