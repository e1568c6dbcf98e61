"""
Writes to a claimed job. Their outcome depends on whether the job's owner reports that the attempt has started.
"""

from __future__ import annotations

from dataclasses import replace

from tickwheel.jobs.model import ANY_ATTEMPT, AttemptState, AttemptStatus, Job, Outcome, SetMode, Settled, State
from tickwheel.testing.store_suite._base import OWNER, Rig, StoreTests

__all__ = ["LastCheckTests"]


class LastCheckTests(StoreTests):
    def test_without_a_status(self) -> None:
        with self.rig() as rig:
            for key, recurrence in (("once", None), ("often", "every 5 s")):
                job = rig.running(key, 1_000, recurrence=recurrence)
                before = rig.get(key)
                for answer in (*(rig.set(key, 9_000, mode) for mode in SetMode), rig.move(key, 9_000), rig.cancel(key)):
                    assert (answer.outcome, answer.job) == (Outcome.TOO_LATE, before)
                assert rig.settle(job).outcome is Outcome.SETTLED

    def test_the_status_of_another_attempt(self) -> None:
        with self.rig() as rig:
            rig.running("key")
            status = rig.status("key", AttemptState.WITHDRAWN)
            for other in (
                replace(status, generation=status.generation + 1),
                replace(status, due_at=status.due_at + 1),
                replace(status, attempt=status.attempt + 1),
            ):
                assert rig.set("key", over=other).outcome is Outcome.TOO_LATE
                assert rig.move("key", 5, over=other).outcome is Outcome.TOO_LATE
                assert rig.cancel("key", over=other).outcome is Outcome.TOO_LATE

    def test_has_started(self) -> None:
        with self.rig() as rig:
            job = rig.running("key")
            status = rig.status("key", AttemptState.STARTED)
            assert rig.move("key", 5, over=status).outcome is Outcome.TOO_LATE
            assert rig.cancel("key", over=status).outcome is Outcome.TOO_LATE
            assert rig.set("key", over=status).outcome is Outcome.REPLACED
            assert rig.settle(job).outcome is Outcome.WRONG_GENERATION
            rig.running("unasked")
            assert rig.set("unasked", over=ANY_ATTEMPT).outcome is Outcome.REPLACED

    def test_does_not_start_any_more(self) -> None:
        """
        If an attempt is withdrawn or cut off, writes treat its job as pending, and its `Settle` has no effect.
        """
        for standing in (AttemptState.WITHDRAWN, AttemptState.CUT_OFF):
            with self.rig() as rig:
                jobs = {name: rig.running(name, 1_000, first_set_at=7) for name in ("set", "moved", "cancelled")}
                statuses = {name: rig.status(name, standing) for name in jobs}
                replaced = rig.set("set", 2_000, max_wait_ms=10_000_000, over=statuses["set"])
                assert replaced.outcome is Outcome.REPLACED
                assert replaced.job is not None
                assert replaced.job.first_set_at == 7
                moved = rig.move("moved", 2_000, over=statuses["moved"])
                assert moved.outcome is Outcome.MOVED
                assert moved.job is not None
                assert (moved.job.attempt, moved.job.state) == (0, State.PENDING)
                assert rig.cancel("cancelled", over=statuses["cancelled"]).outcome is Outcome.CANCELLED
                for job in jobs.values():
                    assert rig.settle(job).outcome in (Outcome.WRONG_GENERATION, Outcome.NOT_FOUND)
                assert rig.counts() == (2, 0, 0)

    def test_kept(self) -> None:
        """
        If an attempt was withdrawn or cut off, a `Set` with the mode KEEP makes the job pending.
        """
        with self.rig() as rig:
            for standing, attempt in ((AttemptState.WITHDRAWN, 0), (AttemptState.CUT_OFF, 1)):
                job = rig.running(str(standing), 1_000)
                answer = rig.set(job.key, 9_000, SetMode.KEEP, over=rig.status(job.key, standing))
                assert (answer.outcome, answer.job) == (Outcome.KEPT, replace(job, attempt=attempt))
                assert rig.get(job.key) == answer.job
                assert rig.settle(job).outcome is Outcome.WRONG_GENERATION

    def test_a_status_of_what_is_pending(self) -> None:
        with self.rig() as rig:
            job = rig.running("key")
            status = rig.status("key", AttemptState.STARTED)
            rig.settle(job, Settled.AGAIN, attempt=1, due_at=rig.now + 9)
            assert rig.cancel("key", over=status).outcome is Outcome.CANCELLED

    def test_requested_and_answered(self) -> None:
        """
        An owner can read the requests to withdraw attempts. A caller can only read which of the attempts have started.
        """
        with self.rig() as rig:
            jobs = [self._counted(rig, f"key {number}") for number in range(3)]
            assert rig.store.request_withdrawal(jobs) == set()
            rig.store.request_withdrawal(jobs[:1])
            asked = rig.store.withdrawal_requests(list(rig.leases))
            assert sorted(map(_attempt, asked)) == sorted(map(_attempt, jobs))
            unanswered = dict.fromkeys((job.generation for job in jobs), False)
            assert rig.store.attempts(jobs) == unanswered
            rig.store.report_started([job for job in asked if job.generation == jobs[1].generation])
            assert rig.store.attempts([replace(job, attempt=7) for job in jobs]) == {}
            assert rig.store.attempts(jobs) == {**unanswered, jobs[1].generation: True}
            rig.settle(jobs[0])
            assert jobs[0].generation not in rig.store.attempts(jobs)
            assert jobs[1].generation not in {job.generation for job in rig.store.withdrawal_requests(list(rig.leases))}

    def test_nobody_to_answer(self) -> None:
        """
        If an attempt has no owner, a request to withdraw it is granted at once.
        """
        with self.rig() as rig:
            job = self._counted(rig, "key")
            rig.store.release(OWNER)
            rig.leases = {}
            assert rig.store.request_withdrawal([job]) == {job.generation}

    def _counted(self, rig: Rig, key: str) -> Job:
        rig.running(key)
        return rig.get(key)


def _attempt(job: Job | AttemptStatus) -> tuple[int, int, int]:
    return job.generation, job.due_at, job.attempt
