"""
The far level: jobs due in an hour or more, in slots (groups of rows) of half a day.

A far job is appended to its slot in order of arrival, so that rows share pages. Shortly before the slot's time, its
jobs are sorted by due time into the near level (level 0). These two writes, to shared pages, cost less than one write
to a separate page.

The due time of a job determines where the job may be: in its slot, or in level 0. Every look-up checks both places, so
the time at which a slot is sorted never affects results.

A far job that is moved or cancelled keeps its row, because deleting the row would write one more page. A bit in
`tickwheel_gone` marks it as deleted. The row is removed with its slot, or earlier if most rows are deleted.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from typing import Final, TypeAlias

from tickwheel.jobs.model import Job
from tickwheel.jobs.rows import PLACE, in_int64, job_of
from tickwheel.stores._lane_set import LaneSet
from tickwheel.stores._reports import Scan
from tickwheel.stores.sqlite._connections import Connections
from tickwheel.stores.sqlite._joining import Joined
from tickwheel.stores.sqlite._queries import SQL
from tickwheel.stores.sqlite._reserve import JOB_BYTES, Reserve

__all__ = ["FAR_SHARD", "NEAR_MS", "Sorter", "bury", "cascade", "due", "is_far", "scan", "slot_of", "sweep"]

FAR_SHARD: Final = -4

_SLOT_MS: Final = 43_200_000
"""Length of a slot (the group of far jobs that are due in the same period): half a day."""

NEAR_MS: Final = 3_600_000
"""Time before the start of a slot at which its far jobs are sorted. It is at least the longest horizon."""

_STRETCH: Final = 5_000
"""Maximum number of far jobs (rows of one slot) that one commit moves or compacts."""

_LATE_CASCADES: Final = 3
"""Maximum number of extra commits per renewal that move far jobs (5,000 each) from slots that have already begun."""

_SWEPT: Final = 4
"""Maximum number of commits per renewal that remove deleted far jobs. Each scans up to 5,000 rows."""

_GONE_MAX: Final = 5_000
"""Deleted far jobs are removed (compaction) when there are more of them than pending far jobs plus this number."""

_PAYLOAD_MAX: Final = 500
"""Maximum payload in bytes of a job on the far level (due in an hour or more): eight such rows share a page."""

_BITS: Final = 63
"""Number of generations that one row of `tickwheel_gone` covers."""

_GONE_A_PAGE: Final = 200 * _BITS

_INT64_MIN: Final = -(2**63)
_INT64_MAX: Final = 2**63 - 1

_Place: TypeAlias = tuple[int, int]
"""A position among the far jobs: a slot (a period of due times), and a generation in it."""
_FRONT: Final[_Place] = (_INT64_MIN, -1)
"""The position before all far jobs."""
_BACK: Final[_Place] = (_INT64_MAX, _INT64_MAX)


def slot_of(due_at: int) -> int:
    return due_at - due_at % _SLOT_MS


def is_far(job: Job, now: int) -> bool:
    """
    Return True if *job*, which is pending and is not due soon, belongs in a slot of the far level.

    Recurring jobs stay on the near level, because the query that lists them reads only that level. Jobs with large
    payloads also stay there, because they would not share pages in a slot.
    """
    return slot_of(job.due_at) >= now + NEAR_MS and job.recurrence is None and len(job.payload) <= _PAYLOAD_MAX


def due(connection: sqlite3.Connection, until: int, after: tuple[int, int], limit: int) -> list[Job]:
    values = (0, until, after[0], *after, limit)
    if _first_slot(connection, after[0], until) is None:
        return list(map(job_of, connection.execute(SQL["jobs_due"], values)))
    connection.execute("BEGIN")  # otherwise a cascade between the two statements would hide the jobs that it moves
    try:
        jobs = list(map(job_of, connection.execute(SQL["jobs_due"], values)))
        if len(jobs) == limit:
            until = min(until, jobs[-1].due_at + 1)
        return sorted(jobs + _far_due(connection, until, after, limit), key=PLACE)[:limit]
    finally:
        connection.execute("COMMIT")


def scan(
    connection: sqlite3.Connection,
    until: int,
    after: _Place,
    limit: int,
    lanes: LaneSet,
    *,
    inside: bool,
    rows: int,
) -> Scan:
    names = [json.dumps([*each]) for each in (lanes.names, lanes.targets, lanes.others)]
    connection.execute("BEGIN")
    try:
        front = (after[0], *after)
        end = connection.execute(SQL["end_of_scan"], (until, *front, rows - 1)).fetchone()
        wanted = *names, inside, limit
        fields = "after", "last", "end", "end_last", "names", "targets", "others", "inside", "limit"
        values = dict(zip(fields, (*after, *(end or (until - 1, _INT64_MAX)), *wanted), strict=True))
        jobs = list(map(job_of, connection.execute(SQL["jobs_in_lanes"], values)))
        slot = _first_slot(connection, after[0], until)
        while slot is not None:
            of_slot = (slot, until, *after, *(end or _BACK), *wanted)
            jobs += map(job_of, connection.execute(SQL["jobs_of_slot_in_lanes"], of_slot))
            slot = _first_slot(connection, slot + _SLOT_MS, until)
    finally:
        connection.execute("COMMIT")
    return Scan.of(sorted(jobs, key=PLACE)[:limit], limit, end)


class Sorter:
    """
    Sorts far jobs (due in an hour or more) into the near level shortly before they are due, and removes deleted rows.

    Not thread-safe.
    """

    def __init__(self) -> None:
        self._place = _FRONT

    def catch_up(self, connections: Connections, now: int, reserve: Reserve) -> None:
        # does nothing if the disk is full
        self._bring_near(connections, now, reserve)
        for _ in range(_SWEPT):
            with connections.reading() as connection:
                if reserve.is_spent or not connection.execute(SQL["is_wasteful"], (_GONE_MAX,)).fetchone()[0]:
                    return
            with connections.writing() as connection:
                self._place = sweep(connection, self._place)

    def _bring_near(self, connections: Connections, now: int, reserve: Reserve) -> None:
        # one commit for a slot that is near, more for slots that have begun
        for until in (now + NEAR_MS, *[now] * _LATE_CASCADES):
            with connections.reading() as connection:
                if reserve.is_spent or _first_slot(connection, _INT64_MIN, until) is None:
                    return
            with connections.writing() as connection:
                count = cascade(connection, until)
                reserve.cover(JOB_BYTES * count, connection)


def bury(connection: sqlite3.Connection | Joined, generations: Sequence[int]) -> int:
    """
    Mark the far jobs (due in an hour or more) of *generations* as deleted.

    Returns a lower bound of the number of changed pages.
    """
    if generations:
        connection.executemany(SQL["bury_job"], [(each // _BITS, 1 << each % _BITS) for each in generations])
        connection.execute(SQL["count_gone"], (len(generations),))
    return len({each // _GONE_A_PAGE for each in generations})


def sweep(connection: sqlite3.Connection, place: _Place) -> _Place:
    """
    Examine one slice of far jobs (due in an hour or more) from *place* on.

    If at least half of its rows are only marked as deleted, delete these rows.

    *place* is a slot (half a day of due times) and a generation in it. Returns the place of the next slice.
    """
    slot = _first_slot(connection, place[0], _INT64_MAX)
    if slot is None:
        return _FRONT
    after = place[1] if slot == place[0] else -1
    last, _, count = connection.execute(SQL["stretch"], (slot, after, _STRETCH)).fetchone()
    gone = _gone(connection, slot, after, last)
    if gone and 2 * len(gone) >= count:
        connection.executemany(SQL["delete_job"], [(FAR_SHARD, slot, generation) for generation in gone])
        _unbury(connection, gone)
    return (slot, last) if count == _STRETCH else (slot + _SLOT_MS, -1)


def cascade(connection: sqlite3.Connection, until: int) -> int:
    """
    Move one slice of far jobs (due in an hour or more) to the near level; return the number of jobs.

    The jobs are from the first slot (half a day of due times) that begins before *until* (ms).
    """
    slot = _first_slot(connection, _INT64_MIN, until)
    if slot is None:
        return 0
    last, earliest, count = connection.execute(SQL["stretch"], (slot, -1, _STRETCH)).fetchone()
    gone = _gone(connection, slot, -1, last)
    connection.execute(SQL["cascade"], (slot, last))
    connection.execute(SQL["end_cascade"], (slot, last))
    _unbury(connection, gone)
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
    slot: int | None = connection.execute(SQL["first_slot"], (in_int64(slot_of(since)), until)).fetchone()[0]
    return slot


def _gone(connection: sqlite3.Connection, slot: int, after: int, last: int) -> list[int]:
    return [generation for (generation,) in connection.execute(SQL["gone_of_stretch"], (slot, after, last))]


def _unbury(connection: sqlite3.Connection, generations: Sequence[int]) -> None:
    if generations:
        connection.executemany(SQL["unbury_job"], [(1 << each % _BITS, each // _BITS) for each in generations])
        connection.executemany(SQL["delete_empty_span"], {(each // _BITS,) for each in generations})
        connection.execute(SQL["count_gone"], (-len(generations),))
