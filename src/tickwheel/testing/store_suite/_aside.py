"""
Jobs set aside because their owner lacks the handler, and the nodes that claim them.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tickwheel.jobs.model import (
    AttemptState,
    Begin,
    Cancel,
    Job,
    JobQuery,
    Outcome,
    RetryPolicy,
    Set,
    SetAside,
    Settle,
    Settled,
    State,
)
from tickwheel.stores.contract import Aside, Lease, Skill
from tickwheel.testing.store_suite._base import OWNER, Rig, StoreTests

__all__ = ["AsideTests"]

MAIL: Skill = ("handler", "mail")


class AsideTests(StoreTests):
    def test_aside_set_aside(self) -> None:
        with self.rig() as rig:
            job, other = rig.pending("k", handler="mail"), rig.pending("other", 50_000, handler="print")
            assert set_aside(rig, job) is Outcome.SETTLED
            kept = rig.get("k")
            assert (kept.state, kept.lacks_handler, kept.attempt) == (State.PENDING, True, 0)
            assert (kept.generation, kept.due_at, kept.first_set_at) == (job.generation, job.due_at, job.first_set_at)
            assert rig.due() == [other]
            assert rig.counts() == (2, 0, 0)
            assert rig.store.page(JobQuery(state=State.PENDING)).jobs == (kept, other)
            assert rig.store.aside() == [Aside("handler", "mail", 1, job.due_at)]
            assert set_aside(rig, job) is Outcome.SETTLED
            assert rig.store.aside() == [Aside("handler", "mail", 1, job.due_at)]

    def test_what_cannot_be_set_aside(self) -> None:
        with self.rig() as rig:
            running, dead, old = rig.running("running"), rig.dead("dead"), rig.pending("old")
            rig.pending("old")
            assert set_aside(rig, running) is Outcome.TOO_LATE
            assert set_aside(rig, dead) is Outcome.NOT_FOUND
            assert set_aside(rig, Job("nobody", 1, rig.now)) is Outcome.NOT_FOUND
            assert set_aside(rig, old) is Outcome.WRONG_GENERATION
            job = rig.pending("k")
            assert rig.do(SetAside(job, rig.lease("k").epoch + 1_000)).outcome is Outcome.NOT_OWNER
            assert rig.store.aside() == []

    def test_aside_unreadable(self) -> None:
        """
        If a node cannot read the rules of many jobs, it claims none of these jobs, and still finds later jobs.
        """
        zone = '"tz":"Nowhere/\u00c9"'
        rule = f'{{"cron":"0 9 * * *","jitter_ms":0,"misfire":"once",{zone}}}'
        others: dict[str, dict[str, Any]] = {
            "once": {},
            "payload": {"payload": zone.encode()},
            "retry": {"recurrence": rule.replace("Nowhere", "Here"), "retry": RetryPolicy(7), "expires_at": 2**41},
            "error": {"recurrence": None, "handler": "mail", "error": zone},
        }
        with self.rig() as rig:
            for number in range(25):
                more = {"retry": RetryPolicy(number + 1), "payload": b'"p"', "expires_at": (None, 2**41)[number % 2]}
                set_aside(rig, rig.pending(f"{{k}}{number}", 50_000 + number, handler="mail", recurrence=rule, **more))
            for number, (key, more) in enumerate(others.items()):
                set_aside(rig, rig.pending(f"{{k}}{key}", 60_000 + number, **{"handler": "mail", **more}))
            for lease in beside(rig):
                for limit in (1, 2, 10):
                    rig.store.take_up(lease.shard, lease.epoch, [MAIL], limit, [zone])
            left = [
                job.key for job in rig.store.page(JobQuery(state=State.PENDING, limit=100)).jobs if job.lacks_handler
            ]
            assert sorted(left) == sorted(f"{{k}}{number}" for number in range(25))
            shard, epoch = beside(rig)[0].shard, beside(rig)[0].epoch
            assert rig.store.take_up(shard, epoch, [MAIL], 100, ['"nothing":', zone]) == []
            assert len(rig.store.take_up(shard, epoch, [MAIL], 100, ['"nothing":'])) == 25

    def test_aside_unfit(self) -> None:
        with self.rig() as rig:
            jobs = [rig.pending(f"{{k}}{number}", 50_000 + number, handler="mail") for number in range(12)]
            for job in jobs:
                set_aside(rig, job)
            unfit = [job.generation for job in jobs[:10]]
            for lease in beside(rig):
                for limit in (1, 2, 10):
                    rig.store.take_up(lease.shard, lease.epoch, [MAIL], limit, unfit=unfit)
            left = [job for job in rig.store.page(JobQuery(state=State.PENDING, limit=100)).jobs if job.lacks_handler]
            assert sorted(job.generation for job in left) == sorted(unfit)
            shard, epoch = beside(rig)[0].shard, beside(rig)[0].epoch
            assert len(rig.store.take_up(shard, epoch, [MAIL], 100, unfit=[unfit[0], 2**40])) == 9

    def test_aside_error(self) -> None:
        with self.rig() as rig:
            for key, reason, kept in (("k", None, "the last one"), ("l", "it does not fit", "it does not fit")):
                job = rig.pending(key, handler="mail", error="the last one")
                rig.do(SetAside(job, rig.lease(key).epoch, reason))
                aside = rig.get(key)
                assert (aside.error, aside.lacks_handler, aside.attempt) == (kept, True, 0)

    def test_aside_take_up(self) -> None:
        with self.rig() as rig:
            jobs = [rig.pending(f"k{number}", 60_000 + number, handler="mail") for number in range(8)]
            for job in jobs:
                set_aside(rig, job)
            for lease in rig.leases.values():
                assert taken(rig, lease, MAIL, limit=2) == sorted(rig.due(), key=lambda job: job.due_at)[-2:]
                for job in rig.store.due(lease.shard, rig.now + 90_000, None, 9):
                    assert job in jobs
                    begin, end = Begin(job, lease.epoch), Settle(job, lease.epoch)
                    assert rig.do(begin).outcome is Outcome.BEGUN
                    assert (rig.get(job.key).state, rig.get(job.key).attempt) == (State.RUNNING, 1)
                    assert rig.do(begin).outcome is Outcome.TOO_LATE
                    assert rig.do(end).outcome is Outcome.SETTLED
                    assert rig.store.get(job.key) is None
            assert sum(each.count for each in rig.store.aside()) == max(0, 8 - 2 * len(rig.leases))

    def test_skills(self) -> None:
        """
        A node claims only jobs that match one of its skills. A skill names a target, and one or all of its handlers.
        """
        with self.rig() as rig:
            lease = rig.lease("{k}")
            for target, handler in (("handler", "mail"), ("handler", "print"), ("queue", "one"), ("queue", "two")):
                set_aside(rig, rig.pending(f"{{k}} {target}/{handler}", target=target, handler=handler))
            assert [(each.target, each.handler) for each in rig.store.aside()] == [
                ("handler", "mail"),
                ("handler", "print"),
                ("queue", "one"),
                ("queue", "two"),
            ]
            assert taken(rig, lease, ("handler", "queue"), ("mail", None), ("queue", "three")) == []
            assert [job.key for job in taken(rig, lease, ("handler", "print"))] == ["{k} handler/print"]
            assert {job.key for job in taken(rig, lease, ("queue", None))} == {"{k} queue/one", "{k} queue/two"}
            assert taken(rig, lease, ("handler", "print"), ("queue", None)) == []
            assert rig.store.take_up(lease.shard, lease.epoch + 1_000, [MAIL], 10) == []
            assert [(each.target, each.handler) for each in rig.store.aside()] == [("handler", "mail")]

    def test_many_of_one_name(self) -> None:
        with self.rig() as rig:
            requests = [Set(Job(f"k{number}", 0, rig.now + number, handler="mail")) for number in range(10_010)]
            jobs = [answer.job for answer in rig.store.apply(requests) if answer.job is not None]
            rig.store.apply([SetAside(job, rig.lease(job.key).epoch) for job in jobs])
            other = rig.pending("other", 90_000, handler="print")
            set_aside(rig, other)
            mail, printed = rig.store.aside()
            assert (mail.handler, mail.since) == ("mail", rig.now)
            assert mail.count in {10_000, 10_010}
            assert printed == Aside("handler", "print", 1, other.due_at)

    def test_aside_verbs(self) -> None:
        with self.rig() as rig:
            lease = beside(rig)[-1]
            for is_taken in (False, True):
                for key in ("{k} set", "{k} moved", "{k} cancelled", "{k} adopted"):
                    set_aside(rig, rig.pending(key, handler="mail", payload=b"1"))
                if is_taken:
                    assert len(taken(rig, lease, MAIL)) == 4
                answer = rig.do(Set(Job("{k} set", 0, rig.now, handler="mail")))
                assert answer.outcome is Outcome.REPLACED
                assert rig.move("{k} moved", 5).outcome is Outcome.MOVED
                assert rig.cancel("{k} cancelled").outcome is Outcome.CANCELLED
                assert rig.cancel("{k} adopted").outcome is Outcome.CANCELLED
                assert {job.key for job in rig.due()} == {"{k} set", "{k} moved"}
                for key in ("{k} set", "{k} moved"):
                    job = rig.get(key)
                    assert not job.lacks_handler
                    assert rig.begin(job) is Outcome.BEGUN
                    assert rig.settle(job).outcome is Outcome.SETTLED
                assert rig.store.aside() == []
                assert rig.counts() == (0, 0, 0)

    def test_ends(self) -> None:
        with self.rig() as rig:
            for lease in beside(rig):
                for key in ("{k} again", "{k} next", "{k} dead"):
                    set_aside(rig, rig.pending(key, handler="mail", recurrence="every" if key == "{k} next" else None))
                jobs = {job.key: job for job in taken(rig, lease, MAIL)}
                # Both are in one batch with a refused write, so that the store cannot guess an answer.
                old = Begin(replace(jobs["{k} again"], due_at=5), lease.epoch)
                answers = rig.store.apply([*(Begin(job, lease.epoch) for job in jobs.values()), old])
                assert [answer.outcome for answer in answers] == [*[Outcome.BEGUN] * 3, Outcome.WRONG_GENERATION]
                again = Settle(jobs["{k} again"], lease.epoch, Settled.AGAIN, 1, rig.now + 7)
                following = Settle(jobs["{k} next"], lease.epoch, Settled.DONE, 0, rig.now + 8)
                dead = Settle(jobs["{k} dead"], lease.epoch, Settled.DEAD, 1, None, "no")
                for settle in (again, following, dead):
                    assert rig.do(settle).outcome is Outcome.SETTLED
                assert rig.counts() == (2, 0, 1)
                for key in ("{k} again", "{k} next"):
                    job = rig.get(key)
                    assert rig.begin(job) is Outcome.BEGUN
                    assert rig.settle(job).outcome is Outcome.SETTLED
                assert rig.replay("{k} dead").outcome is Outcome.REPLAYED
                assert rig.cancel("{k} dead").outcome is Outcome.CANCELLED

    def test_aside_stops(self) -> None:
        """
        An owner can settle a job that was asked to stop. If the owner dies, the next owner recovers the job.
        """
        with self.rig() as rig:
            for lease in beside(rig):
                for key in ("{k} ended", "{k} cut off"):
                    set_aside(rig, rig.pending(key, handler="mail"))
                jobs = taken(rig, lease, MAIL)
                for job in jobs:
                    assert rig.do(Begin(job, lease.epoch)).outcome is Outcome.BEGUN
                    stop = Cancel(job.key, over=rig.status(job.key, AttemptState.STARTED), stops=True)
                    assert rig.do(stop).outcome is Outcome.STOPPING
                ended = next(job for job in jobs if job.key == "{k} ended")
                assert rig.do(Settle(ended, lease.epoch)).outcome is Outcome.SETTLED
            rig.store.release(OWNER)
            assert sum(each.rescued for each in rig.store.acquire(OWNER)) == 1

    def test_aside_rescue(self) -> None:
        """
        If a node dies, the next owner of its shard can run the jobs that the node had claimed.
        """
        with self.rig() as rig:
            for key in ("{k} ran", "{k} waited", "{k} moved"):
                set_aside(rig, rig.pending(key, handler="mail"))
            lease = beside(rig)[-1]
            jobs = {job.key: job for job in taken(rig, lease, MAIL)}
            for key in ("{k} ran", "{k} moved"):
                assert rig.do(Begin(jobs[key], lease.epoch)).outcome is Outcome.BEGUN
            rig.store.release(OWNER)
            leases = rig.store.acquire(OWNER)
            assert sum(each.rescued for each in leases) == 2
            rig.leases = {each.shard: each for each in leases}
            after = rig.leases[lease.shard]
            assert rig.do(Settle(jobs["{k} ran"], lease.epoch)).outcome is Outcome.NOT_OWNER
            assert {job.key for job in rig.store.due(lease.shard, rig.now + 90_000, None, 9)} == set(jobs)
            assert rig.move("{k} moved", 5).outcome is Outcome.MOVED
            for key in ("{k} ran", "{k} waited"):
                job = rig.get(key)
                assert rig.do(Begin(job, after.epoch)).outcome is Outcome.BEGUN
                assert rig.do(Settle(job, after.epoch)).outcome is Outcome.SETTLED
            assert set_aside(rig, rig.get("{k} moved")) is Outcome.SETTLED
            assert [job.key for job in taken(rig, after, MAIL)] == ["{k} moved"]
            rig.do(SetAside(rig.get("{k} moved"), after.epoch))
            assert rig.store.due(after.shard, rig.now + 90_000, None, 9) == []
            assert rig.cancel("{k} moved").outcome is Outcome.CANCELLED


def beside(rig: Rig) -> list[Lease]:
    """
    Return the leases of all shards in the partition that has the keys "{k}...".
    """
    place, partitions = rig.store.shard_of("{k}"), rig.store.abilities.partitions
    return [lease for lease in rig.leases.values() if (lease.shard - place) % partitions == 0]


def set_aside(rig: Rig, job: Job) -> Outcome:
    return rig.do(SetAside(job, rig.lease(job.key).epoch)).outcome


def taken(rig: Rig, lease: Lease, *skills: Skill, limit: int = 100) -> list[Job]:
    jobs = rig.store.take_up(lease.shard, lease.epoch, skills, limit)
    jobs.sort(key=lambda job: job.due_at)
    assert jobs == [rig.get(job.key) for job in jobs]
    assert not any(job.lacks_handler for job in jobs)
    return jobs
