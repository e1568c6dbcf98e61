"""
The lists of claimed jobs that each owner keeps in PostgreSQL.

With these lists, a takeover finds the running jobs and reads no other job.
"""

from __future__ import annotations

import random
from contextlib import closing, suppress

import pytest

from tickwheel.jobs import model
from tickwheel.jobs.errors import StoreError
from tickwheel.stores import open_store
from tickwheel.stores.postgres._begun import BegunLists
from tickwheel.stores.postgres._connections import Connections
from tickwheel.testing import ManualClock

psycopg = pytest.importorskip("psycopg", reason="psycopg is not installed: pip install 'tickwheel[postgres]'")

PENDING = 20_000
SMALL = "UPDATE pg_class SET reltuples = 0, relpages = 0 WHERE relname = 'tickwheel_job'"
RUN_ALL = "UPDATE tickwheel_job SET state = 1; ANALYZE tickwheel_job; UPDATE tickwheel_job SET state = 0"
FILL = """
    INSERT INTO tickwheel_job (key, generation, due_at, payload, target, handler, attempt, state, first_set_at, shard)
    SELECT 'pending ' || i, 1000000 + i, i, '', 'handler', 'hung', 0, 0, 0, 0 FROM generate_series(1, %s) AS i
"""


def new(store, keys, due_at=1):
    """
    Set jobs under *keys* and return them.
    """
    return [answer.job for answer in store.apply([model.Set(model.Job(key, 0, due_at)) for key in keys])]


def begin(store, jobs, epoch):
    """
    Claim *jobs* and return the answers.
    """
    return store.apply([model.Begin(job, epoch) for job in jobs])


def expire(postgres, database):
    """
    End all leases, as if their owners had died.
    """
    postgres.execute("UPDATE tickwheel_shard SET lease_until = 0", database)
    postgres.execute("UPDATE tickwheel_node SET seen_until = 0", database)


def unlisted(postgres, database):
    """
    Return the keys of the running jobs that no list of claimed jobs contains.
    """
    found = "SELECT key FROM tickwheel_job WHERE state = 1 AND key NOT IN (SELECT unnest(keys) FROM tickwheel_begun)"
    return postgres.execute(found, database)


@pytest.mark.parametrize("statistics", ["none", "empty", "running"])
def test_a_takeover_reads_the_begun_jobs(postgres, database, rows_read, statistics):
    """
    A takeover reads a few rows for each job that it recovers, however many other jobs are pending.
    """
    url = f"{postgres.url(database)}&shards=1&lease_s=60"
    with closing(open_store(url)) as first, closing(open_store(url)) as second:
        postgres.execute("ALTER TABLE tickwheel_job SET (autovacuum_enabled = off)", database)
        (lease,) = first.acquire("first")
        with psycopg.connect(postgres.url(database), autocommit=True) as connection:
            connection.execute(FILL, (PENDING,))
            if statistics == "running":
                for statement in RUN_ALL.split(";"):
                    connection.execute(statement)
            if statistics == "empty":
                connection.execute(SMALL)
        late = new(first, ["late a", "late b", "late c"], due_at=2 * PENDING)
        begin(first, late, lease.epoch)
        # another process withdraws one of them, which the owner does not notice
        postgres.execute("UPDATE tickwheel_job SET state = 0 WHERE key = 'late a'", database)
        expire(postgres, database)
        read = rows_read()
        (taken,) = second.acquire("second")
        assert taken.rescued == 2
        assert second.count()["running"] == 1  # by the counts, which that process would have written
        assert max(read) < 50
        assert postgres.execute("SELECT owner FROM tickwheel_begun", database) == []


def test_a_hand_over_reads_the_begun_jobs(postgres, database, rows_read):
    """
    An owner that hands over a shard reads a few rows for each running job, and none of the pending jobs.
    """
    url = f"{postgres.url(database)}&shards=2&lease_s=60"
    with closing(open_store(url)) as first, closing(open_store(url)) as second:
        epochs = {lease.shard: lease.epoch for lease in first.acquire("first")}
        with psycopg.connect(postgres.url(database), autocommit=True) as connection:
            connection.execute(FILL, (PENDING,))
            connection.execute("UPDATE tickwheel_job SET shard = generation % 2")
        jobs = new(first, [f"late {i}" for i in range(4)], due_at=2 * PENDING)
        first.apply([model.Begin(job, epochs[first.shard_of(job.key)]) for job in jobs])
        second.acquire("second")
        read = rows_read()
        first.acquire("first")
        assert max(read) < 50
        tails = postgres.execute("SELECT shard FROM tickwheel_shard WHERE shard >= 1000000", database)
        assert len(tails) == 1
        assert unlisted(postgres, database) == []


def test_released_jobs_are_found(postgres, database):
    """
    If an owner releases its shards while jobs run, the next owner recovers these jobs.
    """
    url = f"{postgres.url(database)}&shards=2"
    with closing(open_store(url)) as first, closing(open_store(url)) as second:
        epochs = {lease.shard: lease.epoch for lease in first.acquire("first")}
        jobs = new(first, [f"{i}" for i in range(8)])
        first.apply([model.Begin(job, epochs[first.shard_of(job.key)]) for job in jobs])
        first.release("first")
        assert sum(lease.rescued for lease in second.acquire("second")) == 8
        assert postgres.execute("SELECT owner FROM tickwheel_begun", database) == []


