"""
The jobs ahead of a cursor, in a store that is asked for them by `due`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

from tickwheel.scheduler.model import Job
from tickwheel.scheduler.stores._reports import Cursor
from tickwheel.scheduler.stores._rows import in_int64

__all__ = ["ahead_of"]

_LAST: Final = 2**63 - 1

_Due: TypeAlias = Callable[[int, int, tuple[int, int] | None, int], list[Job]]


def ahead_of(cursor: Cursor, due: _Due, until: int, limit: int) -> list[Job]:
    """
    Return at most *limit* jobs from *cursor* to *until*, as the method *due* finds them, and the one that follows.
    """
    jobs = due(cursor.shard, until, cursor.after, limit + 1)
    if len(jobs) <= limit:
        jobs += due(cursor.shard, _LAST, max(cursor.after, (in_int64(until - 1), _LAST)), 1)
    return jobs
