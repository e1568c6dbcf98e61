from __future__ import annotations

from bisect import bisect_left, insort
from collections import deque
from typing import TYPE_CHECKING

from tickwheel.wheels.entry import by_order

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tickwheel.wheels.entry import Entry

__all__ = ["DueRun"]


class DueRun:
    """
    Entries that are due but not yet delivered, sorted by deadline, then by arrival.
    """

    __slots__ = ("_entries",)

    def __init__(self) -> None:
        self._entries: deque[Entry] = deque()

    def extend(self, slot: Iterable[Entry]) -> None:
        entries = sorted(slot, key=by_order)
        for entry in entries:
            entry.place = self
        self._entries.extend(entries)

    def add(self, entry: Entry) -> None:
        entry.place = self
        insort(self._entries, entry, key=by_order)

    def discard(self, entry: Entry) -> None:
        del self._entries[bisect_left(self._entries, by_order(entry), key=by_order)]

    def first(self) -> Entry | None:
        return self._entries[0] if self._entries else None

    def take_until(self, deadline: int, limit: int | None) -> Iterator[Entry]:
        entries = self._entries
        while entries and limit != 0 and entries[0].deadline <= deadline:
            yield entries.popleft()
            limit = None if limit is None else limit - 1

    def clear(self) -> None:
        self._entries.clear()

    def check(self) -> None:
        assert all(entry.place is self for entry in self._entries)
        assert list(self._entries) == sorted(self._entries, key=by_order)

    def __iter__(self) -> Iterator[Entry]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)
