from __future__ import annotations

from typing import Any, Final

from tickwheel.jobs.model import Job, JobQuery, Page, State
from tickwheel.jobs.rows import CODES, in_int64, job_of, successor
from tickwheel.stores.postgres._connections import Connection
from tickwheel.stores.postgres._queries import SQL

__all__ = ["page"]

_REACH: Final = 10_000
"""Maximum number of keys that one filtered page scans."""

_PAYLOADS: Final = 2_000
"""Maximum number of keys scanned by a page that reads payloads, which may be large."""
_BY_VALUES: Final = "SET LOCAL plan_cache_mode = force_custom_plan"
"""Makes the server plan each query for its actual values, because each filter has an index of its own."""


def page(connection: Connection, query: JobQuery) -> Page:
    # if a filter rejects some jobs, more statements find and read a larger range
    values: dict[str, Any] = {
        # Keys contain no character below U+0001, so this is the first key that can follow the cursor.
        "first": query.prefix if query.cursor is None else max(query.prefix, query.cursor + "\x01"),
        "end": successor(query.prefix),
        "is_dead": query.state is State.DEAD,
        "recurring": query.recurring,
        "paused": query.paused,
        "state": CODES[query.state] if query.state else None,
        "due_from": in_int64(query.due_from, -(2**63)),
        "due_until": in_int64(query.due_until, 2**63 - 1),
        "handler": query.handler,
        "target": query.target,
        "contains": query.contains,
        "error": query.error,
        "payload": query.payload,
        "manifest": query.manifest,
        "reach": query.limit + 1,
        "last": None,
        "limit": query.limit + 1,
    }
    connection.execute(_BY_VALUES)
    jobs = _read(connection, values)
    if len(jobs) > query.limit:  # most filters match most jobs
        return Page(tuple(jobs[: query.limit]), jobs[query.limit - 1].key)
    if not query.is_narrowed:
        return Page(tuple(jobs))
    values["reach"] = reach = max(_REACH if query.payload is None else _PAYLOADS, query.limit + 1)
    in_reach, last = connection.execute(SQL["end_of_reach"], values).fetchone() or (0, None)
    values["last"] = last
    jobs = _read(connection, values)
    if len(jobs) > query.limit:
        return Page(tuple(jobs[: query.limit]), jobs[query.limit - 1].key)
    return Page(tuple(jobs), last if in_reach == reach else None)


def _read(connection: Connection, values: dict[str, Any]) -> list[Job]:
    return [job_of(row) for row in connection.execute(SQL["page"], values).fetchall()]
