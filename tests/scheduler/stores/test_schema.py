"""
The schema of a store's tables: made in one step, migrated forward, and refused if this tickwheel does not know it.
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
    """
    The tables of a SQLite file.
    """

    migrations = sqlite_schema.MIGRATIONS

    def __init__(self, path):
        self.path, self.url = path, f"sqlite:///{path}"

    def execute(self, statement):
        """
        Execute *statement*, and return its rows.
        """
        with closing(sqlite3.connect(self.path, isolation_level=None)) as connection:
            return connection.execute(statement).fetchall()

    def migrate(self, migrations, **options):
        """
        Migrate the tables to the last of *migrations*.
        """
        with closing(sqlite3.connect(self.path, isolation_level=None)) as connection:
            sqlite_schema.migrate(connection, self.url, migrations, **options)


class PostgresTables:
    """
    The tables of a PostgreSQL database.
    """

    migrations = postgres_schema.MIGRATIONS

    def __init__(self, server, database):
        self.server, self.database, self.url = server, database, server.url(database)

    def execute(self, statement):
        """
        Execute *statement*, and return its rows.
        """
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
    Return the tables of an empty store, for each kind of store.
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
    Make a store with one job.
    """
    with closing(open_store(tables.url)) as store:
        set_one(store)


def assert_refused(tables, said):
    """
    Assert that the store is refused with the words *said*, and that its job and its version stay unchanged.
    """
    before = tables.execute("SELECT * FROM tickwheel_schema"), tables.execute("SELECT * FROM tickwheel_job")
    with pytest.raises(StoreFormatError, match=said) as caught:
        open_store(tables.url)
    assert not caught.value.is_transient
    assert (tables.execute("SELECT * FROM tickwheel_schema"), tables.execute("SELECT * FROM tickwheel_job")) == before
    assert len(before[1]) == 1


def test_migrates_forward(tables):
    """
    A store of an older version is migrated in place, step by step, keeping its jobs; a program of that version stops.
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
    Tables whose version has no checksum are refused with that version and a remedy, whatever its number.
    """
    make(tables)
    tables.execute("ALTER TABLE tickwheel_schema DROP COLUMN checksum")
    tables.execute(f"UPDATE tickwheel_schema SET version = {number}")  # noqa: S608 - a number of the test's own
    assert_refused(tables, f"never released .*version {number}, without a checksum.*: run 'tickwheel export' with")


def test_a_schema_that_was_edited_in_place_is_refused(tables):
    """
    Tables of the same version made by another script are refused, and so are tables of an edited later step.
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
    A store of an unknown version is refused with both versions, and stays usable for the newer program.
    """
    make(tables)
    tables.execute(f"UPDATE tickwheel_schema SET version = {number}")  # noqa: S608 - a number of the test's own
    assert_refused(tables, rf"has schema version {number}, and this tickwheel knows 1 to \d+: upgrade tickwheel")


@pytest.mark.parametrize("statement", ["DELETE FROM tickwheel_schema", "UPDATE tickwheel_schema SET version = 0"])
def test_tables_without_a_version_are_refused(tables, statement):
    """
    Tables that lost their version are not created again over their jobs.
    """
    make(tables)
    tables.execute(statement)
    assert_refused(tables, "with their version was emptied: drop its tables .* named tickwheel_")


def test_comments_and_spaces_are_free():
    """
    The checksum depends on the statements, not on their formatting, and not on the tables of a later step.
    """
    assert checksum_of(["CREATE TABLE a (\n    b text\n);\n"]) == checksum_of(["-- why\nCREATE TABLE a ( b text );"])
    assert checksum_of(["CREATE TABLE a (b text);"]) != checksum_of(["CREATE TABLE a (b text NOT NULL);"])


def test_an_older_owner_keeps_its_schema(path):
    """
    A file that an older version fires is migrated only after that version has stopped.
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


def test_a_node_goes_on_while_another_migrates(postgres, database):
    """
    A node of an older version continues while a newer one migrates its store; afterwards no older one starts.
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
    The n-th script is numbered n, so two changes with the same number are detected.
    """
    folder = files(f"tickwheel.stores.{store}") / "migrations"
    numbers = sorted(entry.name.partition("_")[0] for entry in folder.iterdir() if entry.name.endswith(".sql"))
    assert numbers == [f"{number:04}" for number in range(1, len(numbers) + 1)]
