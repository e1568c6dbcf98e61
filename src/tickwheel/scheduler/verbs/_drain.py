"""
Cancel everything under a prefix, at the speed of bulk cancellation.

The next page is read while the last one is being cancelled.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final, TypeAlias

from tickwheel.scheduler.model import Answer, Job, Outcome, State
from tickwheel.scheduler.verbs._backend import Jobs
from tickwheel.scheduler.verbs._promise import Reply
from tickwheel.scheduler.verbs.jobs import CancelJobs
from tickwheel.scheduler.verbs.requests import PAGE_MAX

__all__ = ["Progress", "drained"]

Progress: TypeAlias = Callable[[int], object]
"""Called with how many more jobs were cancelled."""


_AHEAD: Final = 2
"""How many pages are on their way to the store: one more than a commit takes, so that the next one need not wait."""


def drained(client: Jobs, prefix: str, on_progress: Progress | None) -> list[Job]:
    """
    Cancel every pending job under *prefix* and return those that were, in the order of their keys; blocks.
    """
    jobs: list[Job] = []
    waiting: deque[Reply[list[Answer]]] = deque()

    def take() -> None:
        answers = waiting.popleft().result()
        found = [answer.job for answer in answers if answer.outcome is Outcome.CANCELLED and answer.job]
        jobs.extend(found)
        if on_progress is not None:
            on_progress(len(found))

    cursor: str | None = None
    while True:
        page = client.page({"prefix": prefix, "state": State.PENDING, "cursor": cursor, "limit": PAGE_MAX})
        waiting.append(client.submit(CancelJobs([job.key for job in page.jobs])))
        cursor = page.cursor
        while waiting and (cursor is None or len(waiting) > _AHEAD):
            take()
        if cursor is None:
            return jobs
