"""
The last firings, their lateness and outcomes, as the schedulers of all nodes remember them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, Protocol

from tickwheel.jobs.firing_record import FiringRecord
from tickwheel.scheduler import AsyncScheduler

__all__ = ["WORDS", "Firings", "Others", "Seen", "Source"]

WORDS: Final = {"retried": "failed"}
"""The public names of outcomes that have another name inside."""


class Source(Protocol):
    """
    One node's memory of firings.
    """

    def recent(self, after: int = 0) -> Sequence[FiringRecord]:
        """
        Return the firings that ended after number *after*, in order, and the running ones.
        """


class Others(Protocol):
    """
    The other nodes.
    """

    @property
    def nodes(self) -> Mapping[str, Source]:
        """
        The known memory of each node, by a name of its life.
        """

    async def refresh(self) -> None:
        """
        Poll them, unless that was a moment ago.
        """

    def touch(self) -> None:
        """
        Start polling them, without waiting for them.
        """


class Firings:
    """
    The last firings of this process, and of the other nodes as far as known.
    """

    def __init__(self, scheduler: AsyncScheduler) -> None:
        self._scheduler = scheduler
        self.others: Others | None = None
        """The other nodes, which are polled, too, once they are known."""

    async def refresh(self) -> None:
        if self.others is not None:
            await self.others.refresh()

    def touch(self) -> None:
        if self.others is not None:
            self.others.touch()

    def last(self, limit: int, key: str | None = None, prefix: str = "", *, is_own: bool = False) -> list[FiringRecord]:
        """
        Return the last *limit* firings, of *key* if given, else of keys that begin with *prefix*.

        They are ordered by end, running ones last; those of several nodes by start. With *is_own*, only this process's.
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

        Only firings of keys that begin with *prefix* are returned, and only these count against the limit.
        """
        sources = self._sources(is_own=is_own)
        news: list[FiringRecord] = []
        for name, source in sources:
            number, before = seen.places.get(name, (0, frozenset()))
            records = source.recent(number)
            running = frozenset(record for record in records if not record.number)
            news += [each for each in records if each.key.startswith(prefix) and (each.number or each not in before)]
            seen.places[name] = max([number, *(record.number for record in records)]), running  # what runs has 0
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
    The firings that one page has got: per node, the number of the last end, and the firings running then.
    """

    def __init__(self) -> None:
        self.places: dict[str, tuple[int, frozenset[FiringRecord]]] = {}


def _place(record: FiringRecord) -> tuple[bool, float]:
    return not record.number, record.fired_at
