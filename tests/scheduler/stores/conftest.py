"""
Fixtures of the tests of stores: several store objects on one SQLite file or in one database.
"""

from __future__ import annotations

import subprocess
import sys
import textwrap
from contextlib import closing
from types import SimpleNamespace

import pytest

from tickwheel.stores import open_store
from tickwheel.stores.sqlite import SqliteStore, _store
from tickwheel.testing import ManualClock


@pytest.fixture
def path(tmp_path):
    return tmp_path / "jobs.db"


READ = "SELECT idx_tup_fetch + seq_tup_read FROM pg_stat_xact_user_tables WHERE relname = 'tickwheel_job'"


@pytest.fixture
def rows_read(monkeypatch):
    """
    Return a function that starts to count the jobs that queries read.

    The function returns a list. At each commit, the number of jobs that the session has read so far is added to the
    list.
    """
    psycopg = pytest.importorskip("psycopg", reason="psycopg is not installed: pip install 'tickwheel[postgres]'")

    def begin():
        read, execute = [], psycopg.Connection.execute

        def reading(self, query, *values, **more):
            if query == "COMMIT":
                read.extend(execute(self, READ).fetchone())
            return execute(self, query, *values, **more)

        monkeypatch.setattr(psycopg.Connection, "execute", reading)
        return read

    return begin


@pytest.fixture
def open_file(path):
    """
    Return a function that opens stores on *path*.

    The fixture closes the stores at the end.
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
    return ManualClock(wall=1_699_963_200.0)


@pytest.fixture
def weighed(monkeypatch):
    """
    Return a list to which each commit of a SQLite store appends its weight.

    The weight is the commit's contribution towards the next checkpoint. No checkpoint thread runs during the test.
    """
    weights = []
    made = SimpleNamespace(wrote=weights.append, close=lambda: None)
    monkeypatch.setattr(_store, "Checkpointer", lambda _connect: made)
    return weights


@pytest.fixture
def store(path, clock):
    """
    Return an open store on *path* that has an owner and uses *clock*.
    """
    with closing(SqliteStore(path, clock=clock)) as store:
        store.open()
        store.acquire("owner")
        yield store


@pytest.fixture
def open_database(postgres, database):
    """
    Return a function that opens stores in *database*.

    The fixture closes the stores at the end.
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
    from tickwheel.jobs.model import Job, Set
    from tickwheel.stores.sqlite import SqliteStore, _store
    from tickwheel.jobs.errors import StoreError
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
    Return a function that runs a process of an unprivileged user.

    The process opens a file and sets a thousand jobs in it. The function returns the text that the process prints.
    """

    def own(path):
        program = textwrap.dedent(OWNING).replace("NOBODY", str(NOBODY))
        command = [sys.executable, "-c", program, path]
        answer = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
        assert answer.stderr == ""
        return answer.stdout

    return own
