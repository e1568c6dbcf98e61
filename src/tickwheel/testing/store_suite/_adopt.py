from __future__ import annotations

from dataclasses import replace

from tickwheel.jobs.message import message_id_of
from tickwheel.jobs.model import Adopt, Job, Outcome, State
from tickwheel.testing.store_suite._base import StoreTests


class AdoptTests(StoreTests):
    def test_all_is_kept_but_the_generation(self) -> None:
        with self.rig() as rig:
            for state in (State.PENDING, State.DEAD):
                given = Job(
                    f"{state}",
                    5,
                    rig.now + 9,
                    b"[1]",
                    "log",
                    "h",
                    3,
                    expires_at=rig.now + 70,
                    recurrence="every 5 s",
                    state=state,
                    error="it broke",
                    trace="t",
                    first_set_at=rig.now - 7,
                )
                answer = rig.do(Adopt(given))
                assert answer.outcome is Outcome.CREATED
                assert answer.job is not None
                assert replace(answer.job, generation=5) == replace(given, sent_as=message_id_of(given))
                assert rig.get(given.key) == answer.job
            assert [job.key for job in rig.due()] == ["pending"]

    def test_generations_go_on_above(self) -> None:
        with self.rig() as rig:
            rig.pending("before")
            answers = rig.store.apply([Adopt(Job(f"{i}", 1_000_000 + i, rig.now)) for i in range(3)])
            rig.store.apply([Adopt(Job("older", 3, rig.now))])
            found = [rig.get(key).generation for key in ("0", "1", "2", "older")]
            assert [answer.job and answer.job.generation for answer in answers] == found[:3]
            found.append(rig.pending("after").generation)
            assert len(set(found)) == len(found)
            assert rig.store.abilities.partitions > 1 or found == sorted(found)
            assert all(generation > 1_000_000 + i for i, generation in enumerate(found[:3]))
            assert min(found[3:]) > 1_000_002

    def test_what_is_there_stays(self) -> None:
        with self.rig() as rig:
            pending, running, dead = rig.pending("pending"), rig.running("running"), rig.dead("dead")
            for job in (pending, running, dead):
                for condition in (0, job.generation + 1):
                    answer = rig.do(Adopt(Job(job.key, 0, rig.now), condition))
                    assert answer == rig.do(Adopt(Job(job.key, 0, rig.now), condition))
                    assert (answer.outcome, answer.job) == (Outcome.WRONG_GENERATION, rig.get(job.key))
            assert rig.do(Adopt(Job("pending", 0, rig.now), pending.generation)).outcome is Outcome.WRONG_GENERATION
            assert rig.do(Adopt(Job("running", 0, rig.now), running.generation)).outcome is Outcome.WRONG_GENERATION
            assert rig.do(Adopt(Job("nobody", 0, rig.now), 7)).outcome is Outcome.WRONG_GENERATION
            answer = rig.do(Adopt(Job("dead", 0, rig.now), dead.generation))
            assert answer.outcome is Outcome.CREATED
            assert rig.get("dead").state is State.PENDING
            assert rig.settle(running).outcome is Outcome.SETTLED
