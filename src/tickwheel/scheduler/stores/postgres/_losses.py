"""
The answers that a server may lose, by its settings.
"""

from __future__ import annotations

import logging
from typing import Final

from tickwheel.scheduler.stores.postgres._connections import Connection
from tickwheel.scheduler.stores.postgres._queries import SQL

__all__ = ["loss_window", "warn_of"]

_LOG: Final = logging.getLogger("tickwheel.scheduler")

_FLUSH: Final = "answered writes, or all of the database, when the server's machine loses power: set fsync = on"
_TORN: Final = (
    "all of the database, when the server's machine loses power while it writes a page: set full_page_writes = on"
)
_LAG: Final = "answered writes that the standby has not yet received when it takes over: set synchronous_standby_names"


def loss_window(connection: Connection) -> str:
    """
    Return what may be lost of what was answered, or "" where nothing is: every commit waits for the server's disk.

    A standby counts if it streams now, or if *connection* names a second server.
    """
    row = connection.execute(SQL["durability"]).fetchone()
    assert row is not None
    flushes, has_whole_pages, is_synchronous, has_standbys = row
    has_standbys = has_standbys or "," in connection.info.get_parameters().get("host", "")
    losses = ((_FLUSH, not flushes), (_TORN, not has_whole_pages), (_LAG, has_standbys and not is_synchronous))
    return "; ".join(loss for loss, is_possible in losses if is_possible)


def warn_of(window: str, before: str, url: str) -> str:
    """
    Return *window*, and warn of it unless it is as *before*: a standby may go while its primary runs.
    """
    if window and window != before:
        _LOG.warning("%s may lose %s", url, window)
    return window
