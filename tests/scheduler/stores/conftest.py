"""
What the tests of stores share: stores on one SQLite file, and how a store goes back to an earlier schema.
"""

from __future__ import annotations

import pytest

from tickwheel.scheduler.stores import open_store
from tickwheel.scheduler.stores.postgres import _schema as postgres_schema
from tickwheel.scheduler.stores.sqlite import SqliteStore
from tickwheel.scheduler.stores.sqlite import _schema as sqlite_schema


@pytest.fixture
def path(tmp_path):
    """
    Return where a store's file may be.
    """
    return tmp_path / "jobs.db"


@pytest.fixture
def open_file(path):
    """
    Return what opens stores on *path*; they are closed in the end.
    """
    opened = []

    def open_one(**options):
        opened.append(SqliteStore(path, **options))
        opened[-1].open()
        return opened[-1]

    yield open_one
    for store in opened:
        store.close()


@pytest.fixture
def open_database(postgres, database):
    """
    Return what opens stores in that database; they are closed in the end.
    """
    opened = []

    def make_one(options="", user="tick"):
        url = postgres.url(database).replace("user=tick", f"user={user}")
        opened.append(open_store(f"{url}{options}"))
        return opened[-1]

    yield make_one
    for store in opened:
        store.close()


@pytest.fixture
def go_back():
    """
    Return what brings a store back to an earlier schema: what later migrations added is taken away again.
    """

    def go_back_to(kind, version, execute):
        schema, undo = UNDO[kind]
        assert max(undo) == len(schema.MIGRATIONS), f"write into UNDO how to undo {kind}'s last migration"
        for number in range(max(undo), version, -1):
            for statement in undo[number].split("; "):
                execute(statement)
        execute(f"UPDATE tickwheel_schema SET version = {version}")  # noqa: S608 - a number of the test's own

    return go_back_to


UNDO = {
    "sqlite": (
        sqlite_schema,
        {
            7: "DROP TABLE tickwheel_history",
            8: "DROP TABLE tickwheel_scope",
            9: "DROP TABLE tickwheel_level; ALTER TABLE tickwheel_job DROP COLUMN instant",
            10: "ALTER TABLE tickwheel_history DROP COLUMN note",
            11: "DROP TABLE tickwheel_shelf; DROP TABLE tickwheel_filter",
        },
    ),
    "postgres": (
        postgres_schema,
        {
            10: "DROP TABLE tickwheel_history",
            11: "ALTER TABLE tickwheel_node DROP COLUMN heard_at, DROP COLUMN figures",
            12: "DROP TABLE tickwheel_scope",
            13: "ALTER TABLE tickwheel_history DROP COLUMN note",
            14: "ALTER TABLE tickwheel_shard DROP COLUMN lease_ms; ALTER TABLE tickwheel_node DROP COLUMN lease_ms",
            15: "ALTER TABLE tickwheel_server DROP COLUMN table_oid, DROP COLUMN database_oid",
        },
    ),
}
"""What undoes each migration, from the first one on before which a test goes back."""
