"""
One ring of slots, which knows which of them are occupied.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tickwheel.wheels.entry import Entry

__all__ = ["Ring"]


class Ring:
    """
    *size* slots in a circle.

    A slot is a dict by id: as a linked list it keeps the order of arrival and lets any entry go in O(1).
    `occupied` has a bit for each slot that holds something, so that a search jumps over the empty ones: all of them are
    in one integer, which Python shifts some thirty slots a step.
    """

    __slots__ = ("_occupied", "_slots", "size")

    def __init__(self, size: int) -> None:
        self.size = size
        self._slots: list[dict[int, Entry]] = [{} for _ in range(size)]
        self._occupied = 0

    def add(self, entry: Entry, index: int) -> None:
        """
        Put *entry* last into the slot at *index*.
        """
        slot = self._slots[index]
        if not slot:
            self._occupied |= 1 << index
        slot[entry.id] = entry
        entry.place = self
        entry.index = index

    def discard(self, entry: Entry) -> None:
        """
        Let *entry* go.
        """
        slot = self._slots[entry.index]
        del slot[entry.id]
        if not slot:
            self._occupied ^= 1 << entry.index

    def slot(self, index: int) -> dict[int, Entry]:
        """
        Return the slot at *index*, to look at.
        """
        return self._slots[index]

    def counts(self) -> dict[int, int]:
        """
        Return how many entries each occupied slot holds.
        """
        return {index: len(slot) for index, slot in enumerate(self._slots) if slot}

    def take(self, index: int) -> dict[int, Entry]:
        """
        Take the whole slot at *index* out and leave an empty one.

        Whole, because entries that are filed again while it is being emptied may land in it.
        """
        slot = self._slots[index]
        if slot:
            self._slots[index] = {}
            self._occupied ^= 1 << index
        return slot

    def occupied_after(self, index: int) -> Iterator[int]:
        """
        Walk once around, from behind *index* to *index* itself, and yield the distance to each occupied slot.
        """
        ahead = self._occupied >> index + 1
        behind = self._occupied & (1 << index + 1) - 1
        turned = ahead | behind << self.size - index - 1
        distance = 0
        while turned:
            empty = (turned & -turned).bit_length()
            distance += empty
            turned >>= empty
            yield distance

    def clear(self) -> None:
        """
        Let everything go.
        """
        self._slots = [{} for _ in range(self.size)]
        self._occupied = 0

    def check(self) -> None:
        """
        Verify the bits, and that each entry knows its slot.
        """
        occupied = [index for index, slot in enumerate(self._slots) if slot]
        assert self._occupied == sum(1 << index for index in occupied)
        for index in occupied:
            assert all(entry.place is self and entry.index == index for entry in self._slots[index].values())

    def __iter__(self) -> Iterator[Entry]:
        for slot in filter(None, self._slots):
            yield from slot.values()

    def __len__(self) -> int:
        return sum(map(len, filter(None, self._slots)))
