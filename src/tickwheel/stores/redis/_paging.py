from __future__ import annotations

from typing import Final

from tickwheel.jobs.model import Job, JobQuery, Page, State
from tickwheel.jobs.rows import PLACE, in_int64, successor
from tickwheel.stores._deadlines import LONG_CALLS
from tickwheel.stores.redis._blob import instant, read_rows
from tickwheel.stores.redis._connections import Connections
from tickwheel.stores.redis._manifests import keys_of
from tickwheel.stores.redis._scripts import packed

__all__ = ["latest_dead", "page"]

_REACH: Final = 2_000
"""Maximum number of keys that one filtered page scans. The scan blocks the server."""


def page(connections: Connections, query: JobQuery) -> Page:
    if query.paused and query.state not in {None, State.PENDING}:
        return Page(())
    if query.state is State.RUNNING:
        return _running(connections, query)
    is_filtered = query.is_narrowed or query.recurring or (query.paused and query.manifest is not None)
    reach = max(_REACH, query.limit) if is_filtered else query.limit
    end = successor(query.prefix)
    after = None if query.cursor is None or query.cursor < query.prefix else query.cursor
    frames, seen, last, has_more = connections.run(
        "page",
        _keys(query),
        b"[" + query.prefix.encode() if after is None else b"(" + after.encode(),
        b"+" if end is None else b"(" + end.encode(),
        query.limit,
        reach,
        "paused" if query.paused else (query.state or "any").lower(),
        b"" if query.due_from is None else instant(in_int64(query.due_from)),
        b"" if query.due_until is None else instant(in_int64(query.due_until)),
        int(query.handler is not None),
        query.handler or "",
        int(query.recurring),
        int(query.target is not None),
        query.target or "",
        query.contains or "",
        query.error or "",
        query.payload or b"",
        calls=LONG_CALLS,
    )
    jobs = tuple(row.job for row in read_rows(frames))
    return Page(jobs, last.decode() if has_more or seen == reach else None)


def _keys(query: JobQuery) -> str:
    if query.manifest is not None:
        return keys_of(query.manifest)
    if query.paused:
        return "paused"
    return "dead" if query.state is State.DEAD else "keys"


def _running(connections: Connections, query: JobQuery) -> Page:
    keys = sorted(key.decode() for key in connections.run("running"))
    after = query.cursor or ""
    keys = [key for key in keys if key > after and key.startswith(query.prefix)]
    chosen = keys[: query.limit]
    frames = connections.run("read", packed(key.encode() for key in chosen), packed(()), packed(()))[0]
    jobs = tuple(row.job for row in read_rows(frames) if query.matches(row.job))
    return Page(jobs, chosen[-1] if len(chosen) < len(keys) else None)


def latest_dead(connections: Connections, limit: int) -> list[Job]:
    # read in several calls, between which jobs may change
    found: dict[str, Job] = {}
    for first in range(0, limit, _REACH):
        wanted = min(_REACH, limit - first)
        frames, seen = connections.run("dead", first, wanted, calls=LONG_CALLS)
        found |= {row.job.key: row.job for row in read_rows(frames)}
        if seen < wanted:
            break
    return sorted(found.values(), key=PLACE, reverse=True)
