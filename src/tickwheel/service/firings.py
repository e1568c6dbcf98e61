"""
The last firings: how late each was, and what became of it, as the scheduler remembers it.
"""

from __future__ import annotations

from typing import Final

from tickwheel.scheduler import AsyncScheduler
from tickwheel.scheduler.engine.recent import FiringRecord

__all__ = ["WORDS", "Firings", "Seen"]

WORDS: Final = {"retried": "failed"}
"""The public names of outcomes that have another name inside."""


class Firings:
    """
    The last firings of this process.
    """

    def __init__(self, scheduler: AsyncScheduler) -> None:
        """
        Ask *scheduler*.
        """
        self._scheduler = scheduler

    def last(self, limit: int, key: str | None = None) -> list[FiringRecord]:
        """
        Return the last *limit* firings, of *key* where it is given: by their ends, and those that run at the end.
        """
        found = [record for record in self._scheduler.recent() if key is None or record.key == key]
        return found[-limit:]

    def news(self, seen: Seen, limit: int) -> list[FiringRecord]:
        """
        Return the last *limit* firings that began, came further or ended since *seen* was asked for the last time.
        """
        records = self._scheduler.recent(seen.number)
        running = {record for record in records if not record.number}
        news = [record for record in records if record.number or record not in seen.running]
        seen.number = max((record.number for record in records), default=seen.number)
        seen.running = running
        return news[-limit:]


class Seen:
    """
    The firings that one page has been sent.
    """

    def __init__(self) -> None:
        self.number = 0
        self.running: set[FiringRecord] = set()
