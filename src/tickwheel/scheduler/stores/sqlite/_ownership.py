"""
Ownership of a file.
"""

from __future__ import annotations

import sqlite3

from tickwheel.scheduler.stores.sqlite._queries import SQL

__all__ = ["hand_over", "take_over"]


def take_over(connection: sqlite3.Connection, owner: str, now: int) -> tuple[int, int]:
    """
    Make *owner* the owner: a new epoch, what was running is pending again, and the notes are void.

    The history shows at *now* what was cut off.

    Returns:
        The epoch, and how many jobs were running.
    """
    _, _, running, _, _, epoch, _ = connection.execute(SQL["read_ledger"]).fetchone()
    if running:
        # They are at the front, so that the search ends at the last one and not at the last job.
        found = connection.execute(SQL["running_jobs"], (running,)).fetchall()
        connection.executemany(SQL["cut_off"], [(now, *place) for *place, _, _ in found])
        connection.executemany(SQL["rescue_job"], [place for *place, _, is_paused in found if not is_paused])
        connection.executemany(SQL["pause_job"], [place for *place, _, is_paused in found if is_paused])
        connection.executemany(SQL["take_key"], [(key,) for *_, key, is_paused in found if is_paused])
        connection.executemany(SQL["pause_key"], [place for *place, _, is_paused in found if is_paused])
    connection.execute(SQL["take_over"], (owner,))
    connection.execute(SQL["delete_all_notes"])
    return epoch + 1, running


def hand_over(connection: sqlite3.Connection) -> None:
    """
    Leave the file without an owner, so that nobody's begins and settles count.
    """
    connection.execute(SQL["hand_over"])
