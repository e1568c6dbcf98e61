"""
What the tests of stores share: stores on one SQLite file, and how a store goes back to an earlier schema.
"""

from __future__ import annotations

import subprocess
import sys
import textwrap
from contextlib import closing

import pytest

from tickwheel.scheduler.stores import open_store
from tickwheel.scheduler.stores.postgres import _schema as postgres_schema
from tickwheel.scheduler.stores.sqlite import SqliteStore
from tickwheel.scheduler.stores.sqlite import _schema as sqlite_schema
from tickwheel.testing import ManualClock


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
def clock():
    """
    Return a clock that is set to the start of a slot of far jobs.
    """
    return ManualClock(wall=1_699_963_200.0)


@pytest.fixture
def store(path, clock):
    """
    Return an open store on *path* with an owner, whose time is *clock*.
    """
    with closing(SqliteStore(path, clock=clock)) as store:
        store.open()
        store.acquire("owner")
        yield store


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


OWNING = """
    import os, sys
    from tickwheel.scheduler.model import Job, Set
    from tickwheel.scheduler.stores.sqlite import SqliteStore
    from tickwheel.scheduler.errors import StoreError
    if os.geteuid() == 0:
        os.setgid(NOBODY); os.setuid(NOBODY)
    store = SqliteStore(sys.argv[1])
    try:
        store.open()
        store.acquire("owner")
        print(store.apply([Set(Job(str(n), 0, 0, bytes(2_000))) for n in range(1_000)])[0].outcome)
    except StoreError as error:
        print(type(error).__name__, error)
    store.close()
"""
NOBODY = 65534


@pytest.fixture
def own_as_nobody():
    """
    Return what sets a thousand jobs in a file as its owner, as a user without rights, and returns what that printed.
    """

    def own(path):
        program = textwrap.dedent(OWNING).replace("NOBODY", str(NOBODY))
        command = [sys.executable, "-c", program, path]
        answer = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
        assert answer.stderr == ""
        return answer.stdout

    return own


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
            12: "DROP VIEW tickwheel_live; DROP TABLE tickwheel_gone; ALTER TABLE tickwheel_ledger DROP COLUMN gone",
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