def test_jobs_that_stay_locked_are_found_by_the_next_takeover(postgres, database):
    """
    If a running job is locked during a takeover, the takeover adds the job to the new owner's list of claimed jobs.

    The next takeover then recovers the job.
    """
    url = f"{postgres.url(database)}&shards=1"
    with closing(open_store(url)) as first, closing(open_store(url)) as second, closing(open_store(url)) as third:
        (lease,) = first.acquire("first")
        begin(first, new(first, ["a", "b"]), lease.epoch)
        expire(postgres, database)
        with psycopg.connect(postgres.url(database)) as other:
            other.execute("SELECT FROM tickwheel_job WHERE key = 'a' FOR UPDATE")
            (lease,) = second.acquire("second")
            assert lease.rescued == 1
            begin(second, [second.get("b")], lease.epoch)
            assert unlisted(postgres, database) == []
            postgres.execute("DELETE FROM tickwheel_begun WHERE owner = 'first'", database)
            expire(postgres, database)
        (lease,) = third.acquire("third")
        assert lease.rescued == 2


@pytest.mark.parametrize("seed", range(3))
def test_every_running_job_is_listed(postgres, database, monkeypatch, seed):
    """
    Every running job is in a list of claimed jobs, even if claims, acknowledgements and cancels fail.

    This also holds if the outcome of such a write is unknown.
    """
    chance = random.Random(seed)
    with closing(open_store(f"{postgres.url(database)}&shards=1")) as store:
        (lease,) = store.acquire("owner")
        real = Connections.alone

        def failing(*args, **more):
            row = real(*args, **more)
            if chance.random() < 0.2:
                what = "the answer is lost"
                raise StoreError(what, "try again", is_transient=True, is_unknown=True)
            return row

        monkeypatch.setattr(Connections, "alone", failing)
        running = []
        for turn in range(60):
            with suppress(StoreError):
                jobs = new(store, [f"{turn} {i}" for i in range(chance.randrange(1, 4))])
                ends = [running.pop(chance.randrange(len(running))) for _ in range(min(len(running), 2))]
                writes = [model.Settle(job, lease.epoch) for job in ends] + [
                    model.Begin(job, lease.epoch) for job in jobs
                ]
                if chance.random() < 0.2:
                    writes.append(model.Begin(chance.choice(jobs), lease.epoch))
                store.apply(writes)
                running += jobs
            if running and chance.random() < 0.3:
                over = model.AttemptStatus(0, 0, 0, model.AttemptState.STARTED)
                with suppress(StoreError):
                    store.apply([model.Cancel(chance.choice(running).key, over=over)])
            if chance.random() < 0.1:
                store.renew("owner")
            assert unlisted(postgres, database) == []
        assert len(postgres.execute("SELECT FROM tickwheel_begun", database)) < 60


@pytest.fixture
def clock():
    return ManualClock()


@pytest.fixture
def lists(clock):
    return BegunLists(clock.monotonic)


def write(lists, begun=(), ended=()):
    """
    Record a transaction in *lists*, and return the number of the list that was used.
    """
    with lists.writing() as entry:
        entry.begun, entry.ended = begun, ended
    return entry.slot


def fail(lists, begun):
    """
    Record a transaction with an unknown outcome in *lists*, and return the number of the list that was used.
    """
    with suppress(OSError), lists.writing() as entry:
        entry.begun = begun
        raise OSError
    return entry.slot


def test_a_list_is_reused_once_all_its_jobs_have_ended(lists):
    """
    A list of claimed jobs is reused for another transaction once all its jobs have ended, and not before.
    """
    assert write(lists, [1, 2]) == 0
    assert write(lists, [3], [1]) == 1
    assert write(lists, [4], [2]) == 2
    assert write(lists, [5]) == 0
    assert write(lists, [], [3, 4]) == 3
    assert {write(lists, [6]), write(lists, [7]), write(lists, [8])} == {1, 2, 3}


def test_a_rejected_claim_frees_its_list(lists):
    """
    If a claim is rejected, the list that was meant for its job is free at once.
    """
    assert write(lists, [1]) == 0
    assert fail(lists, ()) == 1
    assert write(lists, [2], [1]) == 1
    assert write(lists, [3]) == 0


def test_an_unknown_claim_is_listed_until_the_server_is_asked(lists, clock):
    """
    If a claim has an unknown outcome, its jobs stay in a list of claimed jobs.

    After a minute, the server is asked which of these jobs run. Jobs that do not run are removed from the list.
    """
    assert fail(lists, [1, 2]) == 0
    assert lists.doubtful() == {}
    assert write(lists, [3], [1, 2]) == 1
    clock.advance(61)
    asked = lists.doubtful()
    assert {slot: set(jobs) for slot, (_, jobs) in asked.items()} == {0: {1, 2}, 1: {3}}
    lists.learn(asked, [(0, 2), (1, 3)])
    assert lists.doubtful() == {}
    assert write(lists, [4]) == 2


def test_lists_of_withdrawn_jobs_are_reused(lists):
    """
    If many lists of claimed jobs are in use, the server is asked which jobs run.

    A list whose jobs have all ended is then reused.
    """
    slots = [write(lists, [generation]) for generation in range(32)]
    asked = lists.doubtful()
    assert sorted(asked) == slots
    lists.learn(asked, [(5, 5)])
    assert lists.doubtful() == {}
    assert {write(lists, [100 + n]) for n in range(31)} == {*slots} - {5}


def test_an_old_answer_does_not_touch_later_jobs(lists):
    """
    If a list of claimed jobs gets new jobs while the server is asked about its old jobs, the list keeps the new jobs.
    """
    for generation in range(32):
        write(lists, [generation])
    asked = lists.doubtful()
    lists.ended([7])
    assert write(lists, [7]) == 7
    lists.learn(asked, [(slot, slot) for slot in range(32) if slot != 7])
    assert write(lists, [50]) == 32
    lists.ended([7])
    assert write(lists, [51]) == 7
