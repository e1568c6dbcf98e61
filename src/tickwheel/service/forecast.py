"""
The forecast: the numbers of jobs due in equal steps of the future. Counts of longer ranges are cached for longer times.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import Final

from tickwheel.scheduler import AsyncScheduler
from tickwheel.service.documents import ForecastDocument, StripDocument, instant

__all__ = ["BUCKETS", "Forecast", "ForecastBucket"]


@dataclass(frozen=True, slots=True)
class ForecastBucket:
    """
    A range of the future. *cells* is its number of steps, each of *step_s* seconds.

    The numbers of jobs in the steps are reused for at least *fresh_s* seconds.
    """

    name: str
    step_s: int
    cells: int
    fresh_s: float


_QUICK_S: Final = 0.05
"""If a count takes longer than this many seconds, requests get the previous result while a new count runs."""
_SHARE: Final = 20
"""The result of a count is reused for at least this many times as long as the count took."""
BUCKETS: Final = (
    ForecastBucket("minute", 1, 60, 0.5),
    ForecastBucket("hour", 60, 60, 2.0),
    ForecastBucket("day", 900, 96, 10.0),
)


class Forecast:
    def __init__(self, scheduler: AsyncScheduler) -> None:
        self._scheduler = scheduler
        self._counts = [_Count(scheduler, strip) for strip in BUCKETS]

    async def read(self) -> ForecastDocument:
        strips = await asyncio.gather(*(count.read() for count in self._counts))
        next_jobs = await self._scheduler.upcoming(limit=1)
        return ForecastDocument(instant(next_jobs[0].due_at) if next_jobs else None, strips)


class _Count:
    def __init__(self, scheduler: AsyncScheduler, strip: ForecastBucket) -> None:
        self._scheduler = scheduler
        self._strip = strip
        self._stale_at = 0.0
        self._took_s = 0.0
        self._document: StripDocument | None = None
        self._counting: asyncio.Task[StripDocument] | None = None

    async def read(self) -> StripDocument:
        if self._counting is None and (self._document is None or time.monotonic() >= self._stale_at):
            self._counting = asyncio.create_task(self._count())
            self._counting.add_done_callback(self._counted)
        counting = self._counting
        if self._document is not None:
            # After a slow count, its result is reused for as long as the count took. Later requests wait for a new
            # count.
            is_recent = self._took_s > _QUICK_S and time.monotonic() < self._stale_at + self._took_s
            if counting is None or is_recent:
                return self._document
        assert counting is not None
        return await asyncio.shield(counting)

    async def _count(self) -> StripDocument:
        strip = self._strip
        begun = time.monotonic()
        since = int(time.time()) // strip.step_s * strip.step_s
        counts = await self._scheduler.forecast(since, strip.step_s, strip.cells)
        self._took_s = took_s = time.monotonic() - begun
        self._stale_at = begun + took_s + max(strip.fresh_s, _SHARE * took_s)
        return StripDocument(strip.name, instant(since * 1000), strip.step_s, list(counts))

    def _counted(self, task: asyncio.Task[StripDocument]) -> None:
        self._counting = None
        if not task.cancelled():
            self._document = task.result() if task.exception() is None else None  # the next caller gets the error
