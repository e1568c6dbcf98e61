"""
Cancel: a job that will not run.
"""

from __future__ import annotations

from tickwheel.scheduler.model import Outcome, Standing
from tickwheel.testing.store_suite._base import StoreTests


class CancelTests(StoreTests):
    """
    Every outcome of a cancel.
    """

    def test_cancelled(self) -> None:
        """
        A cancelled job is gone, and the answer carries what it was.
        """
        with self.rig() as rig:
            job = rig.pending("key")
            answer = rig.cancel("key")
            assert (answer.outcome, answer.job) == (Outcome.CANCELLED, job)
            assert rig.store.get("key") is None
            assert rig.begin(job) is Outcome.NOT_FOUND
            assert rig.counts() == (0, 0, 0)

    def test_twice(self) -> None:
        """
        The second cancel finds nothing.
        """
        with self.rig() as rig:
            rig.pending("key")
            rig.cancel("key")
            assert rig.cancel("key").outcome is Outcome.NOT_FOUND

    def test_dead(self) -> None:
        """
        A dead job can be removed.
        """
        with self.rig() as rig:
            rig.dead("key")
            assert rig.cancel("key").outcome is Outcome.CANCELLED
            assert rig.store.get("key") is None

    def test_too_late(self) -> None:
        """
        A running job is not cancelled, and its firing settles.
        """
        with self.rig() as rig:
            job = rig.running("key")
            assert rig.cancel("key").outcome is Outcome.TOO_LATE
            assert rig.settle(job).outcome is Outcome.SETTLED

    def test_running_and_recurring(self) -> None:
        """
        A job that recurs is cancelled while it runs: this run goes on, no other begins.
        """
        with self.rig() as rig:
            job = rig.running("key", recurrence="every 5 s")
            assert rig.cancel("key", over=rig.status("key", Standing.STARTED)).outcome is Outcome.CANCELLED
            assert rig.settle(job, due_at=rig.now + 9).outcome is Outcome.NOT_FOUND
            assert rig.store.get("key") is None

    def test_if_generation(self) -> None:
        """
        A cancel under a condition happens only if it holds.
        """
        with self.rig() as rig:
            job = rig.pending("key")
            wrong = rig.cancel("key", if_generation=job.generation + 1)
            assert (wrong.outcome, wrong.job) == (Outcome.WRONG_GENERATION, job)
            assert rig.cancel("key", if_generation=job.generation).outcome is Outcome.CANCELLED

    def test_set_again(self) -> None:
        """
        A key can be set again after its cancel, as a new job.
        """
        with self.rig() as rig:
            first = rig.pending("key", first_set_at=5)
            rig.cancel("key")
            again = rig.pending("key")
            assert again.generation > first.generation
            assert again.first_set_at >= rig.now
