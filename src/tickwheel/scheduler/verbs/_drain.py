"""
Cancel everything under a prefix, at the speed of bulk cancellation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tickwheel.scheduler.model import Answer, Job, Outcome, State
from tickwheel.scheduler.verbs._backend import Jobs
from tickwheel.scheduler.verbs._pages import walked
from tickwheel.scheduler.verbs._promise import Reply
from tickwheel.scheduler.verbs.jobs import CancelJobs
from tickwheel.scheduler.verbs.requests import ListFields

__all__ = ["drained"]


def drained(client: Jobs, prefix: str, on_progress: Callable[[int], object] | None) -> list[Job]:
    """
    Cancel every pending job under *prefix* and return those that were, in the order of their keys; blocks.

    *on_progress* is called with how many more were cancelled.
    """

    def cancel(jobs: Sequence[Job]) -> Reply[list[Answer]]:
        return client.submit(CancelJobs([job.key for job in jobs]))

    drained: list[Job] = []
    fields: ListFields = {"prefix": prefix, "state": State.PENDING}
    for _, _, answers in walked(client, fields, lambda jobs: jobs, cancel):
        found = [answer.job for answer in answers if answer.outcome is Outcome.CANCELLED and answer.job]
        drained.extend(found)
        if on_progress is not None:
            on_progress(len(found))
    return drained
