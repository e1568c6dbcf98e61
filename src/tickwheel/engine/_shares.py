"""
The lanes that are read separately, and the sizes of their pages.

A lane that has more jobs than its share of the staged jobs is read after all others: see the stager. The still lanes of
a target are read as one lane, by the name of the target.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

from tickwheel.engine._staged import StagedJobs, is_target

__all__ = ["Shares"]

_PAGE: Final = 1_000
_LEAST: Final = 64
"""Minimum size of a page per shard, where the table has room; shards with more to read share a page."""
_MANY: Final = 2_000
"""A lane is read separately once a scan has met this many jobs of it, more than of all other lanes together."""
_LANES_MAX: Final = 1_000
"""Maximum number of lanes that are read separately."""


class Shares:
    """
    The set of lanes that are read separately.

    The stager calls the methods that change it, under its lock; the others may be called from any thread.
    """

    def __init__(self, staged: StagedJobs) -> None:
        self._staged = staged
        self._marks: dict[str, int] = {}
        """The number of staged jobs below which more are read, by lane. Copied on change: other threads iterate it."""

    @property
    def lanes(self) -> tuple[str, ...]:
        return tuple(self._marks)

    def add(self, lane: str) -> bool:
        if len(self._marks) >= _LANES_MAX and not is_target(lane):
            return False
        self._marks = {**self._marks, lane: self._staged.size}
        return True

    def remove(self, lane: str) -> None:
        self._marks = {each: mark for each, mark in self._marks.items() if each != lane}

    def put_last(self, lane: str, *, has_room: bool) -> None:
        """
        Read *lane* after the other lanes; if it has no room, once half of its jobs have left the table.
        """
        if lane in self._marks:
            self.remove(lane)
            self._marks = {**self._marks, lane: self._staged.size if has_room else self._staged.waiting_in(lane) // 2}

    def wants_more(self) -> bool:
        marks = self._marks
        return any(mark < self._staged.size and self._staged.waiting_in(lane) <= mark for lane, mark in marks.items())

    def has_some(self) -> bool:
        """
        Return whether there is room to read more; *n* lanes with full shares leave enough: 1 / (3 n + 1) of the table.
        """
        size = self._staged.size
        return self._staged.free >= max(1, min(_PAGE, size // 64, size // (4 * (len(self._marks) + 1))))

    def page(self, shards: int) -> int:
        free = self._staged.free
        return 0 if free <= 0 else max(1, min(max(_PAGE // shards, _LEAST), free // 2 // shards))

    def page_of(self, lane: str, shards: int, *, is_due: bool) -> int:
        is_due = is_due and not is_target(lane)
        count = self._staged.due_in(lane) if is_due else self._staged.waiting_in(lane)
        room = (3 * self._staged.free - count) // 4
        if is_due:
            room = min(room, self._staged.due_max - count)
        return 0 if self._staged.is_full(lane, is_due=is_due) else max(1, min(_PAGE, room) // shards)

    def crowds(self, lane: str, met: Counter[str]) -> bool:
        """
        Return whether *lane* should be read separately after a scan that has *met* these numbers of jobs.
        """
        return lane not in self._marks and met[lane] >= _MANY and 2 * met[lane] > met.total()

    def has(self, lane: str) -> bool:
        return lane in self._marks

    def targets(self) -> list[str]:
        """
        Return the targets whose still lanes are read separately.
        """
        return [name for name in self._marks if is_target(name)]
