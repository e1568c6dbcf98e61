"""
An effect in the handler's own transaction takes place once, however often the job fires.

The tests run on SQLite and PostgreSQL.
"""

from __future__ import annotations

import asyncio
import signal
import sqlite3
import subprocess
import sys
import threading
from contextlib import suppress

import pytest

from tickwheel.jobs.errors import TransactionError
from tickwheel.scheduler import Firing, Job
from tickwheel.scheduler.idempotency import create_table, first_time, first_time_async, prune


def firing(key="bill/17", generation=1, attempt=1, first_set_at=5):
    """
    Return one attempt.
    """
    return Firing(Job(key, generation, 1000, first_set_at=first_set_at), attempt, 1000.0)


@pytest.fixture(params=["sqlite", "postgres"])
def connect(request, tmp_path):
    """
    Return a function that opens connections to one database that has the table of effects.
    """
    if request.param == "sqlite":
        path = tmp_path / "own.db"

        def make():
            return sqlite3.connect(path, timeout=20)
    else:
        url = request.getfixturevalue("postgres_url")

        def make():
            import psycopg  # noqa: PLC0415  only where there is a server

            return psycopg.connect(url)

    made = []

    def connect_one():
        made.append(make())
        return made[-1]

    with connect_one() as conn:
        create_table(conn)
        create_table(conn)
        conn.execute("CREATE TABLE bills (what text)")
    yield connect_one
    for each in made:
        with suppress(sqlite3.ProgrammingError):  # a connection of another thread, which has closed it
            each.close()


def bill(conn, each):
    """
    Perform the effect of the firing *each*, unless a record shows that it has been performed.
    """
    is_first = first_time(conn, each)
    if is_first:
        conn.execute("INSERT INTO bills VALUES ('17')")
    return is_first


def count(conn):
    return conn.execute("SELECT count(*) FROM bills").fetchone()[0]


def test_a_repeat_has_no_effect(connect):
    """
    The first commit performs the effect, and later attempts of the same generation skip it.

    A different generation performs its own effect.
    """
    conn = connect()
    assert bill(conn, firing())
    conn.commit()
    for attempt in (1, 2, 3):
        assert not bill(conn, firing(attempt=attempt))
        conn.commit()
    assert count(conn) == 1
    assert bill(conn, firing(generation=2))
    assert bill(conn, firing(key="bill/18"))
    assert bill(conn, firing(first_set_at=6))


def test_a_rollback_takes_it_back(connect):
    """
    A rollback undoes the effect and the record of the effect, so the next firing may perform the effect.
    """
    conn = connect()
    assert bill(conn, firing())
    conn.rollback()
    assert bill(conn, firing(attempt=2))
    conn.commit()
    assert count(conn) == 1


@pytest.mark.parametrize("ends", ["commit", "rollback"])
def test_two_firings_at_the_same_time(connect, ends):
    """
    While the transaction of one firing is open, a second firing of the same job waits until it ends.

    The second firing skips the effect after a commit, and performs it after a rollback.
    """
    first, found, begun = connect(), [], threading.Event()
    assert bill(first, firing())

    def other():
        conn = connect()  # a connection of sqlite3 belongs to its thread
        begun.set()
        found.append(bill(conn, firing(attempt=2)))
        conn.commit()
        conn.close()

    thread = threading.Thread(target=other)
    thread.start()
    begun.wait()
    getattr(first, ends)()
    thread.join()
    assert found == [ends == "rollback"]
    assert count(first) == 1


def test_prune(connect):
    """
    Old records of effects are deleted, and recent records are kept.
    """
    conn = connect()
    bill(conn, firing())
    assert prune(conn) == 0
    assert prune(conn, older_than_s=-1) == 1
    assert bill(conn, firing())


def test_with_asyncio(postgres, database):
    """
    With an async connection of psycopg, only the first attempt of a generation performs the effect.
    """
    import psycopg  # noqa: PLC0415  only where there is a server

    async def main():
        async with await psycopg.AsyncConnection.connect(postgres.url(database)) as conn:
            await conn.execute("CREATE TABLE tickwheel_effects (message_id text PRIMARY KEY, done_at bigint NOT NULL)")
            return [await first_time_async(conn, firing()), await first_time_async(conn, firing(attempt=2))]

    assert asyncio.run(main()) == [True, False]


def test_connections_that_commit_by_themselves(tmp_path, postgres, database):
    """
    A connection in autocommit mode raises an error with a remedy.

    In this mode, the record would be committed without the effect.
    """
    import psycopg  # noqa: PLC0415  only where there is a server

    conn = sqlite3.connect(tmp_path / "own.db", isolation_level=None)
    create_table(conn)
    with pytest.raises(TransactionError, match="commits every statement at once: execute BEGIN first"):
        first_time(conn, firing())
    conn.execute("BEGIN")
    assert first_time(conn, firing())
    conn.close()
    with psycopg.connect(postgres.url(database), autocommit=True) as conn:
        create_table(conn)
        with pytest.raises(TransactionError, match=r"use it within `with conn\.transaction"):
            first_time(conn, firing())
        with conn.transaction():
            assert first_time(conn, firing())
    with pytest.raises(TransactionError, match="is object: pass a connection of sqlite3 or psycopg 3"):
        first_time(object(), firing())


SCRIPT = """
import os, signal, sqlite3, sys, threading
from tickwheel.scheduler import Scheduler
from tickwheel.scheduler.idempotency import create_table, first_time

folder, is_first = sys.argv[1], sys.argv[2] == "first"
own = sqlite3.connect(folder + "/own.db")
with own:
    create_table(own)
    own.execute("CREATE TABLE IF NOT EXISTS bills (attempt)")
own.close()
done = threading.Event()
scheduler = Scheduler("sqlite:///" + folder + "/jobs.db")

@scheduler.handler("bill")
def bill(payload, firing):
    own = sqlite3.connect(folder + "/own.db")
    with own:
        is_new = first_time(own, firing)
        if is_new:
            own.execute("INSERT INTO bills VALUES (?)", (firing.attempt,))
    own.close()
    if is_first:
        os.kill(os.getpid(), signal.SIGKILL)  # committed, and nobody has heard of it
    print("attempt", firing.attempt, "new", is_new)
    done.set()

scheduler.start()
if is_first:
    scheduler.set("bill/17", delay=0, handler="bill")
done.wait(30)
scheduler.stop()
"""


def test_killed_between_commit_and_settle(tmp_path):
    """
    If a process is killed after its effect was committed and before the job was settled, the job fires again.

    The effect does not take place a second time.
    """
    run = [sys.executable, "-c", SCRIPT, str(tmp_path)]
    first = subprocess.run([*run, "first"], capture_output=True, text=True, timeout=60, check=False)
    assert first.returncode == -signal.SIGKILL, first.stderr
    second = subprocess.run([*run, "second"], capture_output=True, text=True, timeout=60, check=False)
    assert (second.stdout, second.stderr) == ("attempt 2 new False\n", "")
    own = sqlite3.connect(tmp_path / "own.db")
    assert own.execute("SELECT attempt FROM bills").fetchall() == [(1,)]
    own.close()
