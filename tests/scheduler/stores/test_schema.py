"""
A store creates the schema of its tables in one step, migrates older schemas, and refuses unknown schemas.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from importlib.resources import files

import pytest
from writes import set_one

from tickwheel.jobs.errors import StoreFormatError, StoreInUseError
from tickwheel.stores import open_store
from tickwheel.stores._sql import checksum_of
from tickwheel.stores.postgres import _schema as postgres_schema
from tickwheel.stores.sqlite import _owner_lock
from tickwheel.stores.sqlite import _schema as sqlite_schema

SECOND = ["CREATE TABLE tickwheel_second (x integer);", "ALTER TABLE tickwheel_second ADD COLUMN y integer;"]
BROKEN = ["CREATE TABLE tickwheel_half (x integer);\nCREATE TABLE tickwheel_half (x integer);"]


class SqliteTables:
    migrations = sqlite_schema.MIGRATIONS

    def __init__(self, path):
        self.path, self.url = path, f"sqlite:///{path}"

    def execute(self, statement):
        with closing(sqlite3.connect(self.path, isolation_level=None)) as connection:
            return connection.execute(statement).fetchall()

    def migrate(self, migrations, **options):
        """
        Migrate the tables to the last of *migrations*.
        """
        with closing(sqlite3.connect(self.path, isolation_level=None)) as connection:
            sqlite_schema.migrate(connection, self.url, migrations, **options)


class PostgresTables:
    migrations = postgres_schema.MIGRATIONS

    def __init__(self, server, database):
        self.server, self.database, self.url = server, database, server.url(database)

    def execute(self, statement):
        return self.server.execute(statement, self.database)

    def migrate(self, migrations):
        """
        Migrate the tables to the last of *migrations*.
        """
        import psycopg  # noqa: PLC0415 - only where there is a server

        with psycopg.connect(self.url) as connection:
            postgres_schema.migrate(connection, self.url, None, migrations)


@pytest.fixture(params=["sqlite", "postgres"])
def tables(request, path):
    """
    Return the empty tables of a store, for each kind of store.
    """
    if request.param == "sqlite":
        return SqliteTables(path)
    return PostgresTables(request.getfixturevalue("postgres"), request.getfixturevalue("database"))


def version(tables):
    """
    Return the row with the version.
    """
    (row,) = tables.execute("SELECT * FROM tickwheel_schema")
    return row


def make(tables):
    """
    Create the tables and one job.
    """
    with closing(open_store(tables.url)) as store:
        set_one(store)


def assert_refused(tables, said):
    """
    Assert that opening the store raises an error with the words *said*.

    The store's job and version must stay unchanged.
    """
    before = tables.execute("SELECT * FROM tickwheel_schema"), tables.execute("SELECT * FROM tickwheel_job")
    with pytest.raises(StoreFormatError, match=said) as caught:
        open_store(tables.url)
    assert not caught.value.is_transient
    assert (tables.execute("SELECT * FROM tickwheel_schema"), tables.execute("SELECT * FROM tickwheel_job")) == before
    assert len(before[1]) == 1


def test_migrates_forward(tables):
    """
    The tables of an older version are migrated in place, step by step, and keep their jobs.

    Afterwards the older version refuses to open them.
    """
    make(tables)
    newer = [*tables.migrations, *SECOND]
    tables.migrate(newer[:-1])
    assert version(tables) == (len(newer) - 1, checksum_of(newer[:-1]))
    tables.migrate(newer)
    tables.migrate(newer)
    assert version(tables) == (len(newer), checksum_of(newer))
    assert tables.execute("SELECT x, y FROM tickwheel_second") == []
    assert tables.execute("SELECT key FROM tickwheel_job") == [("key",)]
    known = len(tables.migrations)
    assert_refused(tables, f"has schema version {len(newer)}, and this tickwheel knows 1 to {known}: upgrade tickwheel")


def test_failed_migration_leaves_the_old_version(tables):
    """
    A migration that fails half-way leaves the tables unchanged.
    """
    make(tables)
    with pytest.raises(Exception, match="tickwheel_half"):
        tables.migrate([*tables.migrations, *BROKEN])
    with pytest.raises(Exception, match="tickwheel_half"):
        tables.execute("SELECT x FROM tickwheel_half")
    make(tables)
    assert version(tables) == (len(tables.migrations), checksum_of(tables.migrations))


@pytest.mark.parametrize("number", [1, 3, 12, 15])
def test_a_schema_before_the_first_release_is_refused(tables, number):
    """
    A schema whose version has no checksum is older than the first release.

    It is refused, and the error names the remedy.
    """
    make(tables)
    tables.execute("ALTER TABLE tickwheel_schema DROP COLUMN checksum")
    tables.execute(f"UPDATE tickwheel_schema SET version = {number}")  # noqa: S608 - a number of the test's own
    assert_refused(tables, f"never released .*version {number}, without a checksum.*: run 'tickwheel export' with")


def test_a_schema_that_was_edited_in_place_is_refused(tables):
    """
    If a migration script was edited after it had made the tables, the tables are refused.
    """
    edited = [script.replace("trace text", "traced text") for script in tables.migrations]
    edited = [script.replace("trace TEXT", "traced TEXT") for script in edited]
    tables.migrate([*edited, *SECOND])
    with pytest.raises(StoreFormatError, match=r"version 3, checksum '\w+' where this one has '\w+'.*tickwheel import"):
        tables.migrate([*tables.migrations, *SECOND])
    assert tables.execute("SELECT traced FROM tickwheel_job") == []


@pytest.mark.parametrize("number", [2, 99, -1])
def test_a_newer_schema_is_refused(tables, number):
    """
    A schema of a newer version is refused, and the error has both versions.

    The newer program can still use the schema.
    """
    make(tables)
    tables.execute(f"UPDATE tickwheel_schema SET version = {number}")  # noqa: S608 - a number of the test's own
    assert_refused(tables, rf"has schema version {number}, and this tickwheel knows 1 to \d+: upgrade tickwheel")


@pytest.mark.parametrize("statement", ["DELETE FROM tickwheel_schema", "UPDATE tickwheel_schema SET version = 0"])
def test_tables_without_a_version_are_refused(tables, statement):
    """
    Tables without a version are refused.

    Otherwise the store would create the tables a second time, although they already contain jobs.
    """
    make(tables)
    tables.execute(statement)
    assert_refused(tables, "with their version was emptied: drop its tables .* named tickwheel_")


def test_comments_and_spaces_are_free():
    """
    The checksum of a version depends only on the statements up to this version.

    It does not depend on comments and spaces, or on later migrations.
    """
    assert checksum_of(["CREATE TABLE a (\n    b text\n);\n"]) == checksum_of(["-- why\nCREATE TABLE a ( b text );"])
    assert checksum_of(["CREATE TABLE a (b text);"]) != checksum_of(["CREATE TABLE a (b text NOT NULL);"])


def test_an_older_owner_keeps_its_schema(path):
    """
    While a node of an older version fires the jobs of a file, a newer version does not migrate the file.
    """
    tables = SqliteTables(path)
    make(tables)
    newer = [*tables.migrations, *SECOND]
    owner = _owner_lock.OwnerLock(path)
    owner.take("older")
    with pytest.raises(StoreInUseError, match="an older tickwheel fires its jobs: stop that one first") as caught:
        tables.migrate(newer, is_owned=owner.is_taken)
    assert caught.value.is_transient
    assert version(tables)[0] == len(tables.migrations)
    owner.give_back()
    tables.migrate(newer, is_owned=owner.is_taken)
    assert version(tables)[0] == len(newer)


def test_a_node_continues_while_another_migrates(postgres, database):
    """
    A newer node migrates the store, and a running older node continues.

    Afterwards no older node can start.
    """
    tables = PostgresTables(postgres, database)
    with closing(open_store(f"{tables.url}&shards=2")) as older:
        assert len(older.acquire("older")) == 2
        tables.migrate([*tables.migrations, *SECOND])
        set_one(older)
        assert len(older.renew("older")) == 2
        assert_refused(tables, "upgrade tickwheel")


@pytest.mark.parametrize("store", ["sqlite", "postgres"])
def test_migrations_are_numbered_in_order(store):
    """
    The n-th migration script has the number n, so that two changes with the same number are detected.
    """
    folder = files(f"tickwheel.stores.{store}") / "migrations"
    numbers = sorted(entry.name.partition("_")[0] for entry in folder.iterdir() if entry.name.endswith(".sql"))
    assert numbers == [f"{number:04}" for number in range(1, len(numbers) + 1)]
