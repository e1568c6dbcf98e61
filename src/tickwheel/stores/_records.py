from __future__ import annotations

from typing import Final

from tickwheel.jobs.model import CUT_OFF, Actor, Answer, HistoryRecord, Job, Outcome, SetPause, Write

__all__ = ["act_of", "cut_off", "has_no_record"]

_REPEATED: Final = frozenset((Outcome.NOT_FOUND, Outcome.WRONG_GENERATION))
_ACTS: Final = frozenset(
    (
        Outcome.CREATED,
        Outcome.REPLACED,
        Outcome.CHANGED,
        Outcome.RESTARTED,
        Outcome.MOVED,
        Outcome.CANCELLED,
        Outcome.REPLAYED,
        Outcome.PAUSED,
        Outcome.RESUMED,
        Outcome.STOPPING,
    )
)


def act_of(write: Write, before: Job | None, answer: Answer, now: int) -> HistoryRecord | None:
    """
    Return the history record of a caller's *write*; None if the write had no effect or needs no record.
    """
    actor: Actor | None = getattr(write, "actor", None)
    job = answer.job
    if actor is None or job is None or answer.outcome not in _ACTS or (job.recurrence is None and not actor.is_always):
        return None
    at, outcome = job.due_at, answer.outcome.value
    record = HistoryRecord(0, now, job.key, job.generation, 0, outcome, actor.name, job.target, job.handler, at)
    was_due_at = None if before is None or before.due_at == at else before.due_at
    note = (write.note or None) if isinstance(write, SetPause) else None
    return record._replace(trace=job.trace, error=note, was_due_at=was_due_at, bulk=actor.bulk)


def cut_off(job: Job, now: int) -> HistoryRecord:
    """
    Return the history record of a running *job* whose attempt is cut off, because its owner released the shard.
    """
    return HistoryRecord(
        0, now, job.key, job.generation, job.attempt, CUT_OFF, "", job.target, job.handler, job.due_at, trace=job.trace
    )


def has_no_record(answer: Answer, *, is_first: bool) -> bool:
    """
    Return True if no record is stored for a settle with this *answer*: a former owner sent it, or a record may exist.
    """
    return answer.outcome is Outcome.NOT_OWNER or (answer.outcome in _REPEATED and not is_first)
