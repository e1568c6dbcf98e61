from __future__ import annotations

import sqlite3
from typing import Any, Final, TypeAlias

from tickwheel.jobs.model import Job, JobQuery, Page, State
from tickwheel.jobs.rows import CODES, in_int64, job_of, successor
from tickwheel.stores.sqlite._queries import SQL, behind, paging

__all__ = ["page"]

_REACH: Final = 10_000
"""Maximum number of keys that one page scans, which takes about 20 ms."""

_PAYLOADS: Final = 2_000
"""Maximum number of keys scanned by a page that reads payloads, which may be large."""

_ABOVE_ALL: Final = b""
"""Upper bound of all keys: SQLite sorts every blob after every text."""

_Keys: TypeAlias = tuple[str, tuple[int, ...]]
"""A query that finds keys, and the shelves (key partitions) to run it on. Without shelves, it runs once."""

_DEAD: Final = (-1,)
_PAUSED: Final = (-3,)


def page(connection: sqlite3.Connection, query: JobQuery) -> Page:
    # if a filter rejects some jobs, more statements find and read a larger range
    connection.execute("BEGIN")  # otherwise a merge between the statements would hide the keys that it moves
    try:
        return _page(connection, query, _keys(connection, query))
    finally:
        connection.execute("COMMIT")


def _keys(connection: sqlite3.Connection, query: JobQuery) -> _Keys:
    if query.paused:
        return "keys_of_shelf", _PAUSED
    if query.manifest is not None:
        return "manifest_keys", ()
    if query.recurring:
        return "recurring_keys", ()
    if query.state is State.RUNNING:
        return "running_keys", ()
    if query.state is State.DEAD:
        return "keys_of_shelf", _DEAD
    return "keys_of_shelf", tuple(shelf for (shelf,) in connection.execute(SQL["all_shelves"]))


def _page(connection: sqlite3.Connection, query: JobQuery, keys: _Keys) -> Page:
    values: dict[str, Any] = {
        "first": query.prefix if query.cursor is None else max(query.prefix, behind(query.cursor)),
        "end": successor(query.prefix) or _ABOVE_ALL,
        "state": CODES[query.state] if query.state else None,
        "due_from": in_int64(query.due_from, -(2**63)),
        "due_until": in_int64(query.due_until, 2**63 - 1),
        "handler": query.handler,
        "target": query.target,
        "contains": query.contains,
        "error": query.error,
        "payload": query.payload,
        "manifest": query.manifest,
        "recurring": query.recurring,
        "reach": query.limit + 1,
        "limit": query.limit + 1,
    }
    jobs = _read(connection, keys, values)
    if len(jobs) > query.limit:  # most filters match most jobs
        return Page(tuple(jobs[: query.limit]), jobs[query.limit - 1].key)
    values["reach"] = reach = max(_REACH if query.payload is None else _PAYLOADS, query.limit + 1)
    in_reach, last = connection.execute(paging("end_of_reach", *keys), values).fetchone()
    if in_reach == reach:  # the range holds more keys: one of them may lead to its job
        values["end"], values["reach"] = behind(last), -1
    jobs = _read(connection, keys, values)
    if len(jobs) > query.limit:
        return Page(tuple(jobs[: query.limit]), jobs[query.limit - 1].key)
    return Page(tuple(jobs), last if in_reach == reach else None)


def _read(connection: sqlite3.Connection, keys: _Keys, values: dict[str, Any]) -> list[Job]:
    return [job_of(row) for row in connection.execute(paging("page", *keys), values)]
