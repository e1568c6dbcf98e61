"""
The SQLite store moves the keys of jobs into sorted lists on disk (runs).

The keys are found, listed and moved correctly while these lists are merged.
"""

from __future__ import annotations

import itertools
import random
import sqlite3
import subprocess
import sys
from contextlib import closing
from functools import partial

import pytest
from sqlite_files import is_sound, noted_connections, pages_logged, rows, statements_of, value, writing

from tickwheel.jobs import model
from tickwheel.jobs.rows import row_of
from tickwheel.stores.sqlite import SqliteStore, _batch, _paging, _runs, _schema
from tickwheel.stores.sqlite._filters import Filters, filter_of
from tickwheel.stores.sqlite._queries import SQL
from tickwheel.stores.sqlite._reserve import Reserve
from tickwheel.testing.store_suite import SharedStoreSuite, StoreSuite

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
MERGING = """
import sqlite3, sys
from tickwheel.stores.sqlite import SqliteStore, _runs

_runs._SHELF_MAX, _runs._SLICE = 20, 8
store = SqliteStore(sys.argv[1])
store.open()
store.acquire("owner")
connection = sqlite3.connect(sys.argv[1], timeout=60, isolation_level=None)
print("up", flush=True)
while True:
    connection.execute("BEGIN IMMEDIATE")
    _runs.merge(connection, store.now_ms())
    connection.execute("COMMIT")
"""


def small(monkeypatch, shelf, part):
    """
    Merge a partition of the key table as soon as it has *shelf* keys, with *part* keys at a time.
    """
    monkeypatch.setattr(_runs, "_SHELF_MAX", shelf)
    monkeypatch.setattr(_runs, "_SLICE", part)


class MergingStore(SqliteStore):
    """
    A store that moves some keys into a sorted list on disk after each commit.
    """

    def apply(self, writes):
        answers = super().apply(writes)
        merge_once(self)
        return answers


class AllMerged:
    """
    Makes stores that soon move all their keys into sorted lists on disk.
    """

    @pytest.fixture(autouse=True)
    def _small(self, tmp_path, monkeypatch):
        monkeypatch.setattr(_batch, "_SHORT_MS", -(2**70))
        monkeypatch.setattr(_runs, "_HINTS_MIN", 10)
        monkeypatch.setattr(_runs, "_OWED", 0)  # one slice after each commit is enough, also of a thousand keys
        small(monkeypatch, 1, 2)
        self.paths = (tmp_path / f"{number}.db" for number in itertools.count())

    def make_store(self) -> MergingStore:
        return MergingStore(next(self.paths))

    def make_peer(self, store: SqliteStore) -> MergingStore:
        """
        Return another store on the same file.
        """
        return MergingStore(store.path)


class TestMergingStore(AllMerged, StoreSuite):
    """
    The contract suite on a store that has moved a part of its keys into sorted lists on disk.
    """


class TestSharedMergingStore(AllMerged, SharedStoreSuite):
    """
    The contract suite on two store objects, both of which merge.
    """


def merge_once(store):
    """
    Move some keys into a sorted list on disk.
    """
    with writing(store.path) as connection:
        return _runs.merge(connection, store.now_ms())


def merge_all(store):
    while merge_once(store):
        pass


def runs(store):
    """
    Return the number of keys that were moved into each sorted list on disk.
    """
    return sorted(size for _, size in rows(store.path, SQL["runs"]))


def hints(store):
    """
    Return the number of rows of the key table outside partition 0.
    """
    return value(store.path, "SELECT count(*) FROM tickwheel_key WHERE shelf > 0")


def listed(store, limit=1_000):
    """
    Return all jobs, page by page.
    """
    found, cursor = [], None
    while True:
        page = store.page(model.JobQuery(limit=limit, cursor=cursor))
        found += page.jobs
        cursor = page.cursor
        if cursor is None:
            return found


