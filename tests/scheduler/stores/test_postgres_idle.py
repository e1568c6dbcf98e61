"""
An idle owner on PostgreSQL: while nothing is written, it reads no job again.
"""

from __future__ import annotations

from collections import Counter
from contextlib import closing

import pytest

from tickwheel.jobs import model
from tickwheel.scheduler import SchedulerOptions, SetRequest
from tickwheel.stores import open_store
from tickwheel.stores.postgres._queries import SQL

psycopg = pytest.importorskip("psycopg", reason="psycopg is not installed: pip install 'tickwheel[postgres]'")

QUEUES = 500
CONTENT = """
    SELECT (SELECT string_agg(j::text, '|' ORDER BY key) FROM tickwheel_job AS j),
        (SELECT string_agg(s::text, '|' ORDER BY scope) FROM tickwheel_scope AS s)
"""
UNANNOUNCED = """
    INSERT INTO tickwheel_job (key, generation, due_at, payload, target, handler, attempt, state, first_set_at, shard)
    SELECT 'unknown', 1000000, due_at, '"unknown"', 'handler', 'h', 0, 0, 0, shard FROM tickwheel_job
    WHERE key = 'waits/0'
"""
COUNTED = "UPDATE tickwheel_count SET pending = pending + 1 WHERE slot = 0"


@pytest.fixture
def asked(monkeypatch):
    """
    Return a counter of executed statements by name. Its item "rows" counts the rows that searches for jobs returned.

    The store searches more often than by default.
    """
    monkeypatch.setattr("tickwheel.engine._watcher._LOOK_S", 0.2)
    names, execute = {text: name for name, text in SQL.items()}, psycopg.Connection.execute
    found = Counter()

    def counting(self, query, *values, **more):
        cursor = execute(self, query, *values, **more)
        name = names.get(query)
        found[name] += 1
        if name in {"jobs_in_lanes", "jobs_overdue", "jobs_due"}:
            found["rows"] += sum(row[-1] is not None for row in cursor.fetchall())
            cursor.scroll(0, mode="absolute")
        return cursor

    monkeypatch.setattr(psycopg.Connection, "execute", counting)
    return found


@pytest.fixture(params=[10_000, 200], ids=["in memory", "most in the store"])
def idle(postgres, database, make, record, request):
    """
    Start a scheduler with jobs that wait for workers.

    In the first variant, all jobs are in memory. In the second, most of them are only in the store.
    """
    options = SchedulerOptions(staged_max=request.param)
    scheduler = make(f"{postgres.url(database)}&shards=16", options=options)
    scheduler.handler("h")(record)
    scheduler.set_many(SetRequest(f"waits/{n}", delay=0, target="pull", handler=f"q{n}") for n in range(QUEUES))
    scheduler.start()


@pytest.mark.usefixtures("idle")
def test_an_idle_owner_reads_no_jobs(postgres, database, record, until, asked):
    """
    An idle owner does not read waiting jobs again, and needs few statements for all its shards.

    It finds a new job.
    """

    def sweep():
        """
        Wait for a whole sweep. Return the number of its searches, and the number of rows that they returned.
        """
        versions = asked["version"]
        until(lambda: asked["version"] > versions)
        before = asked.copy()
        until(lambda: asked["version"] > versions + 1)
        return asked - before

    def is_calm():
        return not sweep()["rows"]

    until(is_calm)
    found = sweep()
    assert found["rows"] == 0
    assert found["jobs_in_lanes"] <= 4
    with psycopg.connect(postgres.url(database)) as other:  # without a note or a notification
        other.execute(UNANNOUNCED)
        other.execute(COUNTED)
    assert record.wait(1) == ["unknown"]
    until(is_calm)


@pytest.fixture
def changes(postgres, database):
    """
    Return a function that makes a call on a store.

    The function checks that the store's version number changes if and only if the call changes a job or a pause.
    """

    def check(store, call, *, is_change=True):
        before = postgres.execute(CONTENT, database), store.version()
        assert store.version() == before[1]
        result = call()
        after = postgres.execute(CONTENT, database), store.version()
        assert (before[0] != after[0]) is is_change
        assert (before[1] != after[1]) is is_change
        return result

    return check


def jobs_of(store, keys, **fields):
    """
    Set jobs under *keys* and return them.
    """
    return [answer.job for answer in store.apply([model.Set(model.Job(key, 0, 1, **fields)) for key in keys])]


def test_each_write_changes_the_version(postgres, database, changes):
    """
    Each kind of write changes the store's version number, even if the numbers of jobs in each state stay the same.

    A read does not change the version number.
    """
    url = f"{postgres.url(database)}&shards=1"
    with closing(open_store(url)) as store, closing(open_store(url)) as other:
        (lease,) = store.acquire("owner")
        store.renew("owner")
        changes(store, lambda: store.renew("owner"), is_change=False)
        changes(store, lambda: store.page(model.JobQuery()), is_change=False)
        _, b, c, d = changes(store, lambda: jobs_of(store, "abcd"))
        changes(store, lambda: store.apply([model.Move("a", 7)]))
        changes(store, lambda: other.apply([model.Move("a", 8)]))
        changes(store, lambda: store.apply([model.Cancel("a"), model.Set(model.Job("e", 0, 1))]))
        changes(store, lambda: store.apply([model.Set(model.Job("e", 0, 2))]))
        changes(store, lambda: store.apply([model.Redate(b, lease.epoch, 5, None)]))
        changes(store, lambda: store.apply([model.Begin(c, lease.epoch)]))
        changes(store, lambda: store.apply([model.Settle(c, lease.epoch, model.Settled.AGAIN, 1, due_at=9)]))
        changes(store, lambda: store.apply([model.Begin(d, lease.epoch)]))
        changes(store, lambda: store.apply([model.Settle(d, lease.epoch)]))
        changes(store, lambda: store.apply([model.SetAside(store.get("c"), lease.epoch, None)]))
        changes(store, lambda: store.take_up(lease.shard, lease.epoch, [("handler", "no")], 10), is_change=False)
        (taken,) = changes(store, lambda: store.take_up(lease.shard, lease.epoch, [("handler", "")], 10))
        changes(store, lambda: store.apply([model.SetPause("c", "me", "why")]))
        changes(store, lambda: store.apply([model.Resume("c")]))
        changes(store, lambda: store.set_scope("all", model.Pause(1, "me", "", "all"), None))
        changes(store, lambda: store.set_scope("all", None, None))
        with psycopg.connect(postgres.url(database)) as connection:
            changes(store, lambda: store.join(connection, [model.Move("c", 70)]), is_change=False)
            changes(store, connection.commit)
        store.apply([model.Begin(store.get("c"), lease.epoch)])
        postgres.execute("UPDATE tickwheel_shard SET lease_until = 0", database)
        changes(store, lambda: other.acquire("other"))
        assert taken.key == "c"
