from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from tickwheel.scheduler import Job, Scheduler

__all__ = ["jobs_of"]

_PAGE = 1000


def jobs_of(
    scheduler: Scheduler,
    prefix: str,
    cursor: str | None = None,
    on_page: Callable[[str], object] | None = None,
    **asked: Any,
) -> Iterator[Job]:
    while True:
        page = scheduler.list(prefix, cursor=cursor, limit=_PAGE, **asked)
        yield from page.jobs
        if page.cursor is None:
            return
        cursor = page.cursor
        if on_page is not None:
            on_page(cursor)
