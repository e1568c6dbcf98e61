from __future__ import annotations

from tickwheel.jobs.model import Begin, Cancel, Job, Outcome, Set, Settle
from tickwheel.testing.store_suite._base import StoreTests

MANY = 100_000


class BulkTests(StoreTests):
    def test_a_hundred_thousand(self) -> None:
        with self.rig() as rig:
            answers = rig.store.apply([Set(Job(f"job {i * 7919 % MANY}", 0, rig.now + i)) for i in range(MANY)])
            assert {answer.outcome for answer in answers} == {Outcome.CREATED}
            assert rig.counts() == (MANY, 0, 0)
            jobs = rig.due()
            assert len(jobs) == MANY
            half = jobs[: MANY // 2]
            begun = rig.store.apply([Begin(job, rig.lease(job.key).epoch) for job in half])
            assert {answer.outcome for answer in begun} == {Outcome.BEGUN}
            assert rig.counts() == (MANY // 2, MANY // 2, 0)
            settled = rig.store.apply([Settle(job, rig.lease(job.key).epoch) for job in half])
            assert {answer.outcome for answer in settled} == {Outcome.SETTLED}
            cancelled = rig.store.apply([Cancel(job.key) for job in jobs])
            outcomes = [answer.outcome for answer in cancelled]
            assert outcomes.count(Outcome.NOT_FOUND) == outcomes.count(Outcome.CANCELLED) == MANY // 2
            assert rig.counts() == (0, 0, 0)

    def test_a_hundred_thousand_on_one_key(self) -> None:
        with self.rig() as rig:
            answers = rig.store.apply([Set(Job("key", 0, rig.now + i)) for i in range(MANY)])
            assert answers[0].outcome is Outcome.CREATED
            assert {answer.outcome for answer in answers[1:]} == {Outcome.REPLACED}
            assert rig.get("key") == answers[-1].job
            assert rig.counts() == (1, 0, 0)
