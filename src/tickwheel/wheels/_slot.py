"""
A slot that knows when it begins, and waits for that in a queue.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tickwheel.wheels.entry import Entry
from tickwheel.wheels.heap import EntryHeap

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Slot"]


class Slot(Entry):
    """
    A slot, which is itself an entry of the queue while it is occupied: its deadline is the tick that it begins at.
    """

    __slots__ = ("_entries", "_queue")

    def __init__(self, number: int, queue: EntryHeap[Slot]) -> None:
        super().__init__(number, 0, None)
        self._queue = queue
        self._entries: dict[int, Entry] = {}

    def add(self, entry: Entry, begins: int) -> None:
        """
        Put *entry* last into this slot, which begins at tick *begins*.
        """
        if not self._entries:
            self.deadline = begins
            self._queue.add(self)
        self._entries[entry.id] = entry
        entry.place = self

    def discard(self, entry: Entry) -> None:
        """
        Let *entry* go, and leave the queue with the last one.
        """
        del self._entries[entry.id]
        if not self._entries:
            self._queue.discard(self)

    def take(self) -> dict[int, Entry]:
        """
        Take all entries out: all, because some of them may be filed into this very slot again.
        """
        entries, self._entries = self._entries, {}
        self._queue.discard(self)
        return entries

    def clear(self) -> None:
        """
        Let everything go.
        """
        if self._entries:
            self.take()

    def __iter__(self) -> Iterator[Entry]:
        return iter(self._entries.values())

    def __len__(self) -> int:
        return len(self._entries)
