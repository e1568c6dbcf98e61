"""
The instants of a recurring job, found by trying one after the other: what the engine's calendar is compared with.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any, Final

from tickwheel.scheduler.model import Job

__all__ = ["follows", "may_be_left_out"]

_MINUTE_MS: Final = 60_000
_GRACE_MS: Final = 60_000


def may_be_left_out(job: Job, store_ms: int) -> bool:
    """
    Return whether a run of *job* may end without an attempt: it has expired, or is late and its series skips such runs.
    """
    is_expired = job.expires_at is not None and store_ms >= job.expires_at
    is_skipped = job.recurrence is not None and '"skip"' in job.recurrence and store_ms - job.due_at > _GRACE_MS
    return is_expired or is_skipped


def follows(recurrence: str, due_at: int, next_at: int, ended_ms: int) -> str | None:
    """
    Say what is wrong with *next_at* as the instant after the run due at *due_at*, which was settled at *ended_ms*.

    With "all" it is the next instant of the series, after that of a run that was tried again. Otherwise instants may
    be left out that had passed when the run ended, and no others.
    """
    facts: dict[str, Any] = json.loads(recurrence)
    due_at = facts.get("run_at", due_at)
    if next_at <= due_at:
        return f"it goes back from {due_at}"
    if not _is_in_series(facts, next_at):
        return "it is not an instant of the series"
    latest = due_at if facts["misfire"] == "all" else max(due_at, ended_ms)
    between = _last_before(facts, next_at)
    if between > latest:
        return f"the run at {between} is left out"
    return None


def _last_before(facts: dict[str, Any], instant: int) -> int:
    if "every_ms" in facts:
        every: int = facts["every_ms"]
        return instant - every
    instant -= _MINUTE_MS
    while not _is_in_series(facts, instant):
        instant -= _MINUTE_MS
    return instant


def _is_in_series(facts: dict[str, Any], instant: int) -> bool:
    if "every_ms" in facts:
        return bool((instant - facts["anchor_at"]) % facts["every_ms"] == 0)
    moment = datetime.fromtimestamp(instant / 1000, UTC)
    minute, hour = facts["cron"].split()[:2]
    return instant % _MINUTE_MS == 0 and _fits(minute, moment.minute) and _fits(hour, moment.hour)


def _fits(field: str, value: int) -> bool:
    star, slash, step = field.partition("/")
    if star == "*":
        return not slash or value % int(step) == 0
    return value == int(field)
