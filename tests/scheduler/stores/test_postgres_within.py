"""
A write with `conn=` joins the caller's own transaction in the same PostgreSQL database.
"""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from contextlib import closing

import pytest

from tickwheel.scheduler import AsyncScheduler, Scheduler, SetRequest, TransactionError

psycopg = pytest.importorskip("psycopg", reason="psycopg is not installed: pip install 'tickwheel[postgres]'")

PATIENCE_S = 60
LATER = {"delay": 3600, "handler": "h"}


@pytest.fixture
def url(postgres, database):
    """
    Return the URL of a database that also has a table of the caller.
    """
    postgres.execute("CREATE TABLE orders (id integer PRIMARY KEY)", database)
    return postgres.url(database)


@pytest.fixture
def conn(url):
    with closing(psycopg.connect(url)) as connection:
        yield connection


@pytest.fixture
def client(url):
    with closing(Scheduler(url)) as scheduler:
        scheduler.get("opened")
        yield scheduler


def orders(conn):
    return conn.execute("SELECT count(*) FROM orders").fetchone()[0]


def test_commit_and_rollback(client, conn):
    """
    If the caller commits a transaction, the job set within it exists. After a rollback it does not exist.

    The stored number of pending jobs is right in both cases.
    """
    conn.execute("INSERT INTO orders VALUES (1)")
    client.set("k", conn=conn, **LATER)
    conn.rollback()
    assert (client.get("k"), client.stats()["pending"], orders(conn)) == (None, 0, 0)
    with conn.transaction():
        answer = client.set("k", conn=conn, **LATER)
        assert (answer.outcome, client.get("k")) == ("created", None)
    conn.commit()
    assert (client.get("k"), client.stats()["pending"]) == (answer.job, 1)


def test_all_verbs(client, conn):
    """
    Move, cancel and the bulk forms join the caller's transaction, as set does.

    They see the earlier writes of the transaction.
    """
    first = client.set("a", **LATER).job
    again, created = client.set_many([SetRequest("a", **LATER), SetRequest("b", **LATER)], conn=conn)
    assert (again.outcome, created.outcome) == ("replaced", "created")
    assert client.move("b", delay=9, conn=conn).outcome == "moved"
    assert client.move("b", delay=9, if_generation=created.job.generation, conn=conn).outcome == "wrong_generation"
    assert client.cancel("a", conn=conn).outcome == "cancelled"
    assert [each.outcome for each in client.move_many(["a", "b"], delay=5, conn=conn)] == ["not_found", "moved"]
    assert [each.outcome for each in client.cancel_many(["a", "b"], conn=conn)] == ["not_found", "cancelled"]
    assert client.get("a") == first
    conn.commit()
    assert (client.get("a"), client.stats()["pending"]) == (None, 0)


@pytest.mark.parametrize("is_elsewhere", [False, True])
def test_it_fires(url, conn, make, record, is_elsewhere):
    """
    A due job fires after the commit, even if another scheduler set it.

    After a rollback it never fires.
    """
    owner = make(url)
    owner.handler("h")(record)
    owner.start()
    setter = make(url) if is_elsewhere else owner
    setter.set("rolled back", delay=0, payload="no", handler="h", conn=conn)
    conn.rollback()
    setter.set("committed", delay=0, payload="yes", handler="h", conn=conn)
    conn.commit()
    record.wait(1)
    assert record.items == ["yes"]


def test_open_transactions_do_not_block_the_scheduler(url, make, record):
    """
    The scheduler continues while any number of transactions with jobs stay open.

    The stored numbers of jobs are right once all transactions have ended.
    """
    owner = make(url)
    owner.handler("h")(record)
    owner.start()
    held = [psycopg.connect(url) for _ in range(40)]
    for number, connection in enumerate(held):
        owner.set(f"held/{number}", conn=connection, **LATER)
    owner.set("k", delay=0, payload=1, handler="h")
    record.wait(1)
    for connection in held:
        connection.commit()
        connection.close()
    assert owner.set("held/0", **LATER).outcome == "replaced"
    assert owner.stats()["pending"] == 40


