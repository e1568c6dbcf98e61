"""
Internal: moves jobs from one store to another.

Each job takes four steps, in batches. At any time, a job can fire in at most one store:

    1  parked      the source makes the job a dead letter with a mark in place of its error
    2  staged      the target gets a copy, which is also a dead letter with a mark
    3  removed     the source deletes the job
    4  activated   the target restores the state of the job

If a migration is interrupted, the next one finds the marks and continues. Nothing is lost and nothing fires twice,
because each step requires the generation that the previous step gave the job; the first step requires the epoch of the
job's shard. If a caller sets, replays or cancels a job in between, the caller's write takes precedence.
"""

from __future__ import annotations

import json
import math
import secrets
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final
from urllib.parse import parse_qsl, urlencode

from tickwheel.host.lifecycle import one_life
from tickwheel.jobs.errors import StoreError, StoreInUseError
from tickwheel.jobs.mark import Mark, restored, unpaused
from tickwheel.jobs.model import (
    Adopt,
    Answer,
    Begin,
    Cancel,
    Declare,
    Job,
    JobQuery,
    Manifest,
    Outcome,
    Pause,
    Resume,
    Set,
    SetPause,
    Settle,
    Settled,
    State,
    Write,
)
from tickwheel.stores import Store, partitions_of

__all__ = ["Migration", "MigrationReport", "SameStoreError", "identity_of", "is_parked", "pages_of"]

_SCRATCH: Final = "tickwheel/migrate"
"""A key that callers do not use. The migration sets it to check whether two URLs lead to the same store."""

_FAR: Final = 2**62
_RENEWALS: Final = 3
"""Number of times that a lease is renewed within its length."""

_LOOK_S: Final = 0.2
_SHARD_SAMPLES: Final = 5_000
"""Number of sample keys: enough to have at least one key in each of 256 shards."""


class SameStoreError(ValueError):
    """
    The source and the target are the same store.
    """


@dataclass(slots=True)
class MigrationReport:
    """
    The outcome of a migration.

    Attributes:
        moved: Number of jobs that are now in the target, and no longer in the source.
        finished: Number of moved jobs that an earlier migration had left unfinished.
        changed: Number of jobs that other callers changed during the move. These changes are kept.
        conflicts: Keys that exist in both stores. Their jobs stay where they are.
        others: Keys of jobs left in the source: they run, move to a third store, or could not be reserved for the move.
        late: Number of jobs that callers have set in the source since the last pass. Migrate again to move these.
        left: Number of jobs now in the source: `conflicts`, `others` and `late`.
        is_complete: True if every moved job is restored to the state that it had before the migration.
    """

    moved: int = 0
    finished: int = 0
    changed: int = 0
    conflicts: list[str] = field(default_factory=list)
    others: list[str] = field(default_factory=list)
    late: int = 0
    left: int = 0
    is_complete: bool = False


def identity_of(store: Store) -> str:
    place, _, query = store.url.partition("?")
    path = place.removeprefix("sqlite:///")
    if path != place:
        place = f"sqlite:///{Path(path).resolve()}"
    words = [(name, value) for name, value in parse_qsl(query) if name not in ("lease_s", "shards", "synchronous")]
    return f"{place}?{urlencode(words)}" if words else place


def pages_of(store: Store, size: int, state: State | None = None) -> Iterator[tuple[Job, ...]]:
    cursor: str | None = ""  # no key is empty
    while cursor is not None:
        page = store.page(JobQuery(state=state, cursor=cursor or None, limit=size))
        yield page.jobs
        cursor = page.cursor


def is_parked(job: Job) -> bool:
    return Mark.of(job) is not None


