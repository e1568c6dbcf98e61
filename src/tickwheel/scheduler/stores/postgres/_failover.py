"""
Another server than before: a standby that was promoted, or a restored copy; or the same one with its tables emptied.
"""

from __future__ import annotations

import logging
from typing import Final

from tickwheel.scheduler.stores._leap import leap
from tickwheel.scheduler.stores.postgres._connections import Connection
from tickwheel.scheduler.stores.postgres._queries import SQL
from tickwheel.scheduler.stores.postgres._schema import SCHEMA_LOCK, make_again, make_shards

__all__ = ["notice_server"]

_LOG: Final = logging.getLogger("tickwheel.scheduler")


def notice_server(connection: Connection, url: str, shards: int) -> None:
    """
    Look whether another server answers than the last time, or on another timeline, in the caller's transaction.

    Without synchronous replication a standby does not have all that its primary gave out. So both sequences leap, and
    every shard is free: no generation and no epoch comes twice, and no owner gets back a lease that it had lost. If
    somebody emptied the tables, what belongs there is put there again, with the caller's number of *shards* at least.
    """
    is_another, is_known, there = connection.execute(SQL["notice_server"]).fetchone() or (False, True, shards)
    if is_known and there < shards:
        connection.execute(SQL["lock_schema"], (SCHEMA_LOCK,))
        make_shards(connection, shards)
    if not is_known and make_again(connection, shards):
        _LOG.error("%s: its tables were emptied, and are made again: all jobs that were in them are lost", url)
    elif is_another:
        _LOG.warning("%s: another server answers, or the same one after a restore: generations and epochs leap", url)
    else:
        return
    connection.execute(SQL["leap"], {"leap": leap()})
    connection.execute(SQL["free_all_shards"])
