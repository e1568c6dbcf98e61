"""
The schema of a database: which version it has, and how it comes to ours.
"""

from __future__ import annotations

from typing import Final

from tickwheel.scheduler.errors import StoreFormatError
from tickwheel.scheduler.stores._sharding import SHARDS
from tickwheel.scheduler.stores._sql import load_migrations
from tickwheel.scheduler.stores.postgres._connections import Connection
from tickwheel.scheduler.stores.postgres._queries import SQL

__all__ = ["MIGRATIONS", "make_again", "make_shards", "migrate"]

MIGRATIONS: Final = load_migrations(__package__)


def migrate(connection: Connection, url: str, shards: int | None) -> int:
    """
    Bring the tables to the last of the migrations, in the caller's transaction, and return the number of shards.

    Args:
        connection: With a transaction open.
        url: What errors show.
        shards: How many it is to have at least; None for the usual number in a new store. Jobs stay in the shards where
            they are, and those that are written from now on spread over all of them.

    Raises:
        StoreFormatError: If the database is of a newer version.
    """
    connection.execute(SQL["lock_schema"])
    connection.execute("SET LOCAL client_min_messages = warning")
    connection.execute("CREATE TABLE IF NOT EXISTS tickwheel_schema (version integer NOT NULL)")
    row = connection.execute("SELECT version FROM tickwheel_schema").fetchone()
    version = row[0] if row else 0
    if version > len(MIGRATIONS):
        what = f"{url} has schema version {version}, and this tickwheel knows 1 to {len(MIGRATIONS)}"
        raise StoreFormatError(what, "upgrade tickwheel; the database was left as it is")
    if not version and connection.execute("SELECT to_regclass('tickwheel_job')").fetchone() != (None,):
        what = f"{url} has tables of tickwheel's that somebody emptied"
        raise StoreFormatError(what, "drop its tables and sequences that are named tickwheel_*, and start again")
    for script in MIGRATIONS[version:]:
        connection.execute(script)
    if version < len(MIGRATIONS):
        connection.execute("DELETE FROM tickwheel_schema")
        connection.execute("INSERT INTO tickwheel_schema VALUES (%s)", (len(MIGRATIONS),))
    return make_shards(connection, shards)


def make_again(connection: Connection, shards: int) -> bool:
    """
    Put the rows there again without which an emptied database takes no job; return whether nobody else has.
    """
    connection.execute(SQL["lock_schema"])
    if not connection.execute(SQL["make_server_again"]).rowcount:
        return False
    connection.execute(SQL["make_version_again"], (len(MIGRATIONS),))
    connection.execute(SQL["make_counts_again"])
    make_shards(connection, shards)
    return True


def make_shards(connection: Connection, wanted: int | None) -> int:
    """
    Make shards until there are *wanted*, None for the usual number in a new store; return how many there are.
    """
    row = connection.execute(SQL["shards"]).fetchone()
    there: int = row[0] if row else 0
    wanted = wanted or (there or SHARDS)
    if wanted > there:
        connection.execute(SQL["make_shards"], (there, wanted))
    return max(there, wanted)