def check(store, jobs):
    """
    Check that *jobs* (by key) are listed, counted and looked up correctly.
    """
    assert listed(store, 100) == [jobs[key] for key in sorted(jobs)]
    assert store.count()["pending"] == len(jobs)
    assert all(store.get(key) == jobs[key] for key in itertools.islice(jobs, 20))


def write_some(store, dice, jobs, keys=1_500):
    """
    Set, move and cancel jobs under some of *keys* keys, and update *jobs* accordingly.
    """
    writes = {}
    for key in {f"key {dice.randrange(keys)}" for _ in range(dice.choice((1, 3, 30)))}:
        due_at = store.now_ms() + dice.choice((2, 80)) * HOUR_MS + dice.randrange(DAY_MS)
        kind = dice.choice(("set", "set", "move", "cancel")) if key in jobs else "set"
        job = model.Job(key, 0, due_at, bytes(dice.randrange(20)))
        writes[key] = {"set": model.Set(job), "move": model.Move(key, due_at), "cancel": model.Cancel(key)}[kind]
    for (key, write), answer in zip(writes.items(), store.apply(list(writes.values())), strict=True):
        if isinstance(write, model.Cancel):
            assert answer.outcome == "cancelled"
            del jobs[key]
            continue
        expected = "moved" if isinstance(write, model.Move) else "replaced" if key in jobs else "created"
        assert answer.outcome == expected
        jobs[key] = answer.job


def test_random_writes_during_merges(store, clock, monkeypatch):
    """
    While keys are moved into sorted lists on disk, two store objects on one file change jobs.

    Every query finds exactly the jobs that exist.
    """
    small(monkeypatch, 50, 16)
    monkeypatch.setattr(_runs, "_HINTS_MIN", 1_000)
    dice, jobs = random.Random(11), {}
    with closing(SqliteStore(store.path, clock=clock)) as other:
        other.open()
        for turn in range(300):
            write_some(dice.choice((store, other)), dice, jobs)
            if turn % 30 == 0:
                store.renew("owner")
                check(other, jobs)
    merge_all(store)
    assert len(runs(store)) > 1
    check(store, jobs)


def test_far_keys_share_pages(weighed, store, monkeypatch):
    """
    A commit of a thousand random keys writes few pages to the log, however many keys exist.
    """
    small(monkeypatch, 2_000, 1_000)
    dice, day = random.Random(1), store.now_ms() + DAY_MS

    def set_some(count):
        store.apply([model.Set(model.Job(f"{dice.getrandbits(64):x}", 0, day)) for _ in range(count)])

    for _ in range(40):
        set_some(1_000)
    merge_all(store)
    assert pages_logged(store.path, lambda: set_some(1_000)) < 250
    assert len(weighed) == 41


def test_the_key_partition_stays_small(store, clock, monkeypatch):
    """
    Each commit moves keys of the owner's jobs into sorted lists on disk.

    A renewal moves keys that other processes wrote.
    """
    small(monkeypatch, 200, 100)
    day = store.now_ms() + DAY_MS
    for part in range(30):
        store.apply([model.Set(model.Job(f"{part} {i}", 0, day)) for i in range(100)])
    on_shelf = partial(value, store.path, "SELECT count(*) FROM tickwheel_key WHERE shelf = 1")
    assert on_shelf() <= 400
    with closing(SqliteStore(store.path, clock=clock)) as other:
        other.open()
        other.apply([model.Set(model.Job(f"other {i}", 0, day)) for i in range(5_000)])
    assert on_shelf() > 4_000
    for _ in range(100):
        store.renew("owner")
    assert on_shelf() <= 200
    assert hints(store) == 8_000


