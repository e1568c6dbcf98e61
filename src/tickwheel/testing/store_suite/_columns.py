from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from typing import Any, Final

from tickwheel.jobs.columns import ALL, PLAIN, Column
from tickwheel.jobs.message import message_id_of
from tickwheel.jobs.model import Adopt, Job, JobQuery, Outcome, Pause, RetryPolicy, Set, Settled, State
from tickwheel.testing.store_suite._base import EVER, Rig, StoreTests

NEAR_MS: Final = 5_000
FAR_MS: Final = 30 * 86_400_000
_OF_ITS_OWN: Final[dict[str, Any]] = {
    "retry": RetryPolicy(2, base_ms=7),
    "recurrence": '{"anchor_at":1,"every_ms":5000,"jitter_ms":0,"misfire":"once"}',
    "payload": b'"of its own"',
    "target": "log",
    "trace": "00-11111111111111111111111111111111-2222222222222222-01",
    "error": "it broke",
}
_OF_KIND: Final[dict[str, Any]] = {"text": "of its own ✈", "bytes": b"\0of its own", "int2": 1, "int4": 1, "int8": 77}
_NOT_SET: Final = {"key", "generation", "due_at", "state", "pause"}
"""Columns whose values come from the store or from another kind of write, not from a `Set`."""


def value_of(column: Column, due_at: int) -> Any:
    if column.name == "expires_at":
        return due_at + 123_456_789
    if column.name == "first_set_at":
        return due_at - 1
    if isinstance(column.default, bool):
        return not column.default
    return _OF_ITS_OWN.get(column.name, _OF_KIND[column.kind])


def jobs_of_their_own(due_at: int) -> Iterator[tuple[str, Job]]:
    """
    Yield a plain job and, for each column of a `Set`, a job in which only that column has a unique value.
    """
    yield "plain", Job("plain", 0, due_at, handler="h", first_set_at=due_at - 1_000)
    for column in ALL:
        if column.name not in _NOT_SET:
            job = Job(column.name, 0, due_at, handler="h", first_set_at=due_at - 1_000)
            yield column.name, replace(job, **{column.name: value_of(column, due_at)})


def as_given(job: Job) -> Job:
    return replace(job, generation=0)


