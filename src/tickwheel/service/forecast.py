"""
What falls due: how many jobs in each second of the next minute, minute of the next hour, and quarter of the next day.

Counting costs by what falls due, so the longer a strip is, the longer its last count is told again.
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
        fresh_s: How long its count is told.
    """

    name: str
    step_s: int
    cells: int
    fresh_s: float


STRIPS: Final = (Strip("minute", 1, 60, 0.5), Strip("hour", 60, 60, 2.0), Strip("day", 900, 96, 10.0))


class Forecast:
    """
    The strips, each counted anew when its last count is no longer fresh.
    """

    def __init__(self, scheduler: AsyncScheduler) -> None:
        """
        Count the jobs of *scheduler*.
        """
        self._scheduler = scheduler
        self._lock = asyncio.Lock()
        self._counted: dict[str, tuple[float, StripDocument]] = {}

    async def read(self) -> ForecastDocument:
        """
        Return all strips, and when the next job is due.
        """
        async with self._lock:
            strips = [await self._strip(strip) for strip in STRIPS]
        next_jobs = await self._scheduler.upcoming(limit=1)
        return ForecastDocument(instant(next_jobs[0].due_at) if next_jobs else None, strips)

    async def _strip(self, strip: Strip) -> StripDocument:
        counted_at, document = self._counted.get(strip.name, (-strip.fresh_s, None))
        if document is None or time.monotonic() - counted_at >= strip.fresh_s:
            since = int(time.time()) // strip.step_s * strip.step_s
            counts = await self._scheduler.forecast(since, strip.step_s, strip.cells)
            document = StripDocument(strip.name, instant(since * 1000), strip.step_s, list(counts))
            self._counted[strip.name] = time.monotonic(), document
        return document
