from __future__ import annotations

from dataclasses import replace

from tickwheel.jobs.model import Begin, Outcome, Settled, State
from tickwheel.testing.store_suite._base import StoreTests


class BeginTests(StoreTests):
    def test_begun(self) -> None:
        with self.rig() as rig:
            job = rig.pending("key", attempt=2)
            answer = rig.do(Begin(job, rig.lease("key").epoch))
            assert (answer.outcome, answer.job) == (Outcome.BEGUN, None)
            assert rig.get("key") == replace(job, state=State.RUNNING, attempt=3)
            assert rig.due() == []
            assert rig.counts() == (0, 1, 0)

    def test_begin_twice(self) -> None:
        with self.rig() as rig:
            job = rig.running("key")
            assert rig.begin(job) is Outcome.TOO_LATE
            assert rig.get("key").attempt == 1

    def test_begin_not_found(self) -> None:
        with self.rig() as rig:
            job = rig.pending("cancelled")
            rig.cancel("cancelled")
            assert rig.begin(job) is Outcome.NOT_FOUND
            done = rig.running("done")
            rig.settle(done)
            assert rig.begin(done) is Outcome.NOT_FOUND
            assert rig.begin(rig.dead("dead")) is Outcome.NOT_FOUND
            assert rig.counts() == (0, 0, 1)

    def test_wrong_generation(self) -> None:
        with self.rig() as rig:
            job = rig.pending("key")
            again = rig.pending("key")
            assert rig.begin(job) is Outcome.WRONG_GENERATION
            assert rig.get("key") == again

    def test_begin_not_owner(self) -> None:
        with self.rig() as rig:
            job = rig.pending("key")
            for epoch in (rig.lease("key").epoch - 1, rig.lease("key").epoch + 1):
                assert rig.do(Begin(job, epoch)).outcome is Outcome.NOT_OWNER
            assert rig.get("key") == job

    def test_after_a_retry(self) -> None:
        with self.rig() as rig:
            job = rig.running("key")
            first = rig.get("key").fire_id
            again = rig.settle(job, Settled.AGAIN, attempt=1, due_at=rig.now + 9).job
            assert again is not None
            assert rig.begin(again) is Outcome.BEGUN
            assert rig.get("key").generation == job.generation
            assert rig.get("key").fire_id != first

    def test_old_instant_of_a_retry(self) -> None:
        with self.rig() as rig:
            job = rig.running("key")
            rig.settle(job, Settled.AGAIN, attempt=1, due_at=rig.now + 90_000)
            assert rig.begin(job) is Outcome.WRONG_GENERATION
            assert rig.settle(job).outcome is Outcome.WRONG_GENERATION
            assert rig.get("key").state is State.PENDING
