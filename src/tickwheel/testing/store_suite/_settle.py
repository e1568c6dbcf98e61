from __future__ import annotations

from dataclasses import replace

from tickwheel.jobs.model import Outcome, Settle, Settled, State
from tickwheel.testing.store_suite._base import StoreTests


class SettleTests(StoreTests):
    def test_done(self) -> None:
        with self.rig() as rig:
            answer = rig.settle(rig.running("key"))
            assert (answer.outcome, answer.job) == (Outcome.SETTLED, None)
            assert rig.store.get("key") is None
            assert rig.counts() == (0, 0, 0)

    def test_done_and_recurring(self) -> None:
        """
        After a run, a recurring job is pending in a new generation with attempt 0. Its expiry moves with its due time.
        """
        with self.rig() as rig:
            job = rig.running("key", 1_000, recurrence="every 5 s", expires_at=rig.now + 1_400, first_set_at=3)
            answer = rig.settle(job, Settled.DONE, due_at=rig.now + 6_000, error="last time")
            assert answer.outcome is Outcome.SETTLED
            after = answer.job
            assert after is not None
            assert after.generation > job.generation
            assert after == replace(
                job, generation=after.generation, due_at=rig.now + 6_000, expires_at=rig.now + 6_400, error="last time"
            )
            assert rig.get("key") == after
            assert rig.due() == [after]

    def test_the_length_of_a_run_that_was_tried_again(self) -> None:
        """
        After a retried run, the next run has the full time to live of the recurrence.
        """
        text = '{"every_ms":5000,"expires_ms":400,"grace_ms":1}'
        with self.rig() as rig:
            job = rig.running("key", 1_300, recurrence=text, expires_at=rig.now + 1_400)
            rig.pending("other", 1_300, recurrence=text, expires_at=rig.now + 1_400)
            for answer in (rig.settle(job, due_at=rig.now + 9_000), rig.move("other", 9_000)):
                after = answer.job
                assert after is not None
                assert (after.due_at, after.expires_at) == (rig.now + 9_000, rig.now + 9_400)
                assert after.recurrence == '{"every_ms":5000,"grace_ms":1}'
                assert rig.get(after.key) == after

    def test_a_recurrence_that_counts(self) -> None:
        """
        A `Settle` may replace a job's recurrence, unless the job dies.
        """
        with self.rig() as rig:
            job = rig.running("key", 1_000, recurrence="every 5 s, twice")
            next_run = rig.settle(job, Settled.DONE, due_at=rig.now + 6_000, recurrence="every 5 s, once").job
            assert next_run is not None
            assert (rig.get("key"), rig.due()) == (next_run, [next_run])
            assert next_run.recurrence == "every 5 s, once"
            rig.begin(next_run)
            retry = rig.settle(next_run, Settled.AGAIN, attempt=1, due_at=rig.now + 7_000, recurrence="every 5 s, late")
            assert retry.job == replace(next_run, attempt=1, due_at=rig.now + 7_000, recurrence="every 5 s, late")
            assert (rig.get("key"), rig.due()) == (retry.job, [retry.job])
            rig.begin(retry.job)
            kept = rig.settle(retry.job, Settled.AGAIN, attempt=1)
            assert kept.job == rig.get("key") == retry.job
            rig.begin(retry.job)
            dead = rig.settle(retry.job, Settled.DEAD, attempt=2, error="x", recurrence="every 5 s, dead").job
            assert dead is not None
            assert (rig.get("key"), dead.recurrence) == (dead, "every 5 s, late")

    def test_settle_again(self) -> None:
        with self.rig() as rig:
            job = rig.running("key", 1_000, expires_at=rig.now + 1_400)
            answer = rig.settle(job, Settled.AGAIN, attempt=1, due_at=rig.now + 8_000, error="no answer")
            assert answer.outcome is Outcome.SETTLED
            assert answer.job == replace(job, due_at=rig.now + 8_000, attempt=1, error="no answer")
            assert rig.get("key") == answer.job

    def test_again_at_once(self) -> None:
        """
        A retry without a due time keeps the current due time.
        """
        with self.rig() as rig:
            job = rig.running("key")
            answer = rig.settle(job, Settled.AGAIN, attempt=0)
            assert answer.job == job
            assert rig.get("key") == job

    def test_settle_dead(self) -> None:
        with self.rig() as rig:
            job = rig.running("key")
            answer = rig.settle(job, Settled.DEAD, attempt=1, error="broken")
            assert answer.outcome is Outcome.SETTLED
            assert answer.job == replace(job, state=State.DEAD, attempt=1, error="broken")
            assert rig.get("key") == answer.job
            assert rig.due() == []
            assert rig.counts() == (0, 0, 1)

    def test_settle_twice(self) -> None:
        with self.rig() as rig:
            done = rig.running("done")
            rig.settle(done)
            assert rig.settle(done).outcome is Outcome.NOT_FOUND
            again = rig.running("again")
            rig.settle(again, Settled.AGAIN, attempt=1)
            assert rig.settle(again).outcome is Outcome.WRONG_GENERATION
            dead = rig.running("dead")
            rig.settle(dead, Settled.DEAD, attempt=1)
            assert rig.settle(dead).outcome is Outcome.NOT_FOUND
            assert rig.counts() == (1, 0, 1)

    def test_settle_not_begun(self) -> None:
        with self.rig() as rig:
            job = rig.pending("key")
            for how in Settled:
                assert rig.settle(job, how).outcome is Outcome.WRONG_GENERATION
            assert rig.get("key") == job

    def test_settle_not_owner(self) -> None:
        with self.rig() as rig:
            job = rig.running("key")
            for how in Settled:
                for epoch in (rig.lease("key").epoch - 1, rig.lease("key").epoch + 1):
                    assert rig.do(Settle(job, epoch, how)).outcome is Outcome.NOT_OWNER
            assert rig.get("key").state is State.RUNNING
            assert rig.settle(job).outcome is Outcome.SETTLED
