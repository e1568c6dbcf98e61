"""
Tests of Pause and Resume. A paused job is pending and not due.
"""

from __future__ import annotations

from tickwheel.jobs.model import (
    Adopt,
    AttemptState,
    Begin,
    JobQuery,
    Outcome,
    Pause,
    Redate,
    SetAside,
    SetMode,
    Settled,
    State,
)
from tickwheel.testing.store_suite._base import EVER, OWNER, Rig, StoreTests, everything

__all__ = ["PauseTests"]

_RULE = '{"anchor_at":1,"every_ms":5,"jitter_ms":0,"misfire":"once","pause_after":3}'


class PauseTests(StoreTests):
    def test_paused(self) -> None:
        with self.rig() as rig:
            job, other = rig.pending("key", payload=b"1"), rig.pending("other", 70_000)
            answer = rig.pause("key", "the disk is full")
            assert answer.outcome is Outcome.PAUSED
            paused = rig.get("key")
            assert answer.job == paused
            assert paused.pause is not None
            assert (paused.pause.by, paused.pause.note) == ("somebody", "the disk is full")
            assert rig.now <= paused.pause.at <= rig.store.now_ms()
            assert (paused.state, paused.generation, paused.due_at) == (State.PENDING, job.generation, job.due_at)
            assert (paused.attempt, paused.payload) == (0, b"1")
            assert rig.due() == [other]
            assert rig.store.overdue(list(rig.leases), EVER, 9) == {rig.store.shard_of("other"): [other]}
            assert rig.store.upcoming(0, EVER, 9) == [other]
            assert rig.store.count_due(rig.now, 100_000, 1) == [1]
            assert everything(rig.store) == [paused, other]
            assert rig.store.page(JobQuery(state=State.PENDING)).jobs == (paused, other)
            assert (rig.counts(), rig.store.count_paused()) == ((2, 0, 0), 1)

    def test_pause_not_begun(self) -> None:
        with self.rig() as rig:
            job = rig.pending("key")
            epoch = rig.lease("key").epoch
            paused = rig.pause("key").job
            for write in (Begin(job, epoch), SetAside(job, epoch), Redate(job, epoch, rig.now + 5)):
                assert rig.do(write).outcome is Outcome.PAUSED
            assert rig.get("key") == paused
            others = [rig.pending(f"other {number}") for number in range(3)]
            answers = rig.store.apply(
                [Begin(each, rig.lease(each.key).epoch) for each in (*others[:2], job, others[2])]
            )
            begun, refused = Outcome.BEGUN, Outcome.PAUSED
            assert [answer.outcome for answer in answers] == [begun, begun, refused, begun]
            assert rig.get("key") == paused

    def test_paused_by_the_end_of_a_run(self) -> None:
        with self.rig() as rig:
            pause = Pause(rig.now, "pause_after", "failed runs in a row: 3")
            for key, is_paused in (("key", False), ("other", True)):
                job = rig.running(key, recurrence=_RULE)
                before = (
                    rig.pause(key, "by hand", over=rig.status(key, AttemptState.STARTED)).job if is_paused else None
                )
                answer = rig.settle(job, due_at=rig.now + 5, error="no", recurrence=_RULE, pause=pause)
                assert answer.outcome is Outcome.SETTLED
                after = rig.get(key)
                assert answer.job == after
                assert after is not None
                assert (after.state, after.error, after.attempt) == (State.PENDING, "no", 0)
                assert after.pause == (pause if before is None else before.pause)
            assert rig.due() == []
            assert (rig.counts(), rig.store.count_paused()) == ((2, 0, 0), 2)
            assert rig.resume("key").outcome is Outcome.RESUMED
            assert [job.key for job in rig.due()] == ["key"]

    def test_resumed(self) -> None:
        with self.rig() as rig:
            job = rig.pending("key")
            rig.pause("key")
            answer = rig.resume("key")
            assert (answer.outcome, answer.job) == (Outcome.RESUMED, job)
            assert rig.due() == [job]
            assert rig.store.count_paused() == 0
            again = rig.resume("key")
            assert (again.outcome, again.job) == (Outcome.KEPT, job)
            assert rig.begin(job) is Outcome.BEGUN

    def test_pause_again(self) -> None:
        with self.rig() as rig:
            job = rig.pending("key")
            rig.pause("key", "first")
            assert rig.pause("key", "second \u00e9 \U0001f6d1").outcome is Outcome.PAUSED
            pause = rig.get("key").pause
            assert pause is not None
            assert pause.note == "second \u00e9 \U0001f6d1"
            assert rig.resume("key").job == job

    def test_refused(self) -> None:
        with self.rig() as rig:
            dead, job = rig.dead("dead"), rig.pending("key")
            for key, found in (("nobody", None), ("dead", dead)):
                for answer in (rig.pause(key), rig.resume(key)):
                    assert (answer.outcome, answer.job) == (Outcome.NOT_FOUND, found)
            wrong = job.generation + 1
            for answer in (rig.pause("key", if_generation=wrong), rig.resume("key", if_generation=wrong)):
                assert (answer.outcome, answer.job) == (Outcome.WRONG_GENERATION, job)
            assert rig.pause("key", if_generation=job.generation).outcome is Outcome.PAUSED
            assert rig.resume("key", if_generation=job.generation).outcome is Outcome.RESUMED

    def test_pause_verbs(self) -> None:
        with self.rig() as rig:
            first = rig.pending("key", payload=b"1")
            rig.pause("key", "why")
            pause = rig.get("key").pause
            answer = rig.set("key", 5, payload=b"2")
            assert answer.outcome is Outcome.REPLACED
            assert answer.job is not None
            assert answer.job.generation > first.generation
            assert (answer.job.payload, answer.job.due_at, answer.job.pause) == (b"2", rig.now + 5, pause)
            assert rig.get("key") == answer.job
            assert rig.set("key", 9, SetMode.KEEP).outcome is Outcome.KEPT
            moved = rig.move("key", 7)
            assert moved.outcome is Outcome.MOVED
            assert moved.job is not None
            assert (moved.job.due_at, moved.job.pause) == (rig.now + 7, pause)
            assert rig.due() == []
            assert rig.cancel("key").job == moved.job
            assert rig.pending("key").pause is None
            assert (rig.counts(), rig.store.count_paused()) == ((1, 0, 0), 0)

    def test_counted(self) -> None:
        with self.rig() as rig:
            rig.running("key")
            assert rig.pause("key").outcome is Outcome.TOO_LATE
            assert rig.pause("key", over=rig.status("key", AttemptState.STARTED)).outcome is Outcome.TOO_LATE
            assert rig.pause("key", over=rig.status("key", AttemptState.WITHDRAWN)).outcome is Outcome.PAUSED
            assert (rig.get("key").state, rig.get("key").attempt) == (State.PENDING, 0)
            rig.running("cut off")
            assert rig.pause("cut off", over=rig.status("cut off", AttemptState.CUT_OFF)).outcome is Outcome.PAUSED
            assert rig.get("cut off").attempt == 1
            assert (rig.counts(), rig.store.count_paused()) == ((2, 0, 0), 2)

    def test_pause_recurring(self) -> None:
        with self.rig() as rig:
            for key, how in (("next", Settled.DONE), ("again", Settled.AGAIN)):
                job = rig.running(key, recurrence="every 5 s")
                answer = rig.pause(key, over=rig.status(key, AttemptState.STARTED))
                assert (answer.outcome, rig.get(key)) == (Outcome.PAUSED, answer.job)
                assert answer.job is not None
                assert (answer.job.state, rig.store.count_paused()) == (State.RUNNING, 0)
                settled = rig.settle(job, how, attempt=1, due_at=rig.now + 9)
                assert settled.outcome is Outcome.SETTLED
                assert settled.job is not None
                assert (settled.job.state, settled.job.pause) == (State.PENDING, answer.job.pause)
                assert (rig.get(key), rig.due(), rig.store.count_paused()) == (settled.job, [], 1)
                rig.resume(key)
                assert [each.key for each in rig.due()] == [key]
                rig.cancel(key)

    def test_resumed_while_it_runs(self) -> None:
        """
        If a running job is paused and resumed, it is due as usual after the run.
        """
        with self.rig() as rig:
            job = rig.running("key", recurrence="every 5 s")
            rig.pause("key", over=rig.status("key", AttemptState.STARTED))
            assert rig.resume("key").outcome is Outcome.RESUMED
            settled = rig.settle(job, due_at=rig.now + 9).job
            assert settled is not None
            assert rig.due() == [settled]
            job = rig.running("dying", recurrence="every 5 s")
            rig.pause("dying", over=rig.status("dying", AttemptState.STARTED))
            dead = rig.settle(job, Settled.DEAD, attempt=1, error="it broke").job
            assert dead is not None
            assert (dead.state, dead.pause) == (State.DEAD, None)
            replayed = rig.replay("dying").job
            assert replayed is not None
            assert replayed in rig.due()

    def test_rescued(self) -> None:
        """
        If a running job is paused and its owner dies, the job becomes pending, stays paused, and is not due.
        """
        with self.rig() as rig:
            job, plain = rig.running("key", recurrence="every 5 s"), rig.running("plain", 61_000)
            rig.pause("key", over=rig.status("key", AttemptState.STARTED))
            _hand_over(rig)
            kept = rig.get("key")
            assert (kept.state, kept.attempt, kept.generation) == (State.PENDING, 1, job.generation)
            assert kept.pause is not None
            assert [each.key for each in rig.due()] == ["plain"]
            assert (rig.counts(), rig.store.count_paused()) == ((2, 0, 0), 1)
            resumed = rig.resume("key").job
            assert resumed is not None
            assert sorted(each.key for each in rig.due()) == ["key", "plain"]
            assert rig.begin(resumed) is Outcome.BEGUN
            assert rig.begin(rig.get(plain.key)) is Outcome.BEGUN
            assert rig.settle(resumed).outcome is Outcome.SETTLED

    def test_pause_set_aside(self) -> None:
        """
        If a job that waits for a handler is paused, no node claims it. After the resume, it is due as before.
        """
        with self.rig() as rig:
            job = rig.pending("key", handler="mail")
            lease = rig.lease("key")
            rig.do(SetAside(job, lease.epoch))
            assert rig.pause("key").outcome is Outcome.PAUSED
            assert rig.store.aside() == []
            assert rig.store.take_up(lease.shard, lease.epoch, [("handler", None)], 9) == []
            assert rig.resume("key").job == job
            assert rig.due() == [job]

    def test_adopted(self) -> None:
        with self.rig() as rig:
            rig.pending("key")
            paused = rig.pause("key", "why")
            assert paused.job is not None
            rig.cancel("key")
            answer = rig.do(Adopt(paused.job))
            assert answer.job is not None
            assert answer.job.pause == paused.job.pause
            assert (rig.get("key"), rig.due()) == (answer.job, [])

    def test_listed(self) -> None:
        with self.rig() as rig:
            for number in range(9):
                rule = "every 5 s" if number % 3 == 0 else None
                rig.pending(f"key {number}", 60_000 + number, recurrence=rule, handler="ab"[number % 2])
                if number % 2:
                    rig.pause(f"key {number}")
            rig.running("running", recurrence="every 5 s")
            rig.pause("running", over=rig.status("running", AttemptState.STARTED))

            def listed(**query: object) -> list[str]:
                return [job.key for job in everything(rig.store, limit=2, **query)]

            assert listed(paused=True) == ["key 1", "key 3", "key 5", "key 7"]
            assert listed(paused=True, prefix="key 3") == ["key 3"]
            assert listed(paused=True, state=State.PENDING) == ["key 1", "key 3", "key 5", "key 7"]
            assert listed(paused=True, state=State.RUNNING) == []
            assert listed(paused=True, state=State.DEAD) == []
            assert listed(paused=True, recurring=True) == ["key 3"]
            assert listed(paused=True, handler="a") == []
            assert listed(paused=True, due_from=rig.now + 60_004) == ["key 5", "key 7"]
            assert listed(recurring=True) == ["key 0", "key 3", "key 6", "running"]


def _hand_over(rig: Rig) -> None:
    rig.store.release(OWNER)
    rig.leases = {lease.shard: lease for lease in rig.store.acquire("the next owner")}
