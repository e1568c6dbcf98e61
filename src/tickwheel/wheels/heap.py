"""
A binary heap whose entries know their positions.

asyncio, Go and `java.util.concurrent.DelayQueue` use binary heaps. Tests compare the other designs with this one.

    position        0   1   2   3   4   5   6   7 ...
    parent          -   0   0   1   1   2   2   3 ...
    left child      1   3   5   7   9  11  13  15 ...      (the right child comes after it)

| operation         | cost     | why                                                                     |
|-------------------|----------|-------------------------------------------------------------------------|
| `insert`          | O(log n) | the entry climbs; O(1) on average, as most new entries are due last     |
| `cancel`          | O(log n) | the last entry fills the gap, and climbs or sinks                       |
| `reschedule`      | O(log n) | a cancel and an insert                                                  |
| `next_expiration` | O(1)     | the root                                                                |
| `advance`         | O(log n) | for each entry that expires; O(1) if none is due                        |

A heap without positions cannot find an entry, so a cancelled entry stays in the heap as a tombstone until the entry
reaches the top (asyncio, `sched`, rloop). A server that sets and cancels a timeout of 60 s per request then holds one
tombstone for each request of the last 60 s. With positions, a cancel frees the entry at once.

The idea: J. W. J. Williams, "Algorithm 232: Heapsort", 1964, with the positions of Sedgewick's `IndexMinPQ`.

    >>> wheel = HeapWheel()
    >>> tea = wheel.insert(240, "tea")
    >>> eggs = wheel.insert(360, "eggs")
    >>> wheel.reschedule(eggs, 180)
    True
    >>> wheel.next_expiration()
    180
    >>> [entry.payload for entry in wheel.advance(240)]
    ['eggs', 'tea']
    >>> wheel.cancel(tea)
    False
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

from tickwheel.wheels._base import BaseWheel
from tickwheel.wheels.card import Card, Geometry, Load
from tickwheel.wheels.contract import NEVER, Expired, checked_deadline, checked_limit
from tickwheel.wheels.entry import Entry
from tickwheel.wheels.view import RingView

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["EntryHeap", "HeapWheel"]

EntryT = TypeVar("EntryT", bound=Entry)


class EntryHeap(Generic[EntryT]):
    """
    Entries in heap order, each with its position in `index`.
    """

    __slots__ = ("_entries",)

    def __init__(self) -> None:
        self._entries: list[EntryT] = []

    def __repr__(self) -> str:
        return f"<EntryHeap of {len(self._entries)} entries>"

    def add(self, entry: EntryT) -> None:
        """
        Add *entry*. Costs O(log n).
        """
        entry.place = self
        self._entries.append(entry)
        self._climb(entry, len(self._entries) - 1)

    def discard(self, entry: Entry) -> None:
        """
        Remove *entry*.
        """
        last = self._entries.pop()
        if last is entry:
            return
        position = entry.index
        if last < entry:
            self._climb(last, position)
        else:
            self._sink(last, position)

    def first(self) -> EntryT | None:
        """
        Return the earliest entry without removing it.
        """
        return self._entries[0] if self._entries else None

    def clear(self) -> None:
        """
        Remove all entries.
        """
        self._entries.clear()

    def check(self) -> None:
        for position, entry in enumerate(self._entries):
            assert entry.index == position
            assert position == 0 or self._entries[(position - 1) // 2] < entry

    def __iter__(self) -> Iterator[EntryT]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def _climb(self, entry: EntryT, position: int) -> None:
        # Later parents move down into the hole.
        entries = self._entries
        while position > 0:
            above = (position - 1) // 2
            parent = entries[above]
            if not entry < parent:
                break
            entries[position] = parent
            parent.index = position
            position = above
        entries[position] = entry
        entry.index = position

    def _sink(self, entry: EntryT, position: int) -> None:
        # The earlier child moves up into the hole while it is earlier than *entry*.
        entries = self._entries
        size = len(entries)
        while (below := 2 * position + 1) < size:
            if below + 1 < size and entries[below + 1] < entries[below]:
                below += 1
            child = entries[below]
            if not child < entry:
                break
            entries[position] = child
            child.index = position
            position = below
        entries[position] = entry
        entry.index = position


class HeapWheel(BaseWheel):
    """
    A priority queue with the protocol of a wheel: exact deadlines, any span.
    """

    def __init__(self) -> None:
        super().__init__()
        self._heap = EntryHeap[Entry]()

    def advance(self, now: int, limit: int | None = None) -> list[Expired]:
        reached = min(checked_deadline(now, "now"), NEVER - 1)  # NEVER is not due even at the end of time
        limit = checked_limit(limit)
        expired: list[Expired] = []
        while len(expired) != limit and (first := self._heap.first()) and first.deadline <= reached:
            self._heap.discard(first)
            expired.append(self._expire(first))
        return expired

    def next_expiration(self) -> int | None:
        first = self._heap.first()
        return None if first is None or first.deadline == NEVER else first.deadline

    def rings(self) -> list[RingView]:
        """
        Return the levels of the tree, from the root. Each entry is a slot.
        """
        views: list[RingView] = []
        left, width = len(self), 1
        while left > 0:
            views.append(RingView(f"depth {len(views)}", width, 0, None, dict.fromkeys(range(min(width, left)), 1)))
            left, width = left - width, 2 * width
        return views

    def check(self) -> None:
        self._check_counts()
        self._heap.check()
        assert len(self._heap) == len(self)
        assert all(self._entries[entry.id] is entry for entry in self._heap)

    def _file(self, entry: Entry) -> None:
        self._heap.add(entry)

    def _where(self, entry: Entry) -> tuple[int, int]:
        depth = (entry.index + 1).bit_length() - 1
        return depth, entry.index + 1 - (1 << depth)

    def _clear(self) -> None:
        self._heap.clear()


def _advise(load: Load) -> Geometry:
    steps = max(load.peak_pending, 2).bit_length() - 1
    return Geometry({}, (f"nothing to choose; up to {steps} steps to an operation at the peak",))


CARD = Card(
    "heap",
    HeapWheel,
    "#d55e00",
    "the logarithm: every set, move and cancel climbs the tree",
    ("operation", "fire"),
    _advise,
)