CRASH = """
import os, psycopg, signal, sys
from tickwheel.scheduler import Scheduler
conn = psycopg.connect(sys.argv[1])
conn.execute("INSERT INTO orders VALUES (1)")
Scheduler(sys.argv[1]).set("k", delay=0, payload=1, handler="h", conn=conn)
if sys.argv[2] == "after":
    conn.commit()
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize("when", ["before", "after"])
def test_crash(url, conn, make, record, when):
    """
    If a process is killed before it commits its transaction, neither the caller's row nor the job exists.

    If the process is killed after the commit, both exist.
    """
    killed = subprocess.run([sys.executable, "-c", CRASH, url, when], check=False, timeout=PATIENCE_S)
    assert killed.returncode == -signal.SIGKILL
    scheduler = make(url)
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
    conn.execute("ALTER TABLE tickwheel_job ADD CHECK (key <> 'bad')")
    with pytest.raises(OSError, match="violates"):
        client.set_many([SetRequest("good", **LATER), SetRequest("bad", **LATER)], conn=conn)
    client.set("later", conn=conn, **LATER)
    conn.commit()
    assert (client.get("good"), client.get("later") is None, orders(conn)) == (None, False, 1)


class TooSlowError(Exception):
    pass


@pytest.mark.needs("signal.setitimer")
def test_a_signal_in_the_middle_of_a_write(client, url, conn):
    """
    An exception that a signal handler raises during a write reaches the caller unchanged.
    """

    def too_slow(*_):
        raise TooSlowError

    client.set("k", **LATER)
    before = signal.signal(signal.SIGALRM, too_slow)
    try:
        with closing(psycopg.connect(url)) as other:
            client.move("k", delay=9, conn=other)
            signal.setitimer(signal.ITIMER_REAL, 0.2)
            with pytest.raises(TooSlowError):
                client.move("k", delay=8, conn=conn)
    finally:
        signal.signal(signal.SIGALRM, before)


class Shouting(psycopg.adapt.Loader):
    """
    A loader of psycopg that adds an exclamation mark to each text.
    """

    def load(self, data):
        return f"{bytes(data).decode()}!"


def test_rows_of_any_kind(client, conn):
    """
    A write within the caller's transaction ignores the caller's row factory and loaders, and leaves them in place.
    """
    job = client.set("k", **LATER).job
    conn.row_factory = psycopg.rows.dict_row
    for kind in ("bool", "bytea", "int2", "int4", "int8", "name", "oid", "text"):
        conn.adapters.register_loader(kind, Shouting)
    answer = client.set("k", conn=conn, **LATER)
    assert (answer.outcome, answer.job.payload, answer.job.retry) == ("replaced", job.payload, job.retry)
    assert client.move("k", delay=9, conn=conn).job.key == "k"
    assert client.cancel("k", conn=conn).job.handler == "h"
    assert conn.row_factory is psycopg.rows.dict_row
    assert conn.execute("SELECT 1 AS one").fetchone() == {"one": "1!"}


def refused(client, connection, words):
    """
    Check that a write on *connection* raises an error with these *words*, and that nothing was written.
    """
    with pytest.raises(TransactionError, match=words):
        client.set("k", conn=connection, **LATER)
    assert client.get("k") is None


def test_connections_that_cannot_be_joined(client, url, conn, postgres):
    """
    If a write cannot join a connection, the error gives the reason and the remedy.
    """
    refused(client, url, r"conn is a builtins.str: pass a psycopg.Connection")
    with closing(psycopg.connect(postgres.url("postgres"))) as other:
        refused(client, other, "another database: leave conn out")
    with closing(psycopg.connect(url, autocommit=True)) as autocommit:
        refused(client, autocommit, r"commits each statement at once: begin a transaction")
        with autocommit.transaction():
            assert client.set("joined", conn=autocommit, **LATER).outcome == "created"
        with autocommit.pipeline(), autocommit.transaction():
            refused(client, autocommit, "in the middle of something")
    refused(client, autocommit, "is closed")
    with closing(psycopg.connect(url, client_encoding="latin1")) as latin1:
        refused(client, latin1, "has client_encoding LATIN1: connect with client_encoding=utf8")
        latin1.execute("SET client_encoding TO utf8")
        assert client.set("\xe9", conn=latin1, **LATER).outcome == "created"
    conn.read_only = True
    refused(client, conn, "only reads: begin one that may write")
    conn.rollback()
    conn.read_only = None
    with pytest.raises(psycopg.Error):
        conn.execute("SELECT 1/0")
    refused(client, conn, "has failed: roll it back")
    assert client.get("joined")


def test_async(url):
    """
    The scheduler for asyncio joins an AsyncConnection.

    A blocking connection raises an error.
    """

    async def main():
        scheduler = AsyncScheduler(url)
        async with await psycopg.AsyncConnection.connect(url) as conn:
            await scheduler.set("rolled back", conn=conn, **LATER)
            await conn.rollback()
            async with conn.transaction():
                assert (await scheduler.set_many([SetRequest("k", **LATER)], conn=conn))[0].outcome == "created"
                assert await scheduler.get("k") is None
                assert (await scheduler.move("k", delay=9, conn=conn)).outcome == "moved"
                assert [each.outcome for each in await scheduler.cancel_many(["none"], conn=conn)] == ["not_found"]
            await conn.commit()
            assert await scheduler.get("rolled back") is None
            assert await scheduler.get("k")
            with (
                pytest.raises(TransactionError, match=r"pass a psycopg.Connection, or use AsyncScheduler"),
                closing(Scheduler(url)) as blocking,
            ):
                blocking.set("k", conn=conn, **LATER)
        with (
            closing(psycopg.connect(url)) as blocking_conn,
            pytest.raises(TransactionError, match=r"pass a psycopg.AsyncConnection, or use Scheduler"),
        ):
            await scheduler.set("k", conn=blocking_conn, **LATER)
        await scheduler.stop()

    asyncio.run(main())
