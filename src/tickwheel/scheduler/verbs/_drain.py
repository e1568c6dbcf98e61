"""
Cancel everything under a prefix, at the speed of bulk cancellation.

The next page is read while the last one is being cancelled.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final, Protocol, TypeAlias

from tickwheel.scheduler.model import Answer, Job, Outcome, Page, State
from tickwheel.scheduler.verbs.requests import PAGE_MAX, ListFields

__all__ = ["Progress", "drained"]

Progress: TypeAlias = Callable[[int], object]
"""Is told how many more jobs were cancelled."""


class _Answers(Protocol):
    def result(self) -> list[Answer]: ...


_AHEAD: Final = 2
"""How many pages are on their way to the store: one more than a commit takes, so that the next one need not wait."""


def drained(
    prefix: str,
    read: Callable[[ListFields], Page],
    cancel: Callable[[list[str]], _Answers],
    on_progress: Progress | None,
) -> list[Job]:
    """
    Cancel every pending job under *prefix* and return those that were, in the order of their keys; blocks.
    """
    jobs: list[Job] = []
    waiting: deque[_Answers] = deque()

    def take() -> None:
        answers = waiting.popleft().result()
        found = [answer.job for answer in answers if answer.outcome is Outcome.CANCELLED and answer.job]
        jobs.extend(found)
        if on_progress is not None:
            on_progress(len(found))

    cursor: str | None = None
    while True:
        page = read({"prefix": prefix, "state": State.PENDING, "cursor": cursor, "limit": PAGE_MAX})
        waiting.append(cancel([job.key for job in page.jobs]))
        cursor = page.cursor
        while waiting and (cursor is None or len(waiting) > _AHEAD):
            take()
        if cursor is None:
            return jobs
