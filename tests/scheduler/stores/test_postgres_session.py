"""
The settings of a PostgreSQL session from the URL and from the environment, and the session's encoding.
"""

from __future__ import annotations

import pytest
from sessions import noted_sessions, session_of
from writes import set_one

from tickwheel.jobs import model
from tickwheel.jobs.errors import StoreError

psycopg = pytest.importorskip("psycopg", reason="psycopg is not installed: pip install 'tickwheel[postgres]'")

PATIENCE_S = 30.0


def test_session_options_of_the_url(postgres, database, open_database, until):
    """
    The session options in the URL apply, except for options that the store sets itself, such as `jit`.

    The store's tables are in the schema that `search_path` names, and owners are notified of writes to these tables.
    """
    postgres.execute("CREATE SCHEMA jobs", database)
    plain = open_database()
    options = "&options=-c%20search_path%3Djobs%20-c%20jit%3Don&application_name=shop&shards=1"
    with noted_sessions() as sessions:
        store, client = open_database(options), open_database(options)
        session = session_of(store, sessions)
    store.acquire("owner")
    until(lambda: store.wait_for_change(0.0) is False)
    set_one(client)
    assert store.wait_for_change(PATIENCE_S)
    assert (store.count()["pending"], plain.count()["pending"]) == (1, 0)
    assert postgres.execute("SELECT count(*) FROM jobs.tickwheel_job", database) == [(1,)]
    shown = [session.execute(f"SHOW {name}").fetchone()[0] for name in ("application_name", "jit", "search_path")]
    assert shown == ["shop", "off", "jobs"]


def test_session_options_of_the_environment(postgres, database, open_database, monkeypatch):
    """
    If the URL has no options, the options in PGOPTIONS apply, so that all programs can use the same schema.
    """
    postgres.execute("CREATE SCHEMA jobs", database)
    monkeypatch.setenv("PGOPTIONS", "-c search_path=jobs -c jit=on")
    with noted_sessions() as sessions:
        session = session_of(open_database(), sessions)
    assert session.execute("SHOW search_path").fetchone() == ("jobs",)
    assert session.execute("SHOW jit").fetchone() == ("off",)


def encoded(postgres, database, encoding):
    """
    Recreate the empty *database* in *encoding*.
    """
    postgres.execute(f"DROP DATABASE {database} WITH (FORCE)")
    postgres.execute(f"CREATE DATABASE {database} ENCODING '{encoding}' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0")


@pytest.mark.parametrize("encoding", ["UTF8", "SQL_ASCII"])
def test_keys_of_any_script(postgres, database, open_database, monkeypatch, encoding):
    """
    Text is read back unchanged, whatever encoding the database, the environment and the URL have.
    """
    encoded(postgres, database, encoding)
    monkeypatch.setenv("PGCLIENTENCODING", "latin1")
    for store, key in ((open_database(), "\xe91"), (open_database("&client_encoding=win1252"), "\xe9\u65e5")):
        job = set_one(store, key)
        assert store.get(key) == job
        assert [job.key for job in store.page(model.JobQuery(prefix="\xe9")).jobs] == [key]
        (answer,) = store.apply([model.Cancel(key)])
        assert answer.outcome == "cancelled"


@pytest.mark.parametrize("encoding", ["LATIN1", "WIN1252"])
def test_a_database_that_lacks_characters(postgres, database, open_database, encoding):
    """
    A database whose encoding cannot store every text is refused before any table is created.
    """
    encoded(postgres, database, encoding)
    with pytest.raises(StoreError, match=f"the database is in {encoding}, .*: name one in UTF8") as caught:
        open_database()
    assert not caught.value.is_transient
    assert postgres.execute("SELECT count(*) FROM pg_tables WHERE tablename LIKE 'tickwheel%'", database) == [(0,)]
