from __future__ import annotations

from collections import Counter
from typing import Final

from tickwheel.engine._staged import StagedJobs, is_target

__all__ = ["PAGE", "Shares"]

PAGE: Final = 1_000
"""Maximum number of jobs in one page of a scan, over all shards."""
_LEAST: Final = 64
"""Number of jobs that each shard may add to a page of a scan if memory has room, even beyond `PAGE`."""
_MANY: Final = 2_000
"""A lane gets its own cursor if a scan finds at least this many of its jobs, and if they are more than half of all."""
_LANES_MAX: Final = 1_000
"""Maximum number of lanes that scans read separately, each with its own cursor."""


class Shares:
    """
    Lanes that scans read separately, each with its own cursor. Only the prefetcher adds or removes lanes, under a lock.
    """

    def __init__(self, staged: StagedJobs) -> None:
        self._staged = staged
        self._marks: dict[str, int] = {}
        """For each lane, the number of staged jobs below which more are read. Copied on change, for other threads."""

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
        Make *lane* the last lane to read.

        If *has_room* is False, the lane is read when half of its jobs that are now in memory have left.
        """
        if lane in self._marks:
            self.remove(lane)
            self._marks = {**self._marks, lane: self._staged.size if has_room else self._staged.waiting_in(lane) // 2}

    def wants_more(self) -> bool:
        marks = self._marks
        return any(mark < self._staged.size and self._staged.waiting_in(lane) <= mark for lane, mark in marks.items())

    def has_some(self) -> bool:
        """
        Return True if memory has enough room to read more jobs.
        """
        # even n full lanes leave enough: 1 / (3 n + 1) of all places
        size = self._staged.size
        return self._staged.free_for_later >= max(1, min(PAGE, size // 64, size // (4 * (len(self._marks) + 1))))

    def page(self, shards: int) -> int:
        free = self._staged.free
        return 0 if free <= 0 else max(1, min(max(PAGE // shards, _LEAST), free // 2 // shards))

    def page_of(self, lane: str, shards: int, *, is_due: bool) -> int:
        is_due = is_due and not is_target(lane)
        count = self._staged.due_in(lane) if is_due else self._staged.waiting_in(lane)
        room = (3 * self._staged.free - count) // 4
        if is_due:
            room = min(room, self._staged.due_max - count)
        return 0 if self._staged.is_full(lane, is_due=is_due) else max(1, min(PAGE, room) // shards)

    def crowds(self, lane: str, met: Counter[str]) -> bool:
        return lane not in self._marks and met[lane] >= _MANY and 2 * met[lane] > met.total()

    def has(self, lane: str) -> bool:
        return lane in self._marks

    def targets(self) -> list[str]:
        return [name for name in self._marks if is_target(name)]
