"""
Detects a change of the server, and determines which acknowledged writes the server's settings may lose.

The server has changed if a standby was promoted, a copy was restored, or its tables were emptied.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any, Final

from tickwheel.stores._leap import leap
from tickwheel.stores.postgres._connections import Connection
from tickwheel.stores.postgres._queries import SQL
from tickwheel.stores.postgres._schema import make_again, make_shards

__all__ = ["loss_window", "notice_server", "warn_of"]

_LOG: Final = logging.getLogger("tickwheel.scheduler")

_FLUSH: Final = "answered writes, or all of the database, when the server's machine loses power: set fsync = on"
_TORN: Final = (
    "all of the database, when the server's machine loses power while it writes a page: set full_page_writes = on"
)
_LAG: Final = "answered writes that the standby has not yet received when it takes over: set synchronous_standby_names"


def notice_server(connection: Connection, url: str, shards: int) -> None:
    """
    Detect a change of the server or of its timeline since the last call. Runs in the caller's transaction.

    Without synchronous replication, a standby may lack the latest generations and epochs of its primary. Both sequences
    are therefore raised, so that no number is used twice. All leases end, because the standby may lack the latest
    owners. If the tables were emptied, their fixed rows are inserted again, with at least *shards* shards.
    """
    is_another, is_known, there = connection.execute(SQL["notice_server"]).fetchone() or (False, True, shards)
    if is_known and there < shards:
        connection.execute(SQL["lock_schema"])
        make_shards(connection, shards)
    if not is_known and make_again(connection, shards):
        _LOG.error("%s: its tables were emptied, and are made again: all jobs that were in them are lost", url)
    elif is_another:
        _LOG.warning("%s: another server answers, or the same one after a restore: generations and epochs leap", url)
    else:
        return
    connection.execute(SQL["leap"], {"leap": leap()})
    connection.execute(SQL["free_all_shards"])


def loss_window(connection: Connection, durability: Sequence[Any]) -> str:
    """
    Return a description of the acknowledged writes that a crash may lose, or "" if each commit waits for the disk.

    *durability* is the row of the statement `durability`. A standby is assumed if one is streaming now, or if
    *connection* names two servers.
    """
    flushes, has_whole_pages, is_synchronous, has_standbys = durability
    has_standbys = has_standbys or "," in connection.info.get_parameters().get("host", "")
    losses = ((_FLUSH, not flushes), (_TORN, not has_whole_pages), (_LAG, has_standbys and not is_synchronous))
    return "; ".join(loss for loss, is_possible in losses if is_possible)


def warn_of(window: str, before: str, url: str) -> str:
    """
    Return *window* (see `loss_window`); log a warning if it differs from *before*, perhaps because a standby failed.
    """
    if window and window != before:
        _LOG.warning("%s may lose %s", url, window)
    return window
