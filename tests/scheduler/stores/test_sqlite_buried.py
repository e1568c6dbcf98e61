"""
Tombstones are the rows of far jobs that were moved or cancelled.

They stay in the table for a while, and no query counts them.
"""

from __future__ import annotations

import random
from contextlib import closing

from sqlite_files import connected, is_sound, pages_logged, value

from tickwheel.jobs import model
from tickwheel.stores.sqlite import SqliteStore, _far

DAY_MS = 86_400_000
EVER = 2**63 - 1


def rows(store):
    """
    Return the number of far rows, the number of tombstones among these, and the stored count of tombstones.
    """
    return (
        value(store.path, "SELECT count(*) FROM tickwheel_job WHERE shard = -4"),
        value(store.path, "SELECT count(*) FROM tickwheel_job WHERE shard = -4")
        - value(store.path, "SELECT count(*) FROM tickwheel_live WHERE shard = -4"),
        value(store.path, "SELECT gone FROM tickwheel_ledger"),
    )


def set_far(store, count, seed=1):
    """
    Set *count* jobs at times in the next month, but not in its first two days.
    """
    dice, now = random.Random(seed), store.now_ms()
    writes = [
        model.Set(model.Job(f"job {i:05}", 0, now + 2 * DAY_MS + dice.randrange(28 * DAY_MS), bytes(100)))
        for i in range(count)
    ]
    return [answer.job for answer in store.apply(writes)]


def test_moves_and_cancels_of_any_jobs_share_pages(weighed, store):
    """
    Moving or cancelling a thousand jobs logs only a few more pages than setting a thousand jobs.

    This holds even if the moved or cancelled jobs are scattered among twenty thousand jobs.
    """
    jobs = set_far(store, 20_000)
    chosen = random.Random(2).sample(jobs, 2_000)
    for writes, bar in (
        ([model.Cancel(job.key) for job in chosen[:1_000]], 100),
        ([model.Move(job.key, job.due_at + DAY_MS) for job in chosen[1_000:]], 400),
    ):
        assert pages_logged(store.path, lambda writes=writes: store.apply(writes)) < bar
    assert len(weighed) == 3
    assert rows(store) == (21_000, 2_000, 2_000)


def test_no_query_finds_a_tombstone(store, clock):
    """
    No query finds a tombstone, which is the row of a job that was moved or cancelled.

    The key of such a job can be set again.
    """
    moved, cancelled, again = set_far(store, 3)
    answers = store.apply(
        [model.Move(moved.key, moved.due_at + DAY_MS), model.Cancel(cancelled.key), model.Cancel(again.key)]
    )
    (other,) = [answer.job for answer in store.apply([model.Set(model.Job(again.key, 0, again.due_at))])]
    there = sorted([answers[0].job, other], key=lambda job: job.due_at)
    for _ in range(2):
        assert store.get(cancelled.key) is None
        assert [store.get(job.key) for job in there] == there
        assert store.due(0, EVER, None, 9) == there
        assert sum(store.count_due(0, EVER, 1)) == 2
        assert list(store.page(model.JobQuery()).jobs) == sorted(there, key=lambda job: job.key)
        assert store.count()["pending"] == 2
        clock.advance(40 * 86_400)
        for _ in range(9):
            store.renew("owner")
    assert rows(store) == (0, 0, 0)
    assert value(store.path, "SELECT count(*) FROM tickwheel_gone") == 0


def test_a_debounce_over_days_does_not_fill_the_disk(store, monkeypatch):
    """
    However often the same jobs are moved, there are not many more tombstones than jobs.
    """
    monkeypatch.setattr(_far, "_GONE_MAX", 100)
    jobs = set_far(store, 500)
    dice = random.Random(3)
    for turn in range(40):
        store.apply([model.Move(job.key, store.now_ms() + DAY_MS * dice.randrange(2, 30)) for job in jobs])
        for _ in range(20):
            store.renew("owner")
        far, gone, counted = rows(store)
        assert far == 500 + gone
        assert gone == counted <= 600, turn
    assert is_sound(store.path)
    assert len(store.due(0, EVER, None, 1_000)) == 500


def test_jobs_that_keep_their_generation_leave_no_row(store):
    """
    If a far job is paused and resumed, it keeps its generation and leaves no tombstone.
    """
    (job,) = set_far(store, 1)
    store.apply([model.SetPause(job.key, "somebody", "")])
    assert rows(store) == (0, 0, 0)
    store.apply([model.Resume(job.key)])
    assert rows(store)[1:] == (0, 0)
    assert store.due(0, EVER, None, 9) == [store.get(job.key)]


def test_other_processes_write_tombstones(store, tmp_path, clock):
    """
    If a process that is not the owner cancels far jobs, the owner learns of the cancels.

    This also holds for cancels within a caller's transaction.
    """
    path = tmp_path / "jobs.db"
    first, second, third, fourth = set_far(store, 4)
    with closing(SqliteStore(path, clock=clock)) as other, connected(path) as connection:
        other.open()
        assert other.apply([model.Cancel(first.key)])[0].outcome == "cancelled"
        for job, end in ((second, connection.commit), (third, connection.rollback)):
            connection.execute("BEGIN IMMEDIATE")
            assert other.join(connection, [model.Cancel(job.key)])[0].outcome == "cancelled"
            end()
    assert rows(store) == (4, 2, 2)
    assert store.due(0, EVER, None, 9) == sorted((third, fourth), key=lambda job: job.due_at)


def test_far_jobs_count_by_the_pages_that_they_change(weighed, store):
    """
    The weight of a commit towards the next checkpoint is the number of pages that it changes.

    A far job changes fewer pages than a near one.
    """
    jobs = set_far(store, 2_000)
    store.apply([model.Set(model.Job(f"near {i}", 0, store.now_ms() + i)) for i in range(2_000)])
    store.apply([model.Cancel(job.key) for job in jobs[:1_000]])
    store.apply([model.Move(job.key, job.due_at + DAY_MS) for job in jobs[1_000:]])
    sets, near, cancels, moves = weighed
    assert near == 2_000
    assert cancels < 10
    assert sets < 400
    assert moves < 400


def test_a_full_disk_gets_no_tombstones(store):
    """
    While the store uses its reserved disk space, a cancel deletes the row of the job and leaves no tombstone.
    """
    first, second = set_far(store, 2)
    store._reserve.spend()
    store.apply([model.Cancel(first.key)])
    assert rows(store) == (1, 0, 0)
    assert store.due(0, EVER, None, 9) == [second]
