"""
Another server than before: a standby that was promoted, or a restored copy.
"""

from __future__ import annotations

import logging
from typing import Final

from tickwheel.scheduler.stores._leap import leap
from tickwheel.scheduler.stores.postgres._connections import Connection
from tickwheel.scheduler.stores.postgres._queries import SQL

__all__ = ["notice_server"]

_LOG: Final = logging.getLogger("tickwheel.scheduler")


def notice_server(connection: Connection, url: str) -> bool:
    """
    Look whether another server answers than the last time, or on another timeline, in the caller's transaction.

    Without synchronous replication a standby does not have all that its primary gave out. So both sequences leap, and
    every shard is free: no generation and no epoch comes twice, and no owner gets back a lease that it had lost.
    """
    if not connection.execute(SQL["notice_server"]).rowcount:
        return False
    connection.execute(SQL["leap"], {"leap": leap()})
    connection.execute(SQL["free_all_shards"])
    _LOG.warning("%s: another server answers, or the same one after a restore: generations and epochs leap", url)
    return True
