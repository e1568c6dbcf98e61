"""
A model of a store: a dictionary of jobs. The model reads no clock.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from tickwheel.jobs.message import message_id_of
from tickwheel.jobs.model import (
    STOPPED,
    Adopt,
    Begin,
    Cancel,
    Contested,
    Job,
    JobWrite,
    Move,
    Outcome,
    Pause,
    Redate,
    Replay,
    Resume,
    Set,
    SetAside,
    SetMode,
    SetPause,
    Settle,
    Settled,
    State,
    key_of,
)

__all__ = ["LENGTH", "NEW", "StoreModel", "is_same_series"]

LENGTH = ',"expires_ms":'
"""Text before the time to live in a random recurrence, such as `every 5 s,"expires_ms":30`."""

_STATE: Final = frozenset(
    ("anchor_at", "runs", "run_at", "next_at", "nominal_at", "expires_ms", "then", "ended", "failures", "succeeded_at")
)
"""Fields of a recurrence. Their values may change while the series stays the same."""

NEW: Final = -1
"""Placeholder for a value that only the store knows: a generation, or a time of the store's clock."""


class StoreModel:
    def __init__(self, shard_of: Callable[[str], int]) -> None:
        self.jobs: dict[str, Job] = {}
        self.epochs: dict[int, int] = {}
        self.away: dict[str, int] = {}
        self._shard_of = shard_of

    def shard_of(self, key: str) -> int:
        return self.away.get(key, self._shard_of(key))

    def grow(self, shard_of: Callable[[str], int]) -> None:
        live = [job.key for job in self.jobs.values() if job.state == "running" or _is_due(job)]
        places = {key: self.shard_of(key) for key in live}
        self._shard_of = shard_of
        self.away = {key: place for key, place in places.items() if place != shard_of(key)}

    def epoch_of(self, key: str) -> int:
        return self.epochs[self.shard_of(key)]

    def expect(self, write: JobWrite) -> tuple[Outcome, Job | None]:
        key = key_of(write)
        job = self.jobs.get(key)
        if isinstance(write, Set):
            return (self._set if write.if_due_at is None else self._change)(write, job)
        if isinstance(write, Adopt):
            if (job.generation if job else 0) != write.if_generation or (job and job.state != "dead"):
                return Outcome.WRONG_GENERATION, job
            return Outcome.CREATED, replace(_named(write.job), generation=NEW)
        if isinstance(write, Resume | SetPause):
            return self._pause(write, job)
        if isinstance(write, Begin | SetAside | Settle | Redate):
            return (Outcome.NOT_OWNER, job) if write.epoch != self.epoch_of(key) else self._fire(write, job)
        return self._ask(write, job)

    def rescue(self, shard: int | None = None) -> int:
        running = [job for job in self.jobs.values() if job.state == "running"]
        running = [job for job in running if shard in (None, self.shard_of(job.key))]
        for job in running:
            self.jobs[job.key] = rescued = replace(job, state=State.PENDING)
            if not _is_due(rescued):  # a job that was paused while it ran is in no owner's shard
                self.away.pop(job.key, None)
        return len(running)

    def _set(self, write: Set, job: Job | None) -> tuple[Outcome, Job | None]:
        live_generation = 0 if job is None or job.state == "dead" else job.generation
        if write.if_generation is not None and write.if_generation != live_generation:
            return Outcome.WRONG_GENERATION, job
        if write.mode == "replace" and is_same_series(write, job):
            return Outcome.UNCHANGED, _taken_in(write, job)
        if job is not None and job.state == "dead" and write.mode != "restart":
            rule = _rule_of(job)
            if rule is not None and rule == _rule_of(write.job):
                return Outcome.DEAD, _taken_in(write, job)
        return self._take(write, job, live_generation)

    def _take(self, write: Set, job: Job | None, live_generation: int) -> tuple[Outcome, Job | None]:
        if job is not None and job.state == "running":
            if not _is_known(write, job):
                return Outcome.TOO_LATE, job
            job = _as_known(write, job)
        due_at = write.job.due_at
        since = write.job.first_set_at or NEW
        if job is not None and job.state == "pending":
            since = job.first_set_at
            if write.mode == "keep":
                return Outcome.KEPT, job
            if write.mode == "earliest" and job.due_at < due_at:
                due_at = job.due_at
        if write.mode == SetMode.REPLACE and write.max_wait_ms is not None and due_at > since + write.max_wait_ms:
            due_at = since + write.max_wait_ms
        new = replace(write.job, generation=NEW, due_at=due_at, first_set_at=since, state=State.PENDING)
        if live_generation and job is not None:
            new = replace(new, pause=job.pause, payload=job.payload if write.keeps_payload else new.payload)
        if new.expires_at is not None:
            new = replace(new, expires_at=new.expires_at - write.job.due_at + due_at)
        over_live = Outcome.RESTARTED if write.mode == SetMode.RESTART else Outcome.REPLACED
        return (over_live if live_generation else Outcome.CREATED), new

    def _change(self, write: Set, job: Job | None) -> tuple[Outcome, Job | None]:
        if job is None or job.state == "dead":
            return Outcome.WRONG_GENERATION, job
        before = job
        if job.state == "running" and _is_known(write, job):
            before = _as_known(write, job)
            if before.state == "running":
                return Outcome.TOO_LATE, job
        if before.state == "pending" and before.due_at != write.if_due_at:
            return Outcome.WRONG_GENERATION, job
        outcome, after = self._set(write, job)
        if after is not None and after.generation == NEW:
            after = replace(after, attempt=min(before.attempt, write.job.retry.attempts - 1))
            after = replace(after, error=before.error, raised_in=before.raised_in)
            has_one_body = all(
                getattr(before, name) == getattr(after, name) for name in ("payload", "target", "handler")
            )
            after = replace(after, sent_as=_named(before).sent_as if has_one_body else None)
        return outcome, after

    def _ask(self, write: Move | Cancel | Replay, job: Job | None) -> tuple[Outcome, Job | None]:  # noqa: C901, PLR0911 - many cases
        wanted = {Move: ("pending", "running"), Cancel: ("pending", "running", "dead"), Replay: ("dead",)}
        if job is None or job.state not in wanted[type(write)]:
            return Outcome.NOT_FOUND, job
        if write.if_generation is not None and write.if_generation != job.generation:
            return Outcome.WRONG_GENERATION, job
        if job.state == "running" and not isinstance(write, Replay):
            if not _is_known(write, job):
                return Outcome.TOO_LATE, job
            if _as_known(write, job).state == "pending":
                return self._ask(write, _as_known(write, job))
        if isinstance(write, Cancel):
            if job.state != "running":
                return Outcome.CANCELLED, None
            if write.stops:
                return Outcome.STOPPING, None if job.recurrence else replace(job, expires_at=STOPPED)
            return (Outcome.CANCELLED, None) if job.recurrence else (Outcome.TOO_LATE, job)
        if job.state == "running":
            return Outcome.TOO_LATE, job
        if isinstance(write, Replay):
            return Outcome.REPLAYED, replace(self._at(job, write.due_at), first_set_at=NEW)
        return Outcome.MOVED, replace(self._at(job, write.due_at), sent_as=_named(job).sent_as)

    def _pause(self, write: SetPause | Resume, job: Job | None) -> tuple[Outcome, Job | None]:
        if job is None or job.state == "dead":
            return Outcome.NOT_FOUND, job
        if write.if_generation is not None and write.if_generation != job.generation:
            return Outcome.WRONG_GENERATION, job
        if isinstance(write, Resume):
            return (Outcome.RESUMED, replace(job, pause=None)) if job.pause else (Outcome.KEPT, job)
        if job.state == "running":
            if not _is_known(write, job):
                return Outcome.TOO_LATE, job
            job = _as_known(write, job)
            if job.state == "running" and not job.recurrence:
                return Outcome.TOO_LATE, job
        return Outcome.PAUSED, replace(job, pause=Pause(NEW, write.by, write.note), lacks_handler=False)

    def _fire(self, write: Begin | SetAside | Settle | Redate, job: Job | None) -> tuple[Outcome, Job | None]:  # noqa: C901, PLR0911 - many cases
        if job is None or job.state == "dead":
            return Outcome.NOT_FOUND, job
        if job.generation != write.job.generation or job.due_at != write.job.due_at:
            return Outcome.WRONG_GENERATION, job
        if isinstance(write, Begin):
            if job.state == "running":
                return Outcome.TOO_LATE, job
            if job.pause:
                return Outcome.PAUSED, job
            return Outcome.BEGUN, replace(job, state=State.RUNNING, attempt=job.attempt + 1, lacks_handler=False)
        if isinstance(write, SetAside):
            aside = (Outcome.PAUSED, job) if job.pause else (Outcome.SETTLED, replace(job, lacks_handler=True))
            return (Outcome.TOO_LATE, job) if job.state == "running" else aside
        if isinstance(write, Redate):
            redated = (Outcome.PAUSED, job) if job.pause else (Outcome.MOVED, _redated(job, write))
            return (Outcome.TOO_LATE, job) if job.state == "running" else redated
        if job.state == "pending":
            return Outcome.WRONG_GENERATION, job
        if write.how == Settled.DONE:
            if write.due_at is None:
                return Outcome.SETTLED, None
            life = self._at(job, write.due_at)
            life = replace(life, error=write.error, raised_in=write.raised_in)
            return Outcome.SETTLED, replace(life, recurrence=write.recurrence or life.recurrence)
        after = replace(job, attempt=write.attempt, error=write.error, raised_in=write.raised_in)
        if write.how == Settled.DEAD:
            return Outcome.SETTLED, replace(after, state=State.DEAD, pause=None)
        due_at = write.due_at if write.due_at is not None else job.due_at
        rule = write.recurrence or job.recurrence
        if write.attempt == 0 and due_at != job.due_at:
            after = replace(after, sent_as=_named(job).sent_as)
        return Outcome.SETTLED, replace(after, state=State.PENDING, due_at=due_at, recurrence=rule)

    def _at(self, job: Job, due_at: int) -> Job:
        expires_at = None if job.expires_at == STOPPED else job.expires_at
        if expires_at is not None:
            expires_at += due_at - job.due_at
            text, _, length = (job.recurrence or "").partition(LENGTH)
            if length:
                job, expires_at = replace(job, recurrence=text), due_at + int(length)
            if not job.recurrence and (job.state == "dead" or job.attempt):
                expires_at = max(expires_at, due_at + (job.expires_at or 0) - job.first_set_at)
        life = replace(job, generation=NEW, due_at=due_at, expires_at=expires_at, attempt=0, state=State.PENDING)
        return replace(life, lacks_handler=False, sent_as=None)


