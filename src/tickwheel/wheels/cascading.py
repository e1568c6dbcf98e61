"""
256 near slots and four rings of 64: the wheel of skynet and of older Linux kernels.

The number of the current tick is a counter of 32 bits. Each ring uses some of these bits as the index of its slot:

    ring     slots    bits of the counter    one slot spans    one turn spans (with ticks of 10 ms)
    near     256      0 to 7                 1 tick            2.56 s
    far 0    64       8 to 13                2^8 ticks         2 min 44 s
    far 1    64       14 to 19               2^14 ticks        2 h 55 min
    far 2    64       20 to 25               2^20 ticks        7 days 18 h
    far 3    64       26 to 31               2^26 ticks        497 days; then the counter wraps
    later    a heap   none                   -                 entries that are due after the wrap

An entry is in the finest ring whose current turn includes the entry's tick: above the bits of that ring, the tick and
the counter are equal. At the end of a ring's turn, the next slot of the coarser ring cascades: its entries are filed
again, each in a finer ring.

| operation         | cost          | why                                                                         |
|-------------------|---------------|-----------------------------------------------------------------------------|
| `insert`          | O(1)          | at most five comparisons; O(log n) if the entry waits in the heap           |
| `cancel`, move    | O(1)          | any entry can be removed from its slot                                      |
| `advance`         | O(1)          | per entry, which cascades at most four times                                |
| `next_expiration` | O(1)          | one search of at most 256 bits. If the near ring is empty, one far slot is  |
|                   |               | read, and the result is remembered until the earliest entry leaves          |

The originals move tick by tick, even when idle (`execute, shift, execute`, four hundred times a second). Here the
counter jumps to the next occupied slot of any ring. The originals also mistake an entry that is due in nearly 2^32
ticks for an entry of the current turn, and fire it at once. Here, entries that are due after the counter has wrapped
wait in a heap, and are filed when their turn begins. So any delay fits, and the counter may wrap any number of times.

The source: the `timer_list` wheel of Linux up to 4.7, and `skynet_timer.c` of Cloud Wu's skynet.

    >>> wheel = CascadingWheel(tick=0.01)
    >>> second = 1_000_000_000
    >>> for name, delay in {"near": 1, "far": 60, "farther": 86_400}.items():
    ...     _ = wheel.insert(delay * second, name)
    >>> [entry.payload for entry in wheel.advance(60 * second)]
    ['near', 'far']
    >>> wheel.stats()["cascades"]
    1
    >>> wheel.next_expiration() // second
    86400
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from tickwheel.typing import Seconds
from tickwheel.wheels._ring import Ring
from tickwheel.wheels.card import Card, Geometry, Load, in_words, round_tick, suitable_tick
from tickwheel.wheels.entry import Entry
from tickwheel.wheels.heap import EntryHeap
from tickwheel.wheels.ticked import TickedWheel
from tickwheel.wheels.view import RingView

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tickwheel.wheels.entry import Place

__all__ = ["CascadingWheel"]

BITS: Final = (8, 6, 6, 6, 6)
"""For each ring, the number of bits of the counter that index the ring's slots."""
SHIFTS: Final = (0, 8, 14, 20, 26)
"""For each ring, the number of bits of the counter below the ring's bits."""
LATER: Final = len(SHIFTS)
"""Level number of the entries that are due after the counter has wrapped."""
COUNTER_BITS: Final = 32


class CascadingWheel(TickedWheel):
    """
    Five rings of fixed size. A slot of the finest ring spans *tick* seconds. An entry expires up to one tick late.
    """

    def __init__(self, tick: Seconds = 0.01) -> None:
        super().__init__(tick, FiveRings())


