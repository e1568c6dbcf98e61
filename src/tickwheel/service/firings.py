"""
The last firings of all nodes, with their lateness and outcomes. Each node keeps its own firings in memory.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, Protocol

from tickwheel.jobs.firing_record import FiringRecord
from tickwheel.scheduler import AsyncScheduler

__all__ = ["WORDS", "Firings", "Others", "Seen", "Source"]

WORDS: Final = {"retried": "failed"}
"""Public names of the outcomes whose internal name differs."""


class Source(Protocol):
    def recent(self, after: int = 0) -> Sequence[FiringRecord]: ...


class Others(Protocol):
    @property
    def nodes(self) -> Mapping[str, Source]: ...

    async def refresh(self) -> None: ...

    def touch(self) -> None: ...


class Firings:
    def __init__(self, scheduler: AsyncScheduler) -> None:
        self._scheduler = scheduler
        self.others: Others | None = None
        """The firings of the other nodes, or None until they are connected to this object."""

    async def refresh(self) -> None:
        if self.others is not None:
            await self.others.refresh()

    def touch(self) -> None:
        if self.others is not None:
            self.others.touch()

    def last(self, limit: int, key: str | None = None, prefix: str = "", *, is_own: bool = False) -> list[FiringRecord]:
        """
        Return the last *limit* firings of *key*, or, if *key* is None, of all keys that begin with *prefix*.

        Firings of all nodes are returned, in the order of their starts. With *is_own*, only firings of this process are
        returned, and running firings come last.
        """
        sources = self._sources(is_own=is_own)
        records = [record for _, source in sources for record in source.recent()]
        if len(sources) > 1:
            records.sort(key=_place)
        found = [each for each in records if each.key.startswith(prefix) and (key is None or each.key == key)]
        return found[-limit:]

    def news(self, seen: Seen, limit: int, prefix: str = "", *, is_own: bool = False) -> list[FiringRecord]:
        """
        Return the last *limit* firings that began, progressed or ended since the last call with *seen*.

        Only firings of keys that begin with *prefix* are returned and count against the limit.
        """
        sources = self._sources(is_own=is_own)
        news: list[FiringRecord] = []
        for name, source in sources:
            number, before = seen.places.get(name, (0, frozenset()))
            records = source.recent(number)
            running = frozenset(record for record in records if not record.number)
            news += [each for each in records if each.key.startswith(prefix) and (each.number or each not in before)]
            seen.places[name] = max([number, *(record.number for record in records)]), running  # 0: still running
        for gone in seen.places.keys() - {name for name, _ in sources}:
            del seen.places[gone]
        if len(sources) > 1:
            news.sort(key=_place)
        return news[-limit:]

    def _sources(self, *, is_own: bool) -> list[tuple[str, Source]]:
        others: Mapping[str, Source] = {} if is_own or self.others is None else self.others.nodes
        return [("", self._scheduler), *others.items()]


class Seen:
    """
    The firings that a page has shown: for each node, the running firings, and the number of the last finished firing.
    """

    def __init__(self) -> None:
        self.places: dict[str, tuple[int, frozenset[FiringRecord]]] = {}


def _place(record: FiringRecord) -> tuple[bool, float]:
    return not record.number, record.fired_at
