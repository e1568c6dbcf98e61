"""
A batch is one transaction, applied in order, with one answer per write.
"""

from __future__ import annotations

from tickwheel.jobs.errors import StoreError
from tickwheel.jobs.model import (
    ANY_ATTEMPT,
    Begin,
    Cancel,
    Job,
    Move,
    Outcome,
    Replay,
    Set,
    Settle,
    Settled,
    State,
    Write,
)
from tickwheel.testing.store_suite._base import StoreTests, refused


class BatchTests(StoreTests):
    def test_nothing(self) -> None:
        with self.rig() as rig:
            assert rig.store.apply([]) == []

    def test_order_on_one_key(self) -> None:
        with self.rig() as rig:
            answers = rig.store.apply(
                [
                    Move("key", rig.now),
                    Set(Job("key", 0, rig.now + 1)),
                    Set(Job("key", 0, rig.now + 2)),
                    Move("key", rig.now + 3),
                    Cancel("key"),
                    Cancel("key"),
                    Set(Job("key", 0, rig.now + 4)),
                ]
            )
            assert [answer.outcome for answer in answers] == [
                Outcome.NOT_FOUND,
                Outcome.CREATED,
                Outcome.REPLACED,
                Outcome.MOVED,
                Outcome.CANCELLED,
                Outcome.NOT_FOUND,
                Outcome.CREATED,
            ]
            assert rig.get("key") == answers[-1].job
            assert rig.get("key").due_at == rig.now + 4

    def test_a_whole_firing(self) -> None:
        with self.rig() as rig:
            epoch = rig.lease("key").epoch
            job = rig.pending("key")
            backwards = rig.store.apply([Settle(job, epoch), Begin(job, epoch)])
            assert [answer.outcome for answer in backwards] == [Outcome.WRONG_GENERATION, Outcome.BEGUN]
            rig.settle(job, Settled.AGAIN)
            forwards = rig.store.apply([Begin(job, epoch), Settle(job, epoch), Settle(job, epoch)])
            assert [answer.outcome for answer in forwards] == [Outcome.BEGUN, Outcome.SETTLED, Outcome.NOT_FOUND]

    def test_firing_against_the_caller(self) -> None:
        """
        If a batch has a caller's write and a `Begin` or `Settle` for one key, the first of these writes wins.
        """
        with self.rig() as rig:
            jobs = [rig.pending(f"key {i}") for i in range(4)]
            epoch = rig.lease("key 0").epoch
            answers = rig.store.apply(
                [
                    Move("key 0", rig.now),
                    Begin(jobs[0], rig.lease("key 0").epoch),
                    Begin(jobs[1], rig.lease("key 1").epoch),
                    Move("key 1", rig.now),
                    Cancel("key 2"),
                    Begin(jobs[2], rig.lease("key 2").epoch),
                    Begin(jobs[3], rig.lease("key 3").epoch),
                    Set(Job("key 3", 0, rig.now), over=ANY_ATTEMPT),
                    Settle(jobs[3], rig.lease("key 3").epoch),
                ]
            )
            assert epoch > 0
            assert [answer.outcome for answer in answers] == [
                Outcome.MOVED,
                Outcome.WRONG_GENERATION,
                Outcome.BEGUN,
                Outcome.TOO_LATE,
                Outcome.CANCELLED,
                Outcome.NOT_FOUND,
                Outcome.BEGUN,
                Outcome.REPLACED,
                Outcome.WRONG_GENERATION,
            ]

    def test_refusals_stop_nobody(self) -> None:
        with self.rig() as rig:
            first, second, third = (rig.running(f"job {i}") for i in range(3))
            rig.settle(second)
            gone = second
            answers = rig.store.apply(
                [
                    Settle(first, rig.lease("job 0").epoch),
                    Settle(gone, rig.lease("job 1").epoch),
                    Settle(third, rig.lease("job 2").epoch + 1),
                    Replay("job 2", rig.now),
                    Set(Job("new", 0, rig.now)),
                    Settle(third, rig.lease("job 2").epoch, Settled.DEAD, 1, error="it"),
                ]
            )
            assert [answer.outcome for answer in answers] == [
                Outcome.SETTLED,
                Outcome.NOT_FOUND,
                Outcome.NOT_OWNER,
                Outcome.NOT_FOUND,
                Outcome.CREATED,
                Outcome.SETTLED,
            ]
            assert rig.store.get("job 0") is None
            assert rig.get("job 2").state is State.DEAD
            assert rig.counts() == (1, 0, 1)

    def test_all_or_nothing(self) -> None:
        with self.rig() as rig:
            running = rig.running("running")
            pending = rig.pending("pending")
            writes: list[Write] = [
                Settle(running, rig.lease("running").epoch),
                Begin(pending, rig.lease("pending").epoch),
                Set(Job("good", 0, rig.now)),
                Cancel("pending"),
                Set(Job("far", 0, 2**63)),
            ]
            refused(StoreError, lambda: rig.store.apply(writes))
            assert rig.get("running").state is State.RUNNING
            assert rig.get("pending") == pending
            assert rig.store.get("good") is None
            assert [answer.outcome for answer in rig.store.apply(writes[:-1])] == [
                Outcome.SETTLED,
                Outcome.BEGUN,
                Outcome.CREATED,
                Outcome.TOO_LATE,
            ]
