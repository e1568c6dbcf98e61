"""
Takes over a file, and reads the changes of other processes from their notes in the file.
"""

from __future__ import annotations

import sqlite3

from tickwheel.jobs.model import Job
from tickwheel.jobs.rows import in_int64, job_of
from tickwheel.stores.contract import Cursor
from tickwheel.stores.sqlite._queries import SQL

__all__ = ["changed", "take_over"]


def take_over(connection: sqlite3.Connection, owner: str, now: int) -> tuple[int, int]:
    _, _, running, _, _, epoch, _ = connection.execute(SQL["read_ledger"]).fetchone()
    if running:
        # Running jobs are at the front: the search ends at the last running job, not at the last job.
        found = connection.execute(SQL["running_jobs"], (running,)).fetchall()
        connection.executemany(SQL["cut_off"], [(now, *place) for *place, _, _ in found])
        connection.executemany(SQL["rescue_job"], [place for *place, _, is_paused in found if not is_paused])
        connection.executemany(SQL["pause_job"], [place for *place, _, is_paused in found if is_paused])
        connection.executemany(SQL["take_key"], [(key,) for *_, key, is_paused in found if is_paused])
        connection.executemany(SQL["pause_key"], [place for *place, _, is_paused in found if is_paused])
    connection.execute(SQL["take_over"], (owner,))
    connection.execute(SQL["delete_all_notes"])
    return epoch + 1, running


def changed(connection: sqlite3.Connection, cursor: Cursor) -> tuple[list[Job], int]:
    mark = int(connection.execute(SQL["read_ledger"]).fetchone()[0])
    if cursor.mark is None:
        return [], mark
    rows = connection.execute(SQL["jobs_noted"], (cursor.mark, in_int64(cursor.after[0] + 1)))
    return list(map(job_of, rows)), mark
