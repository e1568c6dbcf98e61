"""
A write with `conn=` joins the caller's own transaction on the same SQLite file.
"""

from __future__ import annotations

import asyncio
import signal
import sqlite3
import subprocess
import sys
import threading
from contextlib import closing

import pytest

from tickwheel.scheduler import AsyncScheduler, Scheduler, SetRequest, TransactionError, UnsupportedError

PATIENCE_S = 30
LATER = {"delay": 3600, "handler": "h"}


@pytest.fixture
def path(tmp_path):
    """
    Return the path of a file with a table of the caller.
    """
    path = tmp_path / "app.db"
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY)")
    return path


@pytest.fixture
def conn(path):
    with closing(sqlite3.connect(path)) as connection:
        yield connection


@pytest.fixture
def client(path):
    with closing(Scheduler(f"sqlite:///{path}")) as scheduler:
        scheduler.get("opened")
        yield scheduler


def orders(conn):
    return conn.execute("SELECT count(*) FROM orders").fetchone()[0]


def test_commit(client, conn):
    """
    A job set within a transaction exists once the caller commits, and not before.
    """
    conn.execute("INSERT INTO orders VALUES (1)")
    answer = client.set("k", **LATER, conn=conn)
    assert (answer.outcome, client.get("k")) == ("created", None)
    conn.commit()
    assert client.get("k") == answer.job
    assert client.stats()["pending"] == 1


def test_rollback(client, conn):
    """
    A job set within a transaction that is rolled back never existed.
    """
    conn.execute("INSERT INTO orders VALUES (1)")
    client.set("k", **LATER, conn=conn)
    conn.rollback()
    assert (client.get("k"), client.stats()["pending"], orders(conn)) == (None, 0, 0)
    assert client.set("k", **LATER).outcome == "created"


def test_all_verbs(client, conn):
    """
    Move, cancel and the bulk forms join the caller's transaction, as set does.

    They see the earlier writes of the transaction.
    """
    first = client.set("a", **LATER).job
    set_again, created = client.set_many([SetRequest("a", **LATER), SetRequest("b", **LATER)], conn=conn)
    assert (set_again.outcome, created.outcome) == ("replaced", "created")
    assert client.move("b", delay=9, conn=conn).outcome == "moved"
    assert client.move("b", delay=9, if_generation=created.job.generation, conn=conn).outcome == "wrong_generation"
    assert client.cancel("a", conn=conn).outcome == "cancelled"
    assert [each.outcome for each in client.move_many(["a", "b"], delay=5, conn=conn)] == ["not_found", "moved"]
    assert [each.outcome for each in client.cancel_many(["a", "b"], conn=conn)] == ["not_found", "cancelled"]
    assert client.set_many([], conn=conn) == []
    assert client.get("a") == first
    conn.commit()
    assert (client.get("a"), client.stats()["pending"]) == (None, 0)


@pytest.mark.parametrize("is_elsewhere", [False, True])
def test_it_fires(path, conn, make, record, is_elsewhere):
    """
    A due job fires once the caller's transaction commits, even if the job was set by another scheduler of the file.
    """
    owner = make(f"sqlite:///{path}")
    owner.handler("h")(record)
    owner.start()
    setter = make(f"sqlite:///{path}") if is_elsewhere else owner
    setter.set("rolled back", delay=0, payload="no", handler="h", conn=conn)
    conn.rollback()
    setter.set("committed", delay=0, payload="yes", handler="h", conn=conn)
    conn.commit()
    record.wait(1)
    assert record.items == ["yes"]


def test_it_fires_after_a_long_transaction(path, conn, make, record):
    """
    If a transaction stays open past the due time of its job, the job fires after the commit.
    """
    owner = make(f"sqlite:///{path}").start()
    owner.handler("h")(record)
    fired_early = threading.Event()
    owner.set("k", delay=0.05, handler="h", payload=1, conn=conn)
    assert not fired_early.wait(0.3)
    assert record.items == []
    conn.commit()
    record.wait(1)


