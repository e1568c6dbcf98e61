from __future__ import annotations

from dataclasses import replace

from tickwheel.jobs.message import message_id_of
from tickwheel.jobs.model import Outcome, Redate, Settled
from tickwheel.testing.store_suite._base import StoreTests

STEPS = (-3_600_000, 3_600_000, 86_400_000)


class RedateTests(StoreTests):
    def test_redated(self) -> None:
        with self.rig() as rig:
            fields = {"expires_at": rig.now + 90_000, "recurrence": "every 5 s", "first_set_at": rig.now}
            for step in STEPS:
                job = rig.pending(f"key {step}", 60_000, **fields)
                answer = rig.do(Redate(job, rig.lease(job.key).epoch, job.due_at + step, "every 5 s, later"))
                assert answer.outcome is Outcome.MOVED
                assert answer.job == replace(
                    job,
                    due_at=job.due_at + step,
                    expires_at=rig.now + 90_000 + step,
                    first_set_at=rig.now + step,
                    recurrence="every 5 s, later",
                )
                assert rig.get(job.key) == answer.job
                assert rig.begin(answer.job) is Outcome.BEGUN

    def test_a_retry_keeps_its_attempt(self) -> None:
        with self.rig() as rig:
            job = rig.settle(rig.running("key"), Settled.AGAIN, attempt=2, error="no answer").job
            assert job is not None
            answer = rig.do(Redate(job, rig.lease("key").epoch, job.due_at + 1))
            expected = replace(job, due_at=job.due_at + 1, first_set_at=job.first_set_at + 1)
            assert answer.job == replace(expected, sent_as=message_id_of(job))

    def test_redate_too_late(self) -> None:
        with self.rig() as rig:
            job = rig.running("key")
            assert rig.do(Redate(job, rig.lease("key").epoch, rig.now)).outcome is Outcome.TOO_LATE

    def test_another_life(self) -> None:
        """
        A `Redate` (after a clock step) does not change a job that has changed since it was read.
        """
        with self.rig() as rig:
            epoch = rig.lease("key").epoch
            job = rig.pending("key")
            assert rig.do(Redate(job, epoch, job.due_at + 5)).outcome is Outcome.MOVED
            assert rig.do(Redate(job, epoch, job.due_at + 5)).outcome is Outcome.WRONG_GENERATION
            moved = rig.move("key", 1_000).job
            assert rig.do(Redate(job, epoch, job.due_at + 5)).outcome is Outcome.WRONG_GENERATION
            assert rig.get("key") == moved
            rig.cancel("key")
            assert rig.do(Redate(job, epoch, job.due_at + 5)).outcome is Outcome.NOT_FOUND
            dead = rig.dead("key")
            assert rig.do(Redate(dead, epoch, dead.due_at + 5)).outcome is Outcome.NOT_FOUND

    def test_redate_not_owner(self) -> None:
        with self.rig() as rig:
            job = rig.pending("key")
            for epoch in (rig.lease("key").epoch - 1, rig.lease("key").epoch + 1):
                assert rig.do(Redate(job, epoch, rig.now)).outcome is Outcome.NOT_OWNER
            assert rig.get("key") == job
