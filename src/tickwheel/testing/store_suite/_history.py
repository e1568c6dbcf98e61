"""
Records of ended attempts. A record is part of the transaction that ends the attempt.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from tickwheel.jobs.model import (
    AttemptState,
    Begin,
    Cancel,
    HistoryRecord,
    Job,
    Outcome,
    Set,
    Settle,
    Settled,
    State,
    Write,
)
from tickwheel.testing.store_suite._base import EVER, OWNER, Rig, StoreTests

__all__ = ["record_of"]

_LATER = "the next owner"


def record_of(job: Job, outcome: str = "failed", **fields: object) -> HistoryRecord:
    made = HistoryRecord(
        0, 5, job.key, job.generation, job.attempt + 1, outcome, OWNER, job.target, job.handler, job.due_at
    )
    return made._replace(**fields)  # type: ignore[arg-type]


class HistoryTests(StoreTests):
    def test_settled_and_recorded(self) -> None:
        ends: list[Callable[[Rig, Job, HistoryRecord], Settle]] = [
            lambda rig, job, record: Settle(job, rig.lease(job.key).epoch, record=record),
            lambda rig, job, record: Settle(
                job, rig.lease(job.key).epoch, Settled.AGAIN, 1, rig.now + 9, "x", record=record
            ),
            lambda rig, job, record: Settle(job, rig.lease(job.key).epoch, Settled.DEAD, 1, error="x", record=record),
            lambda rig, job, record: Settle(job, rig.lease(job.key).epoch, Settled.DONE, 0, rig.now + 9, record=record),
        ]
        with self.rig() as rig:
            for number, end in enumerate(ends):
                job = rig.running(f"key {number}", handler="h", trace="t")
                record = record_of(
                    job,
                    begun_at=rig.now + 0.25,
                    took_ms=1234.5,
                    error="it \\x00 broke: \u00fc \U0001f600",
                    traceback='File "x.py", line 1\n  raise "\\n"',
                    trace="00-1-2-01",
                    note="1,204 rows" if number % 2 else None,
                )
                assert rig.do(end(rig, job, record)).outcome is Outcome.SETTLED
                (kept,) = rig.store.history(job.key, None, 10)
                assert kept.number > 0
                assert kept == record._replace(number=kept.number)

    def test_nothing_is_kept_unless_asked(self) -> None:
        with self.rig() as rig:
            rig.settle(rig.running("key"))
            rig.settle(rig.running("key"), Settled.DEAD, attempt=1, error="x")
            assert rig.store.history("key", None, 10) == []

    def test_refused_and_not_recorded(self) -> None:
        with self.rig() as rig:
            job = rig.running("key")
            epoch = rig.lease("key").epoch
            assert rig.do(Settle(job, epoch + 100, record=record_of(job))).outcome is Outcome.NOT_OWNER
            older = replace(job, generation=job.generation + 1)
            assert rig.do(Settle(older, epoch, record=record_of(job))).outcome is Outcome.WRONG_GENERATION
            assert rig.store.history("key", None, 10) == []
            assert rig.do(Settle(job, epoch, record=record_of(job))).outcome is Outcome.SETTLED
            assert rig.do(Settle(job, epoch, record=record_of(job))).outcome is Outcome.NOT_FOUND
            assert len(rig.store.history("key", None, 10)) == 1

    def test_first_end_of_a_job_that_is_gone(self) -> None:
        """
        The first `Settle` of an attempt is recorded even if its job is gone, unless the shard has another owner.
        """
        with self.rig() as rig:
            for batched in (False, True):
                gone, again = (rig.running(f"{name} {batched}", recurrence="every 5 s") for name in ("gone", "again"))
                over = [rig.status(job.key, AttemptState.STARTED) for job in (gone, again)]
                meanwhile: list[Write] = [
                    Cancel(gone.key, over=over[0], stops=True),
                    Set(replace(again, attempt=0), over=over[1]),
                ]
                ends: list[Write] = [
                    Settle(job, rig.lease(job.key).epoch, record=record_of(job), is_first=True) for job in (gone, again)
                ]
                answers = (
                    rig.store.apply([*meanwhile, *ends]) if batched else [rig.do(each) for each in meanwhile + ends]
                )
                assert [each.outcome for each in answers] == [
                    *(Outcome.STOPPING, Outcome.REPLACED),
                    *(Outcome.NOT_FOUND, Outcome.WRONG_GENERATION),
                ]
                for job in (gone, again):
                    (kept,) = rig.store.history(job.key, None, 10)
                    assert kept == record_of(job)._replace(number=kept.number)
                assert rig.get(again.key).state is State.PENDING
            lost = rig.running("lost")
            settle = Settle(lost, rig.lease("lost").epoch + 100, record=record_of(lost), is_first=True)
            assert rig.do(settle).outcome is Outcome.NOT_OWNER
            assert rig.store.history("lost", None, 10) == []

    def test_in_one_batch(self) -> None:
        with self.rig() as rig:
            jobs = [rig.running(f"key {number}") for number in range(30)]
            writes = [
                Settle(
                    job,
                    rig.lease(job.key).epoch + (100 if number % 3 == 1 else 0),
                    Settled.DONE if number % 2 else Settled.AGAIN,
                    record=record_of(job),
                )
                for number, job in enumerate(jobs)
            ]
            answers = rig.store.apply([*writes, Set(Job("another", 0, rig.now))])
            for number, job in enumerate(jobs):
                is_kept = number % 3 != 1
                assert (answers[number].outcome is Outcome.SETTLED) is is_kept
                assert len(rig.store.history(job.key, None, 10)) == is_kept

    def test_newest_first_and_page_by_page(self) -> None:
        with self.rig() as rig:
            for attempt in range(7):
                for key in ("key", "key 2", "ke"):
                    job = rig.running(key)
                    rig.do(Settle(job, rig.lease(key).epoch, record=record_of(job, at=attempt)))
            records = rig.store.history("key", None, 100)
            assert [record.at for record in records] == [6, 5, 4, 3, 2, 1, 0]
            numbers = [record.number for record in records]
            assert numbers == sorted(numbers, reverse=True)
            pages, before = [], None
            while page := rig.store.history("key", before, 3):
                assert before is None or page[0].number < before, "it would never come to an end"
                pages.append([record.at for record in page])
                before = page[-1].number
            assert pages == [[6, 5, 4], [3, 2, 1], [0]]
            assert rig.store.history("none", None, 10) == []

    def test_strange_keys(self) -> None:
        keys = ["a:b", "a b", "é\u0301/\U0001f600", "'\";--", "{x}", "k" * 512, "count", "1 [2"]
        with self.rig() as rig:
            for key in keys:
                job = rig.running(key)
                rig.do(Settle(job, rig.lease(key).epoch, record=record_of(job)))
            for key in keys:
                assert [record.key for record in rig.store.history(key, None, 10)] == [key]
            assert rig.store.prune(EVER, 1, 1, 100) == len(keys)

    def test_cut_off(self) -> None:
        """
        A takeover writes a record for each attempt that the former owner left running.

        The next attempt has its own record.
        """
        with self.rig() as rig:
            job = rig.running("key", handler="h", trace=None)
            pending = rig.pending("pending")
            rig.store.release(OWNER)
            epochs = {lease.shard: lease.epoch for lease in rig.store.acquire(_LATER)}
            (record,) = rig.store.history("key", None, 10)
            assert record.at >= rig.now
            assert record[2:7] == ("key", job.generation, 1, "cut_off", "")
            assert record[7:10] == (job.target, "h", job.due_at)
            assert set(record[10:]) == {None}
            assert rig.store.history("pending", None, 10) == []
            again = rig.get("key")
            epoch = epochs[rig.store.shard_of("key")]
            rig.store.apply([Begin(again, epoch), Settle(again, epoch, record=record_of(again))])
            assert [each.attempt for each in rig.store.history("key", None, 10)] == [2, 1]
            rig.store.release(_LATER)
            rig.leases = {lease.shard: lease for lease in rig.store.acquire(OWNER)}
            assert rig.get("pending") == pending

    def test_pruned_by_age(self) -> None:
        with self.rig() as rig:
            for at in range(10):
                job = rig.running(f"key {at % 2}")
                rig.do(Settle(job, rig.lease(job.key).epoch, record=record_of(job, at=at)))
            assert _steps(rig, since=6, limit=4) == [4, 2]
            assert [record.at for record in rig.store.history("key 0", None, 10)] == [8, 6]
            assert [record.at for record in rig.store.history("key 1", None, 10)] == [9, 7]
            assert _steps(rig, since=100) == [4]
            assert rig.store.history("key 0", None, 10) == []

    def test_pruned_by_key(self) -> None:
        with self.rig() as rig:
            for at in range(12):
                key = "rare" if at == 3 else f"key {at % 2}"
                job = rig.running(key)
                rig.do(Settle(job, rig.lease(key).epoch, record=record_of(job, at=at)))
            assert sum(_steps(rig, per_key=2, limit=3)) == 7
            assert [record.at for record in rig.store.history("key 0", None, 10)] == [10, 8]
            assert [record.at for record in rig.store.history("key 1", None, 10)] == [11, 9]
            assert [record.at for record in rig.store.history("rare", None, 10)] == [3]

    def test_pruned_by_number(self) -> None:
        with self.rig() as rig:
            for at in range(10):
                job = rig.running(f"key {at % 3}")
                rig.do(Settle(job, rig.lease(job.key).epoch, record=record_of(job, at=at)))
            assert sum(_steps(rig, total=4, limit=5)) == 6
            kept = [record.at for number in range(3) for record in rig.store.history(f"key {number}", None, 10)]
            assert sorted(kept) == [6, 7, 8, 9]
            job = rig.running("key 0")
            rig.do(Settle(job, rig.lease("key 0").epoch, record=record_of(job, at=20)))
            newest = rig.store.history("key 0", None, 1)[0]
            assert newest.at == 20
            assert newest.number > max(rig.store.history(f"key {number}", None, 1)[0].number for number in (1, 2))

    def test_ten_thousand_of_one_key(self) -> None:
        with self.rig() as rig:
            job = rig.pending("key")
            epoch = rig.lease("key").epoch
            for start in range(0, 10_000, 500):
                firings = [
                    (Begin(job, epoch), Settle(job, epoch, Settled.AGAIN, record=record_of(job, at=at)))
                    for at in range(start, start + 500)
                ]
                rig.store.apply([write for firing in firings for write in firing])
            assert [record.at for record in rig.store.history("key", None, 3)] == [9_999, 9_998, 9_997]
            steps = _steps(rig, per_key=100, limit=1_000)
            assert max(steps) <= 1_000
            assert sum(steps) == 9_900
            assert [record.at for record in rig.store.history("key", None, 1_000)] == list(range(9_999, 9_899, -1))


def _steps(rig: Rig, since: int = 0, per_key: int = 10**6, total: int = 10**6, limit: int = 100) -> list[int]:
    steps: list[int] = []
    while gone := rig.store.prune(since, per_key, total, limit):
        steps.append(gone)
        assert len(steps) <= 10_000, "it would never come to an end"
    return steps