def _is_due(job: Job) -> bool:
    return job.state == "pending" and not job.lacks_handler and job.pause is None


def _named(job: Job) -> Job:
    """
    Return *job* with its message id if it has had an attempt. Call this before `generation` or `first_set_at` changes.
    """
    return replace(job, sent_as=job.sent_as or message_id_of(job)) if job.attempt else job


def _redated(job: Job, write: Redate) -> Job:
    step = write.due_at - job.due_at
    after = replace(_named(job), due_at=write.due_at, first_set_at=job.first_set_at + step, recurrence=write.recurrence)
    return after if job.expires_at in (None, STOPPED) else replace(after, expires_at=job.expires_at + step)


def _is_known(write: Contested, job: Job) -> bool:
    over = write.over
    if over is None:
        return False
    return over.generation == 0 or (
        over.generation == job.generation and over.due_at == job.due_at and over.attempt == job.attempt
    )


def _as_known(write: Contested, job: Job) -> Job:
    assert write.over is not None
    if write.over.standing == "withdrawn":
        return replace(job, state=State.PENDING, attempt=job.attempt - 1)
    return replace(job, state=State.PENDING) if write.over.standing == "cut_off" else job


def is_same_series(write: Set, before: Job | None) -> bool:
    if before is None or before.state == "dead":
        return False
    rules = [_rule_of(job) for job in (before, write.job)]
    parts = [(job.payload, job.target, job.handler, job.retry) for job in (before, write.job)]
    return rules[0] is not None and rules[0] == rules[1] and parts[0] == parts[1]


def _taken_in(write: Set, job: Job | None) -> Job | None:
    if job is None or write.job.manifest in (None, job.manifest):
        return job
    return replace(job, manifest=write.job.manifest)


def _rule_of(job: Job) -> dict[str, object] | None:
    if not (job.recurrence or "").startswith("{"):
        return None
    facts = json.loads(job.recurrence or "")
    return {name: value for name, value in facts.items() if name not in _STATE} if "misfire" in facts else None
