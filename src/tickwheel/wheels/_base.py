"""
The base of every design in Python: ids, counts, and the refusal of what is not a deadline.

A design adds where an entry is filed, and how time takes it out.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from tickwheel.typing import Unique
from tickwheel.wheels.contract import Abilities, Expired, checked_deadline
from tickwheel.wheels.entry import Entry, by_order
from tickwheel.wheels.view import RingView

__all__ = ["BaseWheel"]


class BaseWheel(ABC, Unique):
    """
    A wheel without its filing.

    Every method finishes with the structure before it lets a payload go: a payload's finaliser may call the wheel.
    """

    abilities = Abilities()

    def __init__(self) -> None:
        self._entries: dict[int, Entry] = {}
        self._arrivals = 0
        self._counts = {"sets": 0, "moves": 0, "cancels": 0, "fires": 0, "cascades": 0}

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {len(self)} pending>"

    def insert(self, deadline: int, payload: Any) -> int:
        """
        File *payload* under *deadline* and return its id.
        """
        self._admit(checked_deadline(deadline))
        entry = Entry(self._arrival(), deadline, payload)
        self._entries[entry.id] = entry
        self._file(entry)
        self._counts["sets"] += 1
        return entry.id

    def cancel(self, id: int) -> bool:
        """
        Take the entry out; return whether it was pending.
        """
        entry = self._entries.pop(id, None)
        if entry is None:
            return False
        self._unfile(entry)
        self._counts["cancels"] += 1
        return True

    def reschedule(self, id: int, deadline: int) -> bool:
        """
        Move the entry to *deadline*; return whether it was pending.
        """
        checked_deadline(deadline)
        entry = self._entries.get(id)
        if entry is None:
            return False
        self._admit(deadline)
        self._unfile(entry)
        entry.deadline = deadline
        entry.sequence = self._arrival()
        self._file(entry)
        self._counts["moves"] += 1
        return True

    def deadline(self, id: int) -> int | None:
        """
        Return the deadline of a pending entry, or None.
        """
        entry = self._entries.get(id)
        return None if entry is None else entry.deadline

    @abstractmethod
    def advance(self, now: int, limit: int | None = None) -> list[Expired]:
        """
        Take out what is due at *now*, in order, at most *limit* of it.
        """

    @abstractmethod
    def next_expiration(self) -> int | None:
        """
        Return the earliest time at which `advance` will return something, or None.
        """

    def drain(self) -> list[Expired]:
        """
        Take out everything, by deadline then first set.
        """
        drained = [entry.expired() for entry in sorted(self._entries.values(), key=by_order)]
        self._clear()
        self._entries.clear()
        self._counts["cancels"] = len(drained) + self._counts["cancels"]  # the call first: it may come back in
        return drained

    def stats(self) -> dict[str, Any]:
        """
        Return the counts; O(1).
        """
        return {"pending": len(self._entries), **self._counts}

    @abstractmethod
    def check(self) -> None:
        """
        Walk everything and raise AssertionError where an invariant is broken.
        """

    @abstractmethod
    def rings(self) -> list[RingView]:
        """
        Return a view of the structure; O(n) or O(slots).
        """

    def where(self, id: int) -> tuple[int, int] | None:
        """
        Return the number of the ring among `rings`, and the slot in it, that hold an entry, or None.
        """
        entry = self._entries.get(id)
        return None if entry is None else self._where(entry)

    def __len__(self) -> int:
        return len(self._entries)

    def _arrival(self) -> int:
        # Ids are arrivals too: an id is the arrival of its insert, so neither is ever handed out twice.
        self._arrivals += 1
        return self._arrivals

    def _expire(self, entry: Entry) -> Expired:
        # The entry has left its place.
        del self._entries[entry.id]
        self._counts["fires"] += 1
        return entry.expired()

    def _check_counts(self) -> None:
        # What came in has left by one of the two ways, or is here.
        counts = self._counts
        assert counts["sets"] == counts["fires"] + counts["cancels"] + len(self._entries), counts
        for key, entry in self._entries.items():
            assert entry.id == key
            assert entry.id <= entry.sequence <= self._arrivals

    def _admit(self, deadline: int) -> None:
        """
        Refuse a deadline that the design cannot hold, before anything is changed.
        """

    @abstractmethod
    def _file(self, entry: Entry) -> None:
        """
        Put *entry* in its place, and note in it where that is.
        """

    @abstractmethod
    def _where(self, entry: Entry) -> tuple[int, int] | None:
        """
        Return the ring and the slot of a pending *entry*.
        """

    def _unfile(self, entry: Entry) -> None:
        """
        Take *entry* out of its place.
        """
        entry.place.discard(entry)

    @abstractmethod
    def _clear(self) -> None:
        """
        Empty every place.
        """
