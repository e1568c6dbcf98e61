"""
Skips the next run of a recurring job.

The job is read, and then moved to the run after next if the job is unchanged. If several callers skip at the same time,
each skips a different run.
"""

from __future__ import annotations

from tickwheel.client.condition import on_what_is_read
from tickwheel.host.backend import Jobs
from tickwheel.jobs.errors import InvalidJobError
from tickwheel.jobs.model import Answer, Job
from tickwheel.jobs.recurrence import Recurrence
from tickwheel.jobs.requests import When
from tickwheel.jobs.verbs import CancelJobs, MoveJobs, Verb

__all__ = ["skipped"]


def skipped(client: Jobs, key: str, if_generation: int | None) -> Answer:
    def write(job: Job) -> Answer:
        return client.submit(_write(job, client.now_ms()), waits=True).result()[0]

    return on_what_is_read(client.get, key, if_generation, write)


def _write(job: Job, now: int) -> Verb:
    # Also skips all missed runs. Ends the series if no run is left.
    if job.recurrence is None:
        raise InvalidJobError("key", job.key, "its job fires once: cancel it, or move it")
    due_at = Recurrence.from_text(job.recurrence).next(job.key, max(job.due_at, now))
    if due_at is None:
        return CancelJobs((job.key,), job.generation)
    at = (due_at - 0.5) / 1000  # times are rounded up to the millisecond, and a float is not exact
    return MoveJobs((job.key,), When(at=at), job.generation)
