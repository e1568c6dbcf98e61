"""
Makes the effect of a job happen only once, although its firing may be repeated.

A firing is repeated if its process ends between the work and the acknowledgement. If the work is a transaction in
SQLite or PostgreSQL, a table of message ids in that database detects the repeat.

    @scheduler.handler("bill")
    def bill(payload, firing):
        with connect() as conn:
            if first_time(conn, firing):
                conn.execute("INSERT INTO bills ...")

The first firing that commits has the effect. Later firings of the same run find its id in the table. `prune` deletes
old ids.
"""

from __future__ import annotations

import sqlite3
import time
from typing import Any, Final

from tickwheel.jobs import checks
from tickwheel.jobs.errors import TransactionError
from tickwheel.targets import Firing
from tickwheel.typing import Duration

__all__ = ["create_table", "first_time", "first_time_async", "prune"]

_CREATE: Final = "CREATE TABLE IF NOT EXISTS tickwheel_effects (message_id text PRIMARY KEY, done_at bigint NOT NULL)"
_ADD: Final = "INSERT INTO tickwheel_effects (message_id, done_at) VALUES (?, ?) ON CONFLICT DO NOTHING"
_PRUNE: Final = "DELETE FROM tickwheel_effects WHERE done_at < ?"
_KEPT_S: Final = 30 * 86_400.0


def create_table(conn: Any) -> None:
    """
    Create the table `tickwheel_effects`, if missing, in the transaction of *conn* (`sqlite3` or psycopg 3).
    """
    conn.execute(_CREATE)


def first_time(conn: Any, firing: Firing) -> bool:
    """
    Record *firing* in the transaction of *conn*, and return True if it is the first firing of its run.

    Work in this transaction happens only once. If the transaction is rolled back, or the process ends, the work has not
    happened, and the next firing gets True. In PostgreSQL, a concurrent firing waits until the first firing commits.

    *conn* is a connection of `sqlite3` or psycopg 3, in the transaction that writes the effect. It may begin
    transactions automatically. The table must exist: see `create_table`.

    Raises:
        TransactionError: If *conn* commits each statement separately; the id could then be stored without the effect.
    """
    _check(conn)
    return bool(conn.execute(_of(conn, _ADD), _row(firing)).rowcount)


async def first_time_async(conn: Any, firing: Firing) -> bool:
    """
    `first_time` for an `AsyncConnection` of psycopg 3.
    """
    _check(conn)
    cursor = await conn.execute(_of(conn, _ADD), _row(firing))
    return bool(cursor.rowcount)


def prune(conn: Any, older_than_s: Duration = _KEPT_S) -> int:
    """
    Delete message ids that are older than *older_than_s*, in the transaction of *conn*, and return their number.

    If a job is retried or snoozed for longer than *older_than_s*, its effect may happen again.
    """
    age_ms = int(checks.seconds("older_than_s", older_than_s) * 1000)
    return int(conn.execute(_of(conn, _PRUNE), (_now_ms() - age_ms,)).rowcount)


def _row(firing: Firing) -> tuple[str, int]:
    return firing.message_id, _now_ms()


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _of(conn: Any, statement: str) -> str:
    return statement if isinstance(conn, sqlite3.Connection) else statement.replace("?", "%s")


def _check(conn: Any) -> None:
    if isinstance(conn, sqlite3.Connection):
        autocommit = getattr(conn, "autocommit", None)  # from Python 3.12 on
        begins = autocommit is False or (autocommit is not True and conn.isolation_level is not None)
        if not (conn.in_transaction or begins):
            what = "commits every statement at once"
            raise TransactionError(what, "execute BEGIN first, or leave isolation_level at its default")
        return
    info = getattr(conn, "info", None)
    if info is None or not hasattr(info, "transaction_status"):
        what = f"is {type(conn).__name__}"
        raise TransactionError(what, "pass a connection of sqlite3 or psycopg 3")
    if conn.autocommit and info.transaction_status.name == "IDLE":
        what = "commits every statement at once"
        raise TransactionError(what, "use it within `with conn.transaction():`")
