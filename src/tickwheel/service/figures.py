"""
The figures: stats, the recent firings, health.
"""

from __future__ import annotations

import asyncio
import time
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from tickwheel.scheduler import AsyncScheduler
from tickwheel.service.documents import FiringsDocument, firing_document
from tickwheel.service.firings import Firings
from tickwheel.service.forecast import Forecast
from tickwheel.service.http import Call, Reply
from tickwheel.service.intake import query, to_count
from tickwheel.service.problems import ProblemError
from tickwheel.service.replies import document_reply

__all__ = ["FIRING_FIELDS", "Figures", "buckets"]

_FIRINGS_MAX: Final = 500
FIRING_FIELDS: Final[dict[str, Any]] = {
    "key": {"type": "string", "description": "Firings of this key."},
    "limit": {"type": "integer", "minimum": 1, "maximum": _FIRINGS_MAX, "default": 100},
}
"""The fields of the query of firings, each with its JSON schema."""
_FRESH_S: Final = 0.25
EDGES_MS: Final = (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 5000, 30_000)
"""The upper edges of lateness that are told, in the page and to Prometheus."""


def buckets(histogram: Iterable[tuple[float, int]], edges_ms: Sequence[float]) -> list[tuple[float | None, int]]:
    """
    Return how many lie up to each of *edges_ms* and above the one before, and how many lie above the last (None).

    A fine step that straddles an edge counts as above it: lateness is never told smaller than it was.
    """
    counts = [0] * (len(edges_ms) + 1)
    for edge_ms, count in histogram:
        counts[bisect_left(edges_ms, edge_ms)] += count
    return list(zip((*edges_ms, None), counts, strict=True))


def _told(stats: dict[str, Any]) -> dict[str, Any]:
    """
    Return *stats* with the coarser histogram that is told, and the sum of all lateness, at most an eighth too large.
    """
    lateness = stats["lateness"]
    fine = lateness["histogram"]
    told = {"histogram": buckets(fine, EDGES_MS), "sum_ms": sum(edge_ms * count for edge_ms, count in fine)}
    return stats | {"lateness": lateness | told}


class Figures:
    """
    What the scheduler says of itself, read at most four times a second however many ask.
    """

    def __init__(self, scheduler: AsyncScheduler, firings: Firings) -> None:
        """
        Read *scheduler* and its *firings*.
        """
        self._scheduler = scheduler
        self._firings = firings
        self._lock = asyncio.Lock()
        self._forecast = Forecast(scheduler)
        self._read_at = -1.0
        self._stats: dict[str, Any] = {}

    async def stats(self) -> dict[str, Any]:
        """
        Return the scheduler's stats, the time, and a count that grows with every change that it knows of.
        """
        async with self._lock:
            if time.monotonic() - self._read_at > _FRESH_S:
                self._stats = _told(await asyncio.to_thread(self._scheduler.stats))
                self._read_at = time.monotonic()
        return {"now": datetime.now(UTC), "changes": self._firings.changes, **self._stats}

    async def check_room(self, pending_max: int | None) -> None:
        """
        Refuse more jobs where *pending_max* are pending.

        Raises:
            ProblemError: `too_many_requests`.
        """
        if pending_max is not None and (await self.stats())["pending"] >= pending_max:
            message = f"{pending_max} jobs are pending, and no more may be"
            remedy = "wait until some have fired, cancel some, or start the service with a larger --pending-max"
            raise ProblemError("too_many_requests", message, remedy=remedy, headers={"retry-after": "1"})

    async def get_stats(self, call: Call) -> Reply:
        """
        Return the counters and figures.
        """
        query(call)
        return document_reply(await self.stats())

    async def get_forecast(self, call: Call) -> Reply:
        """
        Return how many jobs fall due in each part of the next minute, hour and day.
        """
        query(call)
        return document_reply(await self._forecast.read())

    async def get_firings(self, call: Call) -> Reply:
        """
        Return the last firings of this process, of one key where it is given.
        """
        fields = query(call, FIRING_FIELDS)
        limit = to_count("limit", fields.get("limit", "100"), _FIRINGS_MAX)
        firings = self._firings.after(0, limit, fields.get("key"))
        return document_reply(FiringsDocument([firing_document(firing) for firing in firings]))

    async def healthz(self, call: Call) -> Reply:
        """
        Say that the process answers.
        """
        return Reply(200, b"text/plain", b"ok\n")

    async def readyz(self, call: Call) -> Reply:
        """
        Say whether this process owns the store and fires jobs.
        """
        if not self._scheduler.is_started:
            raise ProblemError("store_unavailable", "this process does not fire jobs now", headers={"retry-after": "1"})
        return Reply(200, b"text/plain", b"ready\n")
