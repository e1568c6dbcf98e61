"""
Jobs in the SQLite store that are due far in the future.

They wait unsorted in slots of time. A slot is sorted when its time comes near.
"""

from __future__ import annotations

import itertools
import random
import sqlite3
import subprocess
import sys
from contextlib import closing
from dataclasses import replace

import pytest
from sqlite_files import is_sound, pages_logged, rows, value, writing

from tickwheel.jobs import model
from tickwheel.jobs.rows import row_of
from tickwheel.stores.sqlite import SqliteStore, _batch, _far, _schema
from tickwheel.stores.sqlite._queries import SQL
from tickwheel.testing.store_suite import SharedStoreSuite, StoreSuite

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
EVER = 2**63 - 1

SORTING = """
import sqlite3, sys
from tickwheel.stores.sqlite import SqliteStore, _far

_far._STRETCH = 20
store = SqliteStore(sys.argv[1])
store.open()
store.acquire("owner")
connection = sqlite3.connect(sys.argv[1], timeout=60, isolation_level=None)
print("up", flush=True)
while True:
    connection.execute("BEGIN IMMEDIATE")
    _far.cascade(connection, 2**62)
    connection.execute("COMMIT")
"""


class CascadingStore(SqliteStore):
    """
    A store that sorts a few far jobs, and removes a few tombstones, after every other commit.
    """

    turn = 0
    place = _far._FRONT

    def apply(self, writes):
        answers = super().apply(writes)
        self.turn += 1
        if self.turn % 2:
            with writing(self.path) as connection:
                _far.cascade(connection, 2**62)
                self.place = _far.sweep(connection, self.place)
        return answers


class AllFar:
    """
    Makes stores that treat every possible job as a far job, however soon it is due.
    """

    make = SqliteStore

    @pytest.fixture(autouse=True)
    def _far(self, tmp_path, monkeypatch):
        monkeypatch.setattr(_batch, "_SHORT_MS", -(2**70))
        monkeypatch.setattr(_batch, "is_far", lambda job, _now: job.due_at > 0 and job.recurrence is None)
        monkeypatch.setattr(_far, "_STRETCH", 3)
        self.paths = (tmp_path / f"{number}.db" for number in itertools.count())

    def make_store(self) -> SqliteStore:
        return self.make(next(self.paths))

    def make_peer(self, store: SqliteStore) -> SqliteStore:
        """
        Return another store on the same file.
        """
        return self.make(store.path)


class TestFarStore(AllFar, StoreSuite):
    """
    The contract suite on a store that sorts no slots.

    Due jobs are found and claimed in their unsorted slots.
    """


class TestCascadingStore(AllFar, StoreSuite):
    """
    The contract suite on a store in which slots are partly sorted at any moment.
    """

    make = CascadingStore


class TestSharedCascadingStore(AllFar, SharedStoreSuite):
    """
    The contract suite on two store objects, both of which sort slots of far jobs.
    """

    make = CascadingStore


def levels(store):
    """
    Return the number of jobs on each level.
    """
    return dict(rows(store.path, "SELECT shard, count(*) FROM tickwheel_job GROUP BY shard"))


def spread(store, count, first=DAY_MS, span=30 * DAY_MS, name="job"):
    """
    Set *count* jobs at random instants, and return them in order of due time.
    """
    dice, now = random.Random(count), store.now_ms()
    writes = [
        model.Set(model.Job(f"{name} {i:06}", 0, now + first + dice.randrange(span), bytes(100))) for i in range(count)
    ]
    jobs = [answer.job for answer in store.apply(writes)]
    return sorted(jobs, key=lambda job: (job.due_at, job.generation))


def check(store, jobs):
    """
    Check that every query finds exactly *jobs*, which must be in order of due time.
    """
    first, last = jobs[0].due_at, jobs[-1].due_at
    assert store.due(0, EVER, None, len(jobs) + 1) == jobs
    assert store.upcoming(jobs[3].due_at, last, 5) == jobs[3:8]
    assert store.due(0, EVER, (jobs[5].due_at, jobs[5].generation), 2) == jobs[6:8]
    assert sum(store.count_due(first, last - first + 1, 1)) == len(jobs)
    assert store.count_due(jobs[2].due_at, jobs[4].due_at - jobs[2].due_at, 1) == [2]
    page = store.page(model.JobQuery(limit=len(jobs) + 1, due_from=first, due_until=last + 1))
    assert list(page.jobs) == sorted(jobs, key=lambda job: job.key)
    assert store.get(jobs[-1].key) == jobs[-1]
    assert store.count()["pending"] == len(jobs)


