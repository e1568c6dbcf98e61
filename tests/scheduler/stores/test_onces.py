"""
The stored answers of requests with an idempotency key expire.

Expired answers are deleted a few at a time.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing

import pytest

from tickwheel.jobs.model import Job, Once, Set
from tickwheel.stores import open_store


def marked(number, lasts_ms):
    """
    Return a set request with the idempotency key of request *number*. Its answer is stored for *lasts_ms*.
    """
    return Set(Job("k", 0, 5), once=Once(f"{number:032x}", "0:k", "0" * 32, lasts_ms))


@pytest.fixture(params=["memory", "sqlite", "postgres", "redis"])
def kept(request, tmp_path):
    """
    Return an open store, and a function that counts its stored answers, expired or not.
    """
    if request.param == "memory":
        with closing(open_store("memory://")) as store:
            yield store, lambda: len(store._kept)
    elif request.param == "sqlite":
        path = tmp_path / "jobs.db"
        with closing(open_store(f"sqlite:///{path}")) as store, closing(sqlite3.connect(path)) as connection:
            yield store, lambda: connection.execute("SELECT count(*) FROM tickwheel_answer").fetchone()[0]
    elif request.param == "postgres":
        psycopg, url = pytest.importorskip("psycopg"), request.getfixturevalue("postgres_url")
        with closing(open_store(url)) as store, psycopg.connect(url, autocommit=True) as connection:
            yield store, lambda: connection.execute("SELECT count(*) FROM tickwheel_answer").fetchone()[0]
    else:
        redis, server = pytest.importorskip("redis"), request.getfixturevalue("redis_server")
        place, _, prefix = (url := server.empty_url()).partition("?prefix=")
        with (
            closing(open_store(url)) as store,
            closing(redis.Redis.from_url(place)) as connection,
        ):
            yield store, lambda: len(connection.keys(f"{{{prefix}}}:once:*"))


def test_expired_answers_are_deleted(kept):
    """
    For each new answer, a commit deletes at most two expired answers.

    It deletes no answer that has not expired.
    """
    store, count = kept
    store.apply([marked(number, 3_600_000) for number in range(5)])
    for number in range(100, 200):
        store.apply([marked(number, 0)])
    assert count() <= 5 + 2
    store.apply([marked(number, 0) for number in range(200, 300)])
    there = count()
    store.apply([marked(5, 3_600_000)])
    assert there - 2 <= count() - 1 <= there
    for number in range(6, 66):
        store.apply([marked(number, 3_600_000)])
    assert count() == 66


def test_writes_without_an_idempotency_key_store_no_answer(kept):
    store, count = kept
    store.apply([Set(Job(f"{number}", 0, 5)) for number in range(10)])
    assert count() == 0
