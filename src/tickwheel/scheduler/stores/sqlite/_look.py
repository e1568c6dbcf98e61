"""
The changes of others than the owner, by the notes that they left.
"""

from __future__ import annotations

import sqlite3

from tickwheel.scheduler.model import Job
from tickwheel.scheduler.stores._rows import in_int64, job_of
from tickwheel.scheduler.stores.contract import Cursor
from tickwheel.scheduler.stores.sqlite._queries import SQL

__all__ = ["changed"]


def changed(connection: sqlite3.Connection, cursor: Cursor) -> tuple[list[Job], int]:
    """
    Return what others wrote up to *cursor* since its mark, and the mark of this moment.
    """
    mark = int(connection.execute(SQL["read_ledger"]).fetchone()[0])
    if cursor.mark is None:
        return [], mark
    rows = connection.execute(SQL["jobs_noted"], (cursor.mark, in_int64(cursor.after[0] + 1)))
    return list(map(job_of, rows)), mark
