"""
A request to withdraw an attempt is valid only as long as a caller waits for its result.
"""

from __future__ import annotations

import itertools
import sqlite3
from contextlib import closing
from dataclasses import replace

import pytest

from tickwheel.jobs import model
from tickwheel.stores import open_store

NUMBERS = itertools.count()
HOUR_MS = 3_600_000
OLDER = "UPDATE tickwheel_question SET asked_at = asked_at - {}"


@pytest.fixture(params=["sqlite", "postgres", "redis"])
def kept(request, tmp_path):
    """
    Return the URL of an empty store, and a function that makes all its withdrawal requests older by some milliseconds.
    """
    if request.param == "sqlite":
        path = tmp_path / "jobs.db"

        def age(ms):
            with closing(sqlite3.connect(path, isolation_level=None)) as connection:
                connection.execute(OLDER.format(ms))

        return f"sqlite:///{path}", age
    if request.param == "postgres":
        server, database = request.getfixturevalue("postgres"), request.getfixturevalue("database")
        return f"{server.url(database)}&shards=1", lambda ms: server.execute(OLDER.format(ms), database)
    server, prefix = request.getfixturevalue("redis_server"), f"withdrawals-{next(NUMBERS)}"

    def make_older(ms):
        place = f"{{{prefix}}}:questions"
        for name, fact in server.execute("HGETALL", place).items():
            at, rest = fact.split(b" ", 1)
            server.execute("HSET", place, name, b"%d %b" % (int(at) - ms, rest))

    return server.url(f"?prefix={prefix}&shards=1"), make_older


def test_requests_of_a_caller_that_has_ended(kept):
    """
    After its caller has ended, a withdrawal request is kept for five seconds, and a stop request for a minute.

    The time is limited, because an older request could withdraw a later try of the job.
    """
    url, age = kept
    with closing(open_store(url)) as owner, closing(open_store(url)) as caller:
        (lease,) = owner.acquire("owner")
        job = owner.apply([model.Set(model.Job("key", 0, 0))])[0].job
        owner.apply([model.Begin(job, lease.epoch)])
        begun = owner.get("key")
        stop = replace(begun, attempt=-begun.attempt)

        def asked():
            return sorted(each.attempt for each in owner.withdrawal_requests([lease.shard]))

        caller.request_withdrawal([begun])
        caller.request_withdrawal([stop])
        assert asked() == asked() == [-1, 1]
        age(6_000)
        assert asked() == [-1]
        caller.request_withdrawal([begun])
        assert asked() == [-1, 1]
        age(61_000)
        assert asked() == []


def test_after_a_clock_was_set_back(kept):
    """
    After the clock was set back, earlier requests are ignored until the clock reaches their times again.
    """
    url, age = kept
    with closing(open_store(url)) as owner, closing(open_store(url)) as caller:
        (lease,) = owner.acquire("owner")
        job = owner.apply([model.Set(model.Job("key", 0, 0))])[0].job
        owner.apply([model.Begin(job, lease.epoch)])
        caller.request_withdrawal([owner.get("key")])
        age(-HOUR_MS)
        assert owner.withdrawal_requests([lease.shard]) == []
        caller.request_withdrawal([owner.get("key")])
        assert [each.key for each in owner.withdrawal_requests([lease.shard])] == ["key"]
