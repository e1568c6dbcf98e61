from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from tickwheel.host.backend import Jobs
from tickwheel.host.promise import Reply
from tickwheel.jobs.model import Answer, Job, Outcome, State
from tickwheel.jobs.requests import PAGE_MAX, TASK_TARGETS, ListFields
from tickwheel.jobs.verbs import CancelJobs

__all__ = ["Walked", "drained", "jobs_with", "walked"]

_AHEAD: Final = 2
"""Maximum number of pages whose changes are not committed: one in the current commit, and one ready for the next."""


class Walked(NamedTuple):
    cursor: str | None
    jobs: Sequence[Job]
    answers: list[Answer]


def walked(
    client: Jobs,
    fields: ListFields,
    choose: Callable[[Sequence[Job]], Sequence[Job]],
    change: Callable[[Sequence[Job]], Reply[list[Answer]] | None],
    limit: int | None = None,
) -> Iterator[Walked]:
    """
    Yield each page after its changes are committed; blocks.

    *choose* gets the jobs of a page, and returns the jobs to change. At most *limit* jobs are changed in total.
    *change* sends the changes, or returns None if a page has no changes.
    """
    waiting: deque[tuple[str | None, Sequence[Job], Reply[list[Answer]] | None]] = deque()
    cursor, is_over = fields.get("cursor"), False
    while waiting or not is_over:
        if not is_over:
            size = PAGE_MAX if limit is None else min(limit, PAGE_MAX)
            page = client.page({**fields, "cursor": cursor, "limit": size})
            cursor, jobs = page.cursor, choose(page.jobs)
            waiting.append((cursor, jobs, change(jobs)))
            limit = None if limit is None else limit - len(jobs)
            is_over = cursor is None or limit == 0
        while waiting and (is_over or len(waiting) > _AHEAD):
            at, jobs, reply = waiting.popleft()
            yield Walked(at, jobs, [] if reply is None else reply.result())


def jobs_with(client: Jobs, handlers: Iterable[str]) -> list[Job]:
    found: list[Job] = []
    for handler, target in itertools.product(handlers, TASK_TARGETS):
        fields: ListFields = {"target": target, "handler": handler}
        for _, jobs, _ in walked(client, fields, lambda jobs: jobs, lambda _: None):
            found += jobs
    return found


def drained(client: Jobs, prefix: str, on_progress: Callable[[int], object] | None) -> list[Job]:
    # *on_progress* gets the number of jobs that were cancelled since its last call
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
