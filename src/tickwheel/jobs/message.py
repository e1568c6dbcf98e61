"""
The message id of a run, so that receivers can recognise a repeated message.

All attempts of a run have the same id. If the generation or the due time changes between attempts, the job stores the
id in `sent_as`.
"""

from __future__ import annotations

from dataclasses import replace
from hashlib import blake2b
from typing import TYPE_CHECKING

from tickwheel.jobs.recurrence import nominal_of

if TYPE_CHECKING:
    from tickwheel.jobs.model import Job

__all__ = ["message_id_of", "same_run", "was_tried", "with_message_id"]


def message_id_of(job: Job) -> str:
    if job.sent_as is not None:
        return job.sent_as
    life = f"{job.first_set_at}/{job.key}".encode()
    return f"tw_{blake2b(life, digest_size=12).hexdigest()}_{job.generation}"


def was_tried(job: Job) -> bool:
    return job.attempt > 0 or job.sent_as is not None


def with_message_id(job: Job) -> Job:
    """
    Return *job*; if its run has had an attempt, `sent_as` has the message id.

    Call this before `generation` or `first_set_at` changes.
    """
    return replace(job, sent_as=message_id_of(job)) if job.attempt and job.sent_as is None else job


def same_run(job: Job, after: Job) -> Job:
    """
    Return *after*, the new state of *job*. A run that has had an attempt keeps its message id.

    If the payload, receiver or nominal instant has changed, *after* is a different run, which needs its own id.
    """
    if after.generation == job.generation:  # a write that changed nothing
        return after
    sent_as = with_message_id(job).sent_as
    if sent_as is not None and _message(job) != _message(after):
        sent_as = None
    return after if after.sent_as == sent_as else replace(after, sent_as=sent_as)


def _message(job: Job) -> tuple[bytes, str, str, int | None]:
    return job.payload, job.target, job.handler, nominal_of(job.key, job.due_at, job.recurrence)