def test_far_jobs_share_pages(weighed, store):
    """
    A commit of a thousand jobs spread over a month logs a page for each slot, not for each job.
    """
    spread(store, 20_000)
    assert pages_logged(store.path, lambda: spread(store, 1_000, name="more")) < 400
    assert len(weighed) == 2
    assert levels(store) == {-4: 21_000}


def test_the_owner_sorts_slots_that_come_near(store, clock):
    """
    If a slot of far jobs begins within the hour, each commit sorts 5,000 of its jobs.

    Queries find all jobs before, during and after the sort.
    """
    jobs = spread(store, 12_000, first=DAY_MS, span=DAY_MS // 2)
    check(store, jobs)
    clock.advance(23 * 3600)
    store.renew("owner")
    assert levels(store) == {-4: 12_000}
    clock.advance(1)
    for near in (5_000, 10_000):
        store.renew("owner")
        assert levels(store) == {-4: 12_000 - near, 0: near}
        check(store, jobs)
    for _ in range(2):
        store.renew("owner")
    assert levels(store) == {0: 12_000}
    check(store, jobs)


def test_sorted_jobs_are_not_passed_over(store, clock):
    """
    A slot of far jobs is sorted when its time comes near.

    The next scan then finds its jobs, even if they are due before the jobs that were already pending.
    """
    (begun,) = spread(store, 1, first=2 * HOUR_MS, span=1, name="begun")
    (far,) = spread(store, 1, first=20 * HOUR_MS, span=1, name="far")
    clock.advance(13 * 3600)
    (after,) = spread(store, 1, first=10 * HOUR_MS, span=1, name="after")
    assert levels(store) == {-4: 1, 0: 2}
    store.apply([model.Begin(begun, 1)])
    assert value(store.path, "SELECT floor FROM tickwheel_ledger") == after.due_at
    store.renew("owner")
    assert levels(store) == {0: 3}
    assert store.due(0, EVER, None, 2) == [far, after]


def test_overdue_jobs_need_no_sorting(tmp_path, clock, store, monkeypatch):
    """
    If a file was closed for a week, the overdue jobs of its slots fire in order, each once.
    """
    jobs = spread(store, 300, span=DAY_MS)
    monkeypatch.setattr(_far, "_STRETCH", 20)
    store.close()
    clock.advance(7 * 86_400)
    with closing(SqliteStore(tmp_path / "jobs.db", clock=clock)) as again:
        again.open()
        (lease,) = again.acquire("other")
        fired = []
        while due := again.due(0, again.now_ms(), None, 40):
            assert {answer.outcome for answer in again.apply([model.Begin(job, lease.epoch) for job in due])} == {
                "begun"
            }
            assert again.count()["running"] == len(due)
            again.apply([model.Settle(job, lease.epoch) for job in due])
            fired += due
            if len(fired) == 120:
                again.renew("other")
                assert set(levels(again)) == {-4, 0}
        assert fired == jobs
        assert again.count() == {"pending": 0, "running": 0, "dead": 0}
        assert levels(again) == {}


def test_far_jobs_of_every_kind(store, clock):
    """
    A far job keeps all its fields, before its slot is sorted and after.
    """
    due_at = store.now_ms() + DAY_MS
    plain = model.Job("plain", 0, due_at, b"[1]", "log", "h")
    jobs = [
        plain,
        replace(plain, key="expires", expires_at=due_at + 1, trace="t"),
        replace(plain, key="retry", retry=model.RetryPolicy(2)),
    ]
    jobs = [answer.job for answer in store.apply([model.Set(job) for job in jobs])]
    assert levels(store) == {-4: 3}
    assert [store.get(job.key) for job in jobs] == jobs
    assert store.due(0, EVER, None, 9) == jobs
    clock.advance(86_400)
    store.renew("owner")
    assert levels(store) == {0: 3}
    assert [store.get(job.key) for job in jobs] == jobs
    assert store.due(0, EVER, None, 9) == jobs


def test_jobs_that_are_never_far(store):
    """
    Recurring, dead, paused and large jobs are never stored as far jobs.
    """
    due_at = store.now_ms() + DAY_MS
    writes = [model.Set(model.Job(key, 0, due_at)) for key in ("paused", "dead")]
    dead = store.apply(writes)[1].job
    assert levels(store) == {-4: 2}
    recurring = model.Job("recurring", 0, due_at, recurrence="every 5 s")
    store.apply([model.Set(job) for job in (recurring, model.Job("large", 0, due_at, bytes(501)))])
    store.apply([model.SetPause("paused", "somebody", "")])
    store.apply([model.Begin(dead, 1)])
    store.apply([model.Settle(dead, 1, model.Settled.DEAD, 1, error="x")])
    assert levels(store) == {-3: 1, -1: 1, 0: 2}
    store.apply([model.Resume("paused"), model.Replay("dead", due_at)])
    assert levels(store) == {-4: 2, 0: 2}


def test_far_jobs_of_the_near_level(tmp_path, clock):
    """
    After a clock step, jobs that are due far in the future may be stored among the near jobs.

    They stay there, and can be found, moved, cancelled and fired.
    """
    path, now = tmp_path / "jobs.db", clock.wall_ns() // 1_000_000
    dice = random.Random(1)
    jobs = [
        model.Job(f"job {i:03}", i, now + dice.randrange(30 * DAY_MS), bytes(i), first_set_at=now)
        for i in range(1, 401)
    ]
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        _schema.migrate(connection, "url")
        for job in jobs:
            shelf = 0 if job.due_at - now <= 60_000 else 1
            connection.execute(SQL["insert_job"], (0, *row_of(job), None))
            connection.execute(SQL["insert_key"], (shelf, job.key, job.due_at, job.generation))
        connection.execute("UPDATE tickwheel_ledger SET generation = 400, pending = 400")
    with closing(SqliteStore(path, clock=clock)) as store:
        store.open()
        store.acquire("owner")
        jobs.sort(key=lambda job: job.due_at)
        check(store, jobs)
        assert levels(store) == {0: 400}
        moved = [answer.job for answer in store.apply([model.Move(job.key, job.due_at + 1) for job in jobs[100:200]])]
        cancelled = store.apply([model.Cancel(job.key) for job in jobs[200:300]])
        assert {answer.outcome for answer in cancelled} == {"cancelled"}
        check(store, sorted(jobs[:100] + moved + jobs[300:], key=lambda job: (job.due_at, job.generation)))
        assert levels(store) == {-4: 100, 0: 200}
        clock.advance(31 * 86_400)
        store.renew("owner")
        due = store.due(0, EVER, None, 1_000)
        assert len(due) == 300
        assert {answer.outcome for answer in store.apply([model.Begin(job, 1) for job in due])} == {"begun"}
        assert {answer.outcome for answer in store.apply([model.Settle(job, 1) for job in due])} == {"settled"}
        assert store.count() == {"pending": 0, "running": 0, "dead": 0}


def test_owner_is_killed_while_it_sorts(tmp_path):
    """
    If owners are killed while they sort far jobs, every job still exists exactly once.

    This also holds for jobs that another process changes at the same time.
    """
    path, dice, jobs = tmp_path / "jobs.db", random.Random(3), {}
    with closing(SqliteStore(path)) as store:
        store.open()
        now = store.now_ms()

        def write(key):
            due_at = now + 2 * DAY_MS + dice.randrange(20 * DAY_MS)
            kind = dice.choice(("set", "set", "move", "cancel")) if key in jobs else "set"
            if kind == "set":
                return model.Set(model.Job(key, 0, due_at, bytes(dice.randrange(100))))
            return model.Move(key, due_at) if kind == "move" else model.Cancel(key)

        for _ in range(4):
            with subprocess.Popen([sys.executable, "-c", SORTING, str(path)], stdout=subprocess.PIPE) as owner:
                assert owner.stdout.readline() == b"up\n"
                for turn in itertools.count():
                    writes = [write(f"key {i}") for i in dice.sample(range(300), dice.choice((1, 5, 60)))]
                    for each, answer in zip(writes, store.apply(writes), strict=True):
                        if isinstance(each, model.Cancel):
                            del jobs[each.key]
                        else:
                            jobs[answer.job.key] = answer.job
                    if turn > 60 and 0 in levels(store):  # by then; SQLite decides how the two processes take turns
                        break
                owner.kill()
            check(store, sorted(jobs.values(), key=lambda job: (job.due_at, job.generation)))
        assert is_sound(store.path)
