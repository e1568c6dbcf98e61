from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from typing import Final

from tickwheel.jobs.errors import StoreFormatError, StoreInUseError
from tickwheel.stores._sql import checksum_of, load_migrations, version_of

__all__ = ["MIGRATIONS", "migrate"]

MIGRATIONS: Final = load_migrations(__package__)


def migrate(
    connection: sqlite3.Connection,
    url: str,
    migrations: list[str] = MIGRATIONS,
    *,
    is_owned: Callable[[], bool] = lambda: False,
) -> None:
    """
    Apply the missing *migrations* atomically. A file of the current version is only read.

    Only tables that begin with `tickwheel_` are touched. If the file is older and *is_owned* returns True, a
    `StoreInUseError` is raised, because the owner, which uses the older schema, would not find new writes.
    """
    version = _version(connection, url, migrations)
    if version == len(migrations):
        if connection.execute("SELECT 1 FROM tickwheel_ledger").fetchone() is None:
            what = f"{url} has lost the row of tickwheel_ledger, where its numbers are kept"
            raise StoreFormatError(what, "restore a backup; something else has written to the tables")
        return
    if version and is_owned():
        what = f"{url} has schema version {version}, and an older tickwheel fires its jobs"
        raise StoreInUseError(what, "stop that one first; the file was left as it is", is_transient=True)
    connection.execute("BEGIN IMMEDIATE")
    try:
        # Another process may have migrated the file during the wait for the lock.
        for script in migrations[_version(connection, url, migrations) :]:
            for statement in _statements(script):
                connection.execute(statement)
        connection.execute(
            "CREATE TABLE IF NOT EXISTS tickwheel_schema (version INTEGER NOT NULL, checksum TEXT NOT NULL)"
        )
        connection.execute("DELETE FROM tickwheel_schema")
        connection.execute("INSERT INTO tickwheel_schema VALUES (?, ?)", (len(migrations), checksum_of(migrations)))
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:  # a full disk may have ended it
            connection.execute("ROLLBACK")
        raise


def _version(connection: sqlite3.Connection, url: str, migrations: list[str]) -> int:
    tables = "SELECT name FROM sqlite_schema WHERE name IN ('tickwheel_schema', 'tickwheel_job')"
    found = {name for (name,) in connection.execute(tables)}
    row = connection.execute("SELECT * FROM tickwheel_schema").fetchone() if "tickwheel_schema" in found else None
    return version_of(row, migrations, url, has_jobs="tickwheel_job" in found)


def _statements(script: str) -> Iterator[str]:
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""
