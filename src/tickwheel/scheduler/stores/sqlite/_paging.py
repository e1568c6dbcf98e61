"""
Lists of jobs, page by page.
"""

from __future__ import annotations

import sqlite3
from typing import Final

from tickwheel.scheduler.model import JobQuery, Page, State
from tickwheel.scheduler.stores._rows import CODES, in_int64, job_of, successor
from tickwheel.scheduler.stores.sqlite._queries import paging

__all__ = ["page"]

_REACH: Final = 10_000
"""How many keys one page looks through: some 20 ms."""

_ABOVE_ALL: Final = b""
"""SQLite sorts every blob after every text."""

_KEYS: Final = {State.DEAD: "dead_keys", State.RUNNING: "running_keys"}


def page(connection: sqlite3.Connection, query: JobQuery) -> Page:
    """
    Return the page that *query* asks for, from two statements: how far to look, and what is there.
    """
    keys = "recurring_keys" if query.recurring else _KEYS.get(query.state, "all_keys") if query.state else "all_keys"
    is_filtered = (query.state, query.due_from, query.due_until, query.handler) != (None,) * 4
    reach = max(_REACH, query.limit + 1) if is_filtered else query.limit + 1
    values = {
        # No string lies between a key and the same with a NUL behind it.
        "first": query.prefix if query.cursor is None else max(query.prefix, query.cursor + "\0"),
        "end": successor(query.prefix) or _ABOVE_ALL,
        "reach": reach,
        "state": CODES[query.state] if query.state else None,
        "due_from": in_int64(query.due_from, -(2**63)),
        "due_until": in_int64(query.due_until, 2**63 - 1),
        "handler": query.handler,
        "limit": query.limit + 1,
    }
    in_reach, last = connection.execute(paging("end_of_reach", keys), values).fetchone()
    values["last"] = _ABOVE_ALL if last is None else last
    jobs = [job_of(row) for row in connection.execute(paging("page", keys), values)]
    if len(jobs) > query.limit:
        return Page(tuple(jobs[: query.limit]), jobs[query.limit - 1].key)
    return Page(tuple(jobs), last if in_reach == reach else None)
