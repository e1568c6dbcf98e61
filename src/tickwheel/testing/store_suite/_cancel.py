from __future__ import annotations

from dataclasses import replace

from tickwheel.jobs.model import STOPPED, AttemptState, Cancel, Outcome, Redate, Settled, State
from tickwheel.testing.store_suite._base import StoreTests, everything


class CancelTests(StoreTests):
    def test_cancelled(self) -> None:
        with self.rig() as rig:
            job = rig.pending("key")
            answer = rig.cancel("key")
            assert (answer.outcome, answer.job) == (Outcome.CANCELLED, job)
            assert rig.store.get("key") is None
            assert rig.begin(job) is Outcome.NOT_FOUND
            assert rig.counts() == (0, 0, 0)

    def test_cancel_twice(self) -> None:
        with self.rig() as rig:
            rig.pending("key")
            rig.cancel("key")
            assert rig.cancel("key").outcome is Outcome.NOT_FOUND

    def test_cancel_dead(self) -> None:
        with self.rig() as rig:
            rig.dead("key")
            assert rig.cancel("key").outcome is Outcome.CANCELLED
            assert rig.store.get("key") is None

    def test_cancel_too_late(self) -> None:
        with self.rig() as rig:
            job = rig.running("key")
            assert rig.cancel("key").outcome is Outcome.TOO_LATE
            assert rig.settle(job).outcome is Outcome.SETTLED

    def test_running_and_recurring(self) -> None:
        with self.rig() as rig:
            job = rig.running("key", recurrence="every 5 s")
            assert rig.cancel("key", over=rig.status("key", AttemptState.STARTED)).outcome is Outcome.CANCELLED
            assert rig.settle(job, due_at=rig.now + 9).outcome is Outcome.NOT_FOUND
            assert rig.store.get("key") is None

    def test_cancel_if_generation(self) -> None:
        with self.rig() as rig:
            job = rig.pending("key")
            wrong = rig.cancel("key", if_generation=job.generation + 1)
            assert (wrong.outcome, wrong.job) == (Outcome.WRONG_GENERATION, job)
            assert rig.cancel("key", if_generation=job.generation).outcome is Outcome.CANCELLED

    def test_set_again(self) -> None:
        with self.rig() as rig:
            first = rig.pending("key", first_set_at=5)
            rig.cancel("key")
            again = rig.pending("key")
            assert again.generation > first.generation
            assert again.first_set_at >= rig.now

    def test_cancel_stops(self) -> None:
        """
        A running job that is asked to stop gets the expiry STOPPED, and stays running until its firing is settled.
        """
        with self.rig() as rig:
            job = rig.running("key")
            assert rig.do(Cancel("key", stops=True)).outcome is Outcome.TOO_LATE
            stop = Cancel("key", over=rig.status("key", AttemptState.STARTED), stops=True)
            answer = rig.do(stop)
            assert (answer.outcome, answer.job) == (Outcome.STOPPING, rig.get("key"))
            stopped = rig.get("key")
            assert stopped.state is State.RUNNING
            assert stopped.expires_at == STOPPED
            assert rig.do(stop).job == stopped
            assert rig.settle(job).outcome is Outcome.SETTLED
            assert rig.store.get("key") is None

    def test_stopped_for_good(self) -> None:
        """
        A job that was asked to stop keeps the expiry STOPPED after a failure. A move clears that expiry.
        """
        with self.rig() as rig:
            job = rig.running("key", expires_at=rig.now + 90_000)
            rig.do(Cancel("key", over=rig.status("key", AttemptState.STARTED), stops=True))
            rig.settle(job, Settled.AGAIN, due_at=rig.now + 120_000)
            rig.do(Redate(rig.get("key"), rig.lease("key").epoch, rig.now + 3_720_000))
            assert rig.get("key").expires_at == STOPPED
            assert rig.move("key", 120_000).outcome is Outcome.MOVED
            assert rig.get("key").expires_at is None

    def test_stops_and_recurring(self) -> None:
        with self.rig() as rig:
            job = rig.running("key", recurrence="every 5 s")
            stop = Cancel("key", over=rig.status("key", AttemptState.STARTED), stops=True)
            assert rig.do(stop).outcome is Outcome.STOPPING
            assert rig.settle(job, due_at=rig.now + 9).outcome is Outcome.NOT_FOUND
            assert rig.store.get("key") is None

    def test_stops_many(self) -> None:
        with self.rig() as rig:
            recurring = {"key 2", "key 4"}
            for number in range(6):
                key = f"key {number}"
                rig.running(key, recurrence="every 5 s" if key in recurring else None)
            rig.pending("key 6")
            running = everything(rig.store, prefix="key", state=State.RUNNING, limit=4)
            assert [job.key for job in running] == [f"key {number}" for number in range(6)]
            stops = [
                Cancel(job.key, job.generation, over=rig.status(job.key, AttemptState.STARTED), stops=True)
                for job in running
            ]
            assert {answer.outcome for answer in rig.store.apply(stops)} == {Outcome.STOPPING}
            left = everything(rig.store, state=State.RUNNING)
            assert {job.key for job in left} == {job.key for job in running} - recurring
            assert {job.expires_at for job in left} == {STOPPED}
            assert rig.get("key 6").state is State.PENDING

    def test_stops_pending(self) -> None:
        with self.rig() as rig:
            rig.pending("key")
            assert rig.do(Cancel("key", stops=True)).outcome is Outcome.CANCELLED

    def test_request_to_stop(self) -> None:
        with self.rig() as rig:
            job = rig.running("key")
            counted = rig.get("key")
            stop = replace(counted, attempt=-counted.attempt)
            assert rig.store.request_withdrawal([counted]) == set()
            rig.store.report_started([counted])
            rig.store.withdrawal_requests(list(rig.leases))
            assert rig.store.request_withdrawal([stop]) == set()
            asked = rig.store.withdrawal_requests(list(rig.leases))
            assert (stop.key, stop.generation, stop.due_at, stop.attempt) in {
                (each.key, each.generation, each.due_at, each.attempt) for each in asked
            }
            rig.store.report_started([stop])
            assert rig.store.attempts([counted]) == {job.generation: True}
            assert all(each.attempt > 0 for each in rig.store.withdrawal_requests(list(rig.leases)))