class Migration:
    """
    One run of a migration. Both stores are open, and no process fires jobs of the source.
    """

    def __init__(
        self,
        source: Store,
        target: Store,
        *,
        batch: int = 1_000,
        wait_s: float = 15.0,
        on_progress: Callable[[int], None] = lambda _: None,
        on_step: Callable[[str], None] = lambda _: None,
    ) -> None:
        """
        Prepare the migration.

        *batch* is the number of jobs moved in one step, and *wait_s* the maximum wait for a dead owner's leases to end.
        *on_progress* is called with the number of jobs moved by a batch, and *on_step* with the name of each step done.
        """
        self._source, self._target = source, target
        self._names = identity_of(source), identity_of(target)
        self._batch, self._wait_s = batch, wait_s
        self._on_progress, self._on_step = on_progress, on_step
        self._owner = one_life(f"tickwheel migrate to {self._names[1]}", secrets.token_hex)
        self._shards: set[int] = set()
        self._epochs: dict[int, int] = {}
        self._renew_at = 0.0
        self._renew_s = 0.0
        self._is_faithful = True
        self._refused: dict[str, Job] = {}
        """The jobs that the source did not park, as they were at that time."""
        self.report = MigrationReport()

    def run(self) -> MigrationReport:
        """
        Move all jobs, beginning with jobs that an interrupted run has left unfinished.

        The source is searched again and again, until no job is found. If callers keep setting jobs, the migration ends
        when a search finds at least as many jobs as the search before it.

        Raises:
            StoreInUseError: If a process fires the source's jobs.
            SameStoreError: If source and target are one store.
            StoreError: If a store fails. Migrate again to continue.
        """
        self._fence()
        try:
            self._check_that_they_differ()
            for pause in self._source.scopes():  # before the jobs, so that these do not start in the target
                self._target.set_scope(pause.scope, pause, None)
            self._copy_manifests()
            self._finish()
            before, found = math.inf, self._pass()
            while 0 < found < before:
                before, found = found, self._pass()
            self._count_left()
        finally:
            with suppress(StoreError):  # the run's own error matters more, and leases expire
                self._source.release(self._owner)
        self.report.is_complete = self._is_faithful
        return self.report

    def _count_left(self) -> None:
        settled = {*self.report.conflicts, *self.report.others}
        for jobs in pages_of(self._source, self._batch):
            self.report.left += len(jobs)
            self.report.late += sum(job.key not in settled for job in jobs)

    def _copy_manifests(self) -> None:
        known = {manifest.name for manifest in self._target.manifests()}
        found: dict[str, Manifest] = {}
        for manifest in (each for part, _ in partitions_of(self._source) for each in part.manifests()):
            rules = json.loads(found[manifest.name].rules) if manifest.name in found else {}
            rules |= json.loads(manifest.rules)
            latest = max(found.get(manifest.name, manifest), manifest, key=lambda each: each.version)
            found[manifest.name] = replace(latest, rules=json.dumps(rules))
        new = [manifest for name, manifest in found.items() if name not in known]
        for part, key in partitions_of(self._target):
            part.apply([Declare(key, manifest, 0) for manifest in new])

    def _fence(self) -> None:
        shards = self._shards = {self._source.shard_of(str(number)) for number in range(_SHARD_SAMPLES)}
        give_up = time.monotonic() + self._wait_s
        while True:
            try:
                leases = self._source.acquire(self._owner)
            except StoreInUseError:
                if time.monotonic() >= give_up:
                    raise
                leases = []
            if {lease.shard for lease in leases} >= shards:
                break
            # If other nodes still want shards, release them at once: these nodes need them while this process waits.
            self._source.release(self._owner)
            if time.monotonic() >= give_up:
                what = f"{self._source.url}: {len(shards) - len(leases)} of {len(shards)} shards have an owner"
                raise StoreInUseError(what, "stop the schedulers that fire its jobs", is_transient=True)
            time.sleep(_LOOK_S)
        self._epochs = {lease.shard: lease.epoch for lease in leases}
        terms = [lease.until - lease.granted_at for lease in leases if lease.until is not None]
        self._renew_s = min(terms, default=3_000) / 1000 / _RENEWALS
        self._renew_at = time.monotonic() + self._renew_s

    def _keep(self) -> None:
        if time.monotonic() < self._renew_at:
            return
        self._renew_at = time.monotonic() + self._renew_s
        held = {lease.shard: lease.epoch for lease in self._source.renew(self._owner)}
        if any(held.get(shard) != self._epochs[shard] for shard in self._shards):
            raise self._lost()

    def _lost(self) -> StoreError:
        what = f"{self._source.url}: another owner has taken the source over"
        return StoreInUseError(what, "stop it, and run the migration again: it goes on where it was", is_transient=True)

    def _check_that_they_differ(self) -> None:
        (answer,) = self._source.apply([Set(Job(_SCRATCH, 0, _FAR))])
        is_same = self._target.get(_SCRATCH) is not None
        self._source.apply([Cancel(_SCRATCH)])
        if is_same:
            message = f"{self._names[0]!r} and {self._names[1]!r} are one store: name two"
            raise SameStoreError(message)
        last = answer.job.generation if answer.job else 0
        self._target.apply([Adopt(Job(_SCRATCH, last, _FAR, state=State.DEAD)), Cancel(_SCRATCH)])

    def _finish(self) -> None:
        for jobs in pages_of(self._target, self._batch, State.DEAD):
            staged = [job for job in jobs if self._mark_of(job) and self._source.get(job.key) is None]
            self.report.finished += len(staged)
            self._activate(staged)

    def _pass(self) -> int:
        return sum(self._move(jobs) for jobs in pages_of(self._source, self._batch))

    def _move(self, jobs: Iterable[Job]) -> int:
        settled = {*self.report.conflicts, *self.report.others}
        fresh, parked = [], []
        for job in jobs:
            if job.key in settled:
                continue
            if self._mark_of(job):
                parked.append(job)
            elif job.state is State.RUNNING or is_parked(job) or self._refused.get(job.key) == job:
                self.report.others.append(job.key)
            else:
                fresh.append(job)
        self.report.finished += len(parked)
        parked += self._park(fresh)
        taken = {job.key for job in parked}
        # Callers have probably changed these jobs. Remember them: if the next pass finds them unchanged, it skips them.
        self._refused |= {job.key: job for job in fresh if job.key not in taken}
        staged = self._stage(parked)
        self._activate(self._remove(staged))
        return len(fresh) + len(parked)

    def _park(self, jobs: list[Job]) -> list[Job]:
        writes: list[Write] = []
        for job in jobs:
            error = Mark.on(job, *self._names).text()
            if job.state is State.DEAD:
                writes.append(Adopt(replace(job, error=error), job.generation))
                continue
            epoch = self._epochs[self._source.shard_of(job.key)]
            firing = (
                Begin(job, epoch),
                Settle(job, epoch, Settled.DEAD, job.attempt, error=error, raised_in=job.raised_in),
            )
            writes += firing if job.pause is None else _as_resumed(job, job.pause, firing)
        answers = [*self._write(self._source, writes, "parked")]
        for epoch in self._epochs.values():  # a job may be in another shard than that of its key
            writes = [
                replace(write, epoch=epoch)
                for write, answer in zip(writes, answers[-len(writes) :], strict=True)
                if isinstance(write, (Begin, Settle)) and answer.outcome is Outcome.NOT_OWNER
            ]
            if not writes:
                break
            answers += self._source.apply(writes)
        if writes and any(answer.outcome is Outcome.NOT_OWNER for answer in answers[-len(writes) :]):
            raise self._lost()
        done = (Outcome.CREATED, Outcome.SETTLED)
        parked = [answer.job for answer in answers if answer.job and answer.outcome in done]
        resumed = {answer.job.key for answer in answers if answer.job and answer.outcome is Outcome.KEPT}
        return [unpaused(job) if job.key in resumed else job for job in parked]  # a caller has resumed these jobs

    def _stage(self, parked: list[Job]) -> list[tuple[Job, Job]]:
        copies = [self._copy(job) for job in parked]
        answers = self._write(self._target, [Adopt(copy) for copy in copies], "staged")
        staged, again, clashing = [], [], []
        for job, copy, answer in zip(parked, copies, answers, strict=True):
            found = answer.job
            if answer.outcome is Outcome.CREATED and found:
                staged.append((job, found))
            elif found and found.state is State.DEAD and found.error == copy.error:
                staged.append((job, found))  # an earlier migration has copied the job
            elif found and found.state is State.DEAD and (self._mark_of(found) or restored(job).state is State.PENDING):
                again.append((job, Adopt(copy, found.generation)))  # replaceable: a dead letter does not block its key
            else:
                clashing.append(job)
        for (job, _), answer in zip(again, self._target.apply([write for _, write in again]), strict=True):
            if answer.outcome is Outcome.CREATED and answer.job:
                staged.append((job, answer.job))
            else:
                clashing.append(job)
        self.report.conflicts += [job.key for job in clashing]
        self._source.apply([Adopt(restored(job), job.generation) for job in clashing])
        return staged

    def _remove(self, staged: list[tuple[Job, Job]]) -> list[Job]:
        answers = self._write(self._source, [Cancel(job.key, job.generation) for job, _ in staged], "removed")
        removed: list[Job] = []
        stale: list[Job] = []
        for (_, copy), answer in zip(staged, answers, strict=True):
            (removed if answer.outcome is Outcome.CANCELLED else stale).append(copy)
        self._target.apply([Cancel(copy.key, copy.generation) for copy in stale])
        self.report.changed += len(stale)
        return removed

    def _activate(self, copies: list[Job]) -> None:
        jobs = [restored(copy) for copy in copies]
        writes = [Adopt(job, copy.generation) for job, copy in zip(jobs, copies, strict=True)]
        answers = self._write(self._target, writes, "activated")
        for job, answer in zip(jobs, answers, strict=True):
            if answer.outcome is not Outcome.CREATED or answer.job is None:
                self.report.changed += 1
                continue
            self.report.moved += 1
            if replace(answer.job, generation=job.generation) != job:
                self._is_faithful = False
        self._on_progress(len(copies))

    def _copy(self, parked: Job) -> Job:
        mark = Mark.of(parked)
        assert mark is not None
        return replace(parked, error=mark._replace(generation=parked.generation).text())

    def _mark_of(self, job: Job) -> Mark | None:
        mark = Mark.of(job)
        return mark if mark and (mark.source, mark.target) == self._names else None

    def _write(self, store: Store, writes: Sequence[Write], step: str) -> Sequence[Answer]:
        self._keep()
        answers: Sequence[Answer] = store.apply(writes) if writes else ()
        if writes:
            self._on_step(step)
        return answers


def _as_resumed(job: Job, pause: Pause, firing: Sequence[Write]) -> list[Write]:
    # a paused job cannot begin; if *firing* is refused, the last write pauses the job again
    again = SetPause(job.key, pause.by, pause.note, job.generation)
    return [Resume(job.key, job.generation), *firing, again]
