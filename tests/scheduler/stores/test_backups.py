"""
Backups that are made while jobs are set, and the stores that are restored from them.
"""

from __future__ import annotations

import contextlib
import sqlite3
import subprocess
import threading

import pytest
from processes import find
from writes import set_one

from tickwheel.scheduler import Scheduler
from tickwheel.stores import open_store

FAR_S = 86_400


@contextlib.contextmanager
def busy(url):
    """
    Set jobs continuously in a thread.

    Yield a function that returns the generations of all acknowledged jobs by key.
    """
    answered, is_over = {}, threading.Event()

    def work():
        with contextlib.closing(Scheduler(url)) as client:
            while not is_over.is_set():
                count = len(answered)
                jobs = [client.set(f"job {count + n}", delay=FAR_S, target="log").job for n in range(20)]
                answered.update({job.key: job.generation for job in jobs})

    worker = threading.Thread(target=work)
    worker.start()
    try:
        yield lambda: dict(answered)
    finally:
        is_over.set()
        worker.join()


def restored(url, before):
    """
    Check that a restored store has all jobs in *before* and can fire a new job. Return the new job's generation.

    *before* has the generations of the jobs that were acknowledged before the backup.
    """
    is_fired = threading.Event()
    with Scheduler(url) as scheduler:
        scheduler.handler("h")(lambda _payload: is_fired.set())
        assert before
        assert [key for key in before if scheduler.get(key).generation != before[key]] == []
        job = scheduler.set("now", delay=0, handler="h").job
        assert is_fired.wait(60)
    return job.generation


def test_sqlite(tmp_path, until):
    """
    A copy that SQLite makes while jobs are set contains every job acknowledged before the copy began.

    The jobs in the copy fire.
    """
    path, copy = tmp_path / "jobs.db", tmp_path / "copy.db"
    with busy(f"sqlite:///{path}") as answered:
        until(lambda: len(answered()) >= 100)
        before = answered()
        with contextlib.closing(sqlite3.connect(path)) as source, contextlib.closing(sqlite3.connect(copy)) as target:
            source.backup(target, pages=5, sleep=0.001)
        after = len(answered())
        until(lambda: len(answered()) > after)
    with contextlib.closing(sqlite3.connect(copy)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    restored(f"sqlite:///{copy}", before)


@pytest.mark.parametrize("how", ["into a new database", "over the old one", "copied"])
def test_postgres_on_the_same_server(postgres, database, caplog, how):
    """
    If a dump or a copied database is restored on the same server, no generation is used twice.
    """
    if not find("pg_dump"):
        pytest.skip("there is no pg_dump")
    at, dump = ["-h", postgres.folder, "-U", "tick"], postgres.folder / f"{database}.dump"
    url = postgres.url(database)
    store = open_store(url)
    set_one(store, "before")
    subprocess.run([find("pg_dump"), *at, "-Fc", "-f", dump, database], check=True)
    postgres.execute(f"CREATE DATABASE copy_of_{database}")
    if how == "copied":
        store.close()
        postgres.execute(f"DROP DATABASE copy_of_{database}")
        postgres.leave(database)
        postgres.execute(f"CREATE DATABASE copy_of_{database} TEMPLATE {database}")
        store = open_store(url)
    lost = set_one(store, "lost")
    store.close()
    if how == "into a new database":
        subprocess.run([find("pg_restore"), *at, "-d", f"copy_of_{database}", dump], check=True)
    if how == "over the old one":
        subprocess.run([find("pg_restore"), *at, "--clean", "-1", "-d", database, dump], check=True)
    caplog.clear()
    store = open_store(url if how == "over the old one" else postgres.url(f"copy_of_{database}"))
    assert store.get("lost") is None
    assert set_one(store, "after").generation > lost.generation
    assert "the same one after a restore: generations and epochs leap" in caplog.text
    store.close()
    postgres.execute(f"DROP DATABASE copy_of_{database} WITH (FORCE)")


def test_postgres_restored_beneath_a_node(postgres, database, until):
    """
    If a dump is restored over the tables of an open client, the client notices this when it sets the next job.
    """
    if not find("pg_dump"):
        pytest.skip("there is no pg_dump")
    at, dump = ["-h", postgres.folder, "-U", "tick"], postgres.folder / f"{database}.dump"
    store = open_store(postgres.url(database))
    subprocess.run([find("pg_dump"), *at, "-Fc", "-f", dump, database], check=True)
    lost = set_one(store, "lost")
    subprocess.run([find("pg_restore"), *at, "--clean", "-1", "-d", database, dump], check=True)
    assert until(lambda: set_one(store, "after")).generation > lost.generation
    store.close()


def test_postgres(make_postgres, until):
    """
    A base backup made while jobs are set contains all jobs that were acknowledged before the backup began.

    No generation is used twice.
    """
    server = make_postgres()
    pytest.importorskip("psycopg", reason="psycopg is not installed: pip install 'tickwheel[postgres]'")
    with busy(server.url("postgres")) as answered:
        until(lambda: len(answered()) >= 100)
        before = answered()
        backup = make_postgres(backup_of=server)
        after = len(answered())
        until(lambda: len(answered()) > after)
    server.stop()
    assert restored(backup.url("postgres"), before) > max(answered().values())
