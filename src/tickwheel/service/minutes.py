from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import Any, Final

from msgspec import Struct

from tickwheel.jobs.minutes import EDGES_MS, LaneMinute, Minute, total_of
from tickwheel.scheduler import AsyncScheduler
from tickwheel.service.documents import Moment, instant
from tickwheel.service.http import Reply, Request
from tickwheel.service.intake import query, to_flag, to_instant
from tickwheel.service.replies import document_reply

__all__ = ["MINUTE_FIELDS", "SPAN_FIELDS", "Minutes", "MinutesDocument"]

_MOMENT: Final = [{"type": "string", "format": "date-time"}, {"type": "number"}]
SPAN_FIELDS: Final[dict[str, Any]] = {
    "since": {"anyOf": _MOMENT, "description": "An hour ago, or then."},
    "until": {"anyOf": _MOMENT, "description": "Now, or then."},
}
MINUTE_FIELDS: Final[dict[str, Any]] = {
    **SPAN_FIELDS,
    "lanes": {"type": "boolean", "default": True, "description": "The figures by lane, too."},
}


class LaneMinuteDocument(Struct, frozen=True):
    """
    The figures of one lane: numbers of attempts and jobs.

    `overdue` is the number of due jobs that waited in memory at the end of the minute. `wait_ms` is the sum of the
    waits for a worker, and `took_ms` the sum of the durations of attempts. `lateness` is a histogram: for each bucket,
    it has the number of attempts that started with this lateness.
    """

    lane: str
    fired: int
    failed: int
    dead: int
    overdue: int
    wait_ms: float
    took_ms: float
    late_max_ms: float
    lateness: list[int]


class MinuteDocument(Struct, frozen=True):
    """
    The figures of one node for `span_s` seconds from `at` on. `span_s` is 60, or 900 for figures older than four hours.
    """

    node: str
    at: Moment
    span_s: int
    commits: int
    commit_ms: float
    commit_max_ms: float
    total: LaneMinuteDocument
    lanes: list[LaneMinuteDocument]


class MinutesDocument(Struct, frozen=True):
    """
    The figures of all nodes, by time. A node has no row for an idle minute.

    `edges_ms` has the upper edges of the lateness buckets; the last bucket has no upper edge.
    """

    edges_ms: list[int]
    minutes: list[MinuteDocument]


class Minutes:
    def __init__(self, scheduler: AsyncScheduler) -> None:
        self._scheduler = scheduler

    async def list(self, call: Request) -> Reply:
        """
        Return the number of attempts, their lateness, waits and durations, by minute, node and lane.

        Minutes are kept for four hours, and sums of 15 minutes for 48 hours.
        """
        fields = query(call, MINUTE_FIELDS)
        since = to_instant("since", fields["since"]) if "since" in fields else time.time() - 3_600
        until = to_instant("until", fields["until"]) if "until" in fields else None
        has_lanes = to_flag("lanes", fields.get("lanes", "true"))
        found = await self._scheduler.minutes(since, until)
        shown = await asyncio.to_thread(_minutes, found, has_lanes=has_lanes)  # there may be thousands
        return document_reply(MinutesDocument([*EDGES_MS], shown))


def _minutes(found: Sequence[Minute], *, has_lanes: bool) -> list[MinuteDocument]:
    return [_minute(each, has_lanes=has_lanes) for each in found]


def _minute(minute: Minute, *, has_lanes: bool) -> MinuteDocument:
    return MinuteDocument(
        node=minute.owner,
        at=instant(minute.at),
        span_s=minute.span_ms // 1000,
        commits=minute.commits,
        commit_ms=minute.commit_ms,
        commit_max_ms=minute.commit_max_ms,
        total=_lane(total_of(minute.lanes)),
        lanes=[_lane(lane) for lane in minute.lanes] if has_lanes else [],
    )


def _lane(lane: LaneMinute) -> LaneMinuteDocument:
    return LaneMinuteDocument(
        lane=lane.lane,
        fired=lane.fired,
        failed=lane.failed,
        dead=lane.dead,
        overdue=lane.overdue,
        wait_ms=lane.wait_ms,
        took_ms=lane.took_ms,
        late_max_ms=lane.late_max_ms,
        lateness=list(lane.lateness),
    )
