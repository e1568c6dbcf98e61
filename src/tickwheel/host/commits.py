"""
Computes which jobs a commit of callers' writes has changed, so that the process can act on them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Final

from tickwheel.host.store_clock import StoreClock
from tickwheel.jobs.model import (
    Answer,
    Job,
    Move,
    Outcome,
    Recalled,
    Set,
    SetMode,
    State,
    Write,
)
from tickwheel.observe.events import Event, JobCancelled, JobMoved, JobPaused, JobReplayed, JobResumed, JobSet

__all__ = ["elapsed_of", "events_of", "lives_of"]

_TIMED = (Set, Move)
"""The kinds of writes that may carry the number of a clock step."""

_TIMED_KINDS: Final = frozenset(_TIMED)

_STEP_MS: Final = 1_000
"""If the store's clock differs from our estimate by at least this many ms, a clock step may have been missed."""

_DATED = frozenset((Outcome.CREATED, Outcome.REPLACED, Outcome.CHANGED, Outcome.RESTARTED, Outcome.MOVED))
_NEW_LIVES = _DATED | {Outcome.REPLAYED}


def lives_of(answers: Sequence[Answer], begun: Collection[int] = ()) -> tuple[list[Job], list[str]]:
    """
    Return the jobs that callers' writes made pending, and the keys of jobs that are no longer pending.

    Writes at the indexes *begun* are left out.
    """
    jobs: dict[str, Job] = {}
    cancelled: list[str] = []
    for index, answer in enumerate(answers):
        job = answer.job
        if job is None or type(answer) is Recalled or index in begun:
            continue
        if answer.outcome in _NEW_LIVES and job.state is State.PENDING:
            jobs[job.key] = job
        elif answer.outcome is Outcome.CANCELLED or (answer.outcome is Outcome.PAUSED and job.state is State.PENDING):
            jobs.pop(job.key, None)
            cancelled.append(job.key)
        elif answer.outcome is Outcome.RESUMED and job.state is State.PENDING:
            jobs[job.key] = job
    return list(jobs.values()), cancelled


def elapsed_of(
    writes: Sequence[Write], answers: Sequence[Answer], clock: StoreClock
) -> tuple[dict[int, list[Job]], bool]:
    """
    Return the callers' pending jobs that have relative due times, and True if a job was omitted.

    A job is omitted if the store computed its due time after a clock step that *clock* has not detected yet.
    """
    found: dict[int, list[Job]] = {}
    if _TIMED_KINDS.isdisjoint(map(type, writes)):
        return found, False
    is_behind = False
    now, step_now = clock.reading()
    last, jobs = -1, list[Job]()  # mostly, all writes of a batch have one clock step
    for write, answer in zip(writes, answers, strict=True):
        if not isinstance(write, _TIMED) or (clock_step := write.clock_step) is None:
            continue
        outcome, job = answer.outcome, answer.job
        if job is None or outcome not in _DATED or type(answer) is Recalled:
            continue
        if (begun := write.counted_from) is not None and (applied := _applied_at(write, job, outcome)) is not None:
            waited = max(0, now - clock.moved_ms(clock_step, step_now) - begun)
            if not -_STEP_MS < applied - begun < waited + _STEP_MS:
                if clock_step == step_now:
                    is_behind = True
                    continue
                clock_step = step_now
        if clock_step != last:
            last, jobs = clock_step, found.setdefault(clock_step, [])
        jobs.append(job)
    return found, is_behind


def _applied_at(write: Set | Move, job: Job, outcome: Outcome) -> int | None:
    if isinstance(write, Move):
        return (write.counted_from or 0) + job.due_at - write.due_at
    if outcome is Outcome.CREATED and not write.job.first_set_at:
        return job.first_set_at
    if outcome is Outcome.CHANGED or write.mode is SetMode.EARLIEST or write.max_wait_ms is not None:
        return None  # the due time may count from other instants
    return (write.counted_from or 0) + job.due_at - write.job.due_at


def events_of(answers: Sequence[Answer]) -> Iterator[Event]:
    for answer in answers:
        job = answer.job
        if job is None or type(answer) is Recalled:
            continue
        match answer.outcome:
            case Outcome.CREATED | Outcome.REPLACED | Outcome.KEPT | Outcome.CHANGED | Outcome.RESTARTED:
                yield JobSet(job.key, job.generation, job.due_at, job.target, job.handler, answer.outcome)
            case Outcome.MOVED:
                yield JobMoved(job.key, job.generation, job.due_at)
            case Outcome.CANCELLED | Outcome.STOPPING:
                yield JobCancelled(job.key, job.generation)
            case Outcome.PAUSED if job.pause is not None:
                yield JobPaused(job.key, job.generation, job.pause.by, job.pause.note)
            case Outcome.RESUMED:
                yield JobResumed(job.key, job.generation, job.due_at)
            case Outcome.REPLAYED:
                yield JobReplayed(job.key, job.generation, job.due_at)
