from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from tickwheel.jobs.errors import StoreError
from tickwheel.observe.prometheus import exposition
from tickwheel.scheduler import AsyncScheduler
from tickwheel.service.bodies import CENTURY_S
from tickwheel.service.documents import (
    CountsDocument,
    FiringsDocument,
    ShardsDocument,
    firing_document,
    shard_document,
    wheel_document,
)
from tickwheel.service.firings import Firings
from tickwheel.service.forecast import Forecast
from tickwheel.service.http import Reply, Request
from tickwheel.service.intake import query, to_count, to_duration, to_instant
from tickwheel.service.problems import ProblemError, show
from tickwheel.service.rejections import Rejections
from tickwheel.service.replies import document_reply
from tickwheel.service.stats import stats_document
from tickwheel.service.token_scope import allows_prefixed_tokens, check_key, narrowed

__all__ = ["DUE_FIELDS", "FIRING_FIELDS", "Figures", "Metrics"]

_FIRINGS_MAX: Final = 500
DUE_FIELDS: Final[dict[str, Any]] = {
    "since": {"anyOf": [{"type": "string", "format": "date-time"}, {"type": "number"}], "description": "Now, or then."},
    "step": {
        "anyOf": [
            {"type": "number", "exclusiveMinimum": 0, "maximum": CENTURY_S},
            {"type": "string", "maxLength": 101},
        ],
        "default": 1,
        "description": "The length of each step: seconds, or text such as `1m`.",
    },
    "steps": {"type": "integer", "minimum": 1, "maximum": 1000, "default": 60},
}
LIVE_FIELDS: Final[dict[str, Any]] = {
    "nodes": {"enum": ["all", "this"], "default": "all", "description": "Firings of all nodes, or of this process."}
}
FIRING_FIELDS: Final[dict[str, Any]] = {
    **LIVE_FIELDS,
    "key": {"type": "string", "description": "Firings of this key."},
    "limit": {"type": "integer", "minimum": 1, "maximum": _FIRINGS_MAX, "default": 100},
}
_NODES: Final = ("all", "this")
_FRESH_S: Final = 0.25


def to_own(fields: Mapping[str, str]) -> bool:
    nodes = fields.get("nodes", "all")
    if nodes not in _NODES:
        raise ProblemError("invalid_value", f"nodes is {show(nodes)}: give one of {', '.join(_NODES)}", value=nodes)
    return nodes == "this"


class Figures:
    """
    The scheduler's figures. They are read at most four times a second, however many requests arrive.
    """

    def __init__(self, scheduler: AsyncScheduler, firings: Firings) -> None:
        self._scheduler = scheduler
        self._firings = firings
        self._lock = asyncio.Lock()
        self._forecast = Forecast(scheduler)
        self._read_at = -1.0
        self._stats: dict[str, Any] = {}

    async def stats(self) -> dict[str, Any]:
        return stats_document(await self.scheduler_stats())

    async def scheduler_stats(self) -> dict[str, Any]:
        async with self._lock:
            if time.monotonic() - self._read_at > _FRESH_S:
                self._stats = await asyncio.to_thread(self._scheduler.stats)
                self._read_at = time.monotonic()
        return self._stats

    async def known_stats(self) -> dict[str, Any]:
        try:
            return await self.scheduler_stats()
        except StoreError:
            return self._scheduler.stats(with_store=False)

    def silent_since(self) -> datetime | None:
        """
        Return the time of the store's last answer to this process, or None if unknown.
        """
        leases = self._scheduler.stats(with_store=False)["leases"]
        silent_s = None if leases is None else leases.get("silent_s")
        return None if silent_s is None else datetime.now(UTC) - timedelta(seconds=silent_s)

    async def check_room(self, pending_max: int | None, more: int = 1) -> None:
        """
        Refuse *more* new jobs if *pending_max*, the maximum number of pending jobs, would be exceeded.

        Replacements count as new jobs.
        """
        if pending_max is None or more == 0:
            return
        pending = (await self.stats())["pending"]
        if pending + more > pending_max:
            message = f"{pending} jobs are pending, and with {more} more it would be over {pending_max}"
            remedy = "wait until some have fired, cancel some, or start the service with a larger --pending-max"
            raise ProblemError("too_many_requests", message, remedy=remedy, headers={"retry-after": "1"})

    async def get_stats(self, _call: Request) -> Reply:
        """
        Return the counters and figures of the store and of this process.
        """
        return document_reply(await self.stats())

    async def get_wheel(self, _call: Request) -> Reply:
        """
        Return the number of timers in each slot of this process's timer wheel.
        """
        wheel = (await self.scheduler_stats())["wheel"]
        if wheel is None:
            raise ProblemError("store_unavailable", "this process does not fire jobs now", headers={"retry-after": "1"})
        return document_reply(wheel_document(wheel, time.monotonic_ns()))

    async def get_forecast(self, _call: Request) -> Reply:
        """
        Return the number of jobs due in each part of the next minute, hour and day.
        """
        return document_reply(await self._forecast.read())

    async def get_due(self, call: Request) -> Reply:
        """
        Return the number of pending jobs due in each of the requested steps.
        """
        fields = query(call, DUE_FIELDS)
        since = to_instant("since", fields["since"]) if "since" in fields else time.time()
        steps = to_count("steps", fields.get("steps", "60"), 1000)
        counts = await self._scheduler.forecast(since, to_duration(fields.get("step", "1")), steps)
        return document_reply(CountsDocument(list(counts)))

    async def get_shards(self, _call: Request) -> Reply:
        """
        Return all shards of the store, each with the process that owns it.
        """
        stats = await self.stats()
        shards = [shard_document(each) for each in await self._scheduler.shards()]
        return document_reply(ShardsDocument(stats["store"], stats["owner"], stats["epoch"], shards))

    @allows_prefixed_tokens
    async def get_firings(self, call: Request) -> Reply:
        """
        Return the last firings of all nodes, or of this process with `nodes=this`.

        With `key`, only the firings of one job are returned.
        """
        fields = query(call, FIRING_FIELDS)
        limit = to_count("limit", fields.get("limit", "100"), _FIRINGS_MAX)
        key = fields.get("key")
        if key is not None:
            check_key(call, key)
        is_own = to_own(fields)
        if not is_own:
            await self._firings.refresh()
        firings = self._firings.last(limit, key, narrowed(call, ""), is_own=is_own)
        return document_reply(FiringsDocument([firing_document(firing) for firing in firings]))

    async def healthz(self, call: Request) -> Reply:
        """
        Return 200, which shows that the process answers.
        """
        return Reply(200, b"text/plain", b"ok\n")

    async def readyz(self, call: Request) -> Reply:
        """
        Return 200 if this process fires jobs and reaches the store. If not, return a problem.
        """
        if not self._scheduler.is_ready:
            message = "this process does not fire jobs now: it stops, or cannot reach or has lost the store"
            raise ProblemError("store_unavailable", message, headers={"retry-after": "1"})
        return Reply(200, b"text/plain", b"ready\n")


class Metrics:
    def __init__(self, figures: Figures, rejections: Rejections) -> None:
        self._rejections = rejections
        self._figures = figures

    async def get(self, call: Request) -> Reply:
        """
        Return the metrics in Prometheus' text format, or in OpenMetrics if the Accept header prefers it.

        In OpenMetrics, traced firings are exemplars.
        """
        stats = await self._figures.known_stats() | {"rejections": self._rejections.counts()}
        kind, text = exposition(stats, call.header(b"accept") or "")
        return Reply(200, kind.encode(), text)
