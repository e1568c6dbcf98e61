"""
The forecast: how many jobs are due in each second of the next minute, minute of the next hour, and so on.

Counting costs by what falls due, so the longer a strip is, the longer its last count is reported again.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import Final

from tickwheel.scheduler import AsyncScheduler
from tickwheel.service.documents import ForecastDocument, StripDocument, instant

__all__ = ["STRIPS", "Forecast", "Strip"]


@dataclass(frozen=True, slots=True)
class Strip:
    """
    One part of the future.

    Attributes:
        name: How it is called.
        step_s: How long each of its cells is.
        cells: How many it has.
        fresh_s: How long its count is reported.
    """

    name: str
    step_s: int
    cells: int
    fresh_s: float


_QUICK_S: Final = 0.05
"""A count that took no longer is worth waiting for."""
_SHARE: Final = 20
"""A count is reported for at least so many times as long as it took: counting never takes more than a twentieth."""
STRIPS: Final = (Strip("minute", 1, 60, 0.5), Strip("hour", 60, 60, 2.0), Strip("day", 900, 96, 10.0))


class Forecast:
    """
    The strips, each counted again when its last count is no longer fresh.
    """

    def __init__(self, scheduler: AsyncScheduler) -> None:
        self._scheduler = scheduler
        self._counts = [_Count(scheduler, strip) for strip in STRIPS]

    async def read(self) -> ForecastDocument:
        """
        Return all strips, and when the next job is due.
        """
        strips = await asyncio.gather(*(count.read() for count in self._counts))
        next_jobs = await self._scheduler.upcoming(limit=1)
        return ForecastDocument(instant(next_jobs[0].due_at) if next_jobs else None, strips)


class _Count:
    """
    The last count of one strip. A slow one is reported while it is counted again, for as long as that should take.
    """

    def __init__(self, scheduler: AsyncScheduler, strip: Strip) -> None:
        self._scheduler = scheduler
        self._strip = strip
        self._stale_at = 0.0
        self._took_s = 0.0
        self._document: StripDocument | None = None
        self._counting: asyncio.Task[StripDocument] | None = None

    async def read(self) -> StripDocument:
        """
        Return the count, not much older than the strip allows.
        """
        if self._counting is None and (self._document is None or time.monotonic() >= self._stale_at):
            self._counting = asyncio.create_task(self._count())
            self._counting.add_done_callback(self._counted)
        counting = self._counting
        if self._document is not None:
            # A slow count is reported for as long again as it took; after a quiet time its first reader waits.
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