def test_stale_keys_are_removed(store, clock, monkeypatch):
    """
    A merge removes the keys of jobs that were moved or have finished.

    If there are many such keys, renewals also remove them.
    """
    small(monkeypatch, 100, 50)
    monkeypatch.setattr(_runs, "_HINTS_MIN", 2_000)
    now = store.now_ms()
    for part in range(8):
        store.apply([model.Set(model.Job(f"{part} {i:03}", 0, now + 2 * HOUR_MS + i)) for i in range(101)])
        merge_all(store)
    assert runs(store) == [808]
    for turn in range(5):  # the same jobs are moved again and again
        store.apply([model.Move(f"0 {i:03}", now + DAY_MS + turn) for i in range(101)])
        merge_all(store)
    assert hints(store) == 808 + 5 * 101
    clock.advance(3 * 3600)
    store.renew("owner")
    while due := store.due(0, store.now_ms(), None, 200):
        store.apply([model.Begin(job, 1) for job in due])
        store.apply([model.Settle(job, 1) for job in due])
    assert store.count()["pending"] == 101
    for turn in range(3):
        store.apply([model.Move(f"0 {i:03}", now + 2 * DAY_MS + turn) for i in range(101)])
        merge_all(store)
    assert runs(store) == [101, 808]  # of the eight keys of a moved job one is left; the large run was not merged
    assert [job.due_at for job in listed(store)] == [now + 2 * DAY_MS + 2] * 101
    monkeypatch.setattr(_runs, "_HINTS_MIN", 200)
    for _ in range(20):
        store.renew("owner")
    assert runs(store) == [101]
    assert hints(store) == 101
    store.apply([model.Cancel(f"0 {i:03}") for i in range(101)])
    monkeypatch.setattr(_runs, "_HINTS_MIN", 0)
    store.renew("owner")
    assert runs(store) == []
    assert value(store.path, "SELECT count(*) FROM tickwheel_filter") == 0


def test_a_resumed_job_is_listed_once(store, monkeypatch):
    """
    If a job was paused and resumed, it is listed once, although the key table has two entries for it.
    """
    small(monkeypatch, 2, 2)
    day = store.now_ms() + DAY_MS
    store.apply([model.Set(model.Job(f"job {i}", 0, day + i)) for i in range(3)])
    merge_all(store)
    assert runs(store) == [3]
    before = listed(store)
    store.apply([model.SetPause("job 1", "somebody", "")])
    assert [job.key for job in store.page(model.JobQuery(paused=True)).jobs] == ["job 1"]
    assert [job.key for job in listed(store)] == ["job 0", "job 1", "job 2"]
    store.apply([model.Resume("job 1")])
    assert hints(store) == 4
    assert listed(store) == listed(store, 1) == before
    store.apply([model.Set(model.Job(f"more {i}", 0, day)) for i in range(3)])
    merge_all(store)
    assert listed(store)[:3] == before


def file_with_a_shelf(path, now, count):
    """
    Make a file with *count* jobs, whose keys are all in partition 1, and return the jobs by key.
    """
    dice = random.Random(count)
    jobs = [
        model.Job(f"job {i:05}", i, now + dice.randrange(30 * DAY_MS), first_set_at=now - DAY_MS)
        for i in dice.sample(range(1, count + 1), count)
    ]
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        _schema.migrate(connection, "url")
        connection.execute("BEGIN")
        for job in jobs:
            connection.execute(SQL["insert_job"], (0, *row_of(job), None))
            connection.execute(SQL["insert_key"], (1, job.key, job.due_at, job.generation))
        connection.execute("UPDATE tickwheel_ledger SET generation = ?, pending = ?", (count, count))
        connection.execute("COMMIT")
    return {job.key: job for job in jobs}


