from __future__ import annotations

from dataclasses import replace

from tickwheel.jobs.model import Begin, Job, Outcome, RetryPolicy, Set, Settle, Settled, State
from tickwheel.testing.store_suite._base import Rig, StoreTests, everything


class DeadTests(StoreTests):
    def test_latest_dead(self) -> None:
        with self.rig() as rig:
            assert rig.store.latest_dead(10) == []
            rig.pending("pending")
            rig.running("running")
            dead = [_dead(rig, name, after) for name, after in (("b", 3_000), ("c", 1_000), ("a", 2_000), ("d", -5))]
            latest = [replace(dead[number], payload=b"") for number in (0, 2, 1, 3)]
            assert rig.store.latest_dead(10) == latest
            assert rig.store.latest_dead(2) == latest[:2]

    def test_many_are_read_whole(self) -> None:
        with self.rig() as rig:
            jobs = [rig.pending("pending", payload=b"1"), rig.pending("far", 10 * 86_400_000), rig.running("running")]
            jobs.append(_dead(rig, "dead", 1_000))
            found = {job.key: job for job in rig.store.get_many(["dead", "none", *(job.key for job in jobs[:3])])}
            assert found == {job.key: rig.get(job.key) for job in jobs}
            assert rig.store.get_many([]) == []

    def test_only_what_is_dead(self) -> None:
        with self.rig() as rig:
            for number, key in enumerate(("kept", "replayed", "removed", "set again", "dead again")):
                _dead(rig, key, 1_000 + number)
            assert rig.replay("replayed").outcome is Outcome.REPLAYED
            assert rig.cancel("removed").outcome is Outcome.CANCELLED
            assert rig.set("set again").outcome is Outcome.CREATED
            again = rig.replay("dead again", -1_000).job
            assert again is not None
            rig.begin(again)
            rig.settle(again, Settled.DEAD, attempt=1, error="again")
            found = rig.store.latest_dead(10)
            assert [job.key for job in found] == ["kept", "dead again"]
            assert {job.key for job in everything(rig.store, state=State.DEAD)} == {"kept", "dead again"}

    def test_replayed_past_its_expiry(self) -> None:
        with self.rig() as rig:
            for key, attempt, due in (("one try", 1, 0), ("two tries", 2, 900), ("put off", 1, 1_000)):
                job = rig.running(key, due, attempt=attempt - 1, expires_at=rig.now + 1_000, first_set_at=rig.now)
                rig.settle(job, Settled.DEAD, attempt=attempt)
                again = rig.replay(key, 50_000).job
                assert again is not None
                assert again.expires_at == again.due_at + 1_000
                assert rig.get(key) == again

    def test_dead_many(self) -> None:
        with self.rig() as rig:
            sets = [Set(Job(f"job {number}", 0, rig.now - number)) for number in range(2_100)]
            jobs = [job for answer in rig.store.apply(sets) if (job := answer.job) is not None]
            epochs = [rig.lease(job.key).epoch for job in jobs]
            rig.store.apply([Begin(job, epoch) for job, epoch in zip(jobs, epochs, strict=True)])
            rig.store.apply([Settle(job, epoch, Settled.DEAD, 1) for job, epoch in zip(jobs, epochs, strict=True)])
            assert [job.key for job in rig.store.latest_dead(10_000)] == [job.key for job in jobs]


def _dead(rig: Rig, key: str, after: int) -> Job:
    retry = RetryPolicy(3, "fixed", 100, 100, 0.0)
    trace = f"00-{'1' * 32}-{'2' * 16}-01"
    job = rig.running(
        key,
        after,
        payload=b'{"a":1}',
        target="webhook",
        handler="https://example.com/h\u00e9",
        retry=retry,
        expires_at=rig.now + 600_000,
        trace=trace,
    )
    dead = rig.settle(job, Settled.DEAD, attempt=1, error="it broke: \u00e9").job
    assert dead is not None
    return dead
