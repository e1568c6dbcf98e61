from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tickwheel.wheels.entry import Entry

__all__ = ["Ring"]


class Ring:
    """
    A ring of *size* slots.

    A slot is a dict, keyed by the id of the entry. Like a linked list, it keeps the order of arrival and removes any
    entry in O(1). `occupied` has one bit per slot, so a search skips about thirty empty slots in each step.
    """

    __slots__ = ("_occupied", "_slots", "size")

    def __init__(self, size: int) -> None:
        self.size = size
        self._slots: list[dict[int, Entry]] = [{} for _ in range(size)]
        self._occupied = 0

    def add(self, entry: Entry, index: int) -> None:
        slot = self._slots[index]
        if not slot:
            self._occupied |= 1 << index
        slot[entry.id] = entry
        entry.place = self
        entry.index = index

    def discard(self, entry: Entry) -> None:
        slot = self._slots[entry.index]
        del slot[entry.id]
        if not slot:
            self._occupied ^= 1 << entry.index

    def slot(self, index: int) -> dict[int, Entry]:
        return self._slots[index]

    def counts(self) -> dict[int, int]:
        return {index: len(slot) for index, slot in enumerate(self._slots) if slot}

    def take(self, index: int) -> dict[int, Entry]:
        """
        Take all entries of the slot at *index* at once, because the caller may file some of them there again.
        """
        slot = self._slots[index]
        if slot:
            self._slots[index] = {}
            self._occupied ^= 1 << index
        return slot

    def occupied_after(self, index: int) -> Iterator[int]:
        """
        Yield the distance from *index* to each occupied slot, around the ring. The slot at *index* itself comes last.
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
        self._slots = [{} for _ in range(self.size)]
        self._occupied = 0

    def check(self) -> None:
        occupied = [index for index, slot in enumerate(self._slots) if slot]
        assert self._occupied == sum(1 << index for index in occupied)
        for index in occupied:
            assert all(entry.place is self and entry.index == index for entry in self._slots[index].values())

    def __iter__(self) -> Iterator[Entry]:
        for slot in filter(None, self._slots):
            yield from slot.values()

    def __len__(self) -> int:
        return sum(map(len, filter(None, self._slots)))
