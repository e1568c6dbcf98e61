"""
One list declares the columns of a job, and the SQL statements take the columns from this list.
"""

from __future__ import annotations

import re
import sqlite3
from contextlib import closing
from dataclasses import fields, replace
from importlib.resources import files

import pytest

from tickwheel.jobs import columns, model, rules
from tickwheel.jobs import rows as _rows
from tickwheel.stores import _sql
from tickwheel.stores.postgres._queries import SQL as POSTGRES
from tickwheel.stores.sqlite import _schema
from tickwheel.stores.sqlite._queries import SQL as SQLITE

COLUMN = "|".join(columns.NAMES)
LIST = re.compile(rf"(?:(?:\w+\.)?(?:{COLUMN})(?: = [\w.?%]+)?,\s*){{3}}")
"""
A regular expression that matches three successive columns of a job, each followed by a comma.

It also matches columns to which an UPDATE assigns values.
"""
CHANGE = re.compile(rf"SET\s+(?:(?:{COLUMN}) = [^,]+,\s*){{2}}(?:{COLUMN}) = ")
STATEMENT = re.compile(r"^-- name: (\w+)\n(.*?)(?=^-- name: |\Z)", re.MULTILINE | re.DOTALL)
MARK = re.compile("^-- columns: .", re.MULTILINE)
FILES = [
    path
    for store in ("sqlite", "postgres")
    for path in files(f"tickwheel.stores.{store}").iterdir()
    if path.name.endswith(".sql")
]


def names_columns(statement):
    """
    Return True if *statement* lists columns of a job one by one.
    """
    code = re.sub(r"^\s*--.*$|@\w+\([^()]*\)", "", statement, flags=re.MULTILINE)
    return bool(re.search("tickwheel_(job|live)", code) and (LIST.search(code) or CHANGE.search(code)))


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_statements_use_macros_for_columns(path):
    """
    If an SQL statement needs the columns of a job, it uses a macro.

    A statement that lists the columns one by one has a comment with the reason.
    """
    statements = STATEMENT.findall(path.read_text("utf-8"))
    assert statements
    assert [name for name, text in statements if names_columns(text) and not MARK.search(text)] == []


def test_lists_of_columns_are_detected():
    """
    The check for lists of columns detects a list in every form that occurs in statements.
    """
    for text in (
        "SELECT key, generation, due_at, payload FROM tickwheel_job",
        "SELECT j.key, j.generation,\n    j.due_at, payload FROM tickwheel_live AS j",
        "INSERT INTO tickwheel_job (shard, state, attempt, due_at, generation) VALUES (0)",
        "UPDATE tickwheel_job SET state = ?, attempt = ?, error = ? WHERE shard = ?",
        "UPDATE tickwheel_job AS j SET error = n.error, trace = n.trace, pause = n.pause",
    ):
        assert names_columns(text), text
    for text in ("SELECT @columns(j, due_at = k.due_at) FROM tickwheel_job", "SELECT key, due_at FROM tickwheel_job"):
        assert not names_columns(text), text


def test_macros():
    """
    Each macro expands to the declared list of columns.

    An unknown macro or column is refused.
    """

    def expand(text):
        return _sql.expand(text, lambda column: f"?{column.kind}")

    names = columns.NAMES
    assert expand("SELECT @columns, shard") == f"SELECT {', '.join(names)}, shard"
    assert expand("@columns(j)") == ", ".join(f"j.{name}" for name in names)
    replaced = expand("@columns(j, due_at = k.at, -payload)").split(", ")
    assert replaced == ["k.at" if name == "due_at" else f"j.{name}" for name in names if name != "payload"]
    assert expand("(@values)") == f"({', '.join(f'?{column.kind}' for column in columns.ALL)})"
    assert expand("SET @set(n)") == "SET " + ", ".join(f"{name} = n.{name}" for name in names if name != "key")
    for text, said in (
        ("@colums", "no macro '@colums'"),
        ("@set", "no macro"),
        ("@columns(-kye)", "names kye: the col"),
    ):
        with pytest.raises(ValueError, match=said):
            expand(text)


def test_no_macro_is_left():
    assert [name for sql in (SQLITE, POSTGRES) for name, text in sql.items() if "@" in text] == []


def test_tables_have_the_columns_and_defaults():
    """
    The tables have exactly the declared columns.

    If a job is inserted with only the most common columns, the other columns get their defaults.
    """
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        _schema.migrate(connection, "url")
        there = {row[1] for row in connection.execute("PRAGMA table_info(tickwheel_job)")}
        assert there == {*columns.NAMES, "shard", "instant"}
        connection.execute(SQLITE["insert_plain_job"], (5, 7, "key", b"1", "handler", "h", 3))
        (row,) = connection.execute(f"SELECT {', '.join(columns.NAMES)} FROM tickwheel_job")  # noqa: S608 our own names
    job = model.Job("key", 7, 5, b"1", handler="h", first_set_at=3)
    assert _rows.job_of(row) == job
    assert row == _rows.row_of(job)
    assert _rows.is_plain(job)


