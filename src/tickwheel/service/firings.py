"""
The last firings: how late each was, and what became of it, as the scheduler remembers it.
"""

from __future__ import annotations

from typing import Final

from tickwheel.jobs.firing_record import FiringRecord
from tickwheel.scheduler import AsyncScheduler

__all__ = ["WORDS", "Firings", "Seen"]

WORDS: Final = {"retried": "failed"}
"""The public names of outcomes that have another name inside."""


class Firings:
    """
    The last firings of this process.
    """

    def __init__(self, scheduler: AsyncScheduler) -> None:
        self._scheduler = scheduler

    def last(self, limit: int, key: str | None = None, prefix: str = "") -> list[FiringRecord]:
        """
        Return the last *limit* firings, of *key* where it is given, else of those that begin with *prefix*.

        They come by their ends, and those that run at the end.
        """
        records = self._scheduler.recent()
        found = [each for each in records if each.key.startswith(prefix) and (key is None or each.key == key)]
        return found[-limit:]

    def news(self, seen: Seen, limit: int, prefix: str = "") -> list[FiringRecord]:
        """
        Return the last *limit* firings that began, came further or ended since *seen* was asked for the last time.

        Of those whose keys begin with *prefix*: others do not count against the limit.
        """
        records = self._scheduler.recent(seen.number)
        running = {record for record in records if not record.number}
        news = [each for each in records if each.key.startswith(prefix) and (each.number or each not in seen.running)]
        seen.number = max([seen.number, *(record.number for record in records)])  # what runs has 0
        seen.running = running
        return news[-limit:]


class Seen:
    """
    The firings that one page has been sent.
    """

    def __init__(self) -> None:
        self.number = 0
        self.running: set[FiringRecord] = set()
