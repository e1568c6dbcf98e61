"""
Audit records of callers' writes. A record is part of the transaction of its write.
"""

from __future__ import annotations

from tickwheel.jobs.history import ACTS_MAX
from tickwheel.jobs.model import (
    Actor,
    Cancel,
    HistoryRecord,
    Job,
    Move,
    Outcome,
    Replay,
    Resume,
    Set,
    SetMode,
    SetPause,
    Settle,
    Settled,
    Write,
)
from tickwheel.testing.store_suite._base import EVER, Rig, StoreTests

_SELDOM = Actor("a process")
_ALWAYS = Actor("a token", is_always=True)
_EVERY = "every 5 s"


class ActTests(StoreTests):
    def test_acts_on_a_recurring_job(self) -> None:
        with self.rig() as rig:
            created = rig.do(Set(Job("key", 0, rig.now + 9, handler="h", recurrence=_EVERY), actor=_SELDOM)).job
            replaced = rig.do(Set(Job("key", 0, rig.now + 8, handler="h", recurrence=_EVERY), actor=_ALWAYS)).job
            moved = rig.do(Move("key", rig.now + 7, actor=_SELDOM)).job
            assert created is not None
            assert replaced is not None
            assert moved is not None
            rig.begin(moved)
            dead = rig.do(Settle(moved, rig.lease("key").epoch, Settled.DEAD, 1, error="x")).job
            replayed = rig.do(Replay("key", rig.now + 6, actor=_SELDOM)).job
            assert dead is not None
            assert replayed is not None
            rig.do(SetPause("key", "a process", "it rains", actor=_SELDOM))
            rig.do(Resume("key", actor=_SELDOM))
            rig.do(Cancel("key", actor=_SELDOM))
            records = rig.store.history("key", None, 10)
            assert [(each.outcome, each.by, each.generation, each.due_at) for each in reversed(records)] == [
                ("created", "a process", created.generation, rig.now + 9),
                ("replaced", "a token", replaced.generation, rig.now + 8),
                ("moved", "a process", moved.generation, rig.now + 7),
                ("replayed", "a process", replayed.generation, rig.now + 6),
                ("paused", "a process", replayed.generation, rig.now + 6),
                ("resumed", "a process", replayed.generation, rig.now + 6),
                ("cancelled", "a process", replayed.generation, rig.now + 6),
            ]
            assert {(each.attempt, each.handler, each.begun_at) for each in records} == {(0, "h", None)}
            assert {each.outcome: each.error for each in records if each.error} == {"paused": "it rains"}
            assert all(each.at >= rig.now for each in records)

    def test_acts_on_a_job_that_fires_once(self) -> None:
        """
        A write to a one-time job is recorded only if `is_always` of its actor is True.
        """
        with self.rig() as rig:
            for actor in (None, _SELDOM, _ALWAYS):
                rig.do(Set(Job("key", 0, rig.now + 9), actor=actor))
                rig.do(Move("key", rig.now + 8, actor=actor))
                rig.do(Cancel("key", actor=actor))
                found = [each.outcome for each in rig.store.history("key", None, 10)]
                assert found == (["cancelled", "moved", "created"] if actor is _ALWAYS else [])

    def test_what_takes_no_effect(self) -> None:
        with self.rig() as rig:
            job = rig.pending("key", recurrence=_EVERY)
            refused: list[Write] = [
                Set(job, SetMode.KEEP, actor=_ALWAYS),
                Set(job, if_generation=job.generation + 1, actor=_ALWAYS),
                Move("key", rig.now, job.generation + 1, actor=_ALWAYS),
                Cancel("key", job.generation + 1, actor=_ALWAYS),
                Replay("key", rig.now, actor=_ALWAYS),
                Move("none", rig.now, actor=_ALWAYS),
            ]
            assert not {answer.outcome for answer in rig.store.apply(refused)} & {Outcome.MOVED, Outcome.CANCELLED}
            rig.begin(job)
            assert rig.do(Move("key", rig.now, actor=_ALWAYS)).outcome is Outcome.TOO_LATE
            assert rig.store.history("key", None, 10) == []
            assert rig.store.history("none", None, 10) == []

    def test_many_at_once(self) -> None:
        with self.rig() as rig:
            keys = [f"key {number}" for number in range(20)]
            _set_all(rig, keys)
            answers = _set_all(rig, [*keys, *keys[:3]])
            for key, generation in answers[:20]:
                assert rig.store.history(key, None, 10)[-2].generation == generation
            for key, generation in answers[20:]:
                assert rig.store.history(key, None, 1)[0].generation == generation

    def test_log(self) -> None:
        with self.rig() as rig:
            rig.do(Set(Job("a", 0, rig.now + 9, handler="h", recurrence=_EVERY), actor=_SELDOM))
            rig.do(Move("a", rig.now + 7, actor=_ALWAYS))
            running = rig.running("b")
            record = HistoryRecord(0, rig.now, "b", running.generation, 1, "failed", "node", "handler", "", 5)
            rig.settle(running, Settled.DONE, record=record)
            event = HistoryRecord(0, rig.now + 60_000, "node é", 0, 0, "node_died", "node 2", "", "", rig.now)
            rig.store.add_records([event])
            acts = rig.store.acts(rig.now - 60_000, rig.now + 60_001, 10)
            assert [(each.key, each.outcome, each.by) for each in acts] == [
                ("node é", "node_died", "node 2"),
                ("a", "moved", "a token"),
                ("a", "created", "a process"),
            ]
            assert [each.was_due_at for each in acts] == [None, rig.now + 9, None]
            assert acts[1:] == rig.store.history("a", None, 10)
            assert rig.store.acts(rig.now - 60_000, rig.now + 60_001, 2) == acts[:2]
            assert rig.store.acts(rig.now - 60_000, rig.now + 60_000, 10) == acts[1:]
            assert rig.store.acts(rig.now + 60_000, EVER, 10) == acts[:1]

    def test_bulk(self) -> None:
        """
        An act that is part of a bulk change is in the history of the job's key, but not in the log of acts.
        """
        with self.rig() as rig:
            rig.pending("a")
            rig.do(Cancel("a", actor=Actor("a token", is_always=True, bulk="bulk:7")))
            (record,) = rig.store.history("a", None, 10)
            assert (record.outcome, record.bulk) == ("cancelled", "bulk:7")
            assert rig.store.acts(0, EVER, 10) == []

    def test_pruned_log(self) -> None:
        with self.rig() as rig:
            for key, at in (("x", rig.now - 5_000), ("y", rig.now)):
                rig.store.add_records([HistoryRecord(0, at, key, 0, 0, "deployed", "node", "", "", at)])
            assert rig.store.prune(rig.now - 1_000, 100, 1_000, 10) == 1
            assert [each.key for each in rig.store.acts(0, EVER, 10)] == ["y"]

    def test_the_log_has_a_limit_of_its_own(self) -> None:
        with self.rig() as rig:
            for start in range(0, ACTS_MAX + 6, 1_000):
                numbers = range(start, min(start + 1_000, ACTS_MAX + 6))
                rig.store.add_records([_record(rig.now + number, 0) for number in numbers])
            rig.store.add_records([_record(rig.now + number, 1) for number in range(20_000, 20_040)])
            while rig.store.prune(rig.now, 30, 10, 500):
                pass
            acts = rig.store.acts(0, EVER, 2 * ACTS_MAX)
            assert [act.at - rig.now for act in acts] == list(range(ACTS_MAX + 5, 5, -1))
            attempts = [each for each in rig.store.history("node", None, 2 * ACTS_MAX) if each.attempt]
            assert 0 < len(attempts) <= 10  # the partitions of a store share the total
            assert [each.at - rig.now for each in attempts] == list(range(20_039, 20_039 - len(attempts), -1))


def _record(at: int, attempt: int) -> HistoryRecord:
    return HistoryRecord(0, at, "node", 0, attempt, "node_died", "node", "", "", at)


def _set_all(rig: Rig, keys: list[str]) -> list[tuple[str, int]]:
    writes = [Set(Job(key, 0, rig.now + 9, recurrence=_EVERY), actor=_SELDOM) for key in keys]
    answers = [answer.job for answer in rig.store.apply(writes)]
    return [(job.key, job.generation) for job in answers if job is not None]
