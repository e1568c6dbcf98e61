"""
Lists of jobs, page by page.
"""

from __future__ import annotations

from typing import Final

from tickwheel.scheduler.model import JobQuery, Page, State
from tickwheel.scheduler.stores._rows import CODES, in_int64, job_of, successor
from tickwheel.scheduler.stores.postgres._connections import Connection
from tickwheel.scheduler.stores.postgres._queries import SQL

__all__ = ["page"]

_REACH: Final = 10_000
"""How many keys one filtered page looks through."""


def page(connection: Connection, query: JobQuery) -> Page:
    """
    Return the page that *query* asks for, from two statements: how far to look, and what is there.
    """
    is_filtered = (query.state, query.due_from, query.due_until, query.handler) != (None,) * 4
    reach = max(_REACH, query.limit + 1) if is_filtered else query.limit + 1
    values = {
        # Keys hold no character below U+0001, so this is the first that can follow the cursor.
        "first": query.prefix if query.cursor is None else max(query.prefix, query.cursor + "\x01"),
        "end": successor(query.prefix),
        "is_dead": query.state is State.DEAD,
        "recurring": query.recurring,
        "reach": reach,
        "state": CODES[query.state] if query.state else None,
        "due_from": in_int64(query.due_from, -(2**63)),
        "due_until": in_int64(query.due_until, 2**63 - 1),
        "handler": query.handler,
        "limit": query.limit + 1,
    }
    row = connection.execute(SQL["end_of_reach"], values).fetchone()
    in_reach, last = row or (0, None)
    values["last"] = last
    jobs = [job_of(found) for found in connection.execute(SQL["page"], values).fetchall()]
    if len(jobs) > query.limit:
        return Page(tuple(jobs[: query.limit]), jobs[query.limit - 1].key)
    return Page(tuple(jobs), last if in_reach == reach else None)