class FiveRings:
    turn: int | None = None

    def __init__(self) -> None:
        self.pointer = 0
        self.cascades = 0
        self._rings = tuple(Ring(1 << bits) for bits in BITS)
        self._later = EntryHeap[Entry]()

    def add(self, entry: Entry) -> None:
        level = _level_for(entry.tick, self.pointer)
        if level == LATER:
            self._later.add(entry)
        else:
            self._rings[level].add(entry, _index_for(entry.tick, level))

    def step(self, reached: int) -> list[Entry]:
        while True:
            level, begins = self._first_slot()
            if begins is None or begins > reached:
                self.pointer = reached
                return []
            self.pointer = begins
            due = [entry for entry in self._take(level) if not self._cascades(entry)]
            if due:
                return due

    def first(self) -> int | None:
        """
        Return the earliest tick. It is in the finest ring that has entries, because coarser rings hold later ticks.
        """
        level, begins = self._first_slot()
        if begins is None:
            return None
        if level < LATER:
            return min(entry.tick for entry in self._rings[level].slot(_index_for(begins, level)).values())
        first = self._later.first()
        return None if first is None else first.tick

    def places(self) -> tuple[Place, ...]:
        return (*self._rings, self._later)

    def views(self, tick_ns: int) -> list[RingView]:
        views = []
        for level, ring in enumerate(self._rings):
            name = f"far {level - 1}" if level else "near"
            pointer = _index_for(self.pointer, level)
            views.append(RingView(name, ring.size, tick_ns << SHIFTS[level], pointer, ring.counts()))
        later = {0: len(self._later)} if self._later else {}
        return [*views, RingView("later", 1, tick_ns << COUNTER_BITS, None, later)]

    def where(self, entry: Entry) -> tuple[int, int]:
        """
        Return the ring and the slot of *entry*. The heap, level `LATER`, counts as the last ring and has one slot.
        """
        return (LATER, 0) if entry.place is self._later else (_level_for(entry.tick, self.pointer), entry.index)

    def check(self) -> None:
        self._later.check()
        assert all(_level_for(entry.tick, self.pointer) == LATER for entry in self._later)
        for level, ring in enumerate(self._rings):
            ring.check()
            for entry in ring:
                assert _level_for(entry.tick, self.pointer) == level
                assert _index_for(entry.tick, level) == entry.index
        begins = [tick for _, tick in self._occupied()]
        assert begins == sorted(set(begins)), "slots come in the order of time"

    def _take(self, level: int) -> list[Entry]:
        # Take all slots that begin now at once, so that no entry that is filed again passes the same slot twice.
        if level < LATER:
            return list(self._rings[level].take(_index_for(self.pointer, level)).values())
        turn = []
        while (first := self._later.first()) and _level_for(first.tick, self.pointer) < LATER:
            self._later.discard(first)
            turn.append(first)
        return turn

    def _cascades(self, entry: Entry) -> bool:
        # Entries that are due now are not filed again; the others go into a finer ring.
        if entry.tick == self.pointer:
            return False
        self.add(entry)
        self.cascades += 1
        return True

    def _first_slot(self) -> tuple[int, int | None]:
        # Every tick of a finer ring is before every tick of a coarser ring, so the first occupied slot is the earliest.
        for level, begins in self._occupied():
            return level, begins
        first = self._later.first()
        return LATER, None if first is None else first.tick >> COUNTER_BITS << COUNTER_BITS

    def _occupied(self) -> Iterator[tuple[int, int]]:
        # Yields the level and the first tick of each occupied slot.
        for level, (ring, shift) in enumerate(zip(self._rings, SHIFTS, strict=True)):
            for distance in ring.occupied_after(_index_for(self.pointer, level)):
                yield level, ((self.pointer >> shift) + distance) << shift


def _level_for(tick: int, pointer: int) -> int:
    """
    Return the finest ring for which *tick* and *pointer* agree in all bits above the ring's bits, or else LATER.
    """
    differing = (tick ^ pointer).bit_length()
    for level, (shift, bits) in enumerate(zip(SHIFTS, BITS, strict=True)):
        if differing <= shift + bits:
            return level
    return LATER


def _index_for(tick: int, level: int) -> int:
    return tick >> SHIFTS[level] & (1 << BITS[level]) - 1


def _advise(load: Load) -> Geometry:
    tick_us, because = suitable_tick(load)
    reach = f"its counter wraps after {in_words(tick_us * 2**COUNTER_BITS)}, later delays wait in a heap"
    return Geometry({"tick": tick_us / 1e6}, (because, reach))


def _shown(load: Load) -> Mapping[str, float]:
    return {"tick": round_tick(load.median_us / 600) / 1e6}


CARD = Card(
    "cascading",
    CascadingWheel,
    "#56b4e9",
    "the tick, when it is driven as its originals are; and the burst",
    ("ticks", "burst"),
    _advise,
    _shown,
    options=("tick",),
    compared={"tick": 0.001},
    trials=({"tick": 1e-9}, {"tick": 0.01}),
    is_ticked=True,
)
