"""
The shares of lanes in the table of staged jobs.

The table is shared as the buffer of a network switch is (the dynamic threshold of Choudhury and Hahne): a lane may hold
three times what is free. So one lane may hold three quarters of the table, and whatever lanes hold, something is free
for the next one. Of jobs that are due already a lane holds less: they wait for a place and not for their instant, so
that more of them in memory would fire no earlier.

A lane that has more jobs than its share is read on its own, after all others: see the stager.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

from tickwheel.engine._staged import StagedJobs
from tickwheel.jobs.lane import lane_of
from tickwheel.jobs.model import Job

__all__ = ["Room", "Shares"]

_PAGE: Final = 1_000
_LEAST: Final = 64
"""Minimum size of a page per shard, where the table has room; shards with more to read share a page."""
_MANY: Final = 2_000
"""A lane is read on its own once a look has met this many jobs of it, more than of all other lanes together."""
_LANES_MAX: Final = 1_000
"""Maximum number of lanes that are read on their own."""


class Shares:
    """
    Knows the lanes that are read on their own, and the room in the table for more jobs.

    The stager calls the methods that change it, under its lock; the others may be called from any thread.
    """

    def __init__(self, staged: StagedJobs, staged_max: int) -> None:
        self._staged = staged
        self._staged_max = staged_max
        self._due_max = max(staged_max // 8, min(_PAGE, staged_max // 2), 1)
        self.least_room = max(1, min(_PAGE, staged_max // 64))
        self._marks: dict[str, int] = {}
        """The number of staged jobs at which more are read, by lane. Each change replaces it, as others may iterate."""

    @property
    def lanes(self) -> tuple[str, ...]:
        """
        The lanes that are read on their own.
        """
        return tuple(self._marks)

    def add(self, lane: str) -> bool:
        """
        Read *lane* on its own; False if too many lanes are.
        """
        if len(self._marks) >= _LANES_MAX:
            return False
        self._marks = {**self._marks, lane: self._staged_max}
        return True

    def remove(self, lane: str) -> None:
        """
        Read *lane* with all others.
        """
        self._marks = {each: mark for each, mark in self._marks.items() if each != lane}

    def put_last(self, lane: str, *, has_room: bool) -> None:
        """
        Read *lane* after the other lanes; if it has no room, when half of what it holds has left the table.
        """
        if lane in self._marks:
            self.remove(lane)
            self._marks = {**self._marks, lane: self._staged_max if has_room else self._staged.waiting_in(lane) // 2}

    def wants_more(self) -> bool:
        """
        Return whether a lane that had no room has some again.
        """
        marks = self._marks
        return any(mark < self._staged_max and self._staged.waiting_in(lane) <= mark for lane, mark in marks.items())

    def has_some(self) -> bool:
        """
        Return whether there is enough room to read on.
        """
        return self._staged.waiting <= self._staged_max - self.least_room

    def page(self, shards: int) -> int:
        """
        Return how many jobs of all lanes may be read of each of *shards*.
        """
        free = self._staged_max - self._staged.waiting
        return 0 if free <= 0 else max(1, min(max(_PAGE // shards, _LEAST), free // 2 // shards))

    def page_of(self, lane: str, shards: int, *, is_due: bool) -> int:
        """
        Return how many jobs of *lane* may be read of each of *shards*.
        """
        count, free = self._staged.waiting_in(lane), self._staged_max - self._staged.waiting
        room = (3 * free - count) // 4
        if is_due:
            room = min(room, self._due_max - count)
        return 0 if room <= 0 else max(1, min(_PAGE, room) // shards)

    def is_full(self, lane: str, *, is_due: bool, free: int | None = None, more: int = 0) -> bool:
        """
        Return whether *lane*, with *more* jobs than are staged, has its share; of all jobs, or of those that are due.
        """
        count = self._staged.waiting_in(lane) + more
        if free is None:
            free = self._staged_max - self._staged.waiting
        return count >= 3 * free or (is_due and count >= self._due_max)

    def is_full_of_due(self, lane: str) -> bool:
        """
        Return whether *lane* has no room for jobs that are due.
        """
        return self.is_full(lane, is_due=True)

    def crowds(self, lane: str, met: Counter[str], *, is_due: bool) -> bool:
        """
        Return whether *lane* should be read on its own, after a look has *met* so many jobs of each lane.
        """
        if lane in self._marks:
            return False
        return (met[lane] >= _MANY and 2 * met[lane] > met.total()) or self.is_full(lane, is_due=is_due)

    def room(self, jobs: int, now_ms: float) -> Room:
        """
        Return the room for up to *jobs* more jobs.
        """
        return Room(self, self._staged_max, self._staged, now_ms, jobs)

    def is_tight(self, jobs: int) -> bool:
        """
        Return whether some lane may have no room for up to *jobs* more jobs.
        """
        return bool(self._marks) or self._staged.waiting + jobs > self._due_max

    def has(self, lane: str) -> bool:
        """
        Return whether *lane* is read on its own.
        """
        return lane in self._marks


class Room:
    """
    The room in the table while some jobs are placed. Where there is plenty, no lane is looked at.
    """

    __slots__ = ("_free", "_is_tight", "_now_ms", "_shares", "_staged", "_taken")

    def __init__(self, shares: Shares, staged_max: int, staged: StagedJobs, now_ms: float, jobs: int) -> None:
        self._shares = shares
        self._staged = staged
        self._free = staged_max - staged.waiting
        self._now_ms = now_ms
        self._is_tight = shares.is_tight(jobs)
        self._taken: Counter[str] = Counter()

    def lane_of(self, job: Job) -> str | None:
        """
        Return the lane of *job* if it is read on its own.
        """
        if not self._is_tight:
            return None
        lane = lane_of(job.target, job.handler)
        return lane if self._shares.has(lane) else None

    def take(self, job: Job) -> bool:
        """
        Take a place for *job*; False if its lane has none.
        """
        if self._free <= 0:
            return False
        if self._is_tight:
            lane = lane_of(job.target, job.handler)
            is_due = job.due_at <= self._now_ms
            if self._shares.is_full(lane, is_due=is_due, free=self._free, more=self._taken[lane]):
                return False
            self._taken[lane] += 1
        self._free -= 1
        return True

    def is_crowded_by(self, lane: str) -> bool:
        """
        Return whether *lane*, which has no room, should be read on its own: others have room, or it holds much of it.
        """
        return self._free > 0 or self._staged.waiting_in(lane) >= self._shares.least_room
