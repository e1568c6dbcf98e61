"""
The consequences of a commit of callers' writes for the rest of the process.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from tickwheel.jobs.model import (
    Answer,
    Begin,
    Job,
    Move,
    Outcome,
    Recalled,
    Redate,
    Set,
    SetMode,
    Settle,
    State,
    Write,
)
from tickwheel.observe.events import Event, JobCancelled, JobMoved, JobPaused, JobReplayed, JobResumed, JobSet

__all__ = ["elapsed_of", "events_of", "lives_of"]

_OWN = (Begin, Settle, Redate)
"""The scheduler's own writes; only the poster is notified of them."""

_TIMED = (Set, Move)
"""Writes that may carry an era."""

_STEP_MS: Final = 1_000
"""Minimum difference between the store's clock and our estimate that may be a step which we have not seen yet."""

_DATED = frozenset((Outcome.CREATED, Outcome.REPLACED, Outcome.CHANGED, Outcome.RESTARTED, Outcome.MOVED))
_NEW_LIVES = _DATED | {Outcome.REPLAYED}


def lives_of(writes: Sequence[Write], answers: Sequence[Answer]) -> tuple[list[Job], list[str]]:
    """
    Return the jobs that callers made pending, in order, and the keys that they cancelled or paused.
    """
    jobs: dict[str, Job] = {}
    cancelled: list[str] = []
    for write, answer in zip(writes, answers, strict=True):
        job = answer.job
        if job is None or isinstance(write, _OWN) or type(answer) is Recalled:
            continue
        if answer.outcome in _NEW_LIVES and job.state is State.PENDING:
            jobs[job.key] = job
        elif answer.outcome is Outcome.CANCELLED or (answer.outcome is Outcome.PAUSED and job.state is State.PENDING):
            jobs.pop(job.key, None)
            cancelled.append(job.key)
        elif answer.outcome is Outcome.RESUMED and job.state is State.PENDING:
            jobs[job.key] = job
    return list(jobs.values()), cancelled


def elapsed_of(writes: Sequence[Write], answers: Sequence[Answer], now: int, era_now: int) -> dict[int, list[Job]]:
    """
    Return the pending jobs of callers whose due times count elapsed time, by the era of the clock, which reads *now*.

    A job that the store counted by a clock that was set in the meantime is left out: its era has not begun here yet.
    """
    found: dict[int, list[Job]] = {}
    last, jobs = -1, list[Job]()  # a batch is of one era, but for the moment in which the clock is set
    for write, answer in zip(writes, answers, strict=True):
        if not isinstance(write, _TIMED) or (era := write.era) is None:
            continue
        outcome, job = answer.outcome, answer.job
        if job is None or outcome not in _DATED or type(answer) is Recalled:
            continue
        if _is_of_its_era(write, job, now if era == era_now else 0):
            if era != last:
                last, jobs = era, found.setdefault(era, [])
            jobs.append(job)
    return found


def _is_of_its_era(write: Set | Move, job: Job, now: int) -> bool:
    if write.counted_from is None:
        return True
    if isinstance(write, Move):
        due_at = write.due_at
    elif write.mode is not SetMode.REPLACE or write.max_wait_ms is not None or job.recurrence is not None:
        return True  # other instants count as well, or the series knows its era
    else:
        due_at = write.job.due_at
    return -_STEP_MS < job.due_at - due_at < max(0, now - write.counted_from) + _STEP_MS


def events_of(writes: Sequence[Write], answers: Sequence[Answer]) -> Iterator[Event]:
    for write, answer in zip(writes, answers, strict=True):
        job = answer.job
        if job is None or isinstance(write, _OWN) or type(answer) is Recalled:
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