CRASH = """
import os, signal, sqlite3, sys
from tickwheel.scheduler import Scheduler
scheduler = Scheduler(f"sqlite:///{sys.argv[1]}")
scheduler.get("opened")
conn = sqlite3.connect(sys.argv[1])
conn.execute("INSERT INTO orders VALUES (1)")
scheduler.set("k", delay=0, payload=1, handler="h", conn=conn)
if sys.argv[2] == "after":
    conn.commit()
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize("when", ["before", "after"])
def test_crash(path, conn, make, record, when):
    """
    If a process is killed before it commits its transaction, neither the caller's row nor the job exists.

    If the process is killed after the commit, both exist.
    """
    killed = subprocess.run([sys.executable, "-c", CRASH, path, when], check=False, timeout=PATIENCE_S)
    assert killed.returncode == -signal.SIGKILL
    scheduler = make(f"sqlite:///{path}")
    is_there = when == "after"
    assert (orders(conn), scheduler.get("k") is not None) == (is_there, is_there)
    scheduler.handler("h")(record)
    scheduler.start()
    if is_there:
        record.wait(1)


def test_an_error_does_not_end_the_transaction(client, conn):
    """
    A failed write undoes its own changes.

    The other changes of the transaction stay.
    """
    conn.execute("INSERT INTO orders VALUES (1)")
    conn.execute(
        "CREATE TRIGGER no BEFORE INSERT ON tickwheel_key WHEN NEW.key = 'bad' BEGIN SELECT raise(ABORT, 'no'); END"
    )
    with pytest.raises(OSError, match="no"):
        client.set_many([SetRequest("good", **LATER), SetRequest("bad", **LATER)], conn=conn)
    client.set("later", **LATER, conn=conn)
    conn.commit()
    assert (client.get("good"), client.get("later") is None, orders(conn)) == (None, False, 1)


def test_rows_of_any_kind(client, conn):
    """
    A write within the caller's transaction ignores the caller's row and text factories, and leaves them in place.
    """
    client.set("k", **LATER)
    conn.row_factory, conn.text_factory = sqlite3.Row, bytes
    assert client.set("k", **LATER, conn=conn).outcome == "replaced"
    conn.commit()
    assert (conn.row_factory, conn.text_factory) == (sqlite3.Row, bytes)


def refused(client, connection, words):
    """
    Check that a write on *connection* raises an error with these *words*, and that nothing was written.
    """
    with pytest.raises(TransactionError, match=words):
        client.set("k", **LATER, conn=connection)
    assert client.get("k") is None


def test_connections_that_cannot_be_joined(client, path, tmp_path):
    """
    If a write cannot join a connection, the error gives the reason and the remedy.
    """
    refused(client, "app.db", r"conn is a builtins.str: pass a sqlite3.Connection")
    with closing(sqlite3.connect(tmp_path / "other.db")) as other:
        refused(client, other, r"other.db'?: pass one to the file of the jobs")
        other.execute("ATTACH ? AS jobs", (str(path),))
        refused(client, other, "attached as 'jobs'")
    with closing(sqlite3.connect(":memory:")) as memory:
        refused(client, memory, "a database in memory")
    with closing(sqlite3.connect(path, isolation_level=None)) as autocommit:
        refused(client, autocommit, r"commits each statement at once: begin a transaction")
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as reader:
        refused(client, reader, "only reads: pass one that may write")
    with closing(sqlite3.connect(path)) as query_only:
        query_only.execute("PRAGMA query_only = ON")
        refused(client, query_only, "only reads: pass one that may write")
    refused(client, reader, "closed database")


def test_another_thread(client, conn):
    """
    A connection of another thread is refused.
    """
    errors = []

    def use():
        with pytest.raises(TransactionError, match="in the thread") as caught:
            client.set("k", **LATER, conn=conn)
        errors.append(caught)

    thread = threading.Thread(target=use)
    thread.start()
    thread.join()
    assert errors


def test_a_stale_transaction(client, conn):
    """
    A transaction that has read can no longer write if another process has written since then.

    The write raises a transient error, and nothing is lost.
    """
    conn.execute("BEGIN")
    orders(conn)
    client.set("other", **LATER)
    with pytest.raises(OSError, match=r"cannot write any more .*: roll it back and try again") as caught:
        client.set("k", **LATER, conn=conn)
    assert caught.value.is_transient
    assert conn.in_transaction
    conn.rollback()
    assert client.set("k", **LATER, conn=conn).outcome == "created"


def test_a_failed_write_leaves_no_transaction(client, path):
    """
    If a write fails after it has begun a transaction, the transaction is rolled back, so other writers are not blocked.
    """
    with closing(sqlite3.connect(path)) as conn, closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as reader:
        conn.set_authorizer(lambda action, *_: sqlite3.SQLITE_DENY if action == sqlite3.SQLITE_UPDATE else 0)
        for connection in (conn, reader):
            with pytest.raises((OSError, TransactionError)):
                client.set("k", **LATER, conn=connection)
            assert not connection.in_transaction
    assert client.set("k", **LATER).outcome == "created"


def test_a_memory_store_cannot_join(conn):
    """
    A store in memory cannot join a transaction.

    The error names the kinds of store that can.
    """
    with closing(Scheduler("memory://")) as scheduler, pytest.raises(UnsupportedError, match="SQLite or PostgreSQL"):
        scheduler.set("k", **LATER, conn=conn)


def test_async(path, conn):
    """
    The scheduler for asyncio joins a connection of `sqlite3`.

    The statements of this connection block the event loop.
    """

    async def main():
        scheduler = AsyncScheduler(f"sqlite:///{path}")
        assert (await scheduler.set("k", **LATER, conn=conn)).outcome == "created"
        assert await scheduler.get("k") is None
        conn.commit()
        assert (await scheduler.move("k", delay=9, conn=conn)).outcome == "moved"
        assert (await scheduler.cancel("k", conn=conn)).outcome == "cancelled"
        conn.rollback()
        assert await scheduler.get("k")
        await scheduler.stop()

    asyncio.run(main())
