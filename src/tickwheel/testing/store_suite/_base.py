from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from tickwheel.jobs.model import (
    Answer,
    AttemptState,
    AttemptStatus,
    Begin,
    Cancel,
    Job,
    JobQuery,
    Move,
    Outcome,
    Replay,
    Resume,
    Set,
    SetMode,
    SetPause,
    Settle,
    Settled,
    State,
    Write,
)
from tickwheel.stores.contract import Cursor, Lease, ShardScan, Store

__all__ = ["EVER", "OWNER", "PATIENCE_S", "Rig", "StoreTests", "changes_of", "everything", "refused"]

EVER = 2**63 - 1
"""An instant after the due times of all jobs."""

OWNER = "the first owner"

PATIENCE_S = 20.0
"""Maximum wait in seconds for an event that should be immediate. Only a failure takes that long."""

_E = TypeVar("_E", bound=BaseException)
_CONDITIONS = ("max_wait_ms", "if_generation", "over", "keeps_payload", "has_phase", "is_over", "if_due_at", "under")
"""Fields of a `Set` other than its job and mode."""


class Rig:
    """
    An open store whose shards the test owns. Instants count from *now*, the store's time at the start.
    """

    def __init__(self, store: Store) -> None:
        self.store = store
        self.leases = {lease.shard: lease for lease in store.acquire(OWNER)}
        self.now = store.now_ms()

    def lease(self, key: str) -> Lease:
        return self.leases[self.store.shard_of(key)]

    def do(self, write: Write) -> Answer:
        (answer,) = self.store.apply([write])
        return answer

    def changes(self, shard: int, until: int, mark: int | None) -> ShardScan:
        return changes_of(self.store, shard, self.leases[shard].epoch, until, mark)

    def set(self, key: str, after: int = 60_000, mode: SetMode = SetMode.REPLACE, **fields: Any) -> Answer:
        """
        Set *key*, due *after* ms from the start. *fields* are conditions of the write or fields of the job.
        """
        conditions = {name: fields.pop(name) for name in _CONDITIONS if name in fields}
        return self.do(Set(Job(key, 0, self.now + after, **fields), mode, **conditions))

    def pending(self, key: str, after: int = 60_000, **fields: Any) -> Job:
        job = self.set(key, after, **fields).job
        assert job is not None
        return job

    def running(self, key: str, after: int = 60_000, **fields: Any) -> Job:
        job = self.pending(key, after, **fields)
        assert self.begin(job) is Outcome.BEGUN
        return job

    def status(self, key: str, standing: AttemptState) -> AttemptStatus:
        job = self.get(key)
        return AttemptStatus(job.generation, job.due_at, job.attempt, standing)

    def dead(self, key: str, error: str = "it broke") -> Job:
        job = self.settle(self.running(key), Settled.DEAD, attempt=1, error=error).job
        assert job is not None
        assert job.state is State.DEAD
        return job

    def begin(self, job: Job) -> Outcome:
        return self.do(Begin(job, self.lease(job.key).epoch)).outcome

    def settle(self, job: Job, how: Settled = Settled.DONE, **fields: Any) -> Answer:
        return self.do(Settle(job, self.lease(job.key).epoch, how, **fields))

    def move(self, key: str, after: int, if_generation: int | None = None, over: AttemptStatus | None = None) -> Answer:
        return self.do(Move(key, self.now + after, if_generation, over=over))

    def cancel(self, key: str, if_generation: int | None = None, over: AttemptStatus | None = None) -> Answer:
        return self.do(Cancel(key, if_generation, over))

    def pause(
        self, key: str, note: str = "", if_generation: int | None = None, over: AttemptStatus | None = None
    ) -> Answer:
        return self.do(SetPause(key, "somebody", note, if_generation, over))

    def resume(self, key: str, if_generation: int | None = None) -> Answer:
        return self.do(Resume(key, if_generation))

    def replay(self, key: str, after: int = 0, if_generation: int | None = None) -> Answer:
        return self.do(Replay(key, self.now + after, if_generation))

    def get(self, key: str) -> Job:
        job = self.store.get(key)
        assert job is not None
        return job

    def due(self, until: int = EVER, limit: int = 1_000_000) -> list[Job]:
        return [job for shard in self.leases for job in self.store.due(shard, until, None, limit)]

    def counts(self) -> tuple[int, int, int]:
        counts = self.store.count()
        assert set(counts) == {state.value for state in State}
        return counts["pending"], counts["running"], counts["dead"]


class StoreTests:
    def make_store(self) -> Store:
        """
        Return an empty store that is not open.
        """
        raise NotImplementedError(type(self).__name__)  # not abstract: pytest silently skips abstract classes

    @contextmanager
    def rig(self) -> Iterator[Rig]:
        """
        Yield a rig with an empty store. At the end, compare the store's counts with its jobs.
        """
        store = self.make_store()
        store.open()
        try:
            rig = Rig(store)
            try:
                yield rig
                check_counts(rig)
            finally:
                rig.store.close()  # a test may have replaced the store
        finally:
            store.close()


def check_counts(rig: Rig) -> None:
    jobs = everything(rig.store)
    states = [job.state for job in jobs]
    assert rig.counts() == (states.count(State.PENDING), states.count(State.RUNNING), states.count(State.DEAD))
    if rig.leases:
        expected = {job.key: job for job in jobs if is_due(job)}
        assert {job.key: job for job in rig.due()} == expected


def is_due(job: Job) -> bool:
    return job.state is State.PENDING and not job.lacks_handler and job.pause is None


def everything(store: Store, **query: object) -> list[Job]:
    jobs: list[Job] = []
    cursor = None
    while True:
        page = store.page(JobQuery(cursor=cursor, **query))  # type: ignore[arg-type]
        assert page.cursor is None or cursor is None or page.cursor > cursor
        jobs += page.jobs
        cursor = page.cursor
        if cursor is None:
            return jobs


def changes_of(store: Store, shard: int, epoch: int, until: int, mark: int | None) -> ShardScan:
    (sight,) = store.look([Cursor(shard, epoch, (until - 1, 0), mark)], until, 0, with_changes=True)
    return sight


def refused(kind: type[_E], call: Callable[[], object]) -> _E:
    caught: _E | None = None
    try:
        call()
    except kind as error:
        caught = error
    assert caught is not None, f"nothing was raised, and {kind.__name__} should have been"
    assert str(caught)
    return caught
