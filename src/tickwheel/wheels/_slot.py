from __future__ import annotations

from typing import TYPE_CHECKING

from tickwheel.wheels.entry import Entry
from tickwheel.wheels.heap import EntryHeap

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Slot"]


class Slot(Entry):
    """
    A slot. While it holds entries, it is itself an entry of the queue of slots, with its first tick as the deadline.
    """

    __slots__ = ("_entries", "_queue")

    def __init__(self, number: int, queue: EntryHeap[Slot]) -> None:
        super().__init__(number, 0, None)
        self._queue = queue
        self._entries: dict[int, Entry] = {}

    def add(self, entry: Entry, begins: int) -> None:
        if not self._entries:
            self.deadline = begins
            self._queue.add(self)
        self._entries[entry.id] = entry
        entry.place = self

    def discard(self, entry: Entry) -> None:
        del self._entries[entry.id]
        if not self._entries:
            self._queue.discard(self)

    def take(self) -> dict[int, Entry]:
        """
        Remove and return all entries at once, because the caller may file some of them into this slot again.
        """
        entries, self._entries = self._entries, {}
        self._queue.discard(self)
        return entries

    def clear(self) -> None:
        if self._entries:
            self.take()

    def __iter__(self) -> Iterator[Entry]:
        return iter(self._entries.values())

    def __len__(self) -> int:
        return len(self._entries)
