from __future__ import annotations

from dataclasses import replace

from tickwheel.jobs.model import Outcome, State
from tickwheel.testing.store_suite._base import StoreTests


class ReplayTests(StoreTests):
    def test_replayed(self) -> None:
        with self.rig() as rig:
            dead = rig.dead("key")
            answer = rig.replay("key", 500)
            assert answer.outcome is Outcome.REPLAYED
            job = answer.job
            assert job is not None
            assert job.generation > dead.generation
            assert job.first_set_at >= rig.now
            assert job == replace(
                dead,
                generation=job.generation,
                due_at=rig.now + 500,
                attempt=0,
                state=State.PENDING,
                first_set_at=job.first_set_at,
            )
            assert rig.get("key") == job
            assert rig.begin(job) is Outcome.BEGUN

    def test_replay_not_found(self) -> None:
        with self.rig() as rig:
            assert rig.replay("nobody").outcome is Outcome.NOT_FOUND
            job = rig.pending("pending")
            assert rig.replay("pending").outcome is Outcome.NOT_FOUND
            assert rig.get("pending") == job
            rig.running("running")
            assert rig.replay("running").outcome is Outcome.NOT_FOUND

    def test_replay_if_generation(self) -> None:
        with self.rig() as rig:
            dead = rig.dead("key")
            assert rig.replay("key", if_generation=dead.generation + 1).outcome is Outcome.WRONG_GENERATION
            assert rig.get("key") == dead
            assert rig.replay("key", if_generation=dead.generation).outcome is Outcome.REPLAYED