def test_tables_of_postgres_have_the_columns(postgres, database, open_database):
    """
    The tables of PostgreSQL have exactly the columns of the declared list.
    """
    open_database().close()
    query = (
        "SELECT column_name::text, column_default FROM information_schema.columns WHERE table_name = 'tickwheel_job'"
    )
    there = dict(postgres.execute(query, database))
    assert set(there) == {*columns.NAMES, "shard"}


def test_every_field_is_a_column_but_two():
    """
    Each field of `Job` except two is a column, and the columns have the order of the fields.

    The default of a column is the default of the field.
    """
    assert [field.name for field in fields(model.Job)] == [*columns.NAMES, *columns.UNSTORED]
    assert {*columns.PLAIN, *columns.DEFAULTS} == {*columns.NAMES}
    plain = model.Job("key", 1, 2)
    assert {name: getattr(plain, name) for name in columns.DEFAULTS} == columns.DEFAULTS


@pytest.mark.parametrize("column", columns.ALL, ids=lambda column: column.name)
def test_a_row_holds_every_value(column):
    """
    A job is read back from its row unchanged, whichever column has a value other than its default.
    """
    own = {
        "state": model.State.RUNNING,
        "retry": model.RetryPolicy(2, base_ms=7),
        "pause": model.Pause(5, "ops", "why"),
        "payload": b"1",
    }
    value = own.get(column.name, 9 if column.kind.startswith("int") else "text")
    job = model.Job(**{"key": "key", "generation": 1, "due_at": 2} | {column.name: value})
    assert _rows.is_plain(job) == (column.name in columns.PLAIN)
    assert rules.is_plain_set(model.Set(job)) == (column.name in rules.PLAIN_SET)
    assert _rows.job_of(_rows.row_of(job)) == job
    is_same = _rows.is_same_but("key")
    other = model.Job("key", 1, 2)
    assert is_same(job, other) == (column.name == "key")


class Nothing(dict):
    """
    A mapping in which each name has the value None, which SQLite reads as NULL.
    """

    def __missing__(self, name):
        return None


@pytest.mark.parametrize("name", SQLITE)
def test_sqlite_prepares_every_statement(name):
    """
    SQLite can prepare every statement.

    So no statement refers to a table or column that does not exist.
    """
    keys = "SELECT shelf, key, due_at, generation FROM tickwheel_key"
    statement = SQLITE[name].replace("(:keys)", f"({keys})" if name in {"page", "end_of_reach"} else "('key')")
    statement = statement.replace(":shelves", "0").replace("VALUES :rows", "VALUES ('key')")
    values = Nothing() if re.search(r":\w", statement) else [None] * statement.count("?")
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        _schema.migrate(connection, "url")
        connection.execute(f"EXPLAIN {statement}", values)


def test_postgres_prepares_every_statement(postgres, database, open_database):
    """
    PostgreSQL can prepare every statement and infers the types of all its parameters.
    """
    psycopg = pytest.importorskip("psycopg")
    open_database().close()
    refused = {}
    with psycopg.connect(postgres.url(database), autocommit=True) as connection:
        for name, statement in POSTGRES.items():
            numbers = {}
            text = re.sub(
                r"%(?:\((\w+)\))?s",
                lambda found: f"${numbers.setdefault(found[1] or len(numbers), len(numbers) + 1)}",  # noqa: B023  called at once
                statement,
            ).replace("%%", "%")
            try:
                connection.execute(f"PREPARE {name} AS {text}")
            except psycopg.Error as error:
                refused[name] = str(error)
    assert refused == {}


@pytest.mark.parametrize("name", ["set_new", "set_one"])
def test_a_plain_set_of_postgres_writes_its_columns(name):
    """
    A statement for plain set requests (without rare options) writes exactly the columns that such requests may fill.
    """
    (listed,) = re.findall(r"INSERT INTO tickwheel_job \(([^)]*)\)", POSTGRES[name])
    assert set(re.split(r",\s*", listed)) == {*rules.PLAIN_SET, "attempt", "first_set_at", "shard"}


@pytest.mark.parametrize("field", [each.name for each in fields(model.Set)])
def test_a_set_with_other_options_is_not_plain(field):
    """
    A set request is not plain if one of its options matters even for a new key.

    Plain requests use a shorter statement.
    """
    write = replace(model.Set(model.Job("key", 0, 2)), **({} if field == "job" else {field: 5}))
    harmless = {"job", "mode", "clock_step", "over", "keeps_payload", "has_phase", "counted_from"}
    assert rules.is_plain_set(write) == (field in harmless)