class ColumnTests(StoreTests):
    def test_each_column_of_a_near_job(self) -> None:
        self._check_read(NEAR_MS)

    def test_each_column_of_a_far_job(self) -> None:
        self._check_read(FAR_MS)

    def test_each_column_of_jobs_that_are_set_together(self) -> None:
        with self.rig() as rig:
            wanted = [job for _, job in jobs_of_their_own(rig.now + FAR_MS)]
            doubled = [replace(job, key=f"{job.key} {turn}") for turn in range(3) for job in wanted]
            answers = rig.store.apply([Set(job) for job in doubled])
            assert [answer.job and replace(answer.job, generation=0) for answer in answers] == doubled
            assert [as_given(rig.get(job.key)) for job in doubled] == [as_given(job) for job in doubled]

    def test_each_column_of_a_moved_job(self) -> None:
        with self.rig() as rig:
            for name, job in jobs_of_their_own(rig.now + FAR_MS):
                before = rig.do(Set(job)).job
                for after in (NEAR_MS, FAR_MS):
                    moved = rig.move(job.key, after).job
                    assert moved is not None
                    assert before is not None
                    assert rig.get(job.key) == moved, name
                    kept = {"due_at", "generation", "attempt", "expires_at", "recurrence"}
                    _assert_kept(before, moved, kept | {"sent_as"} if name == "attempt" else kept)

    def test_each_column_of_a_retried_job(self) -> None:
        with self.rig() as rig:
            for name, job in jobs_of_their_own(rig.now + NEAR_MS):
                before = rig.do(Set(job)).job
                assert before is not None
                assert rig.begin(before) is Outcome.BEGUN
                running = rig.get(job.key)
                _assert_kept(before, running, {"state", "attempt"})
                for due_at, place in ((before.due_at, "shop.pay+3"), (rig.now + FAR_MS, None)):  # in place, then moved
                    failed = {"attempt": 1, "due_at": due_at, "error": "why", "raised_in": place}
                    settled = rig.settle(before, Settled.AGAIN, **failed).job
                    assert settled is not None
                    assert rig.get(job.key) == settled, name
                    assert settled.raised_in == place
                    _assert_kept(before, settled, {"attempt", "error", "raised_in", "due_at"})
                    before = settled
                    assert rig.begin(before) is Outcome.BEGUN

    def test_each_column_of_a_job_that_waits_elsewhere(self) -> None:
        with self.rig() as rig:
            for name, job in jobs_of_their_own(rig.now + NEAR_MS):
                before = rig.do(Set(job)).job
                assert before is not None
                paused = rig.pause(job.key, "why").job
                assert paused is not None
                assert rig.get(job.key) == paused, name
                assert paused.pause is not None
                resumed = rig.resume(job.key).job
                assert resumed is not None
                _assert_kept(before, rig.get(job.key), set())
                assert rig.begin(resumed) is Outcome.BEGUN
                failed = {name: getattr(resumed, name) for name in ("attempt", "error", "raised_in")}
                dead = rig.settle(resumed, Settled.DEAD, **failed).job
                assert dead is not None
                _assert_kept(before, rig.get(job.key), {"state"})
                again = rig.replay(job.key, NEAR_MS).job
                assert again is not None
                assert rig.get(job.key) == again
                kept = {
                    "generation",
                    "due_at",
                    "attempt",
                    "expires_at",
                    "first_set_at",
                    "recurrence",
                    "state",
                    "sent_as",
                }
                _assert_kept(before, again, kept)

    def test_each_column_of_an_adopted_job(self) -> None:
        with self.rig() as rig:
            for state, pause in ((State.PENDING, None), (State.PENDING, Pause(5, "ops", "why")), (State.DEAD, None)):
                for after in (NEAR_MS, FAR_MS):
                    for name, job in jobs_of_their_own(rig.now + after):
                        given = replace(job, key=f"{job.key} {state} {after} {pause}", state=state, pause=pause)
                        assert rig.do(Adopt(given)).outcome is Outcome.CREATED
                        found = rig.get(given.key)
                        if name == "attempt":
                            given = replace(given, sent_as=message_id_of(given))
                        assert as_given(found) == as_given(given), name

    def _check_read(self, after: int) -> None:
        with self.rig() as rig:
            wanted = dict(jobs_of_their_own(rig.now + after))
            for name, job in wanted.items():
                answer = rig.do(Set(job))
                assert answer.job is not None
                assert replace(answer.job, generation=0) == job, name
                assert as_given(rig.get(job.key)) == as_given(job), name
            listed = {job.key: as_given(job) for job in _listed(rig)}
            assert listed == {job.key: as_given(job) for job in wanted.values()}
            due = [job for lease in rig.leases.values() for job in rig.store.due(lease.shard, EVER, None, 100)]
            assert {job.key: as_given(job) for job in due} == listed
            upcoming = rig.store.upcoming(0, EVER, 100)
            assert {job.key: as_given(job) for job in upcoming} == listed

    def test_every_column_has_a_value_of_its_own(self) -> None:
        jobs = dict(jobs_of_their_own(10_000))
        assert set(jobs) == {"plain", *(column.name for column in ALL)} - _NOT_SET
        assert set(PLAIN) - _NOT_SET <= set(jobs)
        for one, other in pairwise(replace(job, key="") for job in jobs.values()):
            assert one != other


def _listed(rig: Rig) -> tuple[Job, ...]:
    return rig.store.page(JobQuery(limit=100)).jobs


def _assert_kept(before: Job, after: Job, changed: set[str]) -> None:
    for column in ALL:
        if column.name not in changed:
            old, new = getattr(before, column.name), getattr(after, column.name)
            assert new == old, f"{column.name} of {before.key!r} was {old!r} and is {new!r}"
