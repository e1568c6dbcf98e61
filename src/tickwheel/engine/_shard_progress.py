"""
The progress of staging a shard.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, TypeAlias

from tickwheel.jobs.model import Job

__all__ = ["START", "Position", "ShardProgress", "before", "position_of"]

Position: TypeAlias = tuple[int, int]
"""An instant and a generation: the sort key of pending jobs."""

START: Final[Position] = (0, 0)


@dataclass(slots=True, eq=False)
class ShardProgress:
    """
    The progress of staging one shard.

    Attributes:
        epoch: The epoch of its lease.
        cursor: Every pending job up to this position is staged, or was.
        mark: Position up to which the changes of other processes were read.
        checked: Position up to which due times were checked since the clock was set; None if all were.
        lanes: Cursors of lanes that are read separately; `cursor` is that of all others.
        reached: During a scan, the position up to which it has read; `cursor` is at the scan's end already.
    """

    epoch: int
    cursor: Position = (0, 0)
    mark: int | None = None
    checked: Position | None = None
    lanes: dict[str, Position] = field(default_factory=dict)
    reached: Position | None = None

    def start_over(self) -> None:
        self.cursor = START
        self.lanes = dict.fromkeys(self.lanes, START)

    def part(self, lane: str, start: Position | None) -> None:
        """
        Read *lane* separately, from *start* on, or from where the others are.
        """
        self.lanes[lane] = start or (self.cursor if self.reached is None else min(self.cursor, self.reached))

    def move(self, target: str, *, has_moving: bool, has_still: bool) -> None:
        """
        Note that some lanes of a *target* whose still lanes are read separately began to move, or became still.
        """
        of_others, of_still = self.cursor, self.lanes.get(target, START)
        if has_moving:
            self.cursor = min(of_others, of_still)
        if has_still:
            self.lanes[target] = min(of_others, of_still)

    def join(self, lane: str) -> None:
        self.cursor = min(self.cursor, self.lanes.pop(lane, START))

    def holds(self, position: Position, lane: str | None) -> bool:
        """
        Return whether a job of *lane* at *position* was staged; None means any lane that is not read separately.
        """
        cursor = self.cursor if lane is None else self.lanes.get(lane, START)
        return position <= cursor

    def set_back(self, position: Position, lane: str | None) -> None:
        if lane is None:
            self.cursor = min(self.cursor, before(position))
        else:
            self.lanes[lane] = min(self.lanes.get(lane, START), before(position))


def before(position: Position) -> Position:
    return position[0], position[1] - 1


def position_of(job: Job) -> Position:
    return job.due_at, job.generation