def test_a_large_key_partition_is_merged_while_it_is_written(tmp_path, clock):
    """
    A file with 20,000 keys in one partition of the key table can be opened as it is.

    While this partition is merged into a sorted list, jobs can be moved and cancelled, and no change is lost.
    """
    path = tmp_path / "jobs.db"
    jobs = file_with_a_shelf(path, clock.wall_ns() // 1_000_000, 20_000)
    dice = random.Random(5)
    with closing(SqliteStore(path, clock=clock)) as store:
        store.open()
        assert runs(store) == []
        store.acquire("owner")
        assert listed(store) == [jobs[key] for key in sorted(jobs)]
        while merge_once(store):
            for kind in (model.Move, model.Cancel):
                keys = dice.sample(sorted(jobs), 50)
                later = store.now_ms() + 20 * DAY_MS
                answers = store.apply([model.Cancel(key) if kind is model.Cancel else kind(key, later) for key in keys])
                assert {answer.outcome for answer in answers} == {"cancelled" if kind is model.Cancel else "moved"}
                for key, answer in zip(keys, answers, strict=True):
                    jobs[key] = answer.job
                    if kind is model.Cancel:
                        del jobs[key]
        assert len(runs(store)) == 1
        check(store, jobs)


def test_owner_is_killed_while_it_merges(tmp_path):
    """
    If owners are killed while they merge keys, every job still exists exactly once.

    This also holds for jobs that another process changes at the same time.
    """
    dice, jobs = random.Random(3), {}
    with closing(SqliteStore(tmp_path / "jobs.db")) as store:
        store.open()
        for _ in range(4):
            command = [sys.executable, "-c", MERGING, str(store.path)]
            with subprocess.Popen(command, stdout=subprocess.PIPE) as owner:
                assert owner.stdout.readline() == b"up\n"
                before = set(rows(store.path, SQL["runs"]))
                for turn in itertools.count():
                    write_some(store, dice, jobs, 400)
                    if turn > 60 and before != set(rows(store.path, SQL["runs"])):
                        break
                owner.kill()
            check(store, jobs)
        assert is_sound(store.path)


def test_a_merge_that_is_rolled_back_leaves_nothing_behind(store, monkeypatch):
    """
    If a commit that moves keys into sorted lists fails, these lists and their copy in memory stay unchanged.
    """
    small(monkeypatch, 20, 8)
    day, jobs = store.now_ms() + DAY_MS, {}
    for part in range(30):
        writes = [model.Set(model.Job(f"{part} {i}", 0, day)) for i in range(10)]
        with monkeypatch.context() as patch:
            patch.setattr(Reserve, "cover", lambda *_: 1 / 0)
            with pytest.raises(ZeroDivisionError):
                store.apply(writes)
        jobs |= {answer.job.key: answer.job for answer in store.apply(writes)}
    check(store, jobs)
    assert {answer.outcome for answer in store.apply([model.Cancel(key) for key in jobs])} == {"cancelled"}


def test_filters_find_every_existing_key():
    """
    A Bloom filter never misses an existing key, and lets at most two of a hundred missing keys pass.
    """
    dice = random.Random(2)
    for make in (lambda i: f"job {i}", lambda _: f"{dice.getrandbits(64):x}", lambda i: f"größe/{i:09}/\0"):
        keys = sorted({make(i) for i in range(8_000)})
        others = sorted({make(i) for i in range(100_000, 108_000)})
        with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
            _schema.migrate(connection, "url")
            for start in range(0, len(keys), 1_000):
                part = keys[start : start + 1_000]
                connection.execute(SQL["insert_filter"], (7, part[-1], filter_of(part)))
            connection.execute("INSERT INTO tickwheel_shelf VALUES (7, 8000, NULL)")
            filters = Filters()
            assert filters.within(connection, keys) == [(7, keys)]
            found = dict(filters.within(connection, others)).get(7, [])
            assert len(found) < 0.03 * len(others)
            assert filters.within(connection, [keys[5]]) == [(7, [keys[5]])]


def test_the_owner_reads_filters_when_it_opens(store, clock, monkeypatch):
    """
    The owner reads the Bloom filters of existing keys when it opens.

    Otherwise setting the first job among ten million keys would be slow.
    """
    small(monkeypatch, 20, 8)
    store.apply([model.Set(model.Job(f"job {i:03}", 0, store.now_ms() + DAY_MS)) for i in range(100)])
    merge_all(store)
    store.close()
    again = model.Set(model.Job("job 050 again", 0, store.now_ms() + DAY_MS))
    with noted_connections() as made, closing(SqliteStore(store.path, clock=clock)) as other:
        other.open()
        other.acquire("next")
        other.renew("next")
        statements = statements_of(made, lambda: other.apply([again]))
    assert any("FROM tickwheel_shelf" in each for each in statements)
    assert not any("FROM tickwheel_filter" in each for each in statements)


def test_a_job_set_alone_meets_its_key_in_a_run(store, monkeypatch):
    """
    If a job is set alone, its key is found even if a merge has moved the key into a sorted list on disk.
    """
    small(monkeypatch, 20, 8)
    day = store.now_ms() + DAY_MS
    store.apply([model.Set(model.Job(f"job {i:03}", 0, day + i)) for i in range(100)])
    merge_all(store)
    assert runs(store)
    (again,) = store.apply([model.Set(model.Job("job 050", 0, day))])
    (new,) = store.apply([model.Set(model.Job("job 050 again", 0, day))])
    assert [again.outcome, new.outcome] == [model.Outcome.REPLACED, model.Outcome.CREATED]
    assert sum(store.count().values()) == 101
    assert is_sound(store.path)


def test_a_job_is_not_found_by_its_former_key(store, clock, monkeypatch):
    """
    If a clock step changes the due time of a job, no query finds the job by its former entry in the key table.
    """
    small(monkeypatch, 2, 2)
    day = store.now_ms() + DAY_MS
    answers = store.apply([model.Set(model.Job(f"job {i}", 0, day)) for i in range(3)])
    jobs = {answer.job.key: answer.job for answer in answers}
    merge_all(store)
    for turn in range(1, 9):  # the clock is set eight times
        writes = [model.Redate(job, 1, day + turn, None) for job in jobs.values()]
        answers = store.apply(writes)
        assert {answer.outcome for answer in answers} == {"moved"}
        jobs = {answer.job.key: answer.job for answer in answers}
        merge_all(store)
        check(store, jobs)
    assert runs(store) == [3, 3]  # each job has two keys: one of eight was kept and one added
    clock.advance(24 * 3600)
    store.renew("owner")
    check(store, jobs)
    assert {answer.outcome for answer in store.apply([model.Cancel(key) for key in jobs])} == {"cancelled"}


def test_no_job_is_lost_between_two_pages(store, monkeypatch):
    """
    If a page of a list ends between two entries of the key table for the same job, the list contains the job once.
    """
    small(monkeypatch, 20, 20)
    day = store.now_ms() + DAY_MS
    keys = [f"job {i:03}" for i in range(100)]
    for turn in range(5):
        store.apply([model.Set(model.Job(key, 0, day + turn)) for key in keys])
        merge_all(store)
    assert hints(store) > 400
    for reach in range(50, 56):
        monkeypatch.setattr(_paging, "_REACH", reach)
        assert [job.key for job in listed(store, 40)] == keys


def test_a_slice_adds_no_more_than_the_reserve(store, clock, monkeypatch):
    """
    Even with the longest possible keys, moving keys into sorted lists uses no more disk space than is reserved for it.
    """
    small(monkeypatch, 2_000, 1_000)
    monkeypatch.setattr(Reserve, "cover", lambda *_: None)
    day = store.now_ms() + DAY_MS
    dice = random.Random(9)
    with closing(SqliteStore(store.path, clock=clock)) as other:  # this store moves no keys
        other.open()
        other.apply([model.Set(model.Job(f"{dice.getrandbits(2048):0512x}", 0, day)) for _ in range(3_000)])
    size = partial(value, store.path, SQL["size"])
    while True:
        before = size()
        if not (moved := merge_once(store)):
            break
        assert size() - before <= _runs.KEY_BYTES * moved
