from __future__ import annotations

from typing import Final

from tickwheel.stores._sharding import SHARDS
from tickwheel.stores._sql import checksum_of, load_migrations, version_of
from tickwheel.stores.postgres._connections import Connection
from tickwheel.stores.postgres._queries import SQL

__all__ = ["MIGRATIONS", "make_again", "make_shards", "migrate"]

MIGRATIONS: Final = load_migrations(__package__)


def migrate(connection: Connection, url: str, shards: int | None, migrations: list[str] = MIGRATIONS) -> int:
    """
    Apply the missing *migrations* in the caller's transaction, and return the number of shards.

    *shards* is the minimum number of shards, None for the default. Existing jobs stay in their shards; new jobs are
    distributed over all shards.
    """
    connection.execute(SQL["lock_schema"])
    connection.execute("SET LOCAL client_min_messages = warning")
    connection.execute("CREATE TABLE IF NOT EXISTS tickwheel_schema (version integer NOT NULL, checksum text NOT NULL)")
    row = connection.execute("SELECT * FROM tickwheel_schema").fetchone()
    has_jobs = connection.execute("SELECT to_regclass('tickwheel_job')").fetchone() != (None,)
    version = version_of(row, migrations, url, has_jobs=has_jobs)
    for script in migrations[version:]:
        connection.execute(script)
    if version < len(migrations):
        connection.execute("DELETE FROM tickwheel_schema")
        connection.execute("INSERT INTO tickwheel_schema VALUES (%s, %s)", (len(migrations), checksum_of(migrations)))
    return make_shards(connection, shards)


def make_again(connection: Connection, shards: int) -> bool:
    """
    Insert the fixed rows of an emptied database again; return False if another node has done so.
    """
    connection.execute(SQL["lock_schema"])
    if not connection.execute(SQL["make_server_again"]).rowcount:
        return False
    connection.execute(SQL["make_version_again"], (len(MIGRATIONS), checksum_of(MIGRATIONS)))
    connection.execute(SQL["make_counts_again"])
    make_shards(connection, shards)
    return True


def make_shards(connection: Connection, wanted: int | None) -> int:
    row = connection.execute(SQL["shards"]).fetchone()
    there: int = row[0] if row else 0
    wanted = wanted or (there or SHARDS)
    if wanted > there:
        connection.execute(SQL["make_shards"], (there, wanted))
    return max(there, wanted)
