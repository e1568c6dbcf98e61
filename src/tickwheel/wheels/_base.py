from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from tickwheel.typing import NonCopyable
from tickwheel.wheels.contract import Abilities, Expired, checked_deadline
from tickwheel.wheels.entry import Entry, by_order
from tickwheel.wheels.view import RingView

__all__ = ["BaseWheel"]


class BaseWheel(ABC, NonCopyable):
    """
    Base class of the designs in Python: ids, counters and validation. A subclass stores the entries.

    Each method changes the structure completely before it drops a payload, because the payload's finalizer may call the
    wheel.
    """

    abilities = Abilities()

    def __init__(self) -> None:
        self._entries: dict[int, Entry] = {}
        self._arrivals = 0
        self._counts = {"sets": 0, "moves": 0, "cancels": 0, "fires": 0, "cascades": 0}

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {len(self)} pending>"

    def insert(self, deadline: int, payload: Any) -> int:
        self._admit(checked_deadline(deadline))
        entry = Entry(self._arrival(), deadline, payload)
        self._entries[entry.id] = entry
        self._file(entry)
        self._counts["sets"] += 1
        return entry.id

    def cancel(self, id: int) -> bool:
        entry = self._entries.pop(id, None)
        if entry is None:
            return False
        self._unfile(entry)
        self._counts["cancels"] += 1
        return True

    def reschedule(self, id: int, deadline: int) -> bool:
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
        entry = self._entries.get(id)
        return None if entry is None else entry.deadline

    @abstractmethod
    def advance(self, now: int, limit: int | None = None) -> list[Expired]: ...

    @abstractmethod
    def next_expiration(self) -> int | None: ...

    def drain(self) -> list[Expired]:
        drained = [entry.expired() for entry in sorted(self._entries.values(), key=by_order)]
        self._clear()
        self._entries.clear()
        # The call of `len` comes first: it may re-enter this method.
        self._counts["cancels"] = len(drained) + self._counts["cancels"]
        return drained

    def stats(self) -> dict[str, Any]:
        return {"pending": len(self._entries), **self._counts}

    @abstractmethod
    def check(self) -> None: ...

    @abstractmethod
    def rings(self) -> list[RingView]:
        """
        Return a view of the structure. It costs O(n) or O(slots).
        """

    def where(self, id: int) -> tuple[int, int] | None:
        """
        Return the index of the entry's ring in `rings` and its slot in that ring, or None if the entry is not pending.
        """
        entry = self._entries.get(id)
        return None if entry is None else self._where(entry)

    def __len__(self) -> int:
        return len(self._entries)

    def _arrival(self) -> int:
        # Ids and arrivals come from one counter, so neither is ever used twice.
        self._arrivals += 1
        return self._arrivals

    def _expire(self, entry: Entry) -> Expired:
        # The caller has taken the entry out of its place.
        del self._entries[entry.id]
        self._counts["fires"] += 1
        return entry.expired()

    def _check_counts(self) -> None:
        # Each inserted entry has fired, was cancelled, or is still pending.
        counts = self._counts
        assert counts["sets"] == counts["fires"] + counts["cancels"] + len(self._entries), counts
        for key, entry in self._entries.items():
            assert entry.id == key
            assert entry.id <= entry.sequence <= self._arrivals

    def _admit(self, deadline: int) -> None: ...

    @abstractmethod
    def _file(self, entry: Entry) -> None: ...

    @abstractmethod
    def _where(self, entry: Entry) -> tuple[int, int] | None: ...

    def _unfile(self, entry: Entry) -> None:
        entry.place.discard(entry)

    @abstractmethod
    def _clear(self) -> None: ...
