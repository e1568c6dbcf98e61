"""
The far level: slots of half a day, filled in the order of sets, and sorted by instant as they come near.

Rows that come in order share pages, and rows in order of random instants do not: so a far job is written twice, each
time beside others, instead of once on a page of its own. Where the job of a key is follows from its instant: it is in
its slot, or on level 0. Every look-up knows both, so when a slot is sorted decides what a look-up costs, and never what
it finds.
"""

from __future__ import annotations

import sqlite3
from functools import partial
from typing import Final

from tickwheel.scheduler.model import Job
from tickwheel.scheduler.stores._rows import in_int64, job_of
from tickwheel.scheduler.stores.sqlite._connections import Connections
from tickwheel.scheduler.stores.sqlite._queries import SQL
from tickwheel.scheduler.stores.sqlite._reserve import JOB_BYTES, Reserve, moved_size

__all__ = ["FAR_SHARD", "NEAR_MS", "bring_near", "cascade", "due", "is_far", "slot_of"]

FAR_SHARD: Final = -4

_SLOT_MS: Final = 43_200_000
"""As the table of levels has it: a month has 60 slots, whose last pages are what a commit of far jobs writes."""

NEAR_MS: Final = 3_600_000
"""A slot that begins within this is sorted; with the longest horizon, that is before anything of it is staged."""

_LATE_CASCADES: Final = 3
"""How many commits more there are at a time, if a file was left alone: so 50,000 jobs a second come near."""

_PAYLOAD_MAX: Final = 500
"""Eight of these share a page."""

_INT64_MIN: Final = -(2**63)


def slot_of(due_at: int) -> int:
    """
    Return the start of the slot in which a job due at *due_at* waits while it is far.
    """
    return due_at - due_at % _SLOT_MS


def is_far(job: Job, now: int) -> bool:
    """
    Return whether *job*, a pending one with its key on shelf 1, belongs in its slot.

    Recurring jobs have a list of their own, and a large payload has pages of its own in any order.
    """
    return slot_of(job.due_at) >= now + NEAR_MS and job.recurrence is None and len(job.payload) <= _PAYLOAD_MAX


def due(connection: sqlite3.Connection, until: int, after: tuple[int, int], limit: int) -> list[Job]:
    """
    Return the first *limit* pending jobs due before *until*, from just after *after*, in order, of both levels.
    """
    values = (0, until, after[0], *after, limit)
    if _first_slot(connection, after[0], until) is None:
        return list(map(job_of, connection.execute(SQL["jobs_due"], values)))
    connection.execute("BEGIN")  # a cascade between two statements would hide what it moves
    try:
        jobs = list(map(job_of, connection.execute(SQL["jobs_due"], values)))
        if len(jobs) == limit:
            until = min(until, jobs[-1].due_at + 1)
        return sorted(jobs + _far_due(connection, until, after, limit), key=_by_place)[:limit]
    finally:
        connection.execute("COMMIT")


def bring_near(connections: Connections, now: int, reserve: Reserve) -> None:
    """
    Sort far jobs that are near at *now* into level 0: in one commit, as others wait for it, unless they are late.
    """
    for until in (now + NEAR_MS, *[now] * _LATE_CASCADES):
        with connections.reading() as connection:
            if reserve.is_spent or _first_slot(connection, _INT64_MIN, until) is None:
                return
        with connections.writing() as connection:
            count = cascade(connection, until)
            reserve.cover(JOB_BYTES * count, partial(moved_size, connection))


def cascade(connection: sqlite3.Connection, until: int) -> int:
    """
    Sort the first slot that has a job, or 5,000 jobs of it, into level 0, if it begins before *until*.

    Args:
        connection: With a transaction open for writing.
        until: In ms since the epoch.

    Returns:
        How many jobs.
    """
    slot = _first_slot(connection, _INT64_MIN, until)
    if slot is None:
        return 0
    last, earliest, count = connection.execute(SQL["end_of_cascade"], (slot,)).fetchone()
    connection.execute(SQL["cascade"], (slot, last))
    connection.execute(SQL["end_cascade"], (slot, last))
    connection.execute(SQL["lower_floor"], (earliest,))
    return int(count)


def _far_due(connection: sqlite3.Connection, until: int, after: tuple[int, int], limit: int) -> list[Job]:
    found: list[Job] = []
    slot = _first_slot(connection, after[0], until)
    while slot is not None and len(found) < limit:
        rows = connection.execute(SQL["jobs_of_slot"], (slot, until, *after, limit - len(found)))
        found += map(job_of, rows)
        slot = _first_slot(connection, slot + _SLOT_MS, until)
    return found


def _first_slot(connection: sqlite3.Connection, since: int, until: int) -> int | None:
    """
    Return the first slot that has a job, of those that begin from that of *since* to before *until*.
    """
    slot: int | None = connection.execute(SQL["first_slot"], (in_int64(slot_of(since)), until)).fetchone()[0]
    return slot


def _by_place(job: Job) -> tuple[int, int]:
    return (job.due_at, job.generation)
